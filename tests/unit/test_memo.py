"""What is remembered: the answer is the same, the bound holds, nothing of another is given."""

import copy
import datetime as dt
from collections.abc import Mapping
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.sql.turn_reader import TurnReader
from app.core.context import assemble
from app.core.exchanges import Prepared
from app.core.memo import Memo
from app.core.model import Body
from tests.unit.strategies import branch_of, reading, threads, unhurried

FORMATS = ["openai", "responses", "anthropic", "langchain", "text"]


@unhurried
@given(
    threads(max_size=6),
    st.lists(
        st.tuples(st.sampled_from(FORMATS), st.sampled_from(["off", "on"]), st.integers(20, 2000)),
        min_size=2,
        max_size=6,
    ),
)
def test_a_context_is_the_same_with_and_without(
    thread: list[Body], loads: list[tuple[str, str, int]]
) -> None:
    """Loads that share a memo, with whatever options, answer as each would alone."""
    branch, before = branch_of(thread), copy.deepcopy(thread)
    memo: Prepared = Memo(4)
    for form, strip, budget in loads:
        asked = reading(format=form, strip=strip == "on", token_budget=budget)

        remembered = assemble(branch, replace(asked, memo=memo))

        assert remembered == assemble(branch, asked)
    assert [message.body for message in branch.messages] == before


def test_the_bound_holds() -> None:
    """The longest unused goes first, and is made again when it is asked for."""
    made: list[str] = []
    memo: Memo[str, str] = Memo(2)
    objects = {name: [name] for name in "abc"}

    def ask(name: str) -> str:
        def make() -> str:
            made.append(name)
            return name.upper()

        return memo.get("variant", objects[name], make)

    assert [ask(name) for name in "abacab"] == ["A", "B", "A", "C", "A", "B"]
    assert made == ["a", "b", "c", "b"]


def row(text: str, number: int = 1) -> Mapping[str, object]:
    payload = {"messages": [{"role": "user", "content": text}], "tokens": [7], "rules": "1"}
    return {
        "checkpoint_id": f"{number:010d}-{'0' * 22}",
        "parent_id": None,
        "tokens": 7,
        "step": 0,
        "created_at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
        "raw": number.to_bytes(32, "big"),
        "payload": orjson.dumps({**payload, "large": []}),
        "metadata": None,
    }


def test_a_turn_is_parsed_once() -> None:
    """The very same turn comes back, until the reader has read more than it keeps."""
    read = TurnReader(1)
    first = read(row("hello"))

    assert read(row("hello")) is first
    read(row("another", 2))
    again = read(row("hello"))
    assert again is not first
    assert again == first


def test_a_redacted_turn_reads_anew() -> None:
    """What counts is what the row holds now, not which turn it was."""
    read = TurnReader(10)
    read(row("secret"))

    assert read(row("[redacted]")).messages[0].body["content"] == "[redacted]"
    assert TurnReader(0)(row("hello")) == read(row("hello"))
