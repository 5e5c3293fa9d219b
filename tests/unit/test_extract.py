"""The extractive summariser: bounded, deterministic, linear, and of some use."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.extract import summarize_extractively
from app.core.model import Body


def count(text: str) -> int:
    """Count words and the white space between them, so that joining adds up."""
    return len(text.split()) + text.count("\n")


def say(role: str, content: object, **members: object) -> Body:
    return {"role": role, "content": content, **members}


def call(name: str, arguments: str = "{}") -> Body:
    return {"id": "c1", "type": "function", "function": {"name": name, "arguments": arguments}}


TEXTS = st.text(st.characters(), max_size=80)
MESSAGES = st.lists(
    st.builds(say, st.sampled_from(["user", "assistant", "tool", "custom"]), st.none() | TEXTS),
    max_size=12,
)


@given(st.none() | TEXTS, MESSAGES, st.integers(1, 60))
def test_is_bounded_and_never_empty(
    previous: str | None, messages: list[Body], max_tokens: int
) -> None:
    """Within the ceiling for any input, and empty only for none."""
    text = summarize_extractively(previous, messages, max_tokens=max_tokens, count=len)

    assert len(text) <= max_tokens
    assert bool(text) == bool(messages or previous)


@given(st.none() | TEXTS, MESSAGES)
def test_is_deterministic_and_can_be_carried_by_utf8(
    previous: str | None, messages: list[Body]
) -> None:
    """The same input gives the same text, and one that can be stored and sent."""
    one = summarize_extractively(previous, messages, max_tokens=50, count=count)

    assert one == summarize_extractively(previous, messages, max_tokens=50, count=count)
    assert one.encode().decode() == one


def test_one_line_a_message() -> None:
    """Who spoke, what first, and which tools by name."""
    messages = [
        say("user", "Book me a flight to Oslo. Aisle seat, please."),
        say("assistant", None, tool_calls=[call("search", '{"to": "OSL"}'), call("price")]),
        say("tool", '{"flight": "SK4711"}', tool_call_id="c1"),
        say("assistant", "Found one:\n```json\n{}\n```\nShall I book it?"),
    ]

    assert summarize_extractively(None, messages, max_tokens=100, count=count) == (
        "- User: Book me a flight to Oslo. Aisle seat, please.\n"
        "- Assistant: [called search, price]\n"
        '- Tool: {"flight": "SK4711"}\n'
        "- Assistant: Found one: [code] Shall I book it?"
    )


def test_the_first_request_and_the_newest_lines_stay() -> None:
    """Where not all fits, the middle goes."""
    messages = [say("user", f"Request number {number}.") for number in range(1, 100)]
    lines = summarize_extractively(None, messages, max_tokens=41, count=count).splitlines()

    assert lines[0] == "- User: Request number 1."
    assert lines[1:] == [f"- User: Request number {number}." for number in range(95, 100)]


def test_an_older_summary_is_carried_on() -> None:
    """Its first line always, its newest lines as far as there is room."""
    text: str | None = None
    for round_ in range(30):
        said = [say("user", f"Question {round_}?"), say("assistant", f"Answer {round_}.")]
        text = summarize_extractively(text, said, max_tokens=60, count=count)
    assert text
    lines = text.splitlines()

    assert lines[0] == "- User: Question 0?"
    assert lines[-1] == "- Assistant: Answer 29."
    assert lines[1:] == sorted(lines[1:], key=lambda line: int(line.strip(".?").split()[-1]))
    assert len(lines) == 12


def test_a_models_paragraph_is_condensed_by_sentences() -> None:
    """New lines leave a third of the room to a longer summary of another make."""
    paragraph = " ".join(f"Fact {number} holds." for number in range(100))
    messages = [say("user", f"Word {number}.") for number in range(100)]
    text = summarize_extractively(paragraph, messages, max_tokens=90, count=count)

    assert text.startswith("Fact 0 holds.\n")
    assert "Fact 99 holds." in text
    assert text.endswith("Word 99.")
    assert 5 <= text.count("Fact") <= 10


def test_no_payload_and_no_reasoning() -> None:
    """Images, base64 in text and reasoning parts are named or left out, never quoted."""
    payload = "iVBORw0KGgo" * 50
    messages = [
        say(
            "user",
            [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{payload}"}}],
        ),
        say("user", f"See ![x](data:image/png;base64,{payload}) and {payload}!"),
        say(
            "assistant",
            [{"type": "thinking", "thinking": "SECRET"}, {"type": "text", "text": "Ok."}],
        ),
        say(
            "user",
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "1",
                    "content": [
                        {"type": "text", "text": "Result."},
                        {"type": "image", "source": {"data": payload}},
                    ],
                }
            ],
        ),
    ]

    assert summarize_extractively(None, messages, max_tokens=100, count=count) == (
        "- User: [image]\n"
        "- User: See ![x]([data]) and [data]!\n"
        "- Assistant: Ok.\n"
        "- User: Result. [image]"
    )


@pytest.mark.parametrize("unit", ["👩‍👩‍👧‍👦", "🇩🇪", "e\u0301\u0328", "각", "नि"])
def test_never_cuts_inside_a_visible_character(unit: str) -> None:
    """A line without spaces ends between two characters as people see them."""
    text = summarize_extractively(None, [say("user", unit * 200)], max_tokens=500, count=len)
    said = text.removeprefix("- User: ").removesuffix("…")

    assert said == unit * (len(said) // len(unit))
    assert len(said) > 100


def test_messages_that_say_nothing_still_give_something() -> None:
    """A summary that covers messages is never empty."""
    blank = [say("assistant", "  \n"), say("user", None), say("user", [])]

    assert summarize_extractively(None, blank, max_tokens=10, count=count) == "…"
    assert summarize_extractively("Old.", blank, max_tokens=10, count=count) == "Old."


@pytest.mark.parametrize(
    "unit", ["a", " ", ". ", "```\n", "\n", "data:", "👩\u200d", "e\u0301", "中。"]
)
def test_costs_linear_time(unit: str) -> None:
    """Eight times the text takes nowhere near sixty-four times as long."""

    def seconds(length: int) -> float:
        text = unit * (length // len(unit))
        begun = time.perf_counter()
        summarize_extractively(text, [say("assistant", text)] * 3, max_tokens=1000, count=count)
        return time.perf_counter() - begun

    assert seconds(400_000) < 30 * min(seconds(50_000) for _ in range(3)) + 0.3


def test_a_counter_that_charges_for_joining_is_kept_within() -> None:
    """Where the whole costs more than its parts, lines after the first are given up."""
    messages = [say("user", f"Word {number}.") for number in range(50)]

    def dear(text: str) -> int:
        return count(text) * (3 if text.count("\n") > 1 else 1)

    text = summarize_extractively(None, messages, max_tokens=50, count=dear)

    assert dear(text) <= 50
    assert text.startswith("- User: Word 0.")
