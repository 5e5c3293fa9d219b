"""Every dialect in every format: what providers take, what is counted, what survives."""

import dataclasses
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.context import Branch, assemble, large_to_fetch
from app.core.dialects.neutral import Dialect
from app.core.dialects.recognise import recognise
from app.core.large import prepare
from app.core.model import Body, StoredMessage
from app.core.ports import Count
from app.core.tokens import message_tokens
from tests.unit.providers import count_output, faults_of
from tests.unit.strategies import QUESTION, codes, reading, result, thirds, unhurried, user, words
from tests.unit.talks import (
    DIALECTS,
    FORMATS,
    WRITERS,
    Step,
    Talk,
    batches,
    branch_as,
    stored_as,
    talks,
)

forms = st.sampled_from(FORMATS)
Written = list[tuple[Dialect, list[Body]]]


@unhurried
@given(
    batches(), forms, st.integers(0, 30), st.integers(10, 4000), st.sampled_from([words, thirds])
)
def test_providers_take_it_and_it_is_counted(
    written: Written, form: str, covered: int, budget: int, count: Count
) -> None:
    """Whatever was saved how, the output is valid, its total exact, and within the budget."""
    branch = branch_as(written, count, covered)
    context = assemble(branch, reading(count, token_budget=budget, format=form))

    assert faults_of(form, context.output) == []
    assert context.tokens.total == count_output(form, context.output, count)
    assert context.tokens.total <= budget or context.tokens.over_budget


@unhurried
@given(
    batches(max_size=10),
    forms,
    st.integers(0, 40),
    st.integers(20, 1500),
    st.sampled_from([None, 3, 8]),
    st.sampled_from([None, 2, 5]),
)
def test_coverage_partitions(
    written: Written,
    form: str,
    covered: int,
    budget: int,
    window: int | None,
    stride: int | None,
) -> None:
    """Every stored message is summarised, in the window, or trimmed, in every format."""
    branch = branch_as(written, covered=covered)
    asked = reading(token_budget=budget, window=window, stride=stride, format=form)
    context = assemble(branch, asked)
    coverage = context.coverage

    assert coverage.summarized + coverage.window + coverage.trimmed == coverage.total
    assert coverage.total == sum(len(bodies) for _, bodies in written)
    assert coverage.summarized == (branch.start if context.summary else 0)
    assert (coverage.from_position is None) == (coverage.window == 0)


@unhurried
@given(batches(), forms, st.integers(10, 2000), st.integers(0, 2000))
def test_a_bigger_budget_loses_nothing(written: Written, form: str, budget: int, more: int) -> None:
    """What a smaller budget keeps of the history, a bigger one keeps."""
    branch = branch_as(written)
    kept = [
        assemble(branch, reading(token_budget=one, format=form, message=QUESTION)).coverage.window
        for one in (budget, budget + more)
    ]

    assert kept[0] <= kept[1]


@unhurried
@given(batches(), forms)
def test_same_input_same_bytes(written: Written, form: str) -> None:
    """Two loads are byte-identical."""
    one, other = (
        json.dumps(assemble(branch_as(written), reading(message=QUESTION, format=form)).output)
        for _ in range(2)
    )

    assert one == other


@unhurried
@given(batches(), batches(max_size=2), forms)
def test_prefix_is_stable(written: Written, further: Written, form: str) -> None:
    """What stood before the final turn stands there, block by block, when the thread has grown."""
    before = assemble(branch_as(written), reading(format=form, message=QUESTION))
    grown = [*written, ("openai", [QUESTION, {"role": "assistant", "content": "Yes."}])]
    grown += [batch for batch in further if batch[1][0].get("role") != "assistant"]
    after = assemble(branch_as(grown), reading(format=form, message=user("Thanks.")))
    prefix = list(itertools.takewhile(lambda block: not _is_marker(block), _blocks(before.output)))

    assert [block for block in _blocks(after.output) if not _is_marker(block)][
        : len(prefix)
    ] == prefix


def _blocks(output: Any) -> list[str]:
    """The output in the pieces that a prompt cache compares."""
    if "text" in output:
        return [block for block in str(output["text"]).split("\n\n") if block]
    blocks = [json.dumps(block) for block in output.get("system", [])]
    for message in output["messages"]:
        content = message.get("content")
        if "system" in output and isinstance(content, list):
            blocks += [json.dumps([message["role"], part]) for part in content]
        elif "system" in output:
            part = {"type": "text", "text": content}
            blocks.append(json.dumps([message["role"], part]))
        else:
            blocks.append(json.dumps(message))
    return blocks


def _is_marker(block: str) -> bool:
    return "The current turn begins here." in block


@unhurried
@given(talks, st.sampled_from(DIALECTS))
def test_own_dialect_is_byte_identical(talk: Talk, dialect: Dialect) -> None:
    """Loaded in the format it was saved in, a healthy turn comes back as it was, thoughts too."""
    steps = tuple(_answered(step, number) for number, step in enumerate(talk.steps))
    whole = dataclasses.replace(talk, question="Where?", steps=steps, answers=("There.",))
    bodies = WRITERS[dialect](whole)
    context = assemble(branch_as([(dialect, bodies)]), reading(format=dialect, strip=False))

    assert json.dumps(context.output["messages"], sort_keys=True) == json.dumps(
        bodies, sort_keys=True
    )
    assert codes(context) == []


def _answered(step: Step, number: int) -> Step:
    """The step with ids that are used once, and all its results."""
    calls = tuple((f"s{number}_{n}", *call[1:]) for n, call in enumerate(step.calls))
    return dataclasses.replace(step, calls=calls, results=tuple((c[0], "found") for c in calls))


@pytest.mark.parametrize("through", list(itertools.permutations(DIALECTS, 2)))
def test_calls_survive_every_round_trip(through: tuple[Dialect, Dialect]) -> None:
    """Names, ids and arguments are the same after any way through two other formats and back."""
    calls = [
        {
            "id": "call_1",
            "type": "function",
            "function": {"name": "find", "arguments": '{"q":"x"}'},
        },
        {"id": "call_2", "type": "function", "function": {"name": "book", "arguments": "{}"}},
        {"id": "call_3", "type": "function", "function": {"name": "odd", "arguments": '{"broken'}},
    ]
    thread: list[Body] = [
        user("q"),
        {"role": "assistant", "content": "Looking.", "tool_calls": calls},
        *(result(f"call_{n}", f"r{n}") for n in (1, 2, 3)),
        {"role": "assistant", "content": "Done."},
    ]
    bodies = thread
    for form in (*through, "openai"):
        dialect = recognise(bodies)
        context = assemble(branch_as([(dialect, bodies)]), reading(format=form, marker=False))
        assert faults_of(form, context.output) == []
        messages = context.output["messages"]
        assert isinstance(messages, list)
        bodies = messages

    assert _read_arguments(bodies) == _read_arguments(thread)


def _read_arguments(bodies: Sequence[Body]) -> object:
    """The messages with their arguments spelled without white space."""
    return json.loads(json.dumps(bodies).replace('\\": \\"', '\\":\\"'))


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", FORMATS)
def test_final_turn_is_shortened_in_every_dialect(dialect: Dialect, form: str) -> None:
    """A long result of the final turn is shortened with a notice, however it was stored."""
    step = Step("Looking.", "", (("c1", "find", '{"q":"x"}'),), (("c1", "found " * 900),))
    written = [(dialect, WRITERS[dialect](Talk("q", False, (step,), ())))]
    context = assemble(branch_as(written), reading(token_budget=150, format=form))

    assert context.tokens.total <= 150
    assert "left out by threadkeep" in json.dumps(context.output)
    assert faults_of(form, context.output) == []
    assert [code for code in codes(context) if code != "not-carried"] == ["result-shortened"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", FORMATS)
def test_steps_of_the_final_turn_go_in_every_dialect(dialect: Dialect, form: str) -> None:
    """Where shortening does not suffice, the oldest steps go, with what was thought before them."""
    steps = tuple(
        Step("", "hm", ((f"c{n}", "find", '{"q":"x"}'),), ((f"c{n}", "found " * 900),))
        for n in range(4)
    )
    written = [(dialect, WRITERS[dialect](Talk("q", False, steps, ())))]
    context = assemble(branch_as(written), reading(token_budget=150, format=form))
    output = json.dumps(context.output)

    assert context.tokens.total <= 150
    assert "c0" not in output
    assert "c3" in output
    assert faults_of(form, context.output) == []
    assert "tool-step-left-out" in codes(context)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("form", FORMATS[:-1])
def test_stubs_in_every_dialect(dialect: Dialect, form: str) -> None:
    """A stub stands for a large text of any dialect in any format, and is no loss to be named."""
    talk = Talk("q", False, (), ("A long answer. " * 1000,))
    written = [(dialect, [*WRITERS[dialect](talk), *WRITERS[dialect](Talk("q2", False, (), ()))])]
    messages = [_split(message) for message in stored_as(written)]
    branch, asked = Branch(messages, len(messages)), reading(format=form, stub_large=True)
    context = assemble(branch, asked)

    assert large_to_fetch(branch, asked) == []
    assert json.dumps(context.output).count('"threadkeep_ref"') == 1
    assert codes(context) == []
    assert context.coverage.window == 3


@pytest.mark.parametrize("dialect", DIALECTS)
def test_large_results_are_stubbed_or_fetched(dialect: Dialect) -> None:
    """A large result is stubbed where its call id stands apart, and else fetched; never lost."""
    step = Step("", "", (("c1", "find", "{}"),), (("c1", "found " * 2000),))
    messages = [
        _split(message)
        for message in stored_as([(dialect, WRITERS[dialect](Talk("q", False, (step,), ())))])
    ]
    branch, asked = Branch(messages, len(messages)), reading(format=dialect, stub_large=True)
    wanted = large_to_fetch(branch, asked)

    assert [large.member for large in wanted] == (["content"] if dialect == "anthropic" else [])
    if not wanted:
        assert json.dumps(assemble(branch, asked).output).count('"threadkeep_ref"') == 1


def _split(message: StoredMessage) -> StoredMessage:
    """The message as it is stored, its large members apart."""
    new = prepare(
        message.body,
        b"t",
        message.position,
        cost=lambda body: message_tokens(body, words),
        cleaned=message.body,
    )
    large = tuple(item for item, _ in new.large)
    return dataclasses.replace(message, body=new.body, large=large, digest=new.digest)
