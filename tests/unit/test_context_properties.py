"""What holds for every context: coverage, counts, order, and bytes that stay."""

import dataclasses
import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from app.core.context import (
    assemble,
)
from app.core.messages import is_injected
from app.core.model import Body
from app.core.ports import Count
from app.core.window import exchange_starts
from tests.unit.strategies import (
    QUESTION,
    branch_of,
    count_openai,
    on_grid,
    pair_faults,
    plain_thread,
    reading,
    sent,
    summary,
    thirds,
    threads,
    unhurried,
    words,
)


@unhurried
@given(
    threads(max_size=14),
    st.integers(0, 40),
    st.integers(20, 1500),
    st.sampled_from([None, 3, 8]),
    st.sampled_from(["openai", "text"]),
)
def test_coverage_partitions(
    thread: list[Body], covered: int, budget: int, window: int | None, form: str
) -> None:
    """Every stored message is summarised, in the window, or trimmed: one of them, never two."""
    starts = [0, *exchange_starts(thread)]
    start = max(at for at in starts if at <= covered)
    told = summary(start) if start else None
    branch = dataclasses.replace(branch_of(thread, start=start), summary=told, state="fresh")
    context = assemble(branch, reading(token_budget=budget, window=window, format=form))
    coverage = context.coverage

    assert coverage.summarized + coverage.window + coverage.trimmed == coverage.total
    assert coverage.total == len(thread)
    assert coverage.summarized == (start if context.summary else 0)
    assert coverage.from_position in {None, *(at + 1 for at in starts)}
    assert (coverage.from_position is None) == (coverage.window == 0)


@unhurried
@given(threads(), st.integers(10, 3000), st.sampled_from([words, thirds]))
def test_what_is_sent_is_counted_and_fits(thread: list[Body], budget: int, count: Count) -> None:
    """The total is what an independent count of the output finds, and within the budget."""
    context = assemble(branch_of(thread, count), reading(count, token_budget=budget))

    assert context.tokens.total == count_openai(sent(context), count)
    assert context.tokens.total <= budget or context.tokens.over_budget
    assert pair_faults(sent(context)) == []
    assert all(set(message) & {"content", "tool_calls"} for message in sent(context))


@unhurried
@given(threads(), st.integers(10, 1000))
def test_survivors_are_the_newest(thread: list[Body], budget: int) -> None:
    """What is sent of the history is its end, in its order."""
    bodies = [{**body, "name": f"m{n}"} for n, body in enumerate(thread)]
    context = assemble(branch_of(bodies), reading(token_budget=budget))
    names = [message["name"] for message in sent(context) if not is_injected(message)]
    everything = assemble(branch_of(bodies), reading(token_budget=10**6))
    order = [message["name"] for message in sent(everything) if not is_injected(message)]
    final = exchange_starts(bodies)[-1] if bodies else 0
    before = [name for name in names if int(str(name)[1:]) < final]
    all_before = [name for name in order if int(str(name)[1:]) < final]

    assert before == all_before[len(all_before) - len(before) :]
    assert [name for name in order if name in names] == names


@unhurried
@given(threads())
def test_same_input_same_bytes(thread: list[Body]) -> None:
    """Two loads of one thread are byte-identical."""
    one, other = (
        json.dumps(assemble(branch_of(thread), reading(message=QUESTION)).output) for _ in range(2)
    )

    assert one == other


def test_prefix_is_stable_between_strides() -> None:
    """Over 200 turns the window's first message changes at most once in ten turns."""
    asked = reading(message=QUESTION)
    thread = plain_thread(400)
    prefixes = []
    for turns in range(1, 201):
        context = assemble(on_grid(thread[: 2 * turns], asked), asked)
        prefixes.append([json.dumps(message) for message in sent(context)[:-2]])
    kept = [new[: len(old)] == old for old, new in itertools.pairwise(prefixes)]
    breaks = [turn for turn, stable in enumerate(kept) if not stable]

    assert all(later - earlier >= 10 for earlier, later in itertools.pairwise(breaks))
    assert len(breaks) == 17
