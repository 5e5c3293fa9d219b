"""What the writers share: a neutral message sorted into what every dialect keeps apart."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from app.core.dialects.neutral import (
    Call,
    Dialect,
    Media,
    Neutral,
    Other,
    Reasoning,
    Refusal,
    Result,
    Segment,
    Text,
)
from app.core.model import Body

STUB_TYPE = "threadkeep_ref"
"""The type of the part that stands for a large value left in its blob; every format carries it."""

JOINS = "~joins"
"""Marks a written message as a piece of what its model said at once; never sent.

Responses items are such pieces: a text, each parallel call. Chat dialects want them in one message,
or the second call would stand between the first and its result.
"""

Said: TypeAlias = Text | Media | Refusal
"""What stands in a message's content, besides stubs."""

Write: TypeAlias = Callable[[Said], Body | None]
"""Writes one part of a content; None where the format has no form for it."""

# File ids are a provider's own; LangChain's may be anyone's.
_PROVIDERS: Mapping[Dialect, str] = {
    "openai": "openai",
    "responses": "openai",
    "anthropic": "anthropic",
}
# What stands beside a part and says something; a cache mark, an index or a probability does not.
_NOTED = ("citations", "annotations", "context")


@dataclass(slots=True)
class Spoken:
    """A message taken apart. Blank texts are left out: providers refuse them as parts.

    lost: what could not be carried, by kind; writers add to it.
    """

    role: str
    name: str | None
    results: list[Result] = field(default_factory=list)
    said: list[Said | Other] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)


def take_apart(message: Neutral) -> Spoken:
    """Sort a message's segments: results come first, calls last, in every dialect's order."""
    spoken = Spoken("assistant" if message.role == "assistant" else "user", message.name)
    for segment in message.segments:
        match segment:
            case Result():
                spoken.results.append(segment)
            case Call():
                spoken.calls.append(segment)
            case _:
                _sort(segment, spoken.said, spoken.lost)
    return spoken


def result_parts(result: Result, write: Write, lost: list[str]) -> list[Body]:
    """Write the parts of a tool's result."""
    said: list[Said | Other] = []
    for segment in result.segments:
        _sort(segment, said, lost)
    return write_parts(said, write, lost)


def write_parts(said: Iterable[Said | Other], write: Write, lost: list[str]) -> list[Body]:
    """Write the parts of a content; those without a form are named in lost."""
    parts: list[Body] = []
    for segment in said:
        if isinstance(segment, Other):
            parts += _stub_of(segment)
        elif (part := write(segment)) is not None:
            parts.append(part)
            lost.extend(_left_behind(segment))
        else:
            lost.append(_kind(segment))
    return parts


def media_or(write_text: Write, write_media: Callable[[Media], Body | None]) -> Write:
    """Return a writer for parts that may be media; a document sent as plain text is text."""

    def write(segment: Said) -> Body | None:
        if isinstance(segment, Media) and segment.text is None:
            return write_media(segment)
        return write_text(segment)

    return write


def is_native(body: Body, foreign: frozenset[str]) -> bool:
    """Tell whether a message can pass as it is, since no part of it is of a foreign type."""
    if body.get("role") not in {"user", "assistant"} or "tool_calls" in body:
        return False
    content = body.get("content")
    if not isinstance(content, list):
        return isinstance(content, str)
    return all(isinstance(part, dict) and part.get("type") not in foreign for part in content)


def as_content(parts: Sequence[Body]) -> str | list[Body]:
    """Return a list of one plain text part as its string, as clients write it; "" for none."""
    if not parts:
        return ""
    first = parts[0]
    if len(parts) == 1 and isinstance(first.get("text"), str):
        return str(first["text"])
    return list(parts)


def file_id_of(media: Media, dialect: Dialect, provider: str) -> str | None:
    """Return the media's file id if it means anything to the provider."""
    return media.file_id if _PROVIDERS.get(dialect, provider) == provider else None


def file_data_of(media: Media, dialect: Dialect) -> str | None:
    """Return a file's data as OpenAI takes it: a data address, or bare if it came so from there."""
    bare = media.data if _PROVIDERS.get(dialect) == "openai" else None
    return data_address(media) or bare


def data_address(media: Media) -> str | None:
    """Return inline data as a data address, None where there is none or its type is not told."""
    if media.data is None or not media.media_type:
        return None
    return f"data:{media.media_type};base64,{media.data}"


def runs(bodies: Iterable[Body]) -> list[list[Body]]:
    """Group written messages: pieces of one model's turn together, any other message alone."""
    grouped: list[list[Body]] = []
    for body in bodies:
        if grouped and JOINS in body and JOINS in grouped[-1][-1]:
            grouped[-1].append(body)
        else:
            grouped.append([body])
    return grouped


def _sort(segment: Segment, said: list[Said | Other], lost: list[str]) -> None:
    match segment:
        case Text() | Refusal() if segment.text.strip():
            said.append(segment)
        case Media():
            said.append(segment)
        case Other() if _stub_of(segment):
            said.append(segment)
        case Other():
            lost.append(_kind(segment))
        case Reasoning():
            lost.append("reasoning")


def _stub_of(segment: Other) -> list[Body]:
    raw = segment.raw
    return [raw] if isinstance(raw, dict) and raw.get("type") == STUB_TYPE else []


def _kind(segment: Said | Other) -> str:
    if isinstance(segment, Media):
        return segment.kind
    raw = segment.raw
    kind = raw.get("type") if isinstance(raw, dict) else None
    return kind if isinstance(kind, str) else "part"


def _left_behind(segment: Said) -> list[str]:
    raw = segment.raw
    if not isinstance(raw, dict):
        return []
    return [name for name in _NOTED if isinstance(raw.get(name), str | list) and raw[name]]
