"""Anthropic messages: `system` blocks, and `messages` whose roles alternate from a user's on.

Source: Anthropic's Messages API. Consecutive messages of a role are one turn; a `tool_use` is
answered in the next user message, results first; no text block is blank; ids match a pattern.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from app.core.dialects.neutral import Call, Dialect, Media, Result
from app.core.dialects.reading import read_message
from app.core.formats.arguments import as_object, fit_id
from app.core.formats.format import Sections, Translated
from app.core.formats.segments import (
    Said,
    Spoken,
    Write,
    as_content,
    file_id_of,
    is_native,
    result_parts,
    take_apart,
    write_parts,
)
from app.core.formats.turns import as_blocks, merge_turns
from app.core.marker import wrapped_text
from app.core.messages import SUMMARY_NAME, is_injected, part_text, parts_of
from app.core.model import Body
from app.core.ports import Count
from app.core.tokens import IMAGE_TOKENS, MESSAGE_OVERHEAD, REPLY_OVERHEAD, message_tokens

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_IMAGES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_PDF = "application/pdf"
# Of other dialects: the API would refuse a block of these types, whereas a newer one of its own,
# which we do not know, must pass.
_FOREIGN_PARTS = frozenset(
    {"input_text", "output_text", "image_url", "input_image", "input_audio", "input_file", "file"}
)
_SYSTEM_MEMBERS = ("type", "text", "cache_control", "citations")


@dataclass(frozen=True, slots=True)
class AnthropicFormat:
    """The `anthropic` format. Anthropic publishes no overheads: those of `openai` are counted."""

    image_tokens: int = IMAGE_TOKENS
    name: str = "anthropic"
    reply_overhead: int = REPLY_OVERHEAD
    opens_with_user: bool = True
    pairs_meet: bool = True

    def translate(self, body: Body, dialect: Dialect) -> Translated:
        """Write a stored message; one stored as such keeps its blocks, but for blank texts."""
        if dialect == "anthropic" and is_native(body, _FOREIGN_PARTS):
            content = _without_blanks(body["content"])
            return Translated(({"role": body["role"], "content": content},) if content else ())
        spoken = take_apart(read_message(body))
        results = [_result_block(result, dialect, spoken.lost) for result in spoken.results]
        said = write_parts(spoken.said, _part_writer(spoken, dialect), spoken.lost)
        calls, wrapped = _call_blocks(spoken.calls)
        if spoken.name is not None and not spoken.results:
            spoken.lost.append("name")
        blocks = [*results, *said, *calls]
        message: Body = {"role": spoken.role, "content": blocks}
        return Translated((message,) if blocks else (), tuple(spoken.lost), wrapped)

    def frame(self, body: Body) -> Body:
        """Write a system message: `system` blocks, or for the marker and a history a user's text.

        Not all models of the API take a system message within the conversation.
        """
        if is_injected(body):
            role = "system" if body["name"] == SUMMARY_NAME else "user"
            return {"role": role, "content": [{"type": "text", "text": wrapped_text(body)}]}
        return {"role": "system", "content": _system_blocks(body)}

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one message costs alone: 3, its blocks' texts, names and arguments."""
        counted = {"content": _counted(body["content"])}
        return message_tokens(counted, count, image_tokens=self.image_tokens)

    def saved(self, sections: Sections) -> int:
        """Return the overhead of messages that are merged, and of a second `system` block."""
        spoken = list(sections.spoken())
        merged = len(spoken) - len(merge_turns(spoken))
        both = sections.pinned is not None and sections.summary is not None
        return MESSAGE_OVERHEAD * (merged + both)

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return `system`, a list of blocks, and `messages`."""
        framed = [body for body in (sections.pinned, sections.summary) if body is not None]
        return {
            "system": [block for body in framed for block in as_blocks(body)],
            "messages": merge_turns(sections.spoken()),
        }

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:  # noqa: ARG002
        """Return the sum: blocks are counted one by one, so costs simply add up."""
        return added


def _counted(content: object) -> object:
    """Return the content as it is counted: documents that are no plain text at a flat sum."""
    return [_flat(part) for part in content] if isinstance(content, list) else content


def _flat(part: object) -> object:
    if not isinstance(part, dict) or part.get("type") not in {"document", "tool_result"}:
        return part
    if part["type"] == "tool_result":
        return {**part, "content": _counted(part.get("content"))}
    source = part.get("source")
    inline = isinstance(source, dict) and source.get("type") in {"text", "content"}
    return part if inline else {"type": "file"}


def _without_blanks(content: object) -> object:
    if not isinstance(content, list):
        return content
    return [_without_blank_results(part) for part in content if not _is_blank(part)]


def _without_blank_results(part: object) -> object:
    if isinstance(part, dict) and part.get("type") == "tool_result":
        inner = part.get("content")
        if isinstance(inner, list) and any(map(_is_blank, inner)):
            return {**part, "content": [block for block in inner if not _is_blank(block)]}
    return part


def _is_blank(part: object) -> bool:
    text = part_text(part)
    return text is not None and not text.strip()


def _system_blocks(body: Body) -> list[Body]:
    blocks = []
    for part in parts_of(body):
        text = part_text(part)
        if text is not None and text.strip():
            kept = part if isinstance(part, dict) else {"text": text}
            block = {name: kept[name] for name in _SYSTEM_MEMBERS if name in kept}
            blocks.append({**block, "type": "text"})
    return blocks


def _part_writer(spoken: Spoken, dialect: Dialect) -> Write:
    def write(segment: Said) -> Body | None:
        words = segment.text
        if spoken.role == "user" and isinstance(segment, Media):
            return _media_block(segment, dialect)
        return None if words is None else {"type": "text", "text": words}

    return write


def _result_block(result: Result, dialect: Dialect, lost: list[str]) -> Body:
    def write(segment: Said) -> Body | None:
        if isinstance(segment, Media):
            return _media_block(segment, dialect)
        return {"type": "text", "text": segment.text}

    content = as_content(result_parts(result, write, lost))
    call_id = fit_id(result.call_id, allowed=_ID)
    block: Body = {"type": "tool_result", "tool_use_id": call_id, "content": content}
    return {**block, "is_error": True} if result.is_error else block


def _call_blocks(calls: list[Call]) -> tuple[list[Body], tuple[str, ...]]:
    blocks: list[Body] = []
    wrapped = []
    for call in calls:
        arguments, had_to_be = as_object(call)
        call_id = fit_id(call.id, allowed=_ID)
        blocks.append({"type": "tool_use", "id": call_id, "name": call.name, "input": arguments})
        wrapped += [call.id] if had_to_be else []
    return blocks, tuple(wrapped)


def _media_block(media: Media, dialect: Dialect) -> Body | None:
    source = _source(media, dialect)
    if media.kind not in {"image", "file"} or source is None:
        return None
    if media.kind == "image":
        return {"type": "image", "source": source}
    titled = {"title": media.filename} if media.filename else {}
    return {"type": "document", "source": source, **titled}


def _source(media: Media, dialect: Dialect) -> Body | None:
    file_id = file_id_of(media, dialect, "anthropic")
    if file_id is not None:
        return {"type": "file", "file_id": file_id}
    if media.url is not None:
        return {"type": "url", "url": media.url}
    if media.text is not None:
        return {"type": "text", "media_type": "text/plain", "data": media.text}
    taken = _IMAGES if media.kind == "image" else {_PDF}
    if media.data is None or media.media_type not in taken:
        return None
    return {"type": "base64", "media_type": media.media_type, "data": media.data}
