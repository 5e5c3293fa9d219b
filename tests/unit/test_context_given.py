"""Contexts of a caller's own history: an array of messages, or one opaque string."""

import dataclasses
import itertools
from collections.abc import Mapping
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.core.context import (
    assemble,
    assemble_given,
    assemble_text,
)
from app.core.dialects.recognise import recognise
from app.core.marker import history_message, marker_message, summary_message
from app.core.messages import is_injected
from app.core.model import Body, Context, Policy
from tests.unit.strategies import (
    QUESTION,
    assistant,
    batches,
    branch_of,
    case,
    codes,
    count_openai,
    history,
    o200k,
    pair_faults,
    plain_thread,
    reading,
    sent,
    summary,
    thirds,
    threads,
    unhurried,
    user,
    words,
)


def given_case(name: str, **options: Any) -> Context:
    (conversation,) = batches(name)
    return assemble_given(conversation, reading(**options))


def test_shapes_system_in_middle() -> None:
    """shapes-system-in-middle: one system message, first, both instructions in order."""
    context = given_case("shapes-system-in-middle", marker=False)

    assert sent(context)[0] == {"role": "system", "content": "Be brief.\n\nAnswer in French."}
    assert history(context)[1:] == ["hi", "hello", "colour of the sky?"]
    assert context.coverage.total == 3


def test_system_messages_in_parts() -> None:
    """Parts of system messages are kept as parts, in order."""
    parts = [{"type": "text", "text": "One.", "cache_control": {"type": "ephemeral"}}]
    conversation: list[Body] = [
        {"role": "system", "content": parts},
        {"role": "developer", "content": "Two."},
        {"role": "system", "content": " "},
    ]
    pinned = sent(assemble_given(conversation, reading()))

    assert pinned == [{"role": "system", "content": [*parts, {"type": "text", "text": "Two."}]}]


def test_pinned_message_is_never_trimmed() -> None:
    """However small the budget, the caller's instructions stay, and a marker behind them."""
    conversation = [{"role": "system", "content": "Be brief."}, *plain_thread(10)]
    context = assemble_given(conversation, reading(token_budget=40))

    assert history(context) == ["Be brief.", "msg 009", "msg 010"]
    assert sent(context)[1] == marker_message()


def test_loaded_list_sent_back() -> None:
    """What a load put in is recognised: the summary stays one, the marker is dropped and named."""
    branch = dataclasses.replace(branch_of(plain_thread(6), start=2), summary=summary(2))
    loaded = sent(assemble(branch, reading(message=QUESTION)))
    context = assemble_given([*loaded, assistant("a")], reading(marker=False))

    told = summary_message("They spoke of flights.")
    assert sent(context) == [told, *plain_thread(6)[2:], QUESTION, assistant("a")]
    assert [warning["name"] for warning in context.warnings] == ["threadkeep_marker"]
    assert context.tokens.summary > 0
    assert context.tokens.total == count_openai(sent(context), words)


def test_summary_sent_back_goes_before_the_final_turn() -> None:
    """A caller's summary is trimmed like one of the store, and then named."""
    conversation = [summary_message("So far, so good."), *plain_thread(3)]
    context = assemble_given(conversation, reading(token_budget=10))

    assert history(context) == ["msg 003"]
    assert codes(context) == ["summary-left-out"]


def test_shapes_tool_result_in_user_role() -> None:
    """shapes-tool-result-in-user-role: a result in role user does not begin an exchange."""
    context = given_case("shapes-tool-result-in-user-role", window=3)

    assert [message["role"] for message in sent(context)] == [
        "user",
        "assistant",
        "tool",
        "tool",
        "assistant",
    ]
    assert pair_faults(sent(context)) == []


def test_shapes_array_identical_repeats() -> None:
    """shapes-array-identical-repeats: equal messages are all sent, in order."""
    _, conversation = batches("shapes-array-identical-repeats")

    assert history(assemble_given(conversation, reading())) == [m["content"] for m in conversation]


def test_shapes_empty_array() -> None:
    """shapes-empty-array: an empty array is an empty conversation."""
    context = assemble_given([], reading())

    assert sent(context) == []
    assert context.coverage.total == 0


def test_given_window() -> None:
    """A caller's array is cut on the same grid as a stored thread."""
    conversation = [{"role": "system", "content": "Be brief."}, *plain_thread(200)]
    context = assemble_given(conversation, reading())

    assert history(context)[1:] == [f"msg {n:03}" for n in range(141, 201)]
    assert dataclasses.astuple(context.coverage) == (200, 0, 60, 140, 141)


def test_given_window_by_tokens() -> None:
    """Long messages of a caller are cut by their tokens."""
    policy = Policy(token_budget=2300)
    context = assemble_given(plain_thread(40, "w " * 97), reading(policy=policy))

    assert context.coverage.window == 6


def test_given_message_is_not_doubled() -> None:
    """The current question may already end the array."""
    conversation = [*plain_thread(2), QUESTION]

    assert len(history(assemble_given(conversation, reading(message=QUESTION)))) == 3
    assert len(history(assemble_given(conversation[:2], reading(message=QUESTION)))) == 3


@unhurried
@given(threads(), st.integers(20, 2000))
def test_given_is_loaded_like_a_thread(thread: list[Body], budget: int) -> None:
    """The same messages from the caller and from the store give the same context."""
    asked = reading(token_budget=budget, message=QUESTION)
    mine = assemble_given(thread, asked)
    theirs = assemble(branch_of(thread, dialect=recognise(thread)), asked)

    assert mine.output == theirs.output
    assert mine.coverage == theirs.coverage
    assert mine.tokens == theirs.tokens


def test_shapes_history_string_empty() -> None:
    """shapes-history-string-empty: a blank string is no history."""
    (step,) = case("shapes-history-string-empty")["input"]["steps"]
    text = step["history_string"]["text"]
    context = assemble_text(text, reading())

    assert sent(context) == []
    assert sent(assemble_text(text, reading(message=QUESTION))) == [QUESTION]
    assert context.warnings == ()


def test_shapes_history_string_is_opaque() -> None:
    """shapes-history-string-is-opaque: one block, whatever its lines look like."""
    (step,) = case("shapes-history-string-is-opaque")["input"]["steps"]
    asked: Mapping[str, str] = step["history_string"]
    context = assemble_text(asked["text"], reading(message=user(asked["message"])))

    assert sent(context) == [
        history_message(asked["text"]),
        marker_message(),
        user("ok, fix it"),
    ]
    assert dataclasses.astuple(context.coverage) == (0, 0, 0, 0, None)


def test_history_string_alone() -> None:
    """Without a current message the block is all there is, and no marker stands behind it."""
    assert sent(assemble_text("User: hi", reading())) == [history_message("User: hi")]


def test_history_string_is_cleaned() -> None:
    """The strip rules of assistant text hold for the block, and `off` leaves it."""
    text = "Assistant: See <!-- hidden -->here."

    assert history_message(text) != sent(assemble_text(text, reading()))[0]
    assert history_message(text) == sent(assemble_text(text, reading(strip=False)))[0]


def test_history_string_is_trimmed_at_lines() -> None:
    """Too long a block loses whole lines from its beginning, and the load says so."""
    text = "\n".join(f"User: line {n}" for n in range(200))
    context = assemble_text(text, reading(token_budget=100, message=QUESTION))
    kept = str(sent(context)[0]["content"])

    assert text.endswith("\n" + kept)
    assert 80 <= context.tokens.total <= 100
    assert codes(context) == ["history-trimmed"]
    assert context.warnings[0]["characters"] == len(text) - len(kept)


def test_history_string_whose_lines_cost_more_together() -> None:
    """A counter that rounds down each line still gets a block that fits."""
    asked = reading(thirds, token_budget=80, message=QUESTION)
    context = assemble_text("a\n" * 500, asked)

    assert 60 <= context.tokens.total <= 80
    assert context.tokens.total == count_openai(sent(context), thirds)


def test_history_string_without_room() -> None:
    """A single line that does not fit is left out whole; the question stays."""
    context = assemble_text("word " * 300, reading(token_budget=50, message=QUESTION))

    assert sent(context) == [QUESTION]
    assert codes(context) == ["history-trimmed"]


@unhurried
@given(
    st.lists(st.sampled_from(["", "a b", "Größe 数", "x  ", "\tif y:"]), max_size=40).map(
        "\n".join
    ),
    st.integers(1, 120),
    st.sampled_from(["openai", "text"]),
)
def test_history_string_fits(text: str, budget: int, form: str) -> None:
    """Whatever the block and the budget, the end of it is kept and the total is exact."""
    asked = reading(o200k, token_budget=budget, message=QUESTION, format=form)
    context = assemble_text(text, asked)

    assert context.tokens.total <= budget or context.tokens.over_budget
    if form == "text":
        assert context.tokens.total == o200k(str(context.output["text"]))
    elif is_injected(sent(context)[0]):
        assert text.endswith(str(sent(context)[0]["content"]))
        assert context.tokens.total == count_openai(sent(context), o200k)


def test_a_long_pinned_message_moves_the_window_by_steps_too() -> None:
    """What is pinned takes room from the window once a step, not at every turn by the trim."""
    policy = Policy(token_budget=4_000, summary_tokens=300)
    pinned: Body = {"role": "system", "content": "rule " * 2_000}
    starts = []
    for turns in range(1, 80):
        thread = plain_thread(2 * turns, text="word " * 50)
        context = assemble_given([pinned, *thread], reading(policy=policy))
        starts.append(context.coverage.from_position)
    moves = sum(before != after for before, after in itertools.pairwise(starts))
    step = (4_000 - 300 - 300) // 3

    assert 0 < moves <= 79 * 2 * 53 / step + 1
