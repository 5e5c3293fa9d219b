"""Members too large to stand in the turn's row: out into blobs of their own, and back again."""

import json
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import replace
from hashlib import sha256
from typing import TypeAlias

from app.core.dialects.langchain import data_of
from app.core.digest import message_digest, message_id
from app.core.messages import text_of
from app.core.model import Body, Large, NewMessage, StoredMessage

INLINE_BYTES = 8192
"""A member whose JSON is longer than this lives in a blob (design: over 8 KiB)."""

PREVIEW_CHARACTERS = 200

Cost: TypeAlias = Callable[[Mapping[str, object]], int]
"""What one cleaned message costs, in tokens, its overhead included."""

_MAX_CHANNEL_NAME = 64
_JOINER = "\u200d"
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_FLAG_LETTERS = range(0x1F1E6, 0x1F200)
_SKELETON = {
    "tool_use": ("type", "id", "name"),
    "tool_result": ("type", "tool_use_id"),
    "function_call": ("type", "call_id", "id", "name"),
    "custom_tool_call": ("type", "call_id", "id", "name"),
}
# In LangChain's additional_kwargs: the calls as the provider sent them.
_REPEATED = ("tool_calls", "function_call")
_DATA = "data."


def prepare(
    body: Body, turn_identity: bytes, index: int, *, cost: Cost, cleaned: Mapping[str, object]
) -> NewMessage:
    """Make a message ready to be stored: its cost, its large members apart, its digests.

    Shape: index is the message's in its turn, from 0; cleaned is the body as a load would send it.
    Units: tokens of one encoding, of the cleaned message.
    """
    tokens = cost(cleaned)
    small, large = split_large(
        body,
        turn_identity,
        index,
        preview=lambda member: _preview(member, _members(cleaned).get(member)),
        tokens=lambda member: tokens - cost(_without(cleaned, member)),
    )
    if not large:
        return NewMessage(body=body, tokens=tokens)
    return NewMessage(small, tokens, large, message_digest(body), message_digest(cleaned))


def split_large(
    body: Body,
    turn_identity: bytes,
    index: int,
    *,
    preview: Callable[[str], str],
    tokens: Callable[[str], int],
) -> tuple[Body, tuple[tuple[Large, bytes], ...]]:
    """Take the members whose JSON is over 8 KiB out of a message.

    Shape: -> the message with those members null (calls and results keep their ids and names, so
        that pairs and exchanges can be told without the blob), and each member's JSON text. Of a
        LangChain message it is the members of its data, as `data.content` and the like.
    Units: preview and tokens are asked for each large member by name.
    """
    members = _members(body)
    texts = {member: _json(value) for member, value in members.items()}
    large = {member: text for member, text in texts.items() if len(text) > INLINE_BYTES}
    small = _replaced(body, {member: _placeholder(members[member]) for member in large})
    owner = message_id(turn_identity, index)
    return small, tuple(
        (
            Large(
                member=member,
                channel=f"{owner}.{_channel_name(member)}",
                version=sha256(text).hexdigest()[:22],
                size_bytes=len(text),
                tokens=tokens(member),
                preview=preview(member),
            ),
            text,
        )
        for member, text in large.items()
    )


def join_large(body: Mapping[str, object], values: Mapping[str, bytes]) -> Body:
    """Put large members back: the message as it was, member order included.

    Shape: values are JSON texts by Large.member; members not among them stay as they are.
    """
    return _replaced(body, {member: json.loads(text) for member, text in values.items()})


def restore(message: StoredMessage, blobs: Mapping[tuple[str, str], bytes]) -> StoredMessage:
    """Put the blobs that were read, by (channel, version), back into a message.

    Shape: `large` keeps the members whose blob was not among them.
    """
    found = {
        item.member: blobs[item.channel, item.version]
        for item in message.large
        if (item.channel, item.version) in blobs
    }
    left = tuple(item for item in message.large if item.member not in found)
    return replace(message, body=join_large(message.body, found), large=left)


def cut_preview(text: str) -> str:
    """Return the first 200 characters, fewer where the cut would fall inside a visible one."""
    if len(text) <= PREVIEW_CHARACTERS:
        return text
    cut = PREVIEW_CHARACTERS
    while cut and _belongs_together(text[cut - 1], text[cut]):
        cut -= 1
    # Two hundred characters without one place to cut are not writing; then any place will do.
    return text[: cut or PREVIEW_CHARACTERS]


def _members(body: Mapping[str, object]) -> Mapping[str, object]:
    """Return what may be large, by the name it has as Large.member."""
    data = data_of(body)
    if data is None:
        return body
    return {f"{_DATA}{name}": value for name, value in data.items()}


def _replaced(body: Mapping[str, object], values: Mapping[str, object]) -> Body:
    data = data_of(body)
    if data is None:
        return {member: values.get(member, value) for member, value in body.items()}
    inner = {name: values.get(f"{_DATA}{name}", value) for name, value in data.items()}
    return {**body, "data": inner}


def _json(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _placeholder(value: object) -> object:
    if isinstance(value, dict):
        named = _pick(value, ("name",)) if "arguments" in value else {}
        named |= {name: _placeholder(value[name]) for name in _REPEATED if value.get(name)}
        return named or None
    if not isinstance(value, list):
        return None
    return [bones for item in value if (bones := _bones(item)) is not None] or None


def _bones(item: object) -> Body | None:
    if not isinstance(item, dict):
        return None
    for member in ("function", "custom"):
        inner = item.get(member)
        if isinstance(inner, dict):
            return {**_pick(item, ("id", "type")), member: _pick(inner, ("name",))}
    kept = _SKELETON.get(str(item.get("type")), ("id", "name", "type") if "args" in item else None)
    return _pick(item, kept) if kept else None


def _pick(value: Mapping[str, object], members: tuple[str, ...]) -> Body:
    return {member: value[member] for member in members if member in value}


def _channel_name(member: str) -> str:
    # A member's name is the client's: a column may not take it (NUL), nor an index (its length).
    plain = member.isascii() and member.removeprefix(_DATA).isidentifier()
    if plain and len(member) <= _MAX_CHANNEL_NAME:
        return member
    return sha256(member.encode()).hexdigest()[:22]


def _preview(member: str, value: object) -> str:
    if member in ("content", f"{_DATA}content"):
        return cut_preview(text_of({"content": value}))
    if value is None:
        return ""
    return cut_preview(value if isinstance(value, str) else _json(value).decode())


def _without(body: Mapping[str, object], member: str) -> Body:
    data = data_of(body)
    if data is None:
        return {name: value for name, value in body.items() if name != member}
    inner = {name: value for name, value in data.items() if f"{_DATA}{name}" != member}
    return {**body, "data": inner}


def _belongs_together(left: str, right: str) -> bool:
    if _JOINER in (left, right) or (left, right) == ("\r", "\n"):
        return True
    if unicodedata.category(right).startswith("M") or ord(right) in _SKIN_TONES:
        return True
    return ord(left) in _FLAG_LETTERS and ord(right) in _FLAG_LETTERS
