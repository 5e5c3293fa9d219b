"""Looking into one message, whatever dialect it speaks. Nothing here changes a message.

A load asks these of every message, several times: what has a role is answered without a detour;
the other dialects are looked at as chat messages (app.core.dialects.view).
Sources: OpenAI chat completions (`tool_calls`, deprecated `function_call`, role `tool`), Anthropic
messages (`tool_use` and `tool_result` blocks), OpenAI content parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from app.core.dialects.view import chat_view, role_elsewhere

SUMMARY_NAME = "threadkeep_summary"
MARKER_NAME = "threadkeep_marker"
HISTORY_NAME = "threadkeep_history"
INJECTED_NAMES = frozenset({SUMMARY_NAME, MARKER_NAME, HISTORY_NAME})

TEXT_PART_TYPES = frozenset({"text", "input_text", "output_text"})


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call as the pair rule sees it. id may be empty in old dialects."""

    id: str
    name: str


def role_of(message: Mapping[str, object]) -> str:
    """Return the message's role, "" where it has none.

    Shape: a Responses call or reasoning item is the assistant's, an output a tool's.
    """
    role = message.get("role")
    return role if isinstance(role, str) else role_elsewhere(message)


def parts_of(message: Mapping[str, object]) -> list[object]:
    """Return the content as a list of parts; a plain string is one part, null is none."""
    if message.get("role") is None:
        message = chat_view(message)
    content = message.get("content")
    if content is None:
        return []
    return content if isinstance(content, list) else [content]


def part_text(part: object) -> str | None:
    """Return the text of a text part (or of a bare string), None for any other part."""
    if isinstance(part, str):
        return part
    if isinstance(part, dict) and part.get("type") in TEXT_PART_TYPES:
        text = part.get("text")
        return text if isinstance(text, str) else None
    return None


def text_of(message: Mapping[str, object]) -> str:
    """Return the message's text parts, joined by line breaks."""
    return "\n".join(text for part in parts_of(message) if (text := part_text(part)) is not None)


def calls_of(message: Mapping[str, object]) -> list[Call]:
    """Return the tool calls the message makes, each once, in order; not what a server runs."""
    if message.get("role") is None:
        message = chat_view(message)
    calls: list[Call] = []
    if message.get("role") == "tool":
        return calls
    if tool_calls := message.get("tool_calls"):
        calls += [_call(call) for call in _dicts(tool_calls)]
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        calls.append(Call(id="", name=str(legacy.get("name") or "")))
    content = message.get("content")
    if isinstance(content, list):
        calls += [_call(part) for part in _dicts(content) if part.get("type") == "tool_use"]
    return calls


def results_of(message: Mapping[str, object]) -> list[str]:
    """Return the ids of the calls the message answers, in order; "" where it names none."""
    if message.get("role") is None:
        message = chat_view(message)
    if message.get("role") == "tool":
        call_id = message.get("tool_call_id")
        return [call_id if isinstance(call_id, str) else ""]
    content = message.get("content")
    if not isinstance(content, list):
        return []
    return [
        str(part.get("tool_use_id") or "")
        for part in _dicts(content)
        if part.get("type") == "tool_result"
    ]


def begins_exchange(message: Mapping[str, object]) -> bool:
    """Tell whether a new exchange begins here: a user message that is not a tool result."""
    return role_of(message) == "user" and not results_of(message)


def is_injected(message: Mapping[str, object]) -> bool:
    """Tell whether a load put this message in (summary, marker, opaque history)."""
    return role_of(message) == "system" and chat_view(message).get("name") in INJECTED_NAMES


def is_empty(message: Mapping[str, object]) -> bool:
    """Tell whether the message would say nothing: no call, no result, no part but blank text."""
    if message.get("role") is None:
        message = chat_view(message)
    if calls_of(message) or results_of(message) or message.get("refusal") or message.get("audio"):
        return False
    texts = [part_text(part) for part in parts_of(message)]
    return all(text is not None and not text.strip() for text in texts)


def _call(call: Mapping[str, object]) -> Call:
    inner: object = call
    for member in ("function", "custom"):
        if isinstance(call.get(member), dict):
            inner = call[member]
            break
    name = inner.get("name") if isinstance(inner, dict) else ""
    return Call(id=str(call.get("call_id") or call.get("id") or ""), name=str(name or ""))


def _dicts(value: object) -> list[Mapping[str, object]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
