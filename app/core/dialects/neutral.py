"""A message as all dialects could say it: what a format translates from.

Every segment keeps the part or item it was read from in `raw`, verbatim, so that the dialect it
came from loses nothing; None where it was a bare string or a member of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Dialect: TypeAlias = Literal["openai", "responses", "anthropic", "langchain"]
"""How a stored batch was written. Plain strings are the same everywhere: those count as openai."""

Role: TypeAlias = Literal["user", "assistant", "tool", "system", "developer", ""]
"""Canonical; "" for what says no known role."""

MediaKind: TypeAlias = Literal["image", "audio", "video", "file"]


@dataclass(frozen=True, slots=True)
class Text:
    """Words. raw: the part, which may hold more (citations, annotations, cache_control)."""

    text: str
    raw: object = None


@dataclass(frozen=True, slots=True)
class Reasoning:
    """A model's thoughts. text: "" where they are only there encrypted or as a signature.

    raw: the block or item; for a chat message's `reasoning_content` and `reasoning_details`, an
        object of these members.
    """

    text: str
    raw: object = None


@dataclass(frozen=True, slots=True)
class Call:
    """A call that the client is to answer. id: "" in old dialects.

    arguments: the text as sent: JSON (an object that was sent as one is spelled as json.dumps
        does), the free text of a custom tool, or broken JSON of a model.
    """

    id: str
    name: str
    arguments: str
    custom: bool = False
    raw: object = None


@dataclass(frozen=True, slots=True)
class Result:
    """A client's answer to a call. segments: texts, media and others; never calls or results."""

    call_id: str
    segments: "tuple[Segment, ...]"
    is_error: bool = False
    raw: object = None


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound, a film or a document.

    One of url (never a data address), data (base64), file_id and text (a document sent as plain
        text) is there, but for parts that hold none.
    media_type: of data and text, "" where not told; sounds as audio/wav, audio/mpeg.
    """

    kind: MediaKind
    url: str | None = None
    data: str | None = None
    media_type: str = ""
    file_id: str | None = None
    text: str | None = None
    filename: str | None = None
    detail: str | None = None
    raw: object = None


@dataclass(frozen=True, slots=True)
class Refusal:
    """A model's refusal to answer."""

    text: str
    raw: object = None


@dataclass(frozen=True, slots=True)
class Other:
    """A part or item that has no counterpart elsewhere: server-run tools, unknown ones."""

    raw: object


Segment: TypeAlias = Text | Reasoning | Call | Result | Media | Refusal | Other


@dataclass(frozen=True, slots=True)
class Neutral:
    """One message, in the order a reader meets it: thoughts and parts, then calls.

    name: of the author or, in a tool's message, of the tool; None where not told.
    raw:  the whole body as stored.
    """

    role: Role
    segments: tuple[Segment, ...]
    name: str | None
    raw: Mapping[str, object]
