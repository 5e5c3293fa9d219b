"""Explanations: every message has one fate, and the fates are what was sent."""

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.context import Branch, Reading, assemble, assemble_given, assemble_text
from app.core.explain import DETAILS, WARNED
from app.core.explanation import Explanation, MessageFate
from app.core.model import Body, Context, Large, Policy
from app.core.ports import Count
from tests.unit.strategies import (
    QUESTION,
    Sent,
    assistant,
    branch_of,
    calling,
    o200k,
    plain_thread,
    reading,
    result,
    stored,
    summary,
    thirds,
    threads,
    tool_results,
    tool_use,
    unhurried,
    user,
    words,
)
from tests.unit.talks import FORMATS, batches, branch_as, recognised

IN_WINDOW = ("kept", "healed", "shortened", "left-out")
asked_window = st.sampled_from([None, 3, 8])
PAGE = Path(__file__).parents[2] / "docs" / "explain.md"
LARGE = Large("content", "msg_2.content", "v", 9000, 2000, "It is...")
budgets = st.integers(20, 1500)


def asking(count: Count = words, policy: Policy | None = None, **options: Any) -> Reading:
    return reading(count, policy, explain=True, **options)


def explained(context: Context) -> Explanation:
    assert context.explanation is not None
    return context.explanation


def tally(explanation: Explanation) -> Counter[str]:
    """How many stored messages met each fate."""
    fates: Counter[str] = Counter(one.fate for one in explanation.messages if one.position)
    for part in explanation.ranges:
        fates[part.fate] += part.last - part.first + 1
    return fates


def positions(explanation: Explanation) -> list[int]:
    """The positions that are accounted for, in the order in which they are given."""
    before = [n for part in explanation.ranges for n in range(part.first, part.last + 1)]
    return before + [one.position for one in explanation.messages if one.position is not None]


def assert_adds_up(context: Context) -> None:
    """Fail unless the explanation accounts for every message and every token."""
    explanation, coverage, tokens = explained(context), context.coverage, context.tokens
    fates, overheads = tally(explanation), explanation.overheads
    sent = sum(one.sent_tokens for one in explanation.messages)

    assert positions(explanation) == list(range(1, coverage.total + 1))
    assert fates["summarized"] == coverage.summarized
    assert fates["trimmed"] == coverage.trimmed
    assert sum(fates[fate] for fate in IN_WINDOW) == coverage.window
    assert sent == tokens.window + tokens.message
    beside = tokens.summary + tokens.marker + overheads.reply + overheads.pinned
    assert sent + beside - overheads.merged == tokens.total
    assert overheads.merged >= 0
    for one in explanation.messages:
        assert one.fate in {"kept", "shortened", "healed"} or one.sent_tokens == 0, one
        assert one.fate not in {"kept", "shortened"} or one.sent_tokens > 0, one
        assert one.detail
    assert len(explanation.stripped) == context.stripped.messages
    assert sum(one.tokens for one in explanation.stripped) == context.stripped.tokens


@unhurried
@given(batches(), st.integers(0, 40), budgets, asked_window, st.sampled_from(FORMATS), st.data())
def test_every_message_has_one_fate(
    written: list[Any],
    covered: int,
    budget: int,
    window: int | None,
    form: str,
    data: st.DataObject,
) -> None:
    """In every format, fates agree with the coverage and tokens with the total."""
    branch = branch_as(written, covered=covered)
    message = data.draw(st.sampled_from([None, QUESTION, user(" ")]))
    unread = data.draw(st.integers(0, branch.start))
    recent = replace(branch, messages=branch.messages[unread:])
    asked = asking(token_budget=budget, window=window, format=form, message=message)

    assert_adds_up(assemble(recent, asked))


@unhurried
@given(threads(max_size=14), st.integers(0, 30), budgets, asked_window)
def test_openai_merges_nothing(
    thread: list[Body], begins: int, budget: int, window: int | None
) -> None:
    """Messages stored in the format itself cost what they cost apart."""
    told = replace(summary(0), begins=0)
    branch = replace(branch_of(thread), summary=None)
    if begins < len(thread):
        told = replace(summary(begins), begins=begins // 2)
        start = begins
        branch = replace(branch, start=start, summary=told if start else None)
    context = assemble(branch, asking(token_budget=budget, window=window))

    assert_adds_up(context)
    assert explained(context).overheads.merged == 0


@unhurried
@given(threads(), budgets, asked_window, st.sampled_from(FORMATS))
def test_given_conversations_add_up(
    thread: list[Body], budget: int, window: int | None, form: str
) -> None:
    """A caller's own messages are explained like stored ones, by their order."""
    pinned: Sent = {"role": "system", "content": "Be brief."}
    asked = asking(token_budget=budget, window=window, format=form, message=QUESTION)
    context = assemble_given([pinned, *thread], asked)

    assert_adds_up(context)
    assert explained(context).overheads.pinned > 0


@unhurried
@given(threads(), budgets, st.sampled_from(FORMATS), st.sampled_from([words, thirds]))
def test_asking_changes_nothing(thread: list[Body], budget: int, form: str, count: Count) -> None:
    """An explained load is the same load: nothing else of the answer differs."""
    options: dict[str, Any] = {"token_budget": budget, "format": form, "message": QUESTION}
    plain = assemble(branch_of(thread, count), reading(count, **options))
    asked = assemble(branch_of(thread, count), asking(count, **options))

    assert plain.explanation is None
    assert replace(asked, explanation=None) == plain


@unhurried
@given(threads(), st.sampled_from([words, thirds, o200k]))
def test_cleaning_is_what_it_saves(thread: list[Body], count: Count) -> None:
    """What is said to be cut is the difference to a load that cleans nothing."""
    marked = [*thread, user("Is it long?"), assistant("It is.【4†source】"), QUESTION]
    everything: dict[str, Any] = {"token_budget": 10**6}
    cleaned = assemble(branch_of(marked, count), reading(count, **everything))
    raw = assemble(branch_of(marked, count), reading(count, strip=False, **everything))

    assert cleaned.tokens.total + cleaned.stripped.tokens == raw.tokens.total
    assert cleaned.stripped.characters >= len("【4†source】")
    assert astuple(raw.stripped) == (None, 0, 0, 0)


def fate(context: Context, position: int | None) -> MessageFate:
    return next(one for one in explained(context).messages if one.position == position)


def told(context: Context) -> list[tuple[int | None, str, str]]:
    return [(one.position, one.fate, one.reason) for one in explained(context).messages]


def test_kept() -> None:
    """What is sent as it is, is in the window or in the final turn; the question is not stored."""
    context = assemble(branch_of(plain_thread(2)), asking(message=QUESTION))

    assert told(context) == [
        (1, "kept", "in-window"),
        (2, "kept", "in-window"),
        (None, "kept", "final-turn"),
    ]
    assert astuple(explained(context).messages[0]) == (
        *(1, "msg_1", "user", "0000000001-x", "kept", "in-window"),
        *("sent: it is in the window", 5, 5),
    )
    assert astuple(explained(context).messages[2])[:4] == (None, None, "user", None)
    assert explained(context).messages[2].tokens is None


def test_before_the_window() -> None:
    """The summary stands for what is old, read or not; without one it is trimmed."""
    branch = branch_of(plain_thread(8), start=4)
    recent = replace(branch, messages=branch.messages[2:])
    summed = assemble(replace(recent, summary=summary(4), state="fresh"), asking())
    bare = assemble(recent, asking())

    assert [astuple(part) for part in explained(summed).ranges] == [
        (1, 2, "summarized", "covered-by-summary")
    ]
    assert told(summed)[:3] == [
        (3, "summarized", "covered-by-summary"),
        (4, "summarized", "covered-by-summary"),
        (5, "kept", "in-window"),
    ]
    assert explained(bare).ranges[0].reason == "before-window"
    assert told(bare)[1] == (4, "trimmed", "before-window")


def test_summary_that_does_not_reach_back() -> None:
    """What a summary made while loading leaves out is said to be too old for it."""
    branch = branch_of(plain_thread(8), start=4)
    branch = replace(branch, messages=branch.messages[4:])
    late = replace(summary(4), begins=2)
    context = assemble(replace(branch, summary=late, state="fresh", filled=True), asking())

    assert [astuple(part) for part in explained(context).ranges] == [
        (1, 2, "trimmed", "before-summary"),
        (3, 4, "summarized", "covered-by-summary"),
    ]
    assert explained(context).window.why.endswith("one was condensed while loading")


def test_over_budget() -> None:
    """What does not fit is trimmed, the window before the summary."""
    branch = replace(branch_of(plain_thread(8), start=2), summary=summary(2), state="fresh")
    tight = assemble(branch, asking(token_budget=60))
    tighter = assemble(branch, asking(token_budget=30))

    assert told(tight)[1:4] == [
        (2, "summarized", "covered-by-summary"),
        (3, "trimmed", "over-budget"),
        (4, "trimmed", "over-budget"),
    ]
    assert {reason for _, _, reason in told(tighter)[:2]} == {"summary-left-out"}
    assert explained(tighter).window.why == "the summary did not fit the token budget"
    assert explained(tighter).window.position == 2


def test_outside_the_requested_window() -> None:
    """A request's smaller window is the reason for what only it leaves out."""
    context = assemble(branch_of(plain_thread(6)), asking(window=2))

    assert told(context)[:4] == [(n, "trimmed", "outside-requested-window") for n in range(1, 5)]
    assert (explained(context).window.cap, explained(context).window.window) == (2, 60)


def test_healed() -> None:
    """A call without result is healed, sent or not; so is a result without its call."""
    bodies = [
        user("Find it."),
        calling(["c1", "c2"], "Looking."),
        result("c1", "here"),
        calling(["c3"]),
        result("c9", "lost"),
        assistant("Found."),
    ]
    context = assemble(branch_of(bodies), asking())

    assert told(context)[1:5] == [
        (2, "healed", "call-without-result"),
        (3, "kept", "final-turn"),
        (4, "healed", "call-without-result"),
        (5, "healed", "result-without-call"),
    ]
    sent = [one.sent_tokens for one in explained(context).messages[1:5]]
    assert sent[0] > 0
    assert sent[2:] == [0, 0]
    assert 0 < sent[0] < fate(context, 2).tokens  # type: ignore[operator]


def test_empty_message() -> None:
    """A message that says nothing is left out; so is one of which cleaning leaves nothing."""
    bodies = [user("Hi"), assistant(" "), assistant("<!-- hidden -->"), user("Bye")]
    context = assemble(branch_of(bodies), asking())

    assert told(context)[1:3] == [(n, "left-out", "empty-message") for n in (2, 3)]
    assert context.stripped.messages == 0


def test_final_turn_makes_room() -> None:
    """Large results are shortened; then calls go with their results, each result named too."""
    bodies = [
        user("Find it."),
        calling(["c1"]),
        result("c1", "one " * 400),
        calling(["c2"]),
        result("c2", "two " * 400),
    ]
    shortened = assemble(branch_of(bodies), asking(token_budget=300))
    dropped = assemble(branch_of(bodies), asking(token_budget=90))

    assert [reason for _, _, reason in told(shortened)] == [
        *("final-turn", "final-turn", "too-large-result", "final-turn", "too-large-result")
    ]
    assert fate(shortened, 3).fate == "shortened"
    assert told(dropped)[1:4] == [
        (2, "left-out", "tool-step-left-out"),
        (3, "left-out", "tool-step-left-out"),
        (4, "kept", "final-turn"),
    ]
    assert_adds_up(shortened)
    assert_adds_up(dropped)


@pytest.mark.parametrize("form", ["openai", "anthropic"])
def test_not_carried(form: str) -> None:
    """What the format has no place for is named, sent or not."""
    thought = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}
    said = {"type": "output_text", "text": "It is.", "annotations": []}
    items: list[Sent] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Is it?"}]},
        {**thought, "id": "rs_1"},
        {"type": "message", "role": "assistant", "content": [said]},
    ]
    context = assemble(recognised(items), asking(format=form))

    assert told(context)[1] == (2, "left-out", "not-carried")
    assert fate(context, 2).detail.endswith("(reasoning)")
    assert fate(context, 2).role == "assistant"


def test_partly_not_carried() -> None:
    """A message that goes without one of its parts is kept, and says so."""
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    heard = user([{"type": "text", "text": "Listen."}, sound])
    context = assemble(branch_of([heard]), asking(format="anthropic"))

    assert told(context) == [(1, "kept", "not-carried")]
    assert fate(context, 1).sent_tokens > 0


def test_reasoning_left_out() -> None:
    """Reasoning whose follower is healed away goes with it."""
    items: list[Sent] = [
        {"role": "user", "content": [{"type": "input_text", "text": "Find it."}]},
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "function_call", "call_id": "c1", "name": "find", "arguments": "{}"},
    ]
    context = assemble(recognised(items), asking(format="responses"))

    assert told(context)[1:] == [
        (2, "left-out", "reasoning-left-out"),
        (3, "healed", "call-without-result"),
    ]


def test_opening_left_out() -> None:
    """Where a format begins with the user, what stands before is left out."""
    bodies = [assistant("Hello, how can I help?"), user("Hi"), assistant("Yes?")]
    context = assemble(branch_of(bodies), asking(format="anthropic"))

    assert told(context)[0] == (1, "left-out", "opening-left-out")


def test_arguments_wrapped() -> None:
    """A call whose arguments had to be wrapped is kept, and says so."""
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "[1]"}}
    asks = {"role": "assistant", "content": None, "tool_calls": [call]}
    bodies: list[Sent] = [user("Find it."), asks, result("c1", "here")]
    context = assemble(branch_of(bodies), asking(format="anthropic"))

    assert told(context)[1] == (2, "kept", "arguments-wrapped")


def test_several_results_in_one_message() -> None:
    """A message that loses only one of its results is healed and still sent."""
    bodies = [user("Find it."), tool_use(["c1"]), tool_results(["c1", "c7"]), assistant("Done.")]
    context = assemble(branch_of(bodies), asking())

    assert told(context)[2] == (3, "healed", "result-without-call")
    assert fate(context, 3).sent_tokens > 0


def test_opaque_history() -> None:
    """A text is one entry without position: kept, shortened, or left out."""
    whole = assemble_text("User: Hi\nAssistant: Yes?", asking(message=QUESTION))
    cut = assemble_text("a b c d\n" * 40, asking(message=QUESTION, token_budget=60))
    gone = assemble_text("a b c d\n" * 40, asking(message=QUESTION, token_budget=10))
    blank = assemble_text(" \n", asking(message=QUESTION))

    reasons = [
        (one.fate, one.reason)
        for context in (whole, cut, gone)
        for one in explained(context).messages[:1]
    ]
    assert reasons == [
        ("kept", "in-window"),
        ("shortened", "history-trimmed"),
        ("left-out", "history-trimmed"),
    ]
    assert [one.role for one in explained(whole).messages] == ["system", "user"]
    assert [one.role for one in explained(blank).messages] == ["user"]
    for context in (whole, cut, gone, blank):
        assert_adds_up(context)


@pytest.mark.parametrize("form", FORMATS)
def test_opaque_history_is_cleaned(form: str) -> None:
    """What cleaning takes out of a text is counted as the text's own."""
    text = "User: Hi\nAssistant: It is long【4†source】.\n"
    cleaned = assemble_text(text, asking(o200k, format=form))
    raw = assemble_text(text, asking(o200k, format=form, strip=False))

    assert astuple(cleaned.stripped)[:3] == ("strip-1", 1, len("【4†source】"))
    assert cleaned.stripped.tokens == raw.tokens.total - cleaned.tokens.total > 0
    assert_adds_up(cleaned)


def test_cleaning_is_told_by_message() -> None:
    """Only messages that are sent and that cleaning changed are counted, each by itself."""
    bodies = [
        *(user("One?"), assistant("Old【1†a】.")),
        *(user("Two?"), assistant("New【1†a】【2†b】.")),
        *(user("Three?"), assistant("Plain.")),
    ]
    context = assemble(branch_of(bodies, o200k), asking(o200k, window=4))
    [cleaned] = explained(context).stripped

    assert (cleaned.position, cleaned.id, cleaned.characters) == (4, "msg_4", len("【1†a】") * 2)
    assert astuple(context.stripped) == ("strip-1", 1, cleaned.characters, cleaned.tokens)
    assert cleaned.tokens > 0


def test_cleaning_a_healed_message() -> None:
    """What healing takes out of a message is not counted as cleaning."""
    bodies = [user("Find it."), calling(["c1"], "Looking【1†a】."), user("Bye")]
    context = assemble(branch_of(bodies, o200k), asking(o200k))

    assert context.stripped.tokens == o200k("Looking【1†a】.") - o200k("Looking.")


REACHES_BACK = "no summary stands at message 4: the window reaches back"
BRANCHES: Sequence[tuple[Mapping[str, Any], str]] = [
    ({}, "the window begins with the first message: there is nothing to summarise"),
    ({"ahead": 4}, f"{REACHES_BACK} to the first message"),
    (
        {"start": 2, "summary": summary(2), "state": "fresh"},
        "a stored summary stands at the window's start",
    ),
    (
        {"start": 2, "ahead": 4, "summary": summary(2), "state": "stale"},
        f"{REACHES_BACK} 2 messages, to the end of the newest summary",
    ),
    ({"start": 2}, "no summary could be read or made of what stands before the window"),
]


@pytest.mark.parametrize(("members", "why"), BRANCHES)
def test_window_is_explained(members: Mapping[str, Any], why: str) -> None:
    """The grid, the summary's end and the reason for its state are those of the load."""
    branch = replace(branch_of(plain_thread(8)), **members)
    window = explained(assemble(branch, asking())).window

    assert (window.window, window.stride, window.cap) == (60, 20, None)
    assert (window.token_span, window.token_step) == (14_700, 4_900)
    assert (window.start, window.why) == (branch.start, why)
    assert window.position == (2 if branch.summary else None)
    assert window.state == branch.state


def test_given_history_is_not_summarised() -> None:
    """A caller's own history says that nothing is summarised, and what an earlier load put in."""
    bare = assemble_given(plain_thread(4), asking())
    recap: Sent = {"role": "system", "name": "threadkeep_summary", "content": "Rivers."}
    sent_back = assemble_given([recap, *plain_thread(4)], asking())

    assert explained(bare).window.why == "a caller's own history is not summarised"
    assert explained(sent_back).window.why.endswith("the one that an earlier load put in")


def test_missing_value() -> None:
    """Where a large value cannot be read, that message and all before it say so."""
    messages = stored(plain_thread(6))
    messages[1] = replace(
        messages[1],
        body={"role": "assistant", "content": None},
        large=(LARGE,),
    )
    context = assemble(Branch(messages, 6), asking())

    assert told(context)[:3] == [
        (1, "trimmed", "missing-value"),
        (2, "trimmed", "missing-value"),
        (3, "kept", "in-window"),
    ]


def test_reasons_are_documented() -> None:
    """Every reason stands in the page's table beside a fate, and no other does."""
    table = re.findall(r"^\| (?:`[a-z-]+` )?\| (`[^|]+`) \|", PAGE.read_text(), re.MULTILINE)
    named = {name for cell in table for name in re.findall(r"`([a-z-]+)`", cell)}

    assert named == {*DETAILS, *(reason for _, reason in WARNED.values())}


def test_the_pages_reply_adds_up() -> None:
    """The reply that the page shows is one that a load gives."""
    [shown] = re.findall(r"```json\n(.+?)```", PAGE.read_text(), re.DOTALL)
    reply = json.loads(shown)
    told, tokens = reply["explain"], reply["tokens"]
    sent = sum(one["sent_tokens"] for one in told["messages"])
    fates = Counter(one["fate"] for one in told["messages"] if one["position"])

    assert sent == tokens["window"] + tokens["message"]
    assert sent + tokens["summary"] + tokens["marker"] + told["tokens"]["reply"] == tokens["total"]
    assert sum(fates.values()) == reply["coverage"]["window"]
    for one in told["messages"]:
        assert one["detail"] == DETAILS.get(one["reason"], one["detail"])


def test_empty_thread() -> None:
    """An unknown thread has nothing to explain but its window."""
    context = assemble(Branch(), asking())

    assert (explained(context).messages, explained(context).ranges) == ((), ())
    assert_adds_up(context)
