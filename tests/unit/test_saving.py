"""From a save's request to the turn and the answer, with the store's word played by a list."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from app.core.digest import make_checkpoint_id, message_id
from app.core.errors import (
    CheckpointNotFound,
    InvalidPayload,
    KeyReused,
    ParentMoved,
    ThreadDeleted,
    ThreadkeepError,
    ThreadNotFound,
    TranscriptDiverged,
)
from app.core.ingest import parse_batch
from app.core.model import (
    Appended,
    Body,
    History,
    NewTurn,
    Outcome,
    Registry,
    Saved,
    StoredMessage,
    ThreadKey,
    Turn,
)
from app.core.saving import (
    MAX_MESSAGES,
    Costing,
    SaveRequest,
    answer,
    plan_anchored,
    plan_by_content,
)

DATA = Path(__file__).parents[1] / "data"
# Not splitlines: the cases hold U+2028 as it is.
_LINES = (DATA / "cases.jsonl").read_text(encoding="utf-8").strip().split("\n")
CASES = {case["id"]: case for case in map(json.loads, _LINES)}
NOW = datetime(2026, 1, 1, tzinfo=UTC)
COSTING = Costing(rules="r1", strip=dict, cost=lambda body: len(str(body.get("content"))))


@dataclass
class Ledger:
    """One thread as a list of turns: what the store's save function says, without its races."""

    turns: list[Turn] = field(default_factory=list)
    taken: dict[bytes, tuple[bytes, Turn]] = field(default_factory=dict)

    @property
    def history(self) -> History | None:
        if not self.turns:
            return None
        last = self.turns[-1]
        registry = Registry(
            "t1", "", last.checkpoint_id, last.position, len(self.turns), 0, 0, None, {}, NOW, NOW,
            None, (), 0,
        )  # fmt: skip
        return History(registry, last.checkpoint_id, last.position, 0, tuple(self.turns))

    @property
    def messages(self) -> tuple[StoredMessage, ...]:
        return self.history.messages if self.history else ()

    def append(self, turn: NewTurn) -> Appended:
        head = self.turns[-1].checkpoint_id if self.turns else None
        if turn.identity in self.taken:
            digest, old = self.taken[turn.identity]
            outcome: Outcome = "duplicate" if digest == turn.digest else "key-reused"
            return Appended(
                outcome, old.checkpoint_id, old.parent_id, old.position, head, False, 0, ()
            )
        start = len(self.messages)
        position = start + len(turn.messages)
        name = make_checkpoint_id(position, turn.identity)
        messages = tuple(
            StoredMessage(
                message_id(turn.identity, index), start + index + 1, name, message.body,
                message.tokens, turn.rules,
            )
            for index, message in enumerate(turn.messages)
        )  # fmt: skip
        new = Turn(name, head, position, 0, len(self.turns), NOW, messages)
        self.turns.append(new)
        self.taken[turn.identity] = (turn.digest, new)
        rebased = turn.parent_known and turn.expected != head
        return Appended("created", name, head, position, name, rebased, 0, ())

    def save(self, request: SaveRequest) -> Saved:
        if request.anchored:
            plan = plan_anchored(request, COSTING)
        else:
            plan = plan_by_content(request, self.history, COSTING, window=60)
        return answer(request, plan, self.append(plan.turn) if plan.turn else None)


def _request(*messages: Body, **members: Any) -> SaveRequest:
    thread = ThreadKey(members.pop("tenant", "acme"), members.pop("thread", "t1"))
    return SaveRequest(thread, parse_batch(list(messages), "#/messages"), **members)


def _turn(question: str, reply: str) -> list[Body]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": reply}]


def _case_request(step: Mapping[str, Any]) -> SaveRequest:
    """A message's `key` is a client's own message id in our contract."""
    messages = [
        {**{name: value for name, value in one.items() if name != "key"}, "id": one["key"]}
        if "key" in one
        else one
        for one in step["messages"]
    ]
    scope = {name: step[name] for name in ("tenant", "thread") if name in step}
    return _request(*messages, key=step.get("key"), **scope)


@pytest.mark.parametrize(
    "name",
    [
        "save-image-only-messages-distinct",
        "save-key-reused-with-other-content",
        "save-non-latin-not-collapsed",
        "save-old-turn-equal-to-earlier-not-tip",
        "save-repeat-continue-with-keys",
        "save-retry-differs-in-trailing-space",
        "save-retry-no-key-at-tip",
        "save-retry-same-key",
        "save-strip-rule-change-keeps-ids",
        "save-user-kept-when-model-fails",
        "save-volatile-metadata-not-identity",
        "shapes-array-equal-to-tail",
        "shapes-array-identical-repeats",
        "shapes-array-windowed-resend",
        "enc-nfd-retry-same-key",
        "enc-rtl-and-zwnj-kept",
        "enc-whitespace-and-newlines-kept",
    ],
)
def test_case(name: str) -> None:
    """The steps of a case leave exactly the messages it expects, as they were first written."""
    case = CASES[name]
    ledger = Ledger()
    sent: dict[str, object] = {}
    refused = 0
    for step in case["input"]["steps"]:
        batch = step.get("save") or step.get("array")
        for one in batch["messages"] if batch else ():
            sent.setdefault(one["ref"], one["content"])
        try:
            if batch:
                ledger.save(_case_request(batch))
        except KeyReused:
            refused += 1
    survive = case["expect"].get("survive", list(sent))

    assert [message.body["content"] for message in ledger.messages] == [
        sent[one] for one in survive
    ]
    assert len({message.id for message in ledger.messages}) == len(survive)
    assert refused == (name.startswith(("save-key-reused", "save-retry-differs", "enc-nfd")))


def test_save_key_scoped_to_tenant_and_thread() -> None:
    """One key in two threads or two tenants names different turns."""
    steps = [
        step["save"] for step in CASES["save-key-scoped-to-tenant-and-thread"]["input"]["steps"][:3]
    ]
    turns = [plan_anchored(_case_request(step), COSTING).turn for step in steps]

    assert len({turn.identity for turn in turns if turn}) == 3


def test_con_same_turn_twenty_times() -> None:
    """Equal saves of one key, parent or head have one identity, so that only one is stored."""
    ledger = Ledger()
    for members in ({"key": "k1"}, {"parent": None, "parent_known": True}):
        request = _request(*_turn("hi", "hello"), **members)
        answers = [ledger.save(request) for _ in range(20)]

        assert [one.created for one in answers] == [True] + [False] * 19
        assert (
            len({tuple((line.id, line.position) for line in one.messages) for one in answers}) == 1
        )
    rivals = [
        plan_by_content(_request(*_turn("q", "r")), ledger.history, COSTING, window=60).turn
        for _ in range(2)
    ]
    assert rivals[0] == rivals[1]
    assert rivals[0] is not None


def test_a_turn_carries_what_the_store_needs_by_kind_of_anchor() -> None:
    """Key, parent and head give the expected head and the way to settle a lost race."""
    ledger = Ledger()
    parent = ledger.save(_request(*_turn("q1", "r1"), key="k0")).checkpoint_id
    both = plan_anchored(
        _request(
            *_turn("q", "r"), key="k1", parent=parent, parent_known=True, on_conflict="reject"
        ),
        COSTING,
    ).turn
    key = plan_anchored(_request(*_turn("q", "r"), key="k1"), COSTING).turn
    null = plan_anchored(_request(*_turn("q", "r"), parent=None, parent_known=True), COSTING).turn
    head = plan_by_content(_request(*_turn("q", "r")), ledger.history, COSTING, window=60).turn

    assert both
    assert key
    assert null
    assert head
    assert (both.expected, both.parent_known, both.on_conflict) == (parent, True, "reject")
    assert (both.staged_under, both.key) == (parent, "k1")
    assert (key.expected, key.parent_known, key.on_conflict) == (None, False, "append")
    assert (null.expected, null.parent_known, null.key) == (None, True, None)
    assert (head.expected, head.parent_known, head.on_conflict) == (parent, True, "decided")
    assert both.identity == key.identity
    assert len({both.identity, null.identity, head.identity}) == 3
    assert both.digest == null.digest == head.digest
    assert [message.tokens for message in key.messages] == [1, 1]
    assert key.rules == "r1"


def test_yes_twice_with_other_parents_is_two_turns() -> None:
    """The same words under another parent are stored; under the same parent they are a retry."""
    ledger = Ledger()
    first = ledger.save(_request(*_turn("yes", "ok"), parent=None, parent_known=True))
    second = ledger.save(
        _request(*_turn("yes", "ok"), parent=first.checkpoint_id, parent_known=True)
    )
    again = ledger.save(
        _request(*_turn("yes", "ok"), parent=first.checkpoint_id, parent_known=True)
    )

    assert (first.created, second.created, again.created) == (True, True, False)
    assert second.parent_checkpoint_id == first.checkpoint_id
    assert (again.checkpoint_id, again.parent_checkpoint_id) == (
        second.checkpoint_id,
        first.checkpoint_id,
    )
    assert [line.position for line in again.messages] == [3, 4]
    assert not any(line.new for line in again.messages)
    assert again.digest == first.digest


def test_a_retry_by_content_names_the_first_save_and_how_to_repeat() -> None:
    """A retry told from content has the first save's ids, and a warning naming parent and key."""
    ledger = Ledger()
    first = ledger.save(_request(*_turn("status?", "Green.")))
    ledger.save(_request(*_turn("and disk?", "40% used.")))
    third = ledger.save(_request(*_turn("status?", "Green.")))

    assert first.created
    assert not first.warnings
    assert not third.created
    assert (third.checkpoint_id, third.parent_checkpoint_id) == (first.checkpoint_id, None)
    assert third.messages == tuple(replace(line, new=False) for line in first.messages)
    assert [one["code"] for one in third.warnings] == ["retry-by-content"]
    assert all(word in str(third.warnings[0]["detail"]) for word in ("'parent'", "'key'"))
    assert len(ledger.messages) == 4


def test_a_rival_that_stored_the_same_first_is_a_retry_with_the_warning() -> None:
    """When an equal save won the race, the loser's answer is the winner's, with the warning."""
    ledger = Ledger()
    request = _request(*_turn("q", "r"))
    plan = plan_by_content(request, None, COSTING, window=60)
    assert plan.turn
    won = answer(request, plan, ledger.append(plan.turn))
    lost = answer(request, plan, ledger.append(plan.turn))

    assert (won.created, lost.created) == (True, False)
    assert (won.checkpoint_id, won.digest) == (lost.checkpoint_id, lost.digest)
    assert [one["code"] for one in lost.warnings] == ["retry-by-content"]


def test_the_rest_of_a_transcript_is_answered_with_what_stood_there() -> None:
    """Messages found in the thread are listed with their own ids, the new ones as new."""
    ledger = Ledger()
    first = ledger.save(_request({"role": "user", "content": "plan?"}))
    saved = ledger.save(_request(*_turn("plan?", "Here.")))

    assert saved.created
    assert [(line.role, line.position, line.new) for line in saved.messages] == [
        ("user", 1, False),
        ("assistant", 2, True),
    ]
    assert saved.messages[0].id == first.messages[0].id
    assert saved.parent_checkpoint_id == first.checkpoint_id


def test_a_transcript_that_contradicts_says_where() -> None:
    """The refusal points at the message as it was sent, preamble counted, and at the thread's."""
    ledger = Ledger()
    for number in (1, 2, 3):
        ledger.save(_request(*_turn(f"q{number}", f"r{number}")))
    preamble: Body = {"role": "system", "content": "x"}
    batch = [preamble, *_turn("q2", "r2"), *_turn("ZEBRA", "x")]
    with pytest.raises(TranscriptDiverged) as caught:
        ledger.save(_request(*batch))

    assert caught.value.extensions == {"pointer": "#/messages/3", "position": 5}
    assert "ZEBRA" not in str(caught.value)


def test_nothing_but_preamble_stores_nothing() -> None:
    """A save of which nothing is to be stored says so and changes nothing, anchored or not."""
    ledger = Ledger()
    for members in ({}, {"key": "k1"}):
        saved = ledger.save(_request({"role": "system", "content": "Be brief."}, **members))

        assert (saved.created, saved.checkpoint_id, saved.messages) == (False, None, ())
        assert [one["reason"] for one in saved.ignored] == ["preamble"]
    assert ledger.history is None


def test_too_many_messages_are_refused_only_when_they_are_to_be_stored() -> None:
    """Two hundred messages may be stored at once; a long transcript may hold more."""
    ledger = Ledger()
    many = [body for number in range(MAX_MESSAGES // 2) for body in _turn(f"q{number}", "r")]
    with pytest.raises(InvalidPayload) as caught:
        ledger.save(_request(*many, *_turn("one", "more"), key="k1"))
    assert str(MAX_MESSAGES) in caught.value.flaws[0].detail

    assert ledger.save(_request(*many)).created
    assert ledger.save(_request(*many, *_turn("one", "more"))).created
    assert len(ledger.messages) == MAX_MESSAGES + 2


@pytest.mark.parametrize("parent", ["", "head", "x'; SELECT 1; --", "0000000001-\0" + "a" * 21])
def test_sec_sql_in_ids(parent: str) -> None:
    """A parent that no turn can have is not found, without asking the store."""
    with pytest.raises(CheckpointNotFound):
        plan_anchored(_request(*_turn("q", "r"), parent=parent, parent_known=True), COSTING)


def test_a_tool_result_without_its_call_is_stored_and_warned_about() -> None:
    """The warning points at the result as sent; where the thread's end is unknown, it is let be."""
    result: Body = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
    call: Body = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}],
    }
    ledger = Ledger()
    orphan = ledger.save(_request({"role": "system", "content": "x"}, result))
    asked = ledger.save(_request({"role": "user", "content": "q"}, call))
    answered = ledger.save(_request(result))
    first = plan_anchored(_request(result, parent=None, parent_known=True), COSTING)
    later = plan_anchored(_request(result, parent=asked.checkpoint_id, parent_known=True), COSTING)

    assert [(one["code"], one["pointer"]) for one in orphan.warnings] == [
        ("tool-result-without-call", "#/messages/1")
    ]
    assert (asked.warnings, answered.warnings, later.warnings) == ((), (), ())
    assert len(first.warnings) == 1
    assert len(ledger.messages) == 4


@pytest.mark.parametrize(
    ("outcome", "error", "extensions"),
    [
        ("unknown", ThreadNotFound, {}),
        ("deleted", ThreadDeleted, {}),
        ("no-parent", CheckpointNotFound, {}),
        ("key-reused", KeyReused, {"key": "k1"}),
        ("moved", ParentMoved, {"head": "h2"}),
    ],
)
def test_what_the_store_refuses_is_an_error(
    outcome: Outcome, error: type[ThreadkeepError], extensions: Mapping[str, object]
) -> None:
    """Each refusal of the store is its own error, with the key or the head and no content."""
    request = _request(*_turn("send 10", "ZEBRA"), key="k1")
    appended = Appended(outcome, None, None, 0, "h2", False, 0, ())
    with pytest.raises(error) as caught:
        answer(request, plan_anchored(request, COSTING), appended)

    assert caught.value.extensions == extensions
    assert "ZEBRA" not in f"{caught.value}{caught.value.extensions}"
