"""LangChain: `messages` as `messages_to_dict` writes and `messages_from_dict` reads them.

Source: langchain-core 1.x, message classes and standard content blocks.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from app.core.dialects.langchain import data_of
from app.core.dialects.neutral import Dialect, Media, Refusal, Result
from app.core.dialects.reading import read_message
from app.core.formats.arguments import as_object, fit_id
from app.core.formats.format import Sections, Translated
from app.core.formats.segments import (
    JOINS,
    Said,
    Spoken,
    as_content,
    result_parts,
    runs,
    take_apart,
    write_parts,
)
from app.core.messages import parts_of
from app.core.model import Body
from app.core.ports import Count
from app.core.tokens import IMAGE_TOKENS, MESSAGE_OVERHEAD, REPLY_OVERHEAD, message_tokens

_ID = re.compile(r".+", re.DOTALL)
_COUNTED = ("content", "name", "tool_calls")
_CALL_BLOCKS = frozenset({"tool_use", "tool_call", "function_call", "custom_tool_call"})
_SOURCES = (("url", "url"), ("base64", "data"), ("file_id", "file_id"))


@dataclass(frozen=True, slots=True)
class LangChainFormat:
    """The `langchain` format. What its integrations add is not known: `openai`'s is counted."""

    image_tokens: int = IMAGE_TOKENS
    name: str = "langchain"
    reply_overhead: int = REPLY_OVERHEAD
    opens_with_user: bool = False
    pairs_meet: bool = True

    def translate(self, body: Body, dialect: Dialect) -> Translated:
        """Write a stored message: results as `tool` messages, then what is said and called."""
        if dialect == "langchain" and data_of(body) is not None:
            return Translated(({"type": body["type"], "data": body["data"]},))
        spoken = take_apart(read_message(body))
        bodies = [_tool_message(result, spoken) for result in spoken.results]
        message, wrapped = _message(spoken)
        if message and spoken.role == "assistant" and dialect == "responses":
            message[0][JOINS] = True
        return Translated((*bodies, *message), tuple(spoken.lost), wrapped)

    def frame(self, body: Body) -> Body:
        """Write a system message, under its name."""
        return _dumped("system", body["content"], name=body.get("name"))

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one message costs: 3, content, name, calls; a call in both places once."""
        data = body["data"]
        counted = _counted(data) if isinstance(data, dict) else {}
        return message_tokens(counted, count, image_tokens=self.image_tokens)

    def saved(self, sections: Sections) -> int:
        """Return the overhead of pieces that were joined."""
        return MESSAGE_OVERHEAD * sum(len(run) - 1 for run in runs(sections.bodies()))

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return `messages`, each an object of `type` and `data`."""
        return {"messages": [_join(run) for run in runs(sections.bodies())]}

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:  # noqa: ARG002
        """Return the sum: messages are counted one by one, so costs simply add up."""
        return added


def _counted(data: Mapping[str, object]) -> Body:
    counted: Body = {name: data[name] for name in _COUNTED if name in data}
    content = data.get("content")
    if data.get("tool_calls") and isinstance(content, list):
        counted["content"] = [part for part in content if not _is_call(part)]
    return counted


def _is_call(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") in _CALL_BLOCKS


def _join(run: Sequence[Body]) -> Body:
    if len(run) == 1:
        return {"type": run[0]["type"], "data": run[0]["data"]}
    pieces = [data for body in run if isinstance(data := body["data"], dict)]
    said = [part for piece in pieces for part in parts_of({"role": "", **piece})]
    parts = [_as_block(part) for part in said if part != ""]  # a call alone says nothing
    calls = [call for piece in pieces for call in piece["tool_calls"]]
    return _dumped("ai", as_content(parts), name=None, tool_calls=calls)


def _as_block(part: object) -> Body:
    return part if isinstance(part, dict) else {"type": "text", "text": part}


def _dumped(kind: str, content: object, *, name: object, **more: object) -> Body:
    """Return a message with all the members that `messages_to_dict` writes."""
    data: Body = {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": name,
        "id": None,
        **more,
    }
    if kind == "ai":
        data |= {"invalid_tool_calls": [], "usage_metadata": None}
    return {"type": kind, "data": data}


def _tool_message(result: Result, spoken: Spoken) -> Body:
    content = as_content(result_parts(result, _block, spoken.lost))
    return _dumped(
        "tool",
        content,
        name=spoken.name,
        tool_call_id=fit_id(result.call_id, allowed=_ID),
        artifact=None,
        status="error" if result.is_error else "success",
    )


def _message(spoken: Spoken) -> tuple[list[Body], tuple[str, ...]]:
    parts = write_parts(spoken.said, _block, spoken.lost)
    name = None if spoken.results else spoken.name
    if not parts and not spoken.calls:
        return [], ()
    if spoken.role == "user":
        return [_dumped("human", as_content(parts), name=name)], ()
    calls: list[Body] = []
    wrapped = []
    for call in spoken.calls:
        arguments, had_to_be = as_object(call)
        call_id = fit_id(call.id, allowed=_ID)
        calls.append({"name": call.name, "args": arguments, "id": call_id, "type": "tool_call"})
        wrapped += [call.id] if had_to_be else []
    return [_dumped("ai", as_content(parts), name=name, tool_calls=calls)], tuple(wrapped)


def _block(segment: Said) -> Body | None:
    if isinstance(segment, Refusal):
        return {"type": "refusal", "refusal": segment.text}
    if isinstance(segment, Media) and segment.text is None:
        return _media_block(segment)
    words = segment.text
    return None if words is None else {"type": "text", "text": words}


def _media_block(media: Media) -> Body | None:
    block: Body = {"type": media.kind}
    for member, source in _SOURCES:
        found = getattr(media, source)
        if found is not None:
            block[member] = found
            break
    else:
        return None
    if media.media_type:
        block["mime_type"] = media.media_type
    return {**block, "filename": media.filename} if media.filename else block
