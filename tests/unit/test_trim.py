"""The budget: what goes first, what never goes, and what is shortened before it does."""

import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.context import assemble, assemble_given
from app.core.final_turn import LEAST_RESULT_TOKENS
from app.core.model import Body, Context
from app.core.trim import Costs, Kept, trim
from tests.unit.strategies import (
    Sent,
    assistant,
    branch_of,
    calling,
    case,
    count_openai,
    o200k,
    pair_faults,
    plain_thread,
    reading,
    result,
    sent,
    threads,
    tool_results,
    tool_use,
    unhurried,
    user,
    words,
)

REPLY = 3


def costs(*exchanges: int, summary: int = 0, marker: int = 0, final: int = 20) -> Costs:
    return Costs(3, False, final, marker, summary, exchanges)


def case_messages(name: str) -> list[Body]:
    """A case's messages, made of as many words as make each cost its `tok`."""
    return [case_message(message) for message in case(name)["input"]["messages"]]


def case_message(message: Sent) -> Sent:
    ids = message.get("tool_calls", [])
    # Three is the message's own overhead; each call costs its name and its two words of arguments.
    number = message["tok"] - 3 - 3 * len(ids)
    body = {"role": message["role"], "id": message["ref"], "content": ("word " * number).strip()}
    if "tool_call_id" in message:
        body["tool_call_id"] = message["tool_call_id"]
    return {**body, "tool_calls": calling(ids)["tool_calls"]} if ids else body


def budget_of(name: str) -> int:
    return int(case(name)["input"]["budget"]) + REPLY


def load_case(name: str, messages: Sequence[Body], **options: Any) -> Context:
    asked = reading(token_budget=budget_of(name), marker=False, **options)
    return assemble_given(messages, asked)


def pairs(text: str) -> int:
    """A counter of two characters a token, which never merges across the end of a line."""
    return sum((len(piece) + 1) // 2 for piece in re.findall(r"\n+|[^\n]+", text))


def bare(bodies: Sequence[Body]) -> list[Body]:
    return [{k: v for k, v in body.items() if k != "id"} for body in bodies]


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (22, 0),
        (32, 0),
        (33, 1),
        (62, 1),
        (63, 2),
        (73, 3),
        (10**6, 3),
    ],
)
def test_oldest_exchanges_go_first(budget: int, kept: int) -> None:
    """The newest exchanges stay as long as they fit, whole and without a gap."""
    assert trim(costs(10, 30, 10), budget) == Kept(summary=False, exchanges=kept, marker=False)


def test_a_gap_is_never_left() -> None:
    """A small old exchange does not slip in behind a large one that did not fit."""
    assert trim(costs(1, 50, 10), 60).exchanges == 1


@pytest.mark.parametrize(
    ("budget", "kept"),
    [
        (51, Kept(summary=False, exchanges=0, marker=False)),
        (58, Kept(summary=True, exchanges=0, marker=True)),
        (68, Kept(summary=True, exchanges=1, marker=True)),
    ],
)
def test_window_goes_before_summary(budget: int, kept: Kept) -> None:
    """No window stays where the summary does not fit; else a bigger budget could lose messages."""
    assert trim(costs(10, summary=30, marker=5), budget) == kept


def test_marker_is_paid_with_the_first_thing_that_stands_before() -> None:
    """An exchange that fits without the marker but not with it does not stay."""
    assert trim(costs(10, marker=5), 37) == Kept(summary=False, exchanges=0, marker=False)
    assert trim(costs(10, marker=5), 38) == Kept(summary=False, exchanges=1, marker=True)


def test_exchange_of_which_nothing_is_sent() -> None:
    """It costs nothing, so it stays, and no marker stands behind it alone."""
    assert trim(costs(0, marker=5), 23) == Kept(summary=False, exchanges=1, marker=False)


@unhurried
@given(
    st.lists(st.integers(0, 60), max_size=8),
    st.sampled_from([0, 20]),
    st.sampled_from([0, 5]),
    st.booleans(),
)
def test_bigger_budget_never_keeps_less(
    exchanges: list[int], summary: int, marker: int, pinned: bool
) -> None:
    """With every token more, at least as much stays, and it fits."""
    one = Costs(8 if pinned else 3, pinned, 20, marker, summary, exchanges)
    before = Kept(summary=False, exchanges=0, marker=False)
    for budget in range(300):
        kept = trim(one, budget)
        marked = not pinned and kept.marker
        spent = one.least + summary * kept.summary + marker * marked
        spent += sum(exchanges[len(exchanges) - kept.exchanges :])

        assert kept.exchanges >= before.exchanges
        assert kept.summary >= before.summary
        assert spent <= budget or kept.exchanges == 0
        before = kept


def test_trim_whole_turns_oldest_first() -> None:
    """trim-whole-turns-oldest-first: an answer never stays without its question."""
    name = "trim-whole-turns-oldest-first"
    messages = case_messages(name)

    assert sent(load_case(name, messages)) == bare(messages[2:])


def test_trim_fits_unchanged() -> None:
    """trim-fits-unchanged: at exactly the budget nothing changes, tool results included."""
    name = "trim-fits-unchanged"
    messages = case_messages(name)
    context = load_case(name, messages)

    assert sent(context) == bare(messages)
    assert context.tokens.total == context.tokens.budget
    assert not context.tokens.over_budget


def test_trim_counts_summary_and_marker() -> None:
    """trim-counts-summary-and-marker: what the service puts in counts against the budget."""
    name = "trim-counts-summary-and-marker"
    u1, a1, u2, a2 = (3 + message for message in (27, 27, 27, 7))
    kept = trim(Costs(0, False, u2 + a2, 5, 20, [u1 + a1]), case(name)["input"]["budget"])

    assert kept == Kept(summary=True, exchanges=0, marker=True)


def test_trim_single_message_over_budget() -> None:
    """trim-single-message-over-budget: it is sent whole, flagged, and named."""
    name = "trim-single-message-over-budget"
    messages = case_messages(name)
    context = load_case(name, messages)

    assert sent(context) == bare(messages[2:])
    assert context.tokens.over_budget
    (warning,) = context.warnings
    assert (warning["code"], warning["position"]) == ("over-budget", 3)
    assert warning["message_id"] == "u2"


def test_trim_final_turn_with_tools_too_big() -> None:
    """trim-final-turn-with-tools-too-big: the result is shortened visibly, the question whole."""
    name = "trim-final-turn-with-tools-too-big"
    messages = case_messages(name)
    context = load_case(name, messages)
    question, call, answer = sent(context)

    assert [question, call] == bare(messages[2:4])
    assert "left out by threadkeep" in str(answer["content"])
    assert context.tokens.total <= context.tokens.budget
    assert [w["code"] for w in context.warnings] == ["result-shortened"]


def load_final(*bodies: Body, budget: int) -> Context:
    return assemble(branch_of(bodies), reading(token_budget=budget))


def test_largest_results_are_shortened_first() -> None:
    """A small result keeps its words while a large one makes room."""
    small, large = result("c1", "ok " * 30), result("c2", "word " * 900)
    context = load_final(user("q"), calling(["c1", "c2"]), small, large, budget=200)

    assert sent(context)[2] == small
    assert "left out by threadkeep" in str(sent(context)[3]["content"])
    assert 180 <= context.tokens.total <= 200


def test_results_in_parts_are_shortened_too() -> None:
    """Blocks of a user message, plain and in parts, are shortened; pictures in them stay."""
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    parts = [{"type": "text", "text": "word " * 900}, picture, "more " * 900]
    context = load_final(
        user("q"),
        tool_use(["c1"]),
        tool_results(["c1"], "word " * 900),
        tool_use(["c2"]),
        tool_results(["c2"], parts),
        budget=1400,
    )
    (answer,) = sent(context)[4]["content"]

    assert answer["content"][1] == picture
    assert "left out" in answer["content"][0]["text"]
    assert "left out" in answer["content"][2]
    assert context.tokens.total <= 1400


def test_oldest_steps_go_when_shortening_is_not_enough() -> None:
    """Calls go with their results, the oldest first, and each is named."""
    steps = [m for n in range(9) for m in (calling([f"c{n}"]), result(f"c{n}", "word " * 100))]
    context = load_final(user("q"), *steps, assistant("Done."), budget=300)
    messages = sent(context)
    left = [w["position"] for w in context.warnings if w["code"] == "tool-step-left-out"]

    assert messages[0] == user("q")
    assert messages[-1] == assistant("Done.")
    assert messages[1] == steps[2 * len(left)]
    assert left == [2 + 2 * n for n in range(len(left))]
    assert 0 < len(left) < 9
    assert context.tokens.total <= 300
    assert context.coverage.window == 20


def test_words_beside_a_dropped_result_stay() -> None:
    """A user's own words are never cut, not even beside results that go."""
    mixed = user([*tool_results(["c1"], "word " * 400)["content"], {"type": "text", "text": "go"}])
    context = load_final(user("q"), tool_use(["c1"]), mixed, budget=40)

    assert sent(context) == [user("q"), user([{"type": "text", "text": "go"}])]


def test_user_message_is_whole_when_all_else_is_gone() -> None:
    """Steps are given up before the question is, and the load says it is over budget."""
    question = user("word " * 500)
    context = load_final(question, calling(["c1"]), result("c1", "word " * 500), budget=100)

    assert sent(context) == [question]
    assert context.tokens.over_budget
    assert [w["code"] for w in context.warnings] == ["tool-step-left-out", "over-budget"]


def test_over_budget_names_a_long_system_prompt() -> None:
    """Where the caller's own system message is too long, it is the one that is named."""
    messages = [{"role": "system", "content": "rule " * 300}, user("q")]
    context = assemble_given(messages, reading(token_budget=100))
    (warning,) = context.warnings

    assert (warning["code"], warning["role"]) == ("over-budget", "system")
    assert [message["role"] for message in sent(context)] == ["system", "system", "user"]


@pytest.mark.parametrize("budget", range(110, 130))
def test_results_are_shortened_in_text_too(budget: int) -> None:
    """Inside a longer text a result does not cost what it costs alone; it fits all the same."""
    bodies = [user("q"), calling(["c1"]), result("c1", "x" * 301)]
    asked = reading(pairs, token_budget=budget, format="text")
    context = assemble(branch_of(bodies), asked)

    assert "left out by threadkeep" in str(context.output["text"])
    assert context.tokens.total == pairs(str(context.output["text"])) <= budget


def test_result_without_words_is_left_alone() -> None:
    """A result of nothing cannot be shortened, and does not stand in the way."""
    bodies = [user("q"), calling(["c1", "c2"]), result("c1", None), result("c2", "word " * 900)]
    context = load_final(*bodies, budget=200)

    assert sent(context)[2] == result("c1", None)
    assert context.tokens.total <= 200


def test_nothing_is_shortened_below_what_is_of_use() -> None:
    """A result of few tokens stays whole or goes; it is never cut to a stump."""
    short = result("c1", "word " * LEAST_RESULT_TOKENS)
    context = load_final(user("q"), calling(["c1"]), short, budget=50)

    assert sent(context) == [user("q")]


@unhurried
@given(threads(), st.booleans(), st.integers(1, 12))
def test_trim_monotone(thread: list[Body], marker: bool, first: int) -> None:
    """trim-monotone: over budgets of 1 to 400, a bigger one never loses a message."""
    branch = branch_of(thread)
    survivors: set[int] = set()
    for budget in range(first, 401, 12):
        context = assemble(branch, reading(token_budget=budget, marker=marker))
        now = set(range(context.coverage.trimmed + 1, len(thread) + 1))

        assert survivors <= now
        assert context.tokens.total <= budget or context.tokens.over_budget
        survivors = now


@unhurried
@given(threads(), st.integers(1, 4000))
def test_final_turn_survives(thread: list[Body], budget: int) -> None:
    """Whatever the budget, the pairs hold, the count is exact, and the last question is whole."""
    question = user("Is everything still here?")
    context = assemble(
        branch_of(thread, o200k), reading(o200k, token_budget=budget, message=question)
    )
    messages = sent(context)

    assert messages[-1] == question
    assert pair_faults(messages) == []
    assert context.tokens.total == count_openai(messages, o200k)
    assert context.tokens.over_budget == (context.tokens.total > budget)


def test_counting_is_done_once() -> None:
    """With stored counts a load counts nothing but what it puts in itself."""
    counted: list[str] = []

    def count(text: str) -> int:
        counted.append(text)
        return words(text)

    assemble(branch_of(plain_thread(40)), reading(count))

    assert not any("msg" in text for text in counted)
