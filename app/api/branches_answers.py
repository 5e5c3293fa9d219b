"""The answers about a thread's tree: how they are written, and their documentation."""

from collections.abc import Mapping, Sequence
from datetime import datetime

import orjson
from pydantic import BaseModel

from app.api.answers import StoredMessageOut, ThreadOut, Warned
from app.core.branches import Checkpoint, Value
from app.core.model import StoredMessage, Turn


class PointOut(BaseModel):
    """One point of a tree. current: on the branch that ends in the head.

    step: turns before it; a graph's own count. source: `turn`, or what LangGraph noted.
    position, tokens: of the branch up to here; null for a graph checkpoint.
    """

    checkpoint_id: str
    parent_checkpoint_id: str | None
    ns: str
    step: int | None
    source: str | None
    position: int | None
    tokens: int | None
    created_at: datetime
    metadata: dict[str, object]
    current: bool


class CheckpointOut(PointOut):
    """A checkpoint in a list. messages: how many the turn holds; null for a graph checkpoint."""

    messages: int | None


class CheckpointsPage(BaseModel):
    """Checkpoints of every branch, greatest id first."""

    items: list[CheckpointOut]
    next_cursor: str | None
    has_more: bool


class ChannelEntryOut(BaseModel):
    """A large value of a turn, without the value. message_id, member: where it belongs."""

    channel: str
    version: str
    bytes: int
    tokens: int
    preview: str
    message_id: str
    member: str


class OneCheckpointOut(PointOut):
    """One turn: its messages as they were sent, and which of their values are channels."""

    messages: list[StoredMessageOut]
    channels: list[ChannelEntryOut]


class ChannelOut(BaseModel):
    """One large value. bytes: of its JSON."""

    checkpoint_id: str
    channel: str
    version: str
    type: str
    bytes: int
    value: object


class ChangedThreadOut(ThreadOut):
    """The thread as it is now."""

    warnings: list[Warned]


def checkpoint_json(checkpoint: Checkpoint) -> dict[str, object]:
    """Return a checkpoint of a list."""
    return {
        "checkpoint_id": checkpoint.checkpoint_id,
        "parent_checkpoint_id": checkpoint.parent_id,
        "ns": checkpoint.ns,
        "step": checkpoint.step,
        "source": checkpoint.source,
        "position": checkpoint.position,
        "messages": checkpoint.messages,
        "tokens": checkpoint.tokens,
        "created_at": checkpoint.created_at,
        "metadata": checkpoint.metadata,
        "current": checkpoint.current,
    }


def channels_json(messages: Sequence[StoredMessage]) -> list[Mapping[str, object]]:
    """Return what is told of the large values of a turn's messages, as they are stored."""
    return [
        {
            "channel": large.channel,
            "version": large.version,
            "bytes": large.size_bytes,
            "tokens": large.tokens,
            "preview": large.preview,
            "message_id": message.id,
            "member": large.member,
        }
        for message in messages
        for large in message.large
    ]


def turn_json(turn: Turn, ns: str, *, current: bool) -> dict[str, object]:
    """Return a turn, but for its messages."""
    return {
        "checkpoint_id": turn.checkpoint_id,
        "parent_checkpoint_id": turn.parent_id,
        "ns": ns,
        "step": turn.step,
        "source": "turn",
        "position": turn.position,
        "tokens": turn.tokens,
        "created_at": turn.created_at,
        "metadata": turn.metadata,
        "current": current,
        "channels": channels_json(turn.messages),
    }


def value_json(checkpoint_id: str, value: Value) -> dict[str, object]:
    """Return one large value; its JSON goes out as it was stored, without being parsed."""
    return {
        "checkpoint_id": checkpoint_id,
        "channel": value.channel,
        "version": value.version,
        "type": value.type,
        "bytes": len(value.data),
        "value": orjson.Fragment(value.data),
    }
