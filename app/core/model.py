"""The words of the domain as frozen values. No I/O, no clock, no framework.

Positions count messages from the start of a branch, the first is 1; a *boundary* or *end* position
p means "messages 1 to p". Token counts are of one encoding and include the message's overhead.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeAlias

from app.core.dialects.neutral import Dialect
from app.core.explanation import Explanation, Stripped
from app.core.origin import ForkedFrom
from app.core.pending import StaleTask, Write

Body: TypeAlias = dict[str, object]
"""One message as JSON: members and values as sent; a `role`, if any, in canonical spelling."""

Method = Literal["model", "extractive"]
SummaryState = Literal["none", "fresh", "stale"]
Conflicts = Literal["append", "reject", "branch"]
FormatName = Literal["openai", "anthropic", "responses", "langchain", "text"]
Outcome = Literal["created", "duplicate", "key-reused", "moved", "no-parent", "unknown", "deleted"]


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """The only way to name a thread.

    owner_id: for whom the call is made; "": threads of nobody; None: every owner's (admin).
    """

    tenant_id: str
    thread_id: str
    owner_id: str | None = ""


@dataclass(frozen=True, slots=True)
class Large:
    """A member of a message that lives in a blob of its own: its JSON is over 8 KiB."""

    member: str
    channel: str
    version: str
    size_bytes: int
    tokens: int
    preview: str


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message of a stored turn. dialect: of the batch that it was saved with.

    tokens: what it costs cleaned, in the `openai` format and the default encoding, under `rules`.
    large:  members that are null in `body` and stand in blobs; empty once they have been put back.
    digest, cleaned_digest: set where `large` is not empty, since `body` alone cannot be compared.
    """

    id: str
    position: int
    checkpoint_id: str
    body: Body
    tokens: int
    rules: str
    large: tuple[Large, ...] = ()
    digest: bytes | None = None
    cleaned_digest: bytes | None = None
    dialect: Dialect = "openai"


@dataclass(frozen=True, slots=True)
class Turn:
    """One stored turn. position, tokens: cumulative, at its end. step: turns before it."""

    checkpoint_id: str
    parent_id: str | None
    position: int
    tokens: int
    step: int
    created_at: datetime
    messages: tuple[StoredMessage, ...]
    metadata: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a durable summary ends, maybe inside the turn. tokens: the branch's, cumulative."""

    checkpoint_id: str
    position: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Registry:
    """The thread's registry row. position, tokens, turns: of the current branch, at its head."""

    thread_id: str
    owner_id: str
    head: str | None
    position: int
    turns: int
    tokens: int
    size_bytes: int
    title: str | None
    metadata: Mapping[str, object]
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    summaries: tuple[Pointer, ...]
    summary_epoch: int
    forked_from: ForkedFrom | None = None


@dataclass(frozen=True, slots=True)
class History:
    """A thread as read in one trip: its registry row and the newest turns of one branch.

    head, position, tokens: of the branch that was read (an older checkpoint, or the thread's head).
    turns: oldest first, each the parent of the next, `head` last; maybe not back to the start.
    pending: staged under `head`, in the order of replay. stale: under others, where head is the
        thread's.
    """

    registry: Registry
    head: str | None
    position: int
    tokens: int
    turns: tuple[Turn, ...]
    pending: tuple[Write, ...] = ()
    stale: tuple[StaleTask, ...] = ()

    @property
    def messages(self) -> tuple[StoredMessage, ...]:
        """The messages of the turns, oldest first."""
        return tuple(message for turn in self.turns for message in turn.messages)


@dataclass(frozen=True, slots=True)
class Summary:
    """A summary of messages 1 to boundary.position. text and boundary always change together.

    begins: messages at the start that it leaves out after all; only a gap filled on load has such.
    """

    text: str
    boundary: Pointer
    method: Method
    model: str | None
    prompt: str
    created_at: datetime
    begins: int = 0


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to be stored, as StoredMessage has it: what is large is out of `body`."""

    body: Body
    tokens: int
    large: tuple[tuple[Large, bytes], ...] = ()
    digest: bytes | None = None
    cleaned_digest: bytes | None = None


@dataclass(frozen=True, slots=True)
class NewTurn:
    """A turn to be stored, decided by pure code.

    expected: the head the save was made on: a checkpoint id, None for an empty thread.
    parent_known: False when the caller gave a key but no parent: append to whatever the head is.
    on_conflict: if `expected` is not the head; "decided" (no anchor) stores nothing, says `moved`.
    staged_under, key: the parent as sent and the turn's key, whose staged writes are folded.
    """

    identity: bytes
    digest: bytes
    expected: str | None
    parent_known: bool
    on_conflict: Literal["append", "reject", "branch", "decided"]
    messages: tuple[NewMessage, ...]
    rules: str
    metadata: Mapping[str, object]
    staged_under: str | None
    key: str | None
    dialect: Dialect = "openai"


@dataclass(frozen=True, slots=True)
class Appended:
    """What the store did with a NewTurn.

    checkpoint_id, parent_id, position (its end): of the stored turn (`created`, `duplicate`).
    head: the thread's head now. tokens, summaries: of the registry, to tell whether one is due.
    """

    outcome: Outcome
    checkpoint_id: str | None
    parent_id: str | None
    position: int
    head: str | None
    rebased: bool
    tokens: int
    summaries: tuple[Pointer, ...]


@dataclass(frozen=True, slots=True)
class SavedMessage:
    """One line of a save's answer; new is False for messages that stood in the thread before."""

    id: str
    role: str
    position: int
    new: bool


@dataclass(frozen=True, slots=True)
class Saved:
    """A save's answer."""

    thread_id: str
    checkpoint_id: str | None
    parent_checkpoint_id: str | None
    digest: str
    messages: tuple[SavedMessage, ...]
    created: bool
    rebased: bool
    ignored: tuple[Mapping[str, object], ...]
    warnings: tuple[Mapping[str, object], ...]


@dataclass(frozen=True, slots=True)
class Policy:
    """The deployment's window. Tokens of the default encoding; summary_tokens: a summary's most."""

    window: int = 60
    stride: int = 20
    token_budget: int = 16_000
    summary_tokens: int = 1_000


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """What one load asks for. window, stride, token_budget None: the deployment's."""

    message: Body | None = None
    window: int | None = None
    stride: int | None = None
    token_budget: int | None = None
    encoding: str = "o200k_base"
    format: FormatName = "openai"
    marker: bool = True
    strip: bool = True
    stub_large: bool = False
    explain: bool = False


@dataclass(frozen=True, slots=True)
class Coverage:
    """summarized + window + trimmed = total; from_position: first message of the window, from 1."""

    total: int
    summarized: int
    window: int
    trimmed: int
    from_position: int | None


@dataclass(frozen=True, slots=True)
class TokenSections:
    """Tokens of what is sent, by section; total is exact for the encoding."""

    budget: int
    total: int
    summary: int
    window: int
    marker: int
    message: int
    encoding: str
    over_budget: bool


@dataclass(frozen=True, slots=True)
class Context:
    """An assembled context. output: the format's own members. explanation: if it was asked for."""

    output: Mapping[str, object]
    summary: Summary | None
    summary_state: SummaryState
    coverage: Coverage
    tokens: TokenSections
    warnings: tuple[Mapping[str, object], ...]
    stripped: Stripped
    explanation: Explanation | None = None
