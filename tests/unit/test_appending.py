"""What a batch without key and parent is to its thread, told from content alone."""

import re
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.appending import (
    Decision,
    Diverged,
    New,
    Rest,
    Retry,
    decide,
    orphan_results,
)
from app.core.digest import message_digest
from app.core.model import Body, StoredMessage

WINDOW = 60


def _strip(body: Mapping[str, object]) -> Body:
    content = body["content"]
    if body["role"] != "assistant" or not isinstance(content, str):
        return dict(body)
    return {**body, "content": re.sub(r"\u3010\d+\u2020source\u3011", "", content)}


def _message(text: str) -> Body:
    """Spell a message as `u:text` or `a:text`, with a client's id after a hash sign."""
    role, _, rest = text.partition(":")
    content, _, client_id = rest.partition("#")
    roles = {"u": "user", "a": "assistant", "t": "tool"}
    body: Body = {"role": roles[role], "content": content}
    return {**body, "id": client_id} if client_id else body


def _messages(*texts: str) -> list[Body]:
    return [_message(text) for text in texts]


def _stored(bodies: Sequence[Body], first: int = 1) -> list[StoredMessage]:
    return [
        StoredMessage(f"msg_{position}", position, f"c{position}", body, tokens=1, rules="r")
        for position, body in enumerate(bodies, first)
    ]


def _decide(
    batch: Sequence[Body], thread: Sequence[Body], *, tail: int = WINDOW, window: int = WINDOW
) -> Decision:
    stored = _stored(thread)
    return decide(
        batch, stored[max(len(stored) - tail, 0) :], total=len(stored), strip=_strip, window=window
    )


def _saved(thread: list[Body], batch: Sequence[Body]) -> list[Body]:
    """Return the thread as it stands after the batch was saved."""
    decision = _decide(batch, thread)
    if isinstance(decision, Retry | Diverged):
        return thread
    return thread + list(batch[decision.offset if isinstance(decision, Rest) else 0 :])


def _positions(decision: Decision) -> list[int]:
    assert isinstance(decision, Retry | Rest)
    return [message.position for message in decision.matched]


THREAD = _messages("u:q1", "a:r1", "u:q2", "a:r2", "u:q3", "a:r3")


def test_save_retry_no_key_at_tip() -> None:
    """The whole last turn sent again is a retry, found where it stands."""
    decision = _decide(_messages("u:q3", "a:r3"), THREAD)

    assert isinstance(decision, Retry)
    assert _positions(decision) == [5, 6]


def test_shapes_array_equal_to_tail() -> None:
    """A transcript that adds nothing is a replay, however far back it begins."""
    for start in range(len(THREAD)):
        assert isinstance(_decide(THREAD[start:], THREAD), Retry)


def test_shapes_array_windowed_resend() -> None:
    """Of a window of the thread and a new turn, only the new turn is the rest."""
    decision = _decide(THREAD[4:] + _messages("u:q4", "a:r4"), THREAD)

    assert isinstance(decision, Rest)
    assert decision.offset == 2
    assert _positions(decision) == [5, 6]


def test_shapes_array_identical_repeats() -> None:
    """Repeats are matched as runs, so a transcript of twins stores exactly what is new."""
    thread = _messages("u:next", "a:ok", "u:next", "a:ok")
    decision = _decide([*thread, *_messages("u:next", "a:done")], thread)

    assert isinstance(decision, Rest)
    assert decision.offset == 4


def test_save_user_kept_when_model_fails() -> None:
    """A user message saved before the run is the start of the turn, by its id or its content."""
    by_id = _decide(_messages("u:plan!#ku", "a:Here."), _messages("u:plan?#ku"))
    by_content = _decide(_messages("u:plan?", "a:Here."), _messages("u:plan?"))

    assert isinstance(by_id, Rest)
    assert by_id == by_content or by_id.offset == 1


def test_save_old_turn_equal_to_earlier_not_tip() -> None:
    """A whole turn with an answer that stands in the recent window is a late retry."""
    thread = _messages("u:status?", "a:Green.", "u:and disk?", "a:40% used.")

    assert _positions(_decide(thread[:2], thread)) == [1, 2]
    assert _positions(_decide(_messages("u:x", "a:y"), _messages("u:x", "a:y") * 2 + thread)) == [
        3,
        4,
    ]


def test_a_late_retry_is_looked_for_in_the_window_only() -> None:
    """What was said before the recent window may be said again."""
    assert isinstance(_decide(THREAD[:2], THREAD, window=5), New)
    assert isinstance(_decide(THREAD[:2], THREAD, window=6), Retry)
    assert isinstance(_decide(THREAD[:2], THREAD, tail=5), New)


def test_without_an_answer_only_the_end_is_a_retry() -> None:
    """A question asked before is a retry only where nothing has been said since."""
    assert isinstance(_decide(_messages("u:q3"), _messages("u:q1", "a:r1", "u:q3")), Retry)
    assert isinstance(_decide(_messages("u:q2"), THREAD), New)


def test_the_same_word_with_other_answers_is_other_turns() -> None:
    """[yes, A], then [yes, B] are two turns."""
    assert isinstance(_decide(_messages("u:yes", "a:B"), _messages("u:yes", "a:A")), New)


def test_save_non_latin_not_collapsed() -> None:
    """Turns in other scripts are told apart like any."""
    thread = _messages("u:\u306f\u3044", "a:\u0414\u0430.")

    assert isinstance(_decide(_messages("u:\u3044\u3044\u3048", "a:\u0644\u0627"), thread), New)


def test_an_empty_thread_holds_nothing() -> None:
    """Whatever is saved first is new, also when it repeats itself."""
    assert isinstance(_decide(_messages("u:hi", "a:hi", "u:hi", "a:hi"), []), New)


def test_a_cleaned_transcript_is_recognised() -> None:
    """An answer loaded cleaned and sent back is the stored one; another raw one is not."""
    thread = _messages("u:capital?", "a:Lisbon\u30101\u2020source\u3011.")

    for answer in ("a:Lisbon.", "a:Lisbon\u30101\u2020source\u3011."):
        decision = _decide(_messages("u:capital?", answer, "u:thanks", "a:yes"), thread)
        assert isinstance(decision, Rest)
        assert decision.offset == 2
    other = _messages("u:capital?", "a:Lisbon\u30102\u2020source\u3011.")
    assert isinstance(_decide(other, thread), New)


def test_large_messages_are_compared_by_their_digests() -> None:
    """A message whose content is in a blob is recognised raw and cleaned, without the blob."""
    raw, cleaned = _messages("a:Lisbon\u30101\u2020source\u3011.", "a:Lisbon.")
    stored = StoredMessage(
        "m", 1, "c", {"role": "assistant", "content": None}, 1, "r",
        digest=message_digest(raw), cleaned_digest=message_digest(cleaned),
    )  # fmt: skip

    for body in (raw, cleaned):
        decision = decide([body], [stored], total=1, strip=_strip, window=WINDOW)
        assert decision == Retry((stored,))
    other = decide(_messages("a:x"), [stored], total=1, strip=_strip, window=WINDOW)
    assert isinstance(other, New)


def test_ids_the_thread_knows_decide_over_content() -> None:
    """A known id is that message whatever it says now, and no other one; ours count like theirs."""
    thread = _messages("u:yes#m1", "a:ok#m2", "u:yes#m3", "a:ok#m4")

    assert _positions(_decide(_messages("u:yes#m3", "a:OK!#m4"), thread)) == [3, 4]
    assert _positions(_decide(_messages("u:yes#m1", "a:ok#m2"), thread)) == [1, 2]
    assert _positions(_decide(_messages("u:yes#new1", "a:ok#new2"), thread)) == [3, 4]
    assert _positions(_decide(_messages("u:yes#msg_3", "a:ok#msg_4"), thread)) == [3, 4]


def test_a_transcript_longer_than_the_tail_is_compared_as_far_as_it_goes() -> None:
    """A whole transcript is recognised though only the newest messages were read."""
    thread = [body for n in range(50) for body in _messages(f"u:q{n}", f"a:r{n}")]
    rest = _messages("u:new", "a:answer")
    decision = _decide([*thread, *rest], thread, tail=10)

    assert isinstance(decision, Rest)
    assert decision.offset == 100
    assert _positions(decision) == list(range(91, 101))
    assert isinstance(_decide(thread, thread, tail=10), Retry)


def test_a_transcript_cannot_reach_back_before_the_thread() -> None:
    """More messages before the thread's first than it has is a contradiction, not a match."""
    batch = _messages("u:q0", "a:r0") + THREAD

    assert _decide(batch, THREAD) == Diverged(1, None)
    assert _decide(batch, THREAD, tail=2) == Diverged(1, None)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (("u:q2", "a:r2", "u:other", "a:x"), Diverged(3, 5)),
        (("u:q1", "a:edited", "u:q2", "a:r2"), Diverged(2, 2)),
        (("u:zero", "a:r", "u:q2", "a:r2", "u:q4", "a:r4"), Diverged(1, 1)),
        (("u:q2", "a:r2", "u:q4"), Diverged(3, 5)),
        (("a:r0", "u:q2", "a:r2", "u:q4", "a:r4"), Diverged(1, 2)),
    ],
)
def test_an_overlap_of_any_other_kind_has_diverged(
    batch: tuple[str, ...], expected: Diverged
) -> None:
    """Two or more exchanges that share one with the thread are a transcript that contradicts it."""
    assert _decide(_messages(*batch), THREAD) == expected


def test_a_known_id_makes_a_transcript_too() -> None:
    """Exchanges that name a message of the thread by its id, but fit nowhere, have diverged."""
    thread = _messages("u:q1#m1", "a:r1#m2", "u:q2#m3", "a:r2#m4")

    assert _decide(_messages("u:q1#m1", "a:other", "u:x", "a:y"), thread) == Diverged(2, 2)
    assert isinstance(_decide(_messages("u:q1#m1", "a:other"), thread), New)


def test_questions_from_the_middle_have_diverged() -> None:
    """Two unanswered questions as they stand mid-thread fit no rule, though nothing differs."""
    thread = _messages("u:a", "u:b", "u:c", "a:r")

    assert _decide(_messages("u:a", "u:b"), thread) == Diverged(1, 1)


def test_exchanges_the_thread_does_not_know_are_new() -> None:
    """Several exchanges at once are new when none of them, as a whole, stands in the thread."""
    assert isinstance(_decide(_messages("u:q2", "a:x", "u:q3", "a:y"), THREAD), New)


@pytest.mark.parametrize("question", ["u:q1", "u:q3"])
def test_a_transcript_with_another_answer_diverges(question: str) -> None:
    """A transcript from the thread's first or last question, answered otherwise, contradicts it."""
    decision = _decide(_messages(question, "a:edited", "u:q4", "a:r4"), THREAD)

    assert isinstance(decision, Diverged)
    assert decision.index == 2


def test_the_same_answer_to_another_question_is_new() -> None:
    """An answer saved apart from its question is a retry only where the thread ends with it."""
    thread = _messages("u:q1", "a:Yes.", "u:q2")

    assert isinstance(_decide(_messages("a:Yes."), thread), New)


def _naive(
    batch: Sequence[Body], thread: Sequence[Body], tail: int, window: int
) -> tuple[str, int]:
    """Rule 3 as it reads (with ADR 0012), but for divergence; quadratic."""
    stored = _stored(thread)[-tail:]
    ids = {message.body.get("id") for message in stored} | {message.id for message in stored}

    def same(body: Body, message: StoredMessage) -> bool:
        if "id" in body and body["id"] in ids:
            return body["id"] in (message.id, message.body.get("id"))
        raws = message.body, _strip(message.body)
        return message_digest(body) in {message_digest(raw) for raw in raws}

    for length in range(min(len(batch), len(thread)), 0, -1):
        seen = min(length, len(stored))
        pairs = zip(batch[length - seen : length], stored[-seen:], strict=True)
        if all(same(body, message) for body, message in pairs):
            return ("retry" if length == len(batch) else "rest"), length
    if {body["role"] for body in batch} == {"user", "assistant"}:
        for start in range(len(stored) - len(batch), max(len(stored) - window, 0) - 1, -1):
            run = stored[start : start + len(batch)]
            if all(same(body, message) for body, message in zip(batch, run, strict=True)):
                return "retry", run[0].position
    return "other", 0


twins = st.sampled_from(
    ["u:x", "u:y", "a:x", "a:x\u30101\u2020source\u3011", "u:x#1", "a:x#2", "a:y#msg_3"]
).map(_message)


@given(
    st.lists(twins, min_size=1, max_size=6),
    st.lists(twins, max_size=10),
    st.integers(1, 10),
    st.integers(1, 10),
)
def test_runs_are_found_as_the_rule_reads(
    batch: list[Body], thread: list[Body], tail: int, window: int
) -> None:
    """The fast search and the plain reading of the rule agree, on threads full of twins."""
    kind, at = _naive(batch, thread, tail, window)
    decision = _decide(batch, thread, tail=tail, window=window)

    if kind == "other":
        assert isinstance(decision, New | Diverged)
    elif kind == "rest":
        assert isinstance(decision, Rest)
        assert decision.offset == at
    else:
        assert isinstance(decision, Retry)
        assert len(decision.matched) == min(len(batch), tail, len(thread))


exchanges = st.lists(st.sampled_from("xyz"), min_size=1, max_size=3).map(
    lambda words: _messages(f"u:{words[0]}", *(f"a:{word}" for word in words[1:]))
)


@given(st.lists(exchanges, max_size=8), st.data())
def test_resending_what_was_saved_changes_nothing(
    batches: list[list[Body]], data: st.DataObject
) -> None:
    """After any saves, each batch just saved and any suffix of the thread are no-ops."""
    thread: list[Body] = []
    for batch in batches:
        thread = _saved(thread, batch)
        assert _saved(thread, batch) == thread
    start = data.draw(st.integers(0, max(len(thread) - 1, 0)))

    if thread:
        assert _saved(thread, thread[start:]) == thread


@given(st.lists(exchanges, min_size=1, max_size=8), exchanges)
def test_a_whole_transcript_stores_exactly_the_rest(
    before: list[list[Body]], rest: list[Body]
) -> None:
    """A transcript sent whole, twins and all, adds what stands after the thread, nothing else."""
    thread = [body for batch in before for body in batch]

    assert _saved(thread, thread + rest) == thread + rest
    assert _saved(thread + rest, thread + rest) == thread + rest


@given(st.lists(exchanges, max_size=8), exchanges)
def test_no_message_is_lost(before: list[list[Body]], batch: list[Body]) -> None:
    """Afterwards the batch stands in the thread as a run, or the caller was told it contradicts."""
    thread = [body for one in before for body in one]
    after = _saved(thread, batch)
    runs = [after[start : start + len(batch)] for start in range(len(after))]

    assert after[: len(thread)] == thread
    assert batch in runs or isinstance(_decide(batch, thread), Diverged)


def _call(*ids: str) -> Body:
    calls = [{"id": one, "function": {"name": "f", "arguments": "{}"}} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def _result(call_id: str) -> Body:
    return {"role": "tool", "tool_call_id": call_id, "content": "ok"}


@pytest.mark.parametrize(
    ("before", "bodies", "orphans"),
    [
        ([], [_call("a", "b"), _result("b"), _result("a")], []),
        ([], [_call("a"), _result("b")], [1]),
        ([], [_result("a")], [0]),
        (None, [_result("a"), _message("a:done"), _result("a")], [2]),
        ([_call("a")], [_result("a"), _message("a:done")], []),
        ([_call("a"), _message("u:stop")], [_result("a")], [0]),
        ([], [_call("a"), _message("u:stop"), _result("a"), _message("a:x")], [2]),
        (
            [],
            [
                {"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, "and"]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "b"}]},
            ],
            [3],
        ),
    ],
)
def test_results_without_their_call_are_found(
    before: list[Body] | None, bodies: list[Body], orphans: list[int]
) -> None:
    """A result is at home right after the message that called, at the thread's end too."""
    assert list(orphan_results(bodies, before)) == orphans


def test_outputs_are_at_home_after_any_earlier_call_item() -> None:
    """Responses parts a call from its output by other items, parallel calls first of all."""
    call, other = (Body(type="function_call", call_id=name, name="f") for name in "ab")
    output, second = (Body(type="function_call_output", call_id=name) for name in "ab")
    items = [call, other, Body(type="reasoning", summary=[]), _message("a:wait"), second, output]

    assert list(orphan_results(items, [])) == []
    assert list(orphan_results([output, second], items[:3])) == []
    assert list(orphan_results([second, output], [call])) == [0]
    assert list(orphan_results([_message("u:stop"), output], [call])) == [1]


def test_a_langchain_message_is_known_by_its_id() -> None:
    """The client's id of a wrapped message stands in its data, and tells it apart as well."""
    said: Body = {"type": "human", "data": {"content": "yes", "id": "m1"}}
    answer: Body = {"type": "ai", "data": {"content": "ok", "id": "m2"}}
    again: Body = {"type": "human", "data": {"content": "yes", "id": "m3"}}
    tail = [
        StoredMessage(f"msg_{n}", n, "c", body, tokens=1, rules="")
        for n, body in enumerate([said, answer], start=1)
    ]

    assert decide([said, answer, again], tail, total=2, strip=dict, window=WINDOW) == Rest(
        2, tuple(tail)
    )
