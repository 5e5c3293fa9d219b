"""OpenAI Responses: `messages` holds input items. Only items stored as such bring their reasoning.

An assistant's text is written in the easy form: the API takes it without the id that it demands of
an output message. Source: OpenAI Responses API, input items.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from app.core.dialects.neutral import Call, Dialect, Media, Result
from app.core.dialects.reading import read_message
from app.core.dialects.view import is_item
from app.core.formats.arguments import as_text, fit_id
from app.core.formats.format import Sections, Translated
from app.core.formats.segments import (
    Said,
    Spoken,
    Write,
    as_content,
    data_address,
    file_data_of,
    file_id_of,
    is_native,
    media_or,
    result_parts,
    take_apart,
    write_parts,
)
from app.core.marker import wrapped_text
from app.core.messages import is_injected, part_text, parts_of
from app.core.model import Body
from app.core.ports import Count
from app.core.tokens import IMAGE_TOKENS, REPLY_OVERHEAD, message_tokens

_ID = re.compile(r".+", re.DOTALL)
_LONGEST_ID = 64
# Source: the API's own refusal, "string too long. Expected max length 64" (decolua/9router#396).
_FOREIGN_PARTS = frozenset({"text", "image_url", "tool_use", "tool_result", "input_audio", "image"})
_MESSAGE_MEMBERS = ("type", "role", "content", "status", "phase")
_MESSAGE_ID = "msg"
# Members that clients add to what they store; the API refuses them.
_CLIENT_MEMBERS = frozenset({"created_at", "metadata", "ephemeral", "timestamp"})
_CALLS = frozenset({"function_call", "custom_tool_call"})
_OUTPUTS = frozenset({"function_call_output", "custom_tool_call_output"})
_UNCOUNTED = frozenset({"id", "status"})


@dataclass(frozen=True, slots=True)
class ResponsesFormat:
    """The `responses` format. OpenAI publishes no overheads of items: `openai`'s are counted."""

    image_tokens: int = IMAGE_TOKENS
    name: str = "responses"
    reply_overhead: int = REPLY_OVERHEAD
    opens_with_user: bool = False
    pairs_meet: bool = False

    def translate(self, body: Body, dialect: Dialect) -> Translated:
        """Write a stored message: outputs, then what is said, then calls, each an item."""
        if dialect == "responses" and (is_item(body) or is_native(body, _FOREIGN_PARTS)):
            return Translated((_sent(body),))
        spoken = take_apart(read_message(body))
        items = [_output(result, dialect, spoken.lost) for result in spoken.results]
        items += _said(spoken, dialect)
        items += [_call(call) for call in spoken.calls]
        if spoken.name is not None and not spoken.results:
            spoken.lost.append("name")
        return Translated(tuple(items), tuple(spoken.lost))

    def frame(self, body: Body) -> Body:
        """Write a system message; the service's own are wrapped, since items have no name."""
        if is_injected(body):
            return {"role": "system", "content": wrapped_text(body)}
        texts = [text for part in parts_of(body) if (text := part_text(part)) is not None]
        parts: list[Body] = [{"type": "input_text", "text": text} for text in texts]
        return {"role": "system", "content": as_content(parts)}

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one item costs: 3, and its texts; of other items, their JSON."""
        return message_tokens(_counted(body), count, image_tokens=self.image_tokens)

    def saved(self, sections: Sections) -> int:  # noqa: ARG002
        """Return 0: items stay apart."""
        return 0

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return `messages`, the items."""
        return {"messages": list(_matched(sections.bodies()))}

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:  # noqa: ARG002
        """Return the sum: items are counted one by one, so costs simply add up."""
        return added


def _sent(body: Body) -> Body:
    """Return the item without what the API refuses: null members, a client's own ones and ids."""
    if is_item(body):
        return {
            name: value
            for name, value in body.items()
            if value is not None and name not in _CLIENT_MEMBERS
        }
    members = [name for name in body if name in _MESSAGE_MEMBERS and body[name] is not None]
    if str(body.get("id")).startswith(_MESSAGE_ID) and body["role"] == "assistant":
        members = [name for name in body if name in members or name == "id"]
    return {name: body[name] for name in members}


def _counted(item: Mapping[str, object]) -> Body:
    """Return the item as the message whose cost it has."""
    kind = item.get("type")
    if "role" in item:
        return {"content": item.get("content")}
    if kind in _CALLS:
        return {"tool_calls": [{name: item.get(name) for name in ("name", "arguments", "input")}]}
    if kind in _OUTPUTS:
        return {"content": item.get("output")}
    return {"content": [{name: item[name] for name in item if name not in _UNCOUNTED}]}


def _matched(items: Iterable[Body]) -> Iterable[Body]:
    """Yield the items; the output of a custom tool's call has a type of its own."""
    custom: set[object] = set()
    for item in items:
        if item.get("type") == "custom_tool_call":
            custom.add(item.get("call_id"))
        elif item.get("type") == "function_call":
            custom.discard(item.get("call_id"))
        elif item.get("type") == "function_call_output" and item.get("call_id") in custom:
            yield {**item, "type": "custom_tool_call_output"}
            continue
        yield item


def _said(spoken: Spoken, dialect: Dialect) -> list[Body]:
    if spoken.role == "user":
        parts = write_parts(spoken.said, _user_part(dialect), spoken.lost)
        return [{"role": "user", "content": as_content(parts)}] if parts else []
    texts = write_parts(spoken.said, _text_part, spoken.lost)
    return [{"role": "assistant", "content": text.get("text", [text])} for text in texts]


def _call(call: Call) -> Body:
    call_id = fit_id(call.id, allowed=_ID, longest=_LONGEST_ID)
    if call.custom:
        kind, member, text = "custom_tool_call", "input", call.arguments
    else:
        kind, member, text = "function_call", "arguments", as_text(call)
    return {"type": kind, "call_id": call_id, "name": call.name, member: text}


def _output(result: Result, dialect: Dialect, lost: list[str]) -> Body:
    parts = result_parts(result, _user_part(dialect), lost)
    call_id = fit_id(result.call_id, allowed=_ID, longest=_LONGEST_ID)
    return {"type": "function_call_output", "call_id": call_id, "output": as_content(parts)}


def _text_part(segment: Said) -> Body | None:
    words = segment.text
    return None if words is None else {"type": "input_text", "text": words}


def _user_part(dialect: Dialect) -> Write:
    return media_or(_text_part, partial(_media_part, dialect=dialect))


def _media_part(media: Media, dialect: Dialect) -> Body | None:
    file_id = file_id_of(media, dialect, "openai")
    found: Body | None = None if file_id is None else {"file_id": file_id}
    if media.kind == "image":
        address = media.url or data_address(media)
        found = found or (None if address is None else {"image_url": address})
        detail = {"detail": media.detail or "auto"}
        return None if found is None else {"type": "input_image", **detail, **found}
    if media.kind != "file":
        return None
    found = found or _file(media, dialect)
    return None if found is None else {"type": "input_file", **found}


def _file(media: Media, dialect: Dialect) -> Body | None:
    if media.url is not None:
        return {"file_url": media.url}
    data = file_data_of(media, dialect)
    named = {"filename": media.filename} if media.filename else {}
    return None if data is None else {"file_data": data, **named}
