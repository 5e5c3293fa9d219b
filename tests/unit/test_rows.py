"""A turn's payload: what stands in the row, and that it reads back as it was written."""

import datetime as dt
import json

import pytest

from app.adapters.sql.rows import encode_turn, turn
from app.core.dialects.neutral import Dialect
from app.core.digest import KeyAnchor, identity, make_checkpoint_id
from app.core.large import prepare
from app.core.messages import calls_of, results_of
from app.core.model import Body, NewTurn, ThreadKey, Turn
from tests.unit.dialects import DIALECTS, langchain

IDENTITY = identity(ThreadKey("acme", "t1"), KeyAnchor("k1"))
BIG = "x" * 9000


def _turn(bodies: list[Body], dialect: Dialect) -> NewTurn:
    return NewTurn(
        identity=IDENTITY,
        digest=b"",
        expected=None,
        parent_known=True,
        on_conflict="append",
        messages=tuple(
            prepare(body, IDENTITY, index, cost=lambda _: 7, cleaned=body)
            for index, body in enumerate(bodies)
        ),
        rules="1",
        metadata={},
        staged_under=None,
        key=None,
        dialect=dialect,
    )


def _read(payload: bytes, size: int) -> Turn:
    return turn(
        {
            "checkpoint_id": make_checkpoint_id(size, IDENTITY),
            "parent_id": None,
            "tokens": 7 * size,
            "step": 0,
            "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
            "raw": IDENTITY,
            "payload": payload,
            "metadata": None,
        }
    )


@pytest.mark.parametrize("name", DIALECTS)
def test_the_dialect_stands_in_the_payload(name: Dialect) -> None:
    """A turn tells its messages' dialect, but for openai, which old rows are too."""
    payload = encode_turn(_turn(DIALECTS[name], name))
    read = _read(payload, len(DIALECTS[name]))

    assert json.loads(payload).get("dialect") == (None if name == "openai" else name)
    assert {message.dialect for message in read.messages} == {name}
    assert [message.body for message in read.messages] == DIALECTS[name]


def test_pairs_are_told_from_the_row_alone() -> None:
    """Where large members are away, the row still says who called and who answered."""
    bodies = [
        langchain("ai", "", tool_calls=[{"name": "f", "args": {"a": BIG}, "id": "c1"}]),
        langchain("tool", BIG, tool_call_id="c1"),
    ]
    read = _read(encode_turn(_turn(bodies, "langchain")), 2)
    call, answer = read.messages

    assert [large.member for message in read.messages for large in message.large] == [
        "data.tool_calls",
        "data.content",
    ]
    assert [one.id for one in calls_of(call.body)] == results_of(answer.body) == ["c1"]
