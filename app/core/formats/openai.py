"""OpenAI chat completions: messages as they were stored, without what a provider would refuse."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from app.core.dialects.neutral import Call, Dialect, Media, Refusal, Result
from app.core.dialects.reading import read_message
from app.core.formats.arguments import as_text, fit_id
from app.core.formats.format import Sections, Translated
from app.core.formats.segments import (
    JOINS,
    STUB_TYPE,
    Said,
    Spoken,
    Write,
    as_content,
    data_address,
    file_data_of,
    file_id_of,
    media_or,
    result_parts,
    runs,
    take_apart,
    write_parts,
)
from app.core.messages import parts_of
from app.core.model import Body
from app.core.ports import Count
from app.core.tokens import (
    IMAGE_TOKENS,
    MESSAGE_OVERHEAD,
    REPLY_OVERHEAD,
    SENT_MEMBERS,
    message_tokens,
)

_SENT = frozenset(SENT_MEMBERS)
_SOUNDS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

_ID = re.compile(r".+", re.DOTALL)
_LONGEST_ID = 40
# Source: the API's own refusals, "string too long. Expected a string with maximum length 40"
# (microsoft/autogen#6377), and its pattern for names.
_NAME = re.compile(r"[^\s<|\\/>]{1,64}")


@dataclass(frozen=True, slots=True)
class OpenAIFormat:
    """The `openai` format. Messages stored as such pass as they are, foreign parts included."""

    image_tokens: int = IMAGE_TOKENS
    name: str = "openai"
    reply_overhead: int = REPLY_OVERHEAD
    opens_with_user: bool = False
    pairs_meet: bool = True

    def translate(self, body: Body, dialect: Dialect) -> Translated:
        """Write a stored message: results as `tool` messages, then what is said and called."""
        if dialect == "openai":
            return Translated((body,))
        spoken = take_apart(read_message(body))
        bodies = [_tool_message(result, spoken.lost) for result in spoken.results]
        bodies += _message(spoken, dialect)
        return Translated(tuple(bodies), tuple(spoken.lost))

    def frame(self, body: Body) -> Body:
        """Return the system message as it is."""
        return body

    def cost(self, body: Mapping[str, object], count: Count) -> int:
        """Return what one message costs, by the rules of app.core.tokens."""
        return message_tokens(body, count, image_tokens=self.image_tokens)

    def saved(self, sections: Sections) -> int:
        """Return the overhead of pieces that were joined."""
        return MESSAGE_OVERHEAD * sum(len(run) - 1 for run in runs(sections.bodies()))

    def render(self, sections: Sections) -> Mapping[str, object]:
        """Return `messages`, each with the members that are sent (tokens.SENT_MEMBERS).

        Null members but `content`, and an empty list of calls, are left out: client libraries write
        them into every message they dump, and the same providers refuse them.
        """
        return {"messages": [_sent(_join(run)) for run in runs(sections.bodies())]}

    def total(self, output: Mapping[str, object], added: int, count: Count) -> int:  # noqa: ARG002
        """Return the sum: messages are counted one by one, so costs simply add up."""
        return added


def _sent(body: Body) -> Body:
    return {
        member: _stub_alone(value) if member == "content" else value
        for member, value in body.items()
        if member == "content" or (member in _SENT and value is not None and value != [])
    }


def _stub_alone(content: object) -> object:
    """Return a content that is one stub as that stub: so the contract has it (design, 3.1)."""
    if not isinstance(content, list) or len(content) != 1:
        return content
    part = content[0]
    return part if isinstance(part, dict) and part.get("type") == STUB_TYPE else content


def _join(run: Sequence[Body]) -> Body:
    if len(run) == 1:
        return run[0]
    parts = [_as_part(part) for body in run for part in parts_of(body)]
    calls = [call for body in run for call in _list(body.get("tool_calls"))]
    content = as_content(parts) if parts else None
    return {"role": "assistant", "content": content, **({"tool_calls": calls} if calls else {})}


def _as_part(part: object) -> Body:
    return part if isinstance(part, dict) else {"type": "text", "text": part}


def _list(value: object) -> Iterable[object]:
    return value if isinstance(value, list) else ()


def _tool_message(result: Result, lost: list[str]) -> Body:
    parts = result_parts(result, _text_part, lost)
    call_id = fit_id(result.call_id, allowed=_ID, longest=_LONGEST_ID)
    return {"role": "tool", "tool_call_id": call_id, "content": as_content(parts)}


def _message(spoken: Spoken, dialect: Dialect) -> list[Body]:
    assistant = spoken.role == "assistant"
    write = _assistant_part if assistant else _user_part(dialect)
    parts = write_parts(spoken.said, write, spoken.lost)
    if not parts and not spoken.calls:
        return []
    body: Body = {"role": spoken.role, "content": as_content(parts) if parts else None}
    if spoken.calls:
        body["tool_calls"] = [_call(call) for call in spoken.calls]
    if spoken.name is not None:
        if _NAME.fullmatch(spoken.name):
            body["name"] = spoken.name
        else:
            spoken.lost.append("name")
    if assistant and dialect == "responses":
        body[JOINS] = True
    return [body]


def _call(call: Call) -> Body:
    call_id = fit_id(call.id, allowed=_ID, longest=_LONGEST_ID)
    if call.custom:
        custom = {"name": call.name, "input": call.arguments}
        return {"id": call_id, "type": "custom", "custom": custom}
    function = {"name": call.name, "arguments": as_text(call)}
    return {"id": call_id, "type": "function", "function": function}


def _text_part(segment: Said) -> Body | None:
    words = segment.text
    return None if words is None else {"type": "text", "text": words}


def _assistant_part(segment: Said) -> Body | None:
    if isinstance(segment, Refusal):
        return {"type": "refusal", "refusal": segment.text}
    return _text_part(segment)


def _user_part(dialect: Dialect) -> Write:
    return media_or(_text_part, partial(_media_part, dialect=dialect))


def _media_part(media: Media, dialect: Dialect) -> Body | None:
    match media.kind:
        case "image":
            return _image_part(media)
        case "audio" if media.data is not None and media.media_type in _SOUNDS:
            sound = {"data": media.data, "format": _SOUNDS[media.media_type]}
            return {"type": "input_audio", "input_audio": sound}
        case "file":
            return _file_part(media, dialect)
        case _:
            return None


def _image_part(media: Media) -> Body | None:
    address = media.url or data_address(media)
    if address is None:
        return None
    detail = {"detail": media.detail} if media.detail else {}
    return {"type": "image_url", "image_url": {"url": address, **detail}}


def _file_part(media: Media, dialect: Dialect) -> Body | None:
    file_id = file_id_of(media, dialect, "openai")
    if file_id is not None:
        return {"type": "file", "file": {"file_id": file_id}}
    data = file_data_of(media, dialect)
    if data is None:
        return None
    named = {"filename": media.filename} if media.filename else {}
    return {"type": "file", "file": {"file_data": data, **named}}
