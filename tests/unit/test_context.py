"""Contexts of stored threads: order, coverage, counts, and what is left out."""

import dataclasses
import json
from typing import Any

import pytest

from app.core.context import (
    Branch,
    assemble,
)
from app.core.marker import marker_message, summary_message
from app.core.messages import role_of
from app.core.model import Context
from tests.unit.strategies import (
    QUESTION,
    assistant,
    batches,
    branch_of,
    calling,
    codes,
    history,
    on_grid,
    pair_faults,
    plain_thread,
    reading,
    result,
    sent,
    stored,
    summary,
    user,
)


def load_case(name: str, **options: Any) -> Context:
    bodies = [body for batch in batches(name) for body in batch]
    return assemble(branch_of(bodies), reading(**options))


def test_empty_thread() -> None:
    """load-unknown-thread: nothing stored is an empty history, not an error."""
    context = assemble(Branch(), reading())

    assert sent(context) == []
    assert dataclasses.astuple(context.coverage) == (0, 0, 0, 0, None)
    assert (context.summary, context.summary_state, context.warnings) == (None, "none", ())
    assert context.tokens.total == 3


def test_order_of_sections() -> None:
    """Summary, window, marker, final turn; each counted in its own section."""
    branch = dataclasses.replace(
        branch_of(plain_thread(6), start=2), summary=summary(2), state="fresh"
    )
    context = assemble(branch, reading(message=QUESTION))

    assert sent(context) == [
        summary_message("They spoke of flights."),
        *plain_thread(6)[2:],
        marker_message(),
        QUESTION,
    ]
    assert dataclasses.astuple(context.coverage) == (6, 2, 4, 0, 3)
    assert context.summary_state == "fresh"
    tokens = context.tokens
    assert tokens.total == 3 + tokens.summary + tokens.window + tokens.marker + tokens.message
    assert (tokens.window, tokens.message) == (4 * 5, 3 + 2)


def test_final_turn_is_the_last_exchange() -> None:
    """Without a current message the last stored exchange is the final turn, and in the window."""
    context = assemble(branch_of(plain_thread(4)), reading())

    assert sent(context)[2:] == [marker_message(), *plain_thread(4)[2:]]
    assert (context.coverage.window, context.coverage.from_position) == (4, 1)
    assert (context.tokens.window, context.tokens.message) == (10, 10)


def test_load_marker_once() -> None:
    """load-marker-once: one marker, right before the final question, in identical loads."""
    first, second = load_case("load-marker-once"), load_case("load-marker-once")
    roles = [message.get("name", message["content"]) for message in sent(first)]

    assert roles == ["q1", "r1", "threadkeep_marker", "q2", "r2"]
    assert json.dumps(first.output) == json.dumps(second.output)


def test_no_marker_without_anything_before() -> None:
    """A first question is not pointed at; nor is any when the marker is off."""
    assert sent(assemble(Branch(), reading(message=QUESTION))) == [QUESTION]
    assert sent(assemble(branch_of(plain_thread(2)), reading())) == plain_thread(2)
    assert len(sent(assemble(branch_of(plain_thread(4)), reading(marker=False)))) == 4


def test_load_newest_not_oldest() -> None:
    """load-newest-not-oldest: of 200 messages exactly the last 60, and coverage adds up."""
    asked = reading()
    context = assemble(on_grid(plain_thread(200), asked), asked)

    assert history(context) == [f"msg {n:03}" for n in range(141, 201)]
    assert dataclasses.astuple(context.coverage) == (200, 0, 60, 140, 141)


def test_load_starts_with_user() -> None:
    """load-starts-with-user: the first entry is a user's, and at most sixty are sent."""
    asked = reading(window=60, stride=2)
    context = assemble(on_grid(plain_thread(75), asked), asked)

    assert history(context) == [f"msg {n:03}" for n in range(17, 76)]
    assert role_of(sent(context)[0]) == "user"


def test_load_window_exact_and_zero() -> None:
    """load-window-exact-and-zero: a smaller window is exact, a huge one harmless."""
    bodies = plain_thread(10)
    smaller, huge = (
        assemble(branch_of(bodies), reading(window=window)) for window in (4, 1_000_000_000)
    )

    assert history(smaller) == ["msg 007", "msg 008", "msg 009", "msg 010"]
    assert dataclasses.astuple(smaller.coverage) == (10, 0, 4, 6, 7)
    assert len(history(huge)) == 10


@pytest.mark.parametrize("window", [5, 4, 2, 1])
def test_load_orphan_tool_at_window_start(window: int) -> None:
    """load-orphan-tool-at-window-start: the window never cuts between a call and its results."""
    context = load_case("load-orphan-tool-at-window-start", window=window)

    assert history(context) == ["q2", "r2"]
    assert context.coverage.trimmed == 5


def test_load_same_timestamp_order() -> None:
    """load-same-timestamp-order: the stored order rules."""
    assert history(load_case("load-same-timestamp-order")) == ["a", "b", "c", "d"]


def test_load_client_clock_skew() -> None:
    """load-client-clock-skew: a client's clock neither sorts nor reaches the provider."""
    context = load_case("load-client-clock-skew")

    assert history(context) == ["a", "b", "c", "d"]
    assert all(set(message) <= {"role", "content", "name"} for message in sent(context))


def test_load_empty_assistant_message() -> None:
    """load-empty-assistant-message: left out, named, and still counted by coverage."""
    context = load_case("load-empty-assistant-message")

    assert history(context) == ["q", "q2", "r2"]
    assert dataclasses.astuple(context.coverage) == (4, 0, 4, 0, 1)
    (warning,) = context.warnings
    assert (warning["code"], warning["position"]) == ("empty-message", 2)
    assert warning["message_id"] == "msg_2"


def test_load_partial_parallel_results() -> None:
    """load-partial-parallel-results: the lone call is named with its id and its message."""
    context = load_case("load-partial-parallel-results")
    (warning,) = context.warnings

    assert pair_faults(sent(context)) == []
    assert (warning["code"], warning["tool_call_ids"]) == ("call-without-result", ["c2"])
    assert warning["position"] == 2


def test_only_assistant_text_is_cleaned() -> None:
    """A user's markup passes as it was, an assistant's is stripped, and `off` leaves both."""
    marked = "See <!-- hidden -->here."
    bodies = [user(marked), assistant(marked), user("q")]
    cleaned, raw = (assemble(branch_of(bodies), reading(strip=strip)) for strip in (True, False))

    assert history(cleaned)[0] == marked
    assert history(cleaned)[1] != marked
    assert history(raw)[:2] == [marked, marked]
    assert raw.tokens.window > cleaned.tokens.window


def test_message_emptied_by_stripping_is_not_sent() -> None:
    """What is nothing but markup says nothing once it is gone."""
    context = assemble(branch_of([user("q"), assistant("<!-- x -->")]), reading())

    assert history(context) == ["q"]
    assert codes(context) == ["empty-message"]


@pytest.mark.parametrize(
    "options", [{"encoding": "cl100k_base"}, {"strip": False}, {"format": "text"}]
)
def test_stored_counts_are_not_trusted_elsewhere(options: dict[str, Any]) -> None:
    """In another encoding, format or strip mode messages are counted again."""
    wrong = [dataclasses.replace(m, tokens=9999) for m in stored(plain_thread(4))]
    context = assemble(Branch(wrong, 4), reading(**options))

    assert context.coverage.window == 4
    assert context.tokens.total < 100


def test_counts_of_older_rules_are_not_trusted() -> None:
    """A count made by other rules is made again."""
    old = [dataclasses.replace(m, tokens=9999, rules="0/0") for m in stored(plain_thread(4))]

    assert assemble(Branch(old, 4), reading()).tokens.total < 100


def test_message_is_not_doubled() -> None:
    """A question saved before the load is not asked twice, however its text is wrapped."""
    bodies = [*plain_thread(2), user("Same?")]
    wrapped = user([{"type": "text", "text": "Same?"}])
    context = assemble(branch_of(bodies), reading(message=wrapped))

    assert history(context) == ["msg 001", "msg 002", "Same?"]
    assert context.coverage.window == 3


def test_repeated_question_is_asked_again() -> None:
    """The same words after an answer are a new question."""
    bodies = [user("yes"), assistant("ok")]

    assert history(assemble(branch_of(bodies), reading(message=user("yes")))) == [
        "yes",
        "ok",
        "yes",
    ]


def test_blank_message_is_none() -> None:
    """A message that says nothing is not sent as a final turn."""
    context = assemble(branch_of(plain_thread(2)), reading(message=user(" ")))

    assert sent(context) == plain_thread(2)


def test_message_that_goes_on_with_the_last_exchange() -> None:
    """A tool's result as the current message belongs to the call before it."""
    bodies = [*plain_thread(2), user("q"), calling(["c1"])]
    context = assemble(branch_of(bodies), reading(message=result("c1", "found")))

    assert sent(context)[2:] == [marker_message(), *bodies[2:], result("c1", "found")]
    assert (context.coverage.window, context.warnings) == (4, ())


def test_greeting_before_the_first_question() -> None:
    """A thread may begin with an assistant's message; it is an exchange of its own."""
    bodies = [assistant("Hello!"), user("q"), assistant("a")]
    context = assemble(branch_of(bodies), reading(window=2))

    assert history(context) == ["q", "a"]
    assert history(assemble(branch_of(bodies), reading())) == ["Hello!", "q", "a"]


def test_summary_that_does_not_fit() -> None:
    """It is left out with a warning, and what it covers counts as trimmed."""
    branch = dataclasses.replace(
        branch_of(plain_thread(6), start=4), summary=summary(4, "word " * 50), state="fresh"
    )
    context = assemble(branch, reading(token_budget=40))

    assert history(context) == ["msg 005", "msg 006"]
    assert dataclasses.astuple(context.coverage) == (6, 0, 2, 4, 5)
    assert (context.summary, context.summary_state) == (None, "none")
    assert codes(context) == ["summary-left-out"]


def test_summary_into_the_window_is_refused() -> None:
    """A message must never be both summarised and sent."""
    branch = dataclasses.replace(branch_of(plain_thread(6), start=2), summary=summary(4))

    with pytest.raises(ValueError, match="reaches into the window"):
        assemble(branch, reading())
