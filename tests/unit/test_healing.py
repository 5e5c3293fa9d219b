"""Placing results behind their calls, where Responses items had other things in between."""

import pytest

from app.core.context import assemble_given
from app.core.healing import order_with_pairs
from app.core.model import Body, FormatName
from tests.unit.strategies import pair_faults, reading, user


def called(call_id: str) -> Body:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}


def output(call_id: str, said: str) -> Body:
    return {"type": "function_call_output", "call_id": call_id, "output": said}


REUSED = [
    called("x"),
    called("z"),
    output("z", "z1"),
    called("x"),
    output("x", "x2"),
    output("x", "x1"),
]


def test_a_result_goes_to_the_call_that_is_still_open() -> None:
    """Two results with one id answer two calls, the nearer one first."""
    assert order_with_pairs(REUSED) == [0, 1, 2, 5, 3, 4]


@pytest.mark.parametrize("form", ["openai", "anthropic", "langchain"])
def test_reused_ids_leave_no_lone_call(form: FormatName) -> None:
    """In chat formats each call of such an exchange has its result right behind it."""
    conversation = [user("q"), *REUSED, user("next")]
    context = assemble_given(conversation, reading(format=form))

    assert [one["code"] for one in context.warnings] == []
    if form == "openai":
        messages = context.output["messages"]
        assert isinstance(messages, list)
        assert pair_faults(messages) == []
