"""Channel values as they travel: plain JSON inside the checkpoint, or typed bytes beside it.

The service never decodes typed bytes. What wrote them (the saver's serializer) reads them back.
"""

from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from math import isfinite
from typing import Any, Final

from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from threadkeep_client.errors import ThreadkeepError

MAX_INLINE_BYTES: Final = 8192
"""A longer text is a blob: stored once, not again in every checkpoint that still holds it."""
_MAX_INTEGER = 2**63


class PickledValue(ThreadkeepError, TypeError):
    """A value only pickle could carry, and loading a pickle runs whatever code it holds."""

    def __init__(self, channel: str, kind: str) -> None:
        self.channel = channel
        self.kind = kind
        super().__init__(channel, kind)

    def __str__(self) -> str:
        return (
            f"Channel {self.channel!r} holds a {self.kind} that only pickle can serialize, and "
            "Threadkeep stores no pickle: loading one runs code. Keep it in the state as plain "
            "data, a dataclass or a pydantic model, or keep it out of the state (UntrackedValue, "
            "or rebuild it inside the node)."
        )


@dataclass(frozen=True, slots=True)
class ChannelValues:
    """The values of one checkpoint, divided: `inline` as plain JSON, `blobs` as typed bytes."""

    inline: dict[str, object]
    blobs: dict[str, dict[str, str]]


def dump(serde: SerializerProtocol, channel: str, value: object) -> dict[str, str]:
    """Return a value as typed bytes. Errors: PickledValue, and the serializer's own."""
    kind, data = serde.dumps_typed(value)
    if kind.startswith("pickle"):
        raise PickledValue(channel, type(value).__qualname__)
    return {"type": kind, "data": b64encode(data).decode("ascii")}


def load(serde: SerializerProtocol, typed: Mapping[str, Any]) -> Any:
    """Return the value that these typed bytes were made of."""
    return serde.loads_typed((typed["type"], b64decode(typed["data"] or "")))


def load_blobs(serde: SerializerProtocol, blobs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the values of a checkpoint's blobs by channel."""
    return {blob["channel"]: load(serde, blob) for blob in blobs if blob["type"] != "empty"}


def divide(
    values: Mapping[str, Any], stored: Mapping[str, object], serde: SerializerProtocol
) -> ChannelValues:
    """Divide the values of a checkpoint into plain JSON and blobs.

    A blob is only made for the channels in `stored`: the others have theirs from an ancestor. A
    snapshot of a delta channel leaves `true` beside its blob, as LangGraph's own layout does. What
    is to be encrypted is never inline.   Errors: PickledValue.
    """
    inline: dict[str, object] = {}
    large: dict[str, object] = {}
    encrypted = isinstance(serde, EncryptedSerializer)
    for channel, value in values.items():
        if isinstance(value, _DeltaSnapshot) and channel in stored:
            inline[channel], large[channel] = True, value
        elif not encrypted and is_inline(value):
            inline[channel] = value
        elif channel in stored:
            large[channel] = value
    return ChannelValues(inline, {name: dump(serde, name, value) for name, value in large.items()})


def is_inline(value: object) -> bool:
    """Tell whether JSON brings back exactly this value: None, bool, number or not too long text.

    A member of an enumeration is a blob, which keeps its type.
    """
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, Enum):
        return False
    if isinstance(value, str):
        return _is_short_text(value)
    if isinstance(value, int):
        return -_MAX_INTEGER <= value < _MAX_INTEGER
    return isinstance(value, float) and isfinite(value)


def plain(value: object) -> object:
    """Return metadata without what JSON text in a database cannot hold: NUL, half characters."""
    if isinstance(value, str):
        return value.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, Mapping):
        return dict(_plain_members(value))
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def _plain_members(members: Mapping[Any, object]) -> Iterator[tuple[Any, object]]:
    for name, value in members.items():
        yield plain(name), plain(value)


def _is_short_text(text: str) -> bool:
    if len(text) > MAX_INLINE_BYTES or "\0" in text:
        return False
    try:
        return len(text.encode()) <= MAX_INLINE_BYTES
    except UnicodeEncodeError:
        return False
