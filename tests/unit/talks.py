"""Threads whose turns are written in different dialects, as their own clients would write them."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.messages import messages_to_dict as dump

from app.core.context import Branch
from app.core.dialects.neutral import Dialect
from app.core.dialects.recognise import recognise
from app.core.model import Body, StoredMessage
from app.core.ports import Count
from tests.unit.strategies import Sent, branch_of, sentences, stored, summary, words

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
FORMATS = (*DIALECTS, "text")
PIXEL = "iVBORw0KGgoAAAANSUhEUg=="


@dataclass(frozen=True)
class Step:
    """Calls made at once, what was said with them, and which of them were answered."""

    said: str
    thought: str
    calls: tuple[tuple[str, str, str], ...]
    results: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Talk:
    """One exchange: a question (maybe with a picture), tool steps, answers."""

    question: str
    picture: bool
    steps: tuple[Step, ...]
    answers: tuple[str, ...]


_ids = st.sampled_from(["c0", "c1", "search:0", "toolu_01", "x" * 50])
_arguments = st.sampled_from(['{"q":"x"}', "{}", '{"n":[1,2.5,null],"ü":"é"}', '{"broken', "[1]"])
_said = st.one_of(sentences, st.just(""))
_calls = st.lists(
    st.tuples(_ids, st.sampled_from(["find", "book_flight"]), _arguments),
    min_size=1,
    max_size=3,
    unique_by=lambda call: call[0],
)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """A tool step; now and then a result is missing or answers nothing."""
    calls = draw(_calls)
    ids = [call[0] for call in calls]
    answered = draw(st.one_of(st.just(ids), st.lists(_ids, max_size=3, unique=True)))
    results = tuple((one, draw(st.one_of(sentences, st.just("word " * 300)))) for one in answered)
    return Step(draw(_said), draw(_said), tuple(calls), results)


talks = st.builds(
    Talk,
    st.one_of(sentences, st.just(" ")),
    st.booleans(),
    st.lists(steps(), max_size=2).map(tuple),
    st.lists(sentences, max_size=2).map(tuple),
)


def openai(talk: Talk) -> list[Sent]:
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    asked: Sent = {"type": "text", "text": talk.question}
    messages: list[Sent] = [
        {"role": "user", "content": [asked, picture] if talk.picture else talk.question}
    ]
    for step in talk.steps:
        calls = [
            {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}
            for i, name, arguments in step.calls
        ]
        said: Sent = {"role": "assistant", "content": step.said or None, "tool_calls": calls}
        messages.append(said | ({"reasoning_content": step.thought} if step.thought else {}))
        messages += [
            {"role": "tool", "tool_call_id": i, "content": content} for i, content in step.results
        ]
    return messages + [{"role": "assistant", "content": answer} for answer in talk.answers]


def anthropic(talk: Talk) -> list[Sent]:
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    asked: Sent = {"type": "text", "text": talk.question}
    question = [asked, {"type": "image", "source": source}] if talk.picture else talk.question
    messages: list[Sent] = [{"role": "user", "content": question}]
    for step in talk.steps:
        thinking = {"type": "thinking", "thinking": step.thought, "signature": "c2ln"}
        said = [{"type": "text", "text": step.said}] if step.said.strip() else []
        uses = [
            {"type": "tool_use", "id": _clean(i), "name": name, "input": _object(arguments)}
            for i, name, arguments in step.calls
        ]
        blocks = [*([thinking] if step.thought else []), *said, *uses]
        messages.append({"role": "assistant", "content": blocks})
        results = [
            {"type": "tool_result", "tool_use_id": _clean(i), "content": content}
            for i, content in step.results
        ]
        messages += [{"role": "user", "content": results}] if results else []
    answers = "\n".join(talk.answers)
    return messages + ([{"role": "assistant", "content": answers}] if answers else [])


def responses(talk: Talk) -> list[Sent]:
    content: list[Sent] = [{"type": "input_text", "text": talk.question}]
    if talk.picture:
        url = f"data:image/png;base64,{PIXEL}"
        content.append({"type": "input_image", "image_url": url, "detail": "auto"})
    items: list[Sent] = [{"role": "user", "content": content}]
    for number, step in enumerate(talk.steps):
        if step.thought:
            thought = [{"type": "summary_text", "text": step.thought}]
            items.append({"type": "reasoning", "id": f"rs_{number}", "summary": thought})
        items += [_answer(step.said, f"msg_s{number}")] if step.said.strip() else []
        items += [
            {"type": "function_call", "call_id": i, "name": name, "arguments": arguments}
            for i, name, arguments in step.calls
        ]
        items += [
            {"type": "function_call_output", "call_id": i, "output": content}
            for i, content in step.results
        ]
    return items + [_answer(answer, f"msg_{n}") for n, answer in enumerate(talk.answers)]


def langchain(talk: Talk) -> list[Sent]:
    picture = {"type": "image", "base64": PIXEL, "mime_type": "image/png"}
    asked: Sent = {"type": "text", "text": talk.question}
    question: Any = [asked, picture] if talk.picture else talk.question
    messages: list[BaseMessage] = [HumanMessage(question)]
    for step in talk.steps:
        calls = [
            {"name": name, "args": _object(arguments), "id": i, "type": "tool_call"}
            for i, name, arguments in step.calls
        ]
        thought = [{"type": "reasoning", "reasoning": step.thought}] if step.thought else []
        said = [{"type": "text", "text": step.said}] if step.said.strip() else []
        content: Any = [*thought, *said] if thought else step.said
        messages.append(AIMessage(content, tool_calls=calls))
        messages += [ToolMessage(content, tool_call_id=i) for i, content in step.results]
    messages += [AIMessage(answer) for answer in talk.answers]
    read: list[Sent] = json.loads(json.dumps(dump(messages)))
    return read


WRITERS = {
    "openai": openai,
    "anthropic": anthropic,
    "responses": responses,
    "langchain": langchain,
}


@st.composite
def batches(draw: st.DrawFn, max_size: int = 6) -> list[tuple[Dialect, list[Body]]]:
    """A thread, each exchange in a dialect of its own; it may begin with a greeting."""
    opening: list[tuple[Dialect, list[Body]]] = []
    if draw(st.booleans()):
        opening = [("openai", [{"role": "assistant", "content": "Hello, how can I help?"}])]
    dialects = st.sampled_from(DIALECTS)
    written = draw(st.lists(st.tuples(dialects, talks), max_size=max_size))
    return opening + [(dialect, WRITERS[dialect](talk)) for dialect, talk in written]


def stored_as(
    written: Sequence[tuple[Dialect, Sequence[Body]]], count: Count = words
) -> list[StoredMessage]:
    """The turns as they are stored."""
    pairs = [(dialect, body) for dialect, bodies in written for body in bodies]
    messages = stored([body for _, body in pairs], count)
    return [
        replace(message, dialect=dialect)
        for message, (dialect, _) in zip(messages, pairs, strict=True)
    ]


def branch_as(
    written: Sequence[tuple[Dialect, Sequence[Body]]], count: Count = words, covered: int = 0
) -> Branch:
    """The thread from the exchange at or before `covered` on, with a summary of what is before."""
    messages = stored_as(written, count)
    starts, at = [0], 0
    for _, bodies in written:
        at += len(bodies)
        starts.append(at)
    start = max(one for one in starts[: max(1, len(starts) - 1)] if one <= covered)
    branch = Branch(messages, position=len(messages), start=start)
    return replace(branch, summary=summary(start), state="fresh") if start else branch


def recognised(bodies: Sequence[Body], *, start: int = 0) -> Branch:
    """The bodies as one turn, in the dialect that a save finds them to be in."""
    return branch_of(bodies, start=start, dialect=recognise(bodies))


def _answer(text: str, name: str) -> Sent:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": name, "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def _object(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments)
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {}


def _clean(name: str) -> str:
    return name.replace(":", "_")
