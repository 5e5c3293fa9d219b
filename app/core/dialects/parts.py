"""From one part of a content to a segment of the neutral form, whatever dialect the part is of.

Sources: OpenAI chat and Responses content parts, Anthropic blocks, LangChain's standard blocks
(v1: `base64`, `mime_type`; before: `source_type`, `data`).
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from app.core.dialects.neutral import (
    Call,
    Media,
    MediaKind,
    Other,
    Reasoning,
    Refusal,
    Result,
    Segment,
    Text,
)

Part: TypeAlias = Mapping[str, object]

_DATA_ADDRESS = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.*)", re.DOTALL)
_AUDIO_TYPES = {"mp3": "audio/mpeg"}
_LANGCHAIN_KINDS: Mapping[str, MediaKind] = {
    "image": "image",
    "audio": "audio",
    "video": "video",
    "file": "file",
    "text-plain": "file",
}


def read_parts(content: object) -> tuple[Segment, ...]:
    """Read a content: a string, a list of parts, or nothing. Never raises."""
    if content is None:
        return ()
    return tuple(map(read_part, content if isinstance(content, list) else [content]))


def read_part(part: object) -> Segment:
    """Read one part. Never raises; what it does not know is Other."""
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, dict):
        return Other(part)
    reader = _READERS.get(str(part.get("type")))
    return (reader(part) if reader else None) or Other(part)


def arguments_text(value: object) -> str:
    """Return a call's arguments as text: as it was sent, or the JSON of what was no text."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def inner_segments(content: object) -> tuple[Segment, ...]:
    """Read what a result holds; a call or a result in there is neither."""
    return tuple(
        Other(segment.raw) if isinstance(segment, Call | Result) else segment
        for segment in read_parts(content)
    )


def _text(part: Part) -> Segment | None:
    text = part.get("text")
    return Text(text, part) if isinstance(text, str) else None


def _refusal(part: Part) -> Segment | None:
    text = part.get("refusal")
    return Refusal(text, part) if isinstance(text, str) else None


def _reasoning(part: Part) -> Segment:
    said = (_words(part.get(name)) for name in ("thinking", "reasoning", "reasoning_content"))
    listed = (_words(part.get(name)) for name in ("summary", "content", "text"))
    return Reasoning(next((text for text in (*said, *listed) if text), ""), part)


def _words(value: object) -> str:
    """Return the words of thoughts: a string, an object with a text, or a list of such."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return _words(value.get("text"))
    return "\n\n".join(filter(None, map(_words, value))) if isinstance(value, list) else ""


def _tool_use(part: Part) -> Segment:
    return Call(
        id=str(part.get("id") or ""),
        name=str(part.get("name") or ""),
        arguments=arguments_text(part.get("input")),
        raw=part,
    )


def _tool_result(part: Part) -> Segment:
    return Result(
        call_id=str(part.get("tool_use_id") or ""),
        segments=inner_segments(part.get("content")),
        is_error=part.get("is_error") is True,
        raw=part,
    )


def _search_result(part: Part) -> Segment:
    texts = (_string(part, "title"), _string(part, "source"), _words(part.get("content")))
    return Text("\n".join(text for text in texts if text), part)


def _image_url(part: Part) -> Segment | None:
    """Read image_url (an object, or LangChain's bare string), video_url, Responses' input_image."""
    kind: MediaKind = "video" if part.get("type") == "video_url" else "image"
    found = part.get("video_url" if kind == "video" else "image_url")
    inner = found if isinstance(found, dict) else {"url": found}
    detail = _string(inner, "detail") or _string(part, "detail")
    return _media(
        kind, part, _string(inner, "url"), file_id=_string(part, "file_id"), detail=detail
    )


def _input_audio(part: Part) -> Segment | None:
    inner = part.get("input_audio")
    if not isinstance(inner, dict):
        return None
    spelling = _string(inner, "format") or ""
    media_type = _AUDIO_TYPES.get(spelling, f"audio/{spelling}" if spelling else "")
    return Media("audio", data=_string(inner, "data"), media_type=media_type, raw=part)


def _file(part: Part) -> Segment | None:
    """Read OpenAI's file (in an object of its own) and input_file; LangChain's file is flat."""
    inner = part.get("file", part if part.get("type") == "input_file" else None)
    if not isinstance(inner, dict):
        return _langchain_media(part)
    data = _string(inner, "file_data")
    return _media(
        "file",
        part,
        data if data and data.startswith("data:") else _string(inner, "file_url"),
        data=data,
        file_id=_string(inner, "file_id"),
        filename=_string(inner, "filename"),
        detail=_string(inner, "detail"),
    )


def _sourced(part: Part) -> Segment | None:
    """Read Anthropic's image and document, whose source says where it is."""
    source = part.get("source")
    if not isinstance(source, dict):
        return _langchain_media(part)
    kind: MediaKind = "image" if part.get("type") == "image" else "file"
    data, title = _string(source, "data"), _string(part, "title")
    is_text = source.get("type") == "text"
    return _media(
        kind,
        part,
        _string(source, "url"),
        data=None if is_text else data,
        media_type=_string(source, "media_type"),
        file_id=_string(source, "file_id"),
        text=data if is_text else _only_words(source.get("content")),
        filename=title,
    )


def _only_words(content: object) -> str | None:
    """Return the words of a document's content; None where there is more in it than words."""
    segments = read_parts(content)
    if not segments or not all(isinstance(segment, Text) for segment in segments):
        return None
    return "\n\n".join(segment.text for segment in segments if isinstance(segment, Text))


def _langchain_media(part: Part) -> Segment | None:
    kind = _LANGCHAIN_KINDS.get(str(part.get("type")))
    if kind is None:
        return None
    older = part.get("source_type")
    extras = part.get("extras")
    more = {**extras, **part} if isinstance(extras, dict) else part
    return _media(
        kind,
        part,
        _string(part, "url"),
        data=_string(part, "base64") or (_string(part, "data") if older == "base64" else None),
        media_type=_string(part, "mime_type"),
        file_id=_string(part, "file_id") or (_string(part, "id") if older == "id" else None),
        text=_string(part, "text"),
        filename=_string(more, "filename") or _string(more, "title"),
        detail=_string(more, "detail"),
    )


def _media(kind: MediaKind, part: Part, url: str | None, **told: str | None) -> Media:
    """Make a Media; a base64 data address becomes its data, any other address of data is none."""
    if url and url.startswith("data:"):
        address = _DATA_ADDRESS.fullmatch(url)
        url, told = None, {**told, "data": None}
        if address:
            told |= {"media_type": address[1], "data": address[2]}
    return Media(
        kind,
        url=url,
        data=told.get("data"),
        media_type=told.get("media_type") or "",
        file_id=told.get("file_id"),
        text=told.get("text"),
        filename=told.get("filename"),
        detail=told.get("detail"),
        raw=part,
    )


def _string(value: Part, member: str) -> str | None:
    found = value.get(member)
    return found if isinstance(found, str) else None


def _table(
    *rows: tuple[Iterable[str], Callable[[Part], Segment | None]],
) -> Mapping[str, Callable[[Part], Segment | None]]:
    return {kind: reader for kinds, reader in rows for kind in kinds}


_READERS = _table(
    (("text", "input_text", "output_text"), _text),
    (("refusal",), _refusal),
    (("thinking", "redacted_thinking", "reasoning", "reasoning_content"), _reasoning),
    (("image_url", "input_image", "computer_screenshot", "video_url"), _image_url),
    (("input_audio",), _input_audio),
    (("file", "input_file"), _file),
    (("image", "document"), _sourced),
    (("audio", "video", "text-plain"), _langchain_media),
    (("search_result",), _search_result),
    (("tool_use",), _tool_use),
    (("tool_result",), _tool_result),
)
