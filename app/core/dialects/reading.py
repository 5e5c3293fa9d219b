"""From a stored body, in whichever dialect, to the neutral form."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import get_args

from app.core.dialects.neutral import (
    Call,
    Media,
    Neutral,
    Reasoning,
    Refusal,
    Result,
    Role,
    Segment,
)
from app.core.dialects.parts import arguments_text, inner_segments, read_parts
from app.core.dialects.view import chat_view, is_item

_ROLES: Mapping[str, Role] = {role: role for role in get_args(Role)}
_THOUGHTS = ("reasoning_content", "reasoning_details")
_CALL_BODIES = ("function", "custom")
_CALL_TEXTS = ("arguments", "input", "args")


def read_message(body: Mapping[str, object]) -> Neutral:
    """Read one message of any dialect. Never raises for anything that a save takes.

    Shape: a tool's message is one Result; unknown parts and items are Other, verbatim. A segment
        of a Responses item that is no message has the whole item as `raw`.
    """
    view = chat_view(body)
    segments = tuple(_segments(view))
    if is_item(body):
        segments = tuple(replace(segment, raw=body) for segment in segments)
    name = view.get("name")
    return Neutral(
        role=_ROLES.get(str(view.get("role")), ""),
        segments=segments,
        name=name if isinstance(name, str) else None,
        raw=body,
    )


def _segments(view: Mapping[str, object]) -> Iterator[Segment]:
    if view.get("role") == "tool":
        call_id = view.get("tool_call_id")
        yield Result(
            call_id=call_id if isinstance(call_id, str) else "",
            segments=inner_segments(view.get("content")),
            is_error=view.get("status") == "error",
        )
        return
    yield from _thoughts(view)
    yield from read_parts(view.get("content"))
    if isinstance(refusal := view.get("refusal"), str) and refusal:
        yield Refusal(refusal)
    if isinstance(audio := view.get("audio"), dict):
        yield _audio(audio)
    yield from _calls(view)


def _thoughts(view: Mapping[str, object]) -> Iterator[Segment]:
    thoughts = {member: view[member] for member in _THOUGHTS if view.get(member)}
    if thoughts:
        text = thoughts.get("reasoning_content")
        yield Reasoning(text if isinstance(text, str) else "", thoughts)


def _audio(audio: Mapping[str, object]) -> Segment:
    """Read the sound an assistant answered with: an id, or its data in a stored response."""
    found = (audio.get(member) for member in ("id", "data"))
    file_id, data = (value if isinstance(value, str) else None for value in found)
    return Media("audio", file_id=file_id, data=data, raw=audio)


def _calls(view: Mapping[str, object]) -> Iterator[Call]:
    tool_calls = view.get("tool_calls")
    for call in tool_calls if isinstance(tool_calls, list) else []:
        if isinstance(call, dict):
            yield _call(call)
    legacy = view.get("function_call")
    if isinstance(legacy, dict):
        yield replace(_call(legacy), id="")


def _call(call: Mapping[str, object]) -> Call:
    kind = next((member for member in _CALL_BODIES if isinstance(call.get(member), dict)), "")
    inner = call[kind] if kind else call
    body = inner if isinstance(inner, dict) else {}
    given = next((body[member] for member in _CALL_TEXTS if body.get(member) is not None), None)
    return Call(
        id=str(call.get("call_id") or call.get("id") or ""),
        name=str(body.get("name") or ""),
        arguments=arguments_text(given),
        custom=kind == "custom" or call.get("type") == "custom_tool_call",
        raw=call,
    )
