"""What a message costs: what is sent is counted, and nothing else."""

import time

import pytest
from hypothesis import given

from app.core.model import Body
from app.core.tokens import IMAGE_TOKENS, message_tokens
from tests.unit.strategies import (
    assistant,
    calling,
    count_openai,
    o200k,
    result,
    threads,
    tool_results,
    tool_use,
    unhurried,
    user,
    words,
)

PAYLOAD = "iVBORw0KGgo" * 200


@pytest.mark.parametrize(
    ("body", "cost"),
    [
        (user("one two three"), 3 + 3),
        (user(""), 3),
        (assistant(None), 3),
        ({**user("one"), "name": "Ann Lee"}, 3 + 1 + 2 + 1),
        (calling(["c1"]), 3 + 1 + 2),
        (calling(["c1", "c2"], "one two"), 3 + 2 + 2 * 3),
        (result("c1", "one two"), 3 + 2),
        (user([{"type": "text", "text": "one two"}, "three"]), 3 + 3),
        (user([7]), 3 + 1),
        (user([{"type": "input_image", "image_url": "u"}]), 3 + IMAGE_TOKENS),
        (user([{"type": "file", "file": {"file_data": PAYLOAD}}]), 3 + IMAGE_TOKENS),
        (tool_use(["c1"]), 3 + 1 + 1 + 1),
        (tool_results(["c1", "c2"], "one two"), 3 + 4),
        (tool_results(["c1"], [{"type": "text", "text": "one two"}]), 3 + 2),
        (tool_results(["c1"], None), 3),
        (assistant([{"type": "thinking", "thinking": "so so", "signature": "a b c"}]), 3 + 2),
        ({**assistant(None), "refusal": "I will not."}, 3 + 3),
        ({**assistant(None), "audio": {"id": "a1"}}, 3 + IMAGE_TOKENS),
        ({**assistant("a"), "reasoning_content": "so it is"}, 3 + 1 + 3),
        ({**assistant("a"), "function_call": {"name": "f", "arguments": "{} {}"}}, 3 + 1 + 1 + 2),
        ({**assistant("a"), "tool_calls": [{"name": "f", "args": {}}, "odd"]}, 3 + 1 + 2 + 1),
        ({**assistant("a"), "tool_calls": [{"custom": {"name": "f", "input": "x y"}}]}, 3 + 1 + 3),
    ],
)
def test_cost(body: Body, cost: int) -> None:
    """Three a message, then its words, names, calls and arguments; pictures at a flat sum."""
    assert message_tokens(body, words) == cost


def test_what_is_not_sent_costs_nothing() -> None:
    """Ids, times and metadata of the client never reach the provider."""
    extra = {"id": "m 1", "created_at": "two words", "metadata": {"a": "b c"}, "ephemeral": True}

    assert message_tokens({**user("one"), **extra}, words) == message_tokens(user("one"), words)


def test_unknown_part_counts_as_its_json() -> None:
    """What no rule knows is sent as it is, so it is counted as it is."""
    part = {"type": "new", "text_in": "数 two"}

    assert message_tokens(user([part]), len) == 3 + len('{"type":"new","text_in":"数 two"}')


@pytest.mark.parametrize("data", [PAYLOAD, f"data:image/png;base64,{PAYLOAD}", "data:,x y"])
def test_payload_in_an_unknown_part_costs_a_flat_sum(data: str) -> None:
    """Base64 is no text, whatever part it stands in."""
    part = {"type": "document", "source": {"type": "base64", "data": data}}
    rest = '{"type":"document","source":{"type":"base64","data":""}}'

    assert message_tokens(user([part]), len) == 3 + len(rest) + IMAGE_TOKENS


def test_flat_sum_can_be_chosen() -> None:
    """What a picture costs is a parameter."""
    body = user([{"type": "image_url", "image_url": {"url": "u"}}])

    assert message_tokens(body, words, image_tokens=85) == 88


def test_trim_image_flat_cost() -> None:
    """trim-image-flat-cost: three megabytes of picture cost at most 2000 tokens and no time."""
    url = "data:image/png;base64," + "A" * 3_000_000
    parts = [{"type": "text", "text": "what?"}, {"type": "image_url", "image_url": {"url": url}}]
    began = time.perf_counter()
    cost = message_tokens(user(parts), o200k)

    assert cost <= 2000
    assert time.perf_counter() - began < 0.1


def test_control_token_text_is_plain_text() -> None:
    """Words that look like a control token are counted as the words they are."""
    assert message_tokens(user("<|endoftext|>"), o200k) > 3 + 1


@unhurried
@given(threads())
def test_costs_add_up(thread: list[Body]) -> None:
    """The sum over a thread is what an independent count finds."""
    assert 3 + sum(message_tokens(body, o200k) for body in thread) == count_openai(thread, o200k)
