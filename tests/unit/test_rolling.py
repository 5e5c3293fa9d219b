"""Splitting a build into the summariser's calls."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from app.core.messages import begins_exchange
from app.core.model import Body, Large, StoredMessage
from app.core.plain import plain_message
from app.core.prompt import render_line
from app.core.rolling import Step, plan_steps, stretch, wanted_values, with_previews

ROLES = st.sampled_from(["user", "assistant", "tool"])
TEXTS = st.text(max_size=40) | st.just("x" * 300) | st.just('"\\' * 200)
BODIES = st.lists(st.builds(lambda role, text: body(text, role), ROLES, TEXTS), max_size=30)


def body(text: str, role: str = "user") -> Body:
    return {"role": role, "content": text}


def stored(message: Body, position: int = 1, *large: Large) -> StoredMessage:
    return StoredMessage(f"m{position}", position, "cp", message, 5, "rules", large)


def cost(step: Step) -> int:
    return sum(len(render_line(message)) + 1 for message in step.messages)


@given(BODIES, st.integers(80, 400))
def test_every_message_goes_to_exactly_one_step(messages: list[Body], budget: int) -> None:
    """In order, none left out, none twice, each step within the budget."""
    steps = list(plan_steps(messages, budget=budget, count=len))
    roles = [message["role"] for step in steps for message in step.messages]
    ends = [step.taken for step in steps]

    assert roles == [message["role"] for message in messages]
    assert ends == sorted(set(ends))
    assert (ends[-1] if ends else 0) == len(messages)
    assert all(cost(step) <= budget for step in steps)


@given(BODIES, st.integers(80, 400))
def test_whole_steps_end_exchanges(messages: list[Body], budget: int) -> None:
    """A step says that it can be written down exactly where an exchange ends."""
    for step in plan_steps(messages, budget=budget, count=len):
        ends = step.taken == len(messages) or begins_exchange(messages[step.taken])

        assert step.whole == ends


@given(BODIES)
def test_what_fits_is_one_step_word_for_word(messages: list[Body]) -> None:
    """With room for all of it nothing is split and nothing shortened."""
    steps = list(plan_steps(messages, budget=1_000_000, count=len))

    assert [list(step.messages) for step in steps] == (
        [[plain_message(message) for message in messages]] if messages else []
    )


def test_exchanges_are_kept_together() -> None:
    """An exchange that does not fit the rest of a step begins the next."""
    messages = [body("q" * 60), body("a" * 60, "assistant")] * 3
    steps = list(plan_steps(messages, budget=320, count=len))

    assert [step.taken for step in steps] == [2, 4, 6]


def test_only_an_exchange_too_large_is_split() -> None:
    """It goes through several calls, and only the last of them can be written."""
    messages = [body("q"), *[body("a" * 60, "assistant")] * 5, body("next")]
    steps = list(plan_steps(messages, budget=220, count=len))

    assert [(step.taken, step.whole) for step in steps] == [(3, False), (5, False), (7, True)]


def test_only_a_message_too_large_is_shortened_and_says_so() -> None:
    """Its beginning stays, with a notice; calls stay by their names."""
    steps = list(plan_steps([body("begin " + "long " * 5000)], budget=500, count=len))
    text = str(steps[0].messages[0]["content"])

    assert text.startswith("begin long")
    assert "left out" in text
    assert 250 < cost(steps[0]) <= 500


def test_a_message_of_calls_too_large_is_named() -> None:
    """A thousand calls in one message do not stop the build."""
    call = {"function": {"name": "f", "arguments": "x"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call] * 1000}
    step = next(plan_steps([message], budget=200, count=len))

    assert step.messages[0]["content"] == "[too long to be read]"


def test_reads_large_values_only_where_there_is_room() -> None:
    """What one step could hold half of is fetched; for the rest the preview does."""
    small = Large("content", "c1", "v", size_bytes=9_000, tokens=400, preview="p")
    long = replace(small, channel="c2", tokens=600)
    image = replace(small, channel="c3", size_bytes=3_000_000)
    messages = [stored(body(""), 1, small), stored(body(""), 2, long, image)]

    assert wanted_values(messages, budget=1000) == (small,)


def test_previews_stand_where_the_content_would() -> None:
    """The calls that a large content makes stay beside its preview."""
    large = Large("content", "c", "v", 9_000, 400, "The beginning")
    bones = {"type": "tool_use", "id": "1", "name": "f"}
    plain = with_previews(stored({"role": "user", "content": None}, 1, large))
    calling = with_previews(stored({"role": "assistant", "content": [bones]}, 1, large))

    assert plain.body["content"] == [{"type": "text", "text": "The beginning [...]"}]
    assert calling.body["content"] == [{"type": "text", "text": "The beginning [...]"}, bones]
    assert with_previews(stored(body("x"))).body == body("x")


def test_a_stretch_is_of_whole_exchanges() -> None:
    """What is read at once ends between exchanges, and is never nothing."""
    messages = [
        stored(body(str(number), "user" if number % 4 == 0 else "assistant"), number + 1)
        for number in range(12)
    ]

    assert [stretch(messages, limit) for limit in (12, 11, 8, 7, 4, 1)] == [12, 8, 8, 4, 4, 4]
    assert stretch(messages[:4], 1) == 4
    assert stretch([], 1) == 0
