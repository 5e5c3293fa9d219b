"""Looking into one message, whatever dialect its parts speak. Nothing here changes a message.

Sources: OpenAI chat completions (`tool_calls`, deprecated `function_call`, role `tool`), Anthropic
messages (`tool_use` and `tool_result` blocks), OpenAI content parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

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
    """Return the message's role, "" where it has none."""
    role = message.get("role")
    return role if isinstance(role, str) else ""


def parts_of(message: Mapping[str, object]) -> list[object]:
    """Return the content as a list of parts; a plain string is one part, null is none."""
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
    """Return the tool calls the message makes, in order."""
    return list(_calls(message))


def results_of(message: Mapping[str, object]) -> list[str]:
    """Return the ids of the calls the message answers, in order; "" where it names none."""
    if role_of(message) == "tool":
        call_id = message.get("tool_call_id")
        return [call_id if isinstance(call_id, str) else ""]
    return [
        str(part.get("tool_use_id", ""))
        for part in parts_of(message)
        if isinstance(part, dict) and part.get("type") == "tool_result"
    ]


def begins_exchange(message: Mapping[str, object]) -> bool:
    """Tell whether a new exchange begins here: a user message that is not a tool result."""
    return role_of(message) == "user" and not results_of(message)


def is_injected(message: Mapping[str, object]) -> bool:
    """Tell whether a load put this message in (summary, marker, opaque history)."""
    return role_of(message) == "system" and message.get("name") in INJECTED_NAMES


def is_empty(message: Mapping[str, object]) -> bool:
    """Tell whether the message would say nothing: no call, no result, no part but blank text."""
    if calls_of(message) or results_of(message) or message.get("refusal") or message.get("audio"):
        return False
    texts = [part_text(part) for part in parts_of(message)]
    return all(text is not None and not text.strip() for text in texts)


def _calls(message: Mapping[str, object]) -> Iterator[Call]:
    tool_calls = message.get("tool_calls")
    for call in tool_calls if isinstance(tool_calls, list) else []:
        if isinstance(call, dict):
            yield Call(id=str(call.get("id") or ""), name=_call_name(call))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        yield Call(id="", name=str(legacy.get("name") or ""))
    for part in parts_of(message):
        if isinstance(part, dict) and part.get("type") == "tool_use":
            yield Call(id=str(part.get("id") or ""), name=str(part.get("name") or ""))


def _call_name(call: Mapping[str, object]) -> str:
    for member in ("function", "custom"):
        inner = call.get(member)
        if isinstance(inner, dict):
            return str(inner.get("name") or "")
    return str(call.get("name") or "")
