"""Who a turn is and what it says: two hashes over canonical JSON, and the ids read off them.

Everything hashed is one JSON value, so no text can reach over the edge of its field: `["a","b|c"]`
and `["a|b","c"]` never meet. The vectors in tests/data/golden_vectors.json are frozen: changing
anything here would make every stored turn look new to its own retry.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TypeAlias

from app.core.dialects.items import item_content
from app.core.dialects.view import chat_view, is_item
from app.core.messages import TEXT_PART_TYPES
from app.core.model import Body, ThreadKey

# The last three are where OpenAI's dialects keep what others put into content and tool_calls; left
# out, any two refusals would be the same message.
_MEMBERS = (
    "role",
    "content",
    "tool_calls",
    "tool_call_id",
    "name",
    "function_call",
    "refusal",
    "audio",
)
_PLAIN_PART = frozenset({"type", "text"})
_CHECKPOINT_ID = re.compile(r"([0-9]{10})-[0-9a-f]{22}")
_MAX_POSITION = 10**10 - 1


@dataclass(frozen=True, slots=True)
class KeyAnchor:
    """The caller's own turn key."""

    key: str


@dataclass(frozen=True, slots=True)
class ParentAnchor:
    """The parent as the caller sent it (None: "the thread was empty"), and the turn's digest."""

    parent: str | None
    digest: bytes


@dataclass(frozen=True, slots=True)
class HeadAnchor:
    """The head that a save without key and parent was decided on, and the turn's digest."""

    head: str | None
    digest: bytes


Anchor: TypeAlias = KeyAnchor | ParentAnchor | HeadAnchor


def canonical(value: object) -> bytes:
    """Return the canonical JSON of a parsed JSON value.

    Shape:  UTF-8, no white space, members sorted by code point, list order kept, text as it is
        (no Unicode normalisation). Equal numbers of one kind are spelled alike (1e2 is 100.0, -0.0
        is 0.0); the integer 1 and the fraction 1.0 stay two values.
    Errors: ValueError for NaN, an infinity or a lone surrogate.
    """
    text = _dumps(value)
    if "-0.0" in text:
        text = _dumps(_without_negative_zero(value))
    return text.encode()


def message_content(body: Mapping[str, object]) -> Body:
    """Return what of a message is its content, for comparing: role, content, calls, call id, name.

    Shape: a member that is null, and an empty list of calls, counts as absent; a list of one plain
        text part (type and text, nothing else) counts as its string. Ids, times and metadata are
        not content. A Responses item that is no message is its own members without id and status;
        a LangChain message is what it would say as a chat message.
    """
    if is_item(body):
        return item_content(body)
    body = chat_view(body)
    content = {name: body[name] for name in _MEMBERS if body.get(name) is not None}
    if content.get("tool_calls") == []:
        del content["tool_calls"]
    if "content" in content:
        content["content"] = _plain(content["content"])
    return content


def message_digest(body: Mapping[str, object]) -> bytes:
    """Return the digest of one message's content. Errors: ValueError as in `canonical`."""
    return sha256(canonical(message_content(body))).digest()


def turn_digest(bodies: Iterable[Mapping[str, object]]) -> bytes:
    """Return the digest of a turn's content. Errors: ValueError as in `canonical`."""
    return sha256(canonical([message_content(body) for body in bodies])).digest()


def identity(key: ThreadKey, anchor: Anchor) -> bytes:
    """Return the turn's identity, unique per tenant and thread; the owner has no part in it.

    Shape: the kind of the anchor is hashed too, so a key can never look like a parent.
    """
    return sha256(canonical([key.tenant_id, key.thread_id, *_spell(anchor)])).digest()


def message_id(turn_identity: bytes, index: int) -> str:
    """Return the id of the turn's message at index, from 0."""
    return "msg_" + sha256(turn_identity + index.to_bytes(4, "big")).hexdigest()[:24]


def checkpoint_suffix(turn_identity: bytes) -> str:
    """Return the part of a checkpoint id that tells turns of one position apart."""
    return turn_identity.hex()[:22]


def make_checkpoint_id(position: int, turn_identity: bytes) -> str:
    """Return the checkpoint id of the turn that ends at position; ids sort by position.

    Errors: ValueError for a position that ten digits cannot hold.
    """
    if not 0 <= position <= _MAX_POSITION:
        raise ValueError(f"position {position} does not fit into ten digits")
    return f"{position:010d}-{checkpoint_suffix(turn_identity)}"


def position_of(checkpoint_id: str) -> int:
    """Return the position a turn's checkpoint id tells.

    Errors: ValueError for anything but ten digits, a hyphen and 22 hex digits.
    """
    found = _CHECKPOINT_ID.fullmatch(checkpoint_id)
    if found is None:
        raise ValueError("not the checkpoint id of a turn")
    return int(found[1])


def _dumps(value: object) -> str:
    return json.dumps(
        value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":")
    )


def _without_negative_zero(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_negative_zero(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_without_negative_zero(item) for item in value]
    return 0.0 if isinstance(value, float) and value == 0 else value


def _plain(content: object) -> object:
    if not isinstance(content, list) or len(content) != 1:
        return content
    part = content[0]
    if isinstance(part, dict) and part.keys() == _PLAIN_PART and part["type"] in TEXT_PART_TYPES:
        part = part["text"]
    return part if isinstance(part, str) else content


def _spell(anchor: Anchor) -> list[str | None]:
    if isinstance(anchor, KeyAnchor):
        return ["key", anchor.key]
    if isinstance(anchor, ParentAnchor):
        return ["parent", anchor.parent, anchor.digest.hex()]
    return ["head", anchor.head, anchor.digest.hex()]
