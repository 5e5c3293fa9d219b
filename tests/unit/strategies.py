"""What the tests of the context share: realistic threads, cheap counters, cases from the field."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import quicktok
from hypothesis import settings
from hypothesis import strategies as st

from app.core.context import RULES, Branch, Reading
from app.core.dialects.neutral import Dialect
from app.core.markup import strip_message
from app.core.messages import is_injected, parts_of, role_of
from app.core.model import Body, Context, LoadOptions, Pointer, Policy, StoredMessage, Summary
from app.core.ports import Count
from app.core.tokens import IMAGE_TOKENS, message_tokens
from app.core.window import grid_for, window_start

CASES = Path(__file__).parents[1] / "data" / "cases.jsonl"

Sent: TypeAlias = dict[str, Any]
"""A message that a test looks into."""

unhurried = settings(deadline=None)
"""For tests whose examples are many small loads: a busy machine must not fail them."""

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)

o200k: Count = quicktok.get_encoding("o200k_base").count


def words(text: str) -> int:
    """A counter whose tokens are words."""
    return len(text.split())


def thirds(text: str) -> int:
    """A counter whose tokens are three characters."""
    return len(text) // 3


counters = st.sampled_from([words, thirds, o200k])

_SENTENCES = [
    "yes",
    "Where is my order 4711?",
    "Guten Tag, ich möchte stornieren.",
    "请帮我改签到明天。",
    "これはテストです",
    "ಕನ್ನಡದಲ್ಲಿ ಉತ್ತರಿಸಿ",
    "مرحبا، أين حقيبتي؟",
    "👩‍👩‍👧‍👦 and 🏴󠁧󠁢󠁳󠁣󠁴󠁿 and 🇵🇹",
    "<|endoftext|> is only text",
    "```python\nprint('[1]')\n```",
    "see <!-- hidden --> the answer",
    "line one\nline two\n\n",
]

sentences = st.sampled_from(_SENTENCES)
texts = st.one_of(
    sentences,
    st.lists(sentences, min_size=2, max_size=5).map(" ".join),
    st.sampled_from(["", " \n", "word " * 400, "数" * 300]),
)
_parts = st.one_of(
    texts.map(lambda text: {"type": "text", "text": text}),
    st.just({"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 64}}),
    st.just({"type": "novel_part", "value": {"n": 1}}),
)
contents = st.one_of(texts, st.lists(_parts, min_size=1, max_size=3))
# Few ids, so that they are used again within and across exchanges.
_ids = st.sampled_from(["c0", "c1", "search:0"])


def user(content: object) -> Sent:
    return {"role": "user", "content": content}


def assistant(content: object) -> Sent:
    return {"role": "assistant", "content": content}


def calling(ids: Iterable[str], content: object = None) -> Sent:
    calls = [
        {"id": i, "type": "function", "function": {"name": "find", "arguments": '{"q": "x"}'}}
        for i in ids
    ]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, content: object) -> Sent:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def tool_use(ids: Iterable[str]) -> Sent:
    parts = [{"type": "tool_use", "id": i, "name": "find", "input": {"q": "x"}} for i in ids]
    return assistant([{"type": "text", "text": "Looking."}, *parts])


def tool_results(ids: Iterable[str], content: object = "found") -> Sent:
    return user([{"type": "tool_result", "tool_use_id": i, "content": content} for i in ids])


@st.composite
def tool_steps(draw: st.DrawFn) -> list[Body]:
    """A call and its results; now and then some are missing, foreign, or come too early."""
    called = draw(st.lists(_ids, min_size=1, max_size=3))
    answered = draw(st.one_of(st.just(called), st.lists(_ids, max_size=3)))
    if draw(st.booleans()):
        step = [calling(called), *(result(i, draw(contents)) for i in answered)]
    else:
        step = [tool_use(called), *([tool_results(answered, draw(texts))] if answered else [])]
    return step[::-1] if draw(st.integers(0, 9)) == 0 else step


@st.composite
def exchanges(draw: st.DrawFn) -> list[Body]:
    """A user message, some tool steps, an answer, maybe an interposed one."""
    messages = [user(draw(contents))]
    for step in draw(st.lists(tool_steps(), max_size=3)):
        messages += step
    messages += [assistant(text) for text in draw(st.lists(texts, max_size=2))]
    return messages


@st.composite
def threads(draw: st.DrawFn, max_size: int = 8) -> list[Body]:
    """A whole thread, which may begin with what no user message stands before."""
    opening = [assistant("Hello, how can I help?")] if draw(st.booleans()) else []
    return opening + [m for one in draw(st.lists(exchanges(), max_size=max_size)) for m in one]


QUESTION = user("And now?")


def plain_thread(number: int, text: str = "msg {n:03}") -> list[Sent]:
    """Alternating user and assistant messages, as the cases' seed_gen means them."""
    return [(user if n % 2 else assistant)(text.format(n=n)) for n in range(1, number + 1)]


def stored(
    bodies: Sequence[Body], count: Count = words, dialect: Dialect = "openai"
) -> list[StoredMessage]:
    """The bodies as messages of a thread, counted as a save counts them."""
    return [
        StoredMessage(
            id=f"msg_{position}",
            position=position,
            checkpoint_id=f"{position:010}-x",
            body=body,
            tokens=message_tokens(strip_message(body), count),
            rules=RULES,
            dialect=dialect,
        )
        for position, body in enumerate(bodies, start=1)
    ]


def branch_of(
    bodies: Sequence[Body],
    count: Count = words,
    *,
    start: int = 0,
    dialect: Dialect = "openai",
) -> Branch:
    return Branch(stored(bodies, count, dialect), position=len(bodies), start=start)


def reading(count: Count = words, policy: Policy | None = None, **options: Any) -> Reading:
    return Reading(LoadOptions(**options), policy or Policy(), count)


def count_openai(messages: Sequence[Mapping[str, object]], count: Count) -> int:
    """Count a list of messages as the contract words it, without the code under test."""
    return 3 + sum(_count_message(message, count) for message in messages)


def _count_message(message: Mapping[str, object], count: Count) -> int:
    total = 3 + sum(_count_part(part, count) for part in parts_of(message))
    if "name" in message:
        total += count(str(message["name"])) + 1
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    for call in calls:
        inner = call.get("function") or call["custom"]
        total += count(inner["name"]) + count(inner.get("arguments") or inner.get("input", ""))
    return total


def _count_part(part: object, count: Count) -> int:
    if isinstance(part, str):
        return count(part)
    assert isinstance(part, dict)
    match part["type"]:
        case "text":
            return count(part["text"])
        case "image_url" | "input_audio" | "file":
            return IMAGE_TOKENS
        case "tool_use":
            return count(part["name"]) + count(json.dumps(part["input"], separators=(",", ":")))
        case "tool_result":
            return sum(_count_part(inner, count) for inner in parts_of(part))
        case _:
            return count(json.dumps(part, ensure_ascii=False, separators=(",", ":")))


def pair_faults(messages: Sequence[Mapping[str, object]]) -> list[str]:
    """Say what a provider would refuse: checked the providers' way, message by message."""
    faults: list[str] = []
    open_ids: list[str] = []
    for message in messages:
        answers = _answers(message)
        for call_id in answers:
            if call_id in open_ids:
                open_ids.remove(call_id)
            else:
                faults.append(f"result {call_id} without call")
        if not answers:
            faults += [f"call {call_id} without result" for call_id in open_ids]
            open_ids = _called(message)
    return faults + [f"call {call_id} without result" for call_id in open_ids]


def _answers(message: Mapping[str, object]) -> list[str]:
    if role_of(message) == "tool":
        return [str(message["tool_call_id"])]
    parts = [part for part in parts_of(message) if isinstance(part, dict)]
    return [part["tool_use_id"] for part in parts if part["type"] == "tool_result"]


def _called(message: Mapping[str, object]) -> list[str]:
    calls = message.get("tool_calls", [])
    assert isinstance(calls, list)
    parts = [part for part in parts_of(message) if isinstance(part, dict)]
    uses = [part["id"] for part in parts if part["type"] == "tool_use"]
    return [str(call["id"]) for call in calls] + uses


def case(name: str) -> Any:
    """A case from the field, by its id."""
    lines = CASES.read_text(encoding="utf-8").strip().split("\n")
    return next(one for one in map(json.loads, lines) if one["id"] == name)


def batches(name: str) -> list[list[Sent]]:
    """The messages a case saves, batch by batch, their test labels kept as client ids."""
    steps = case(name)["input"]["steps"]
    sent = [step[kind]["messages"] for step in steps for kind in ("save", "array") if kind in step]
    return [[_labelled(message) for message in messages] for messages in sent]


def _labelled(message: Mapping[str, Any]) -> Sent:
    body = {**message, "id": message["ref"]}
    del body["ref"]
    return body


def summary(position: int, text: str = "They spoke of flights.") -> Summary:
    boundary = Pointer(f"{position:010}-x", position, 5 * position)
    return Summary(text, boundary, "extractive", None, "summary-1", NOW)


def sent(context: Context) -> list[Sent]:
    messages = context.output["messages"]
    assert isinstance(messages, list)
    return messages


def history(context: Context) -> list[Any]:
    """The contents of what was sent, without what the service put in."""
    return [message["content"] for message in sent(context) if not is_injected(message)]


def codes(context: Context) -> list[object]:
    return [warning["code"] for warning in context.warnings]


def on_grid(bodies: Sequence[Body], asked: Reading) -> Branch:
    """The branch as a service would plan it, without a summary."""
    messages = stored(bodies)
    spent = sum(message.tokens for message in messages)
    grid, _ = grid_for(asked.policy, asked.options)
    start = window_start(grid, messages, position=len(messages), tokens=spent) or 0
    return Branch(messages[start:], len(messages), start)
