"""A turn while it runs: what it reads, what is staged, what it will save. No I/O here."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from threadkeep_client import calls
from threadkeep_client.answers import Context, Message, Saved, Staged
from threadkeep_client.calls import Call, Conflicts, LoadOptions
from threadkeep_client.errors import TurnSaved
from threadkeep_client.wire import encode_body

QUESTION_TASK: Final = "~question"
QUESTION_CHANNEL: Final = "message"
VALUE_CHANNEL: Final = "value"


@dataclass(frozen=True, slots=True)
class TurnRequest:
    """What a turn was asked for with. What may hold text is not in the repr."""

    thread_id: str
    owner: str | None
    question: Message = field(repr=False)
    key: str | None = None
    on_conflict: Conflicts = "append"
    metadata: Mapping[str, Any] | None = field(default=None, repr=False)
    options: LoadOptions = field(default_factory=LoadOptions, repr=False)


class TurnState:
    """One turn of Pattern B: load, run a stateless graph, save.

    key: the turn's name. Given, it is that: use the id of your user's request, and a repeat of the
    request is recognised whatever has happened since. Left out, it is derived from thread, owner,
    head and question, so that the next try of a process that died finds what was staged, as long as
    no other turn was saved in between. Whoever asks the same again after the answer does so on
    another head: another key, another turn. The same question again on the same head after its turn
    was saved (regenerate) is counted, and so has another key too.
    pending: what the tasks of this turn have staged, task -> channel -> value, in that order.
    saved: the answer to the save, after the block.
    """

    def __init__(self, request: TurnRequest) -> None:
        self.saved: Saved | None = None
        self.key = ""
        self.pending: dict[str, dict[str, Any]] = {}
        self._request = request
        self._context: Context | None = None
        self._added: list[Message] = []
        self._asked = False
        self._times = 0

    @property
    def context(self) -> Context:
        """The whole answer to the load. Errors: RuntimeError outside of the `with` block."""
        if self._context is None:
            raise RuntimeError("a turn is used inside its `with` block")
        return self._context

    @property
    def head(self) -> str | None:
        """The turn that this one follows; None for the first of a thread."""
        return self.context["head"]

    @property
    def messages(self) -> list[Message]:
        """What the model should read now: what was loaded, the question, what was added since."""
        return [*self.context.get("messages", []), *self._added]

    def add(self, message: Message) -> None:
        """Add a message to what is read from now on and to what will be saved."""
        self._added.append(message)

    def reply(self, text: str) -> str:
        """Add the assistant's text, and return it."""
        self.add({"role": "assistant", "content": text})
        return text

    def done(self, task_id: str) -> bool:
        """Tell whether a task has staged its values, in this try or an earlier one."""
        return task_id in self.pending

    def result(self, task_id: str) -> Any:
        """Return what a task has staged with `stage` or `step`. Errors: KeyError if nothing."""
        return self.pending[task_id][VALUE_CHANNEL]

    def step_key(self, task_id: str) -> str:
        """Return the idempotency key of a task: the same in every try of this turn."""
        return f"{self.key}:{task_id}"

    def _load(self) -> Call[Context]:
        request = self._request
        return calls.load(request.thread_id, request.question, request.options)

    def _loaded(self, context: Context) -> None:
        self._context, self._added, self._asked, self._times = context, [], False, 0
        self._name()

    def _ask(self) -> Call[Staged] | None:
        """Return the staging of the question, which a load after a crash shows; None when it is."""
        if self._asked:
            return None
        return self._stage(QUESTION_TASK, {QUESTION_CHANNEL: self._request.question})

    def _answered(self, staged: Staged) -> None:
        """Take the answer to `_ask`.   Errors: TurnSaved for a given key."""
        if not staged["folded"]:
            self._asked = True
        elif self._request.key is not None:
            raise TurnSaved(staged["checkpoint_id"])
        else:
            self._times += 1
            self._name()

    def _stage(self, task_id: str, writes: Mapping[str, object]) -> Call[Staged]:
        return calls.stage(self._request.thread_id, task_id, writes, self.head, self.key)

    def _staged(self, task_id: str, writes: Mapping[str, object], staged: Staged) -> None:
        """Remember the values as a later try will read them: a tuple as a list.

        Errors: TurnSaved when another run of the same turn was faster.
        """
        if staged["folded"]:
            raise TurnSaved(staged["checkpoint_id"])
        self.pending[task_id] = json.loads(encode_body(writes))

    def _save(self) -> Call[Saved]:
        request = self._request
        options: calls.SaveOptions = {"on_conflict": request.on_conflict}
        if request.metadata is not None:
            options["metadata"] = request.metadata
        messages = [request.question, *self._added]
        return calls.save(request.thread_id, messages, self.head, self.key, options)

    def _name(self) -> None:
        """Settle the turn's key, and with it what of the loaded `pending` is this turn's."""
        self.key = self._request.key or self._derived_key()
        staged: dict[str, dict[str, Any]] = {}
        for pending in self.context["pending"]:
            if pending["key"] == self.key:
                for write in pending["writes"]:
                    staged.setdefault(write["task_id"], {})[write["channel"]] = write["value"]
        self._asked = staged.pop(QUESTION_TASK, None) is not None
        self.pending = staged

    def _derived_key(self) -> str:
        request = self._request
        parts = [request.thread_id, request.owner, self.head, request.question, self._times]
        text = json.dumps(parts, sort_keys=True, separators=(",", ":"))
        return "turn-" + hashlib.sha256(text.encode()).hexdigest()[:32]


def message_of(question: str | Message) -> Message:
    """Return a question as a message."""
    return {"role": "user", "content": question} if isinstance(question, str) else question
