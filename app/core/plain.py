"""A message as plain words, for whoever condenses it: no payloads, no reasoning, calls by name.

Sources: content parts of OpenAI chat and Responses, Anthropic blocks, LangChain blocks.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

from app.core.messages import TEXT_PART_TYPES, parts_of, role_of
from app.core.model import Body

REASONING_TYPES = frozenset({"reasoning", "reasoning_content", "redacted_thinking", "thinking"})
_CALL_TYPES = frozenset({"tool_use", "server_tool_use", "tool_call", "function_call"})
_KINDS = ("image", "audio", "video", "file", "document")

_DATA_URI = re.compile(r"data:[\w.+/-]*(?:;[\w=.+-]*)*;base64,[A-Za-z0-9+/=_-]*")
# Looking back keeps it linear: a run is tried from its beginning alone.
_PAYLOAD = re.compile(r"(?<![A-Za-z0-9+/=_-])[A-Za-z0-9+/=_-]{128,}")


def plain_message(message: Mapping[str, object]) -> Body:
    """Return the message as role, content (a string) and, where it calls tools, tool_calls.

    Shape: a fixed point; ids and every other member are left out.
    """
    body: Body = {"role": role_of(message), "content": plain_text(message)}
    calls = plain_calls(message)
    if calls:
        body["tool_calls"] = [
            {"function": {"name": name, "arguments": arguments}} for name, arguments in calls
        ]
    return body


def plain_text(message: Mapping[str, object]) -> str:
    """Return what the message says, payloads as `[image]` and their like, reasoning left out."""
    texts = [text for part in parts_of(message) for text in _part_texts(part)]
    refusal = message.get("refusal")
    if isinstance(refusal, str):
        texts.append(refusal)
    return without_payloads("\n".join(text for text in texts if text.strip()))


def plain_calls(message: Mapping[str, object]) -> list[tuple[str, str]]:
    """Return the tool calls the message makes as (name, arguments as text), in order."""
    return [
        (without_payloads(str(call.get("name") or "tool")), without_payloads(_arguments(call)))
        for call in _call_bodies(message)
    ]


def without_payloads(text: str) -> str:
    """Replace base64 by `[data]`: data URIs, and unbroken runs of 128 or more of its characters.

    Cost: linear.
    """
    return _PAYLOAD.sub("[data]", _DATA_URI.sub("[data]", mend(text)))


def mend(text: str) -> str:
    """Replace each lone surrogate, which no UTF-8 can carry, by U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _part_texts(part: object) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    if not isinstance(part, dict):
        return
    kind = str(part.get("type") or "")
    if kind in REASONING_TYPES or kind in _CALL_TYPES:
        return
    if kind in TEXT_PART_TYPES or kind == "refusal":
        yield str(part.get("text") or part.get("refusal") or "")
    elif kind.endswith("tool_result"):
        for inner in parts_of(part):
            yield from _part_texts(inner)
    else:
        yield f"[{next((word for word in _KINDS if word in kind), 'data')}]"


def _call_bodies(message: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for call in _dicts(message.get("tool_calls")):
        inner = call.get("function") or call.get("custom")
        yield inner if isinstance(inner, dict) else call
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        yield legacy
    for part in _dicts(message.get("content")):
        if str(part.get("type")) in _CALL_TYPES:
            yield part


def _arguments(call: Mapping[str, object]) -> str:
    members = ("arguments", "input", "args")
    value = next((call[member] for member in members if call.get(member)), "")
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _dicts(value: object) -> Sequence[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else ()
