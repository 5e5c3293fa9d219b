"""A conversation's checkpoints, as they are sent and read back: no I/O here."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self, TypeAlias
from uuid import uuid4

from pydantic import ConfigDict, TypeAdapter
from pydantic_ai.conversation_store import ConversationEntry, ConversationRecord

Body: TypeAlias = dict[str, Any]

NAMESPACE = "pydantic-ai"

# Lists, since an adapter of a dataclass alone takes no config. Bytes as pydantic-ai writes them.
_CONFIG = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")
_RECORDS = TypeAdapter(list[ConversationRecord], config=_CONFIG)
_ENTRIES = TypeAdapter(list[ConversationEntry], config=_CONFIG)


@dataclass(frozen=True, slots=True)
class Row:
    """A conversation's newest checkpoint. run_id: of this life of the conversation."""

    checkpoint_id: str
    run_id: str
    revision: str
    head_id: str | None
    scope: str | None

    @classmethod
    def of(cls, checkpoint_id: str, run_id: str, record: ConversationRecord) -> Self:
        """Return the row of a record."""
        return cls(checkpoint_id, run_id, record.revision, record.head_id, record.scope)


def target(conversation_id: str, checkpoint_id: str | None = None) -> Body:
    """Return what names a conversation, or one checkpoint of it."""
    named = {"thread_id": conversation_id, "checkpoint_ns": NAMESPACE}
    if checkpoint_id is not None:
        named["checkpoint_id"] = checkpoint_id
    return {"config": {"configurable": named}}


def next_row(row: Row | None, record: ConversationRecord) -> Row:
    """Return the row that a record makes when it replaces another one (None: there is none)."""
    return Row.of(_next_id(row), row.run_id if row else uuid4().hex, record)


def saved_body(
    replaced: Row | None,
    row: Row,
    record: ConversationRecord,
    entries: Sequence[ConversationEntry],
) -> Body:
    """Return the put of a record and its entries.

    Shape: what is listed are the first checkpoint of a conversation, and each with another scope
        than the one before, so that a list finds every conversation once or little more.
    """
    values = {"record": _RECORDS.dump_json([record])}
    if entries:
        values["entries"] = _ENTRIES.dump_json(list(entries))
    metadata: Body = {"run_id": row.run_id, "entries": [entry.id for entry in entries]}
    if replaced is None or replaced.scope != row.scope:
        metadata |= {"listed": True, "scope": row.scope}
    return _put_body(row.checkpoint_id, values, metadata)


def deleted_body(row: Row) -> Body:
    """Return the put that ends a conversation; it is erased with the rest of it."""
    return _put_body(_next_id(row), {}, {"run_id": row.run_id, "deleted": True})


def _put_body(checkpoint_id: str, values: Mapping[str, bytes], metadata: Body) -> Body:
    versions = dict.fromkeys(values, checkpoint_id)
    return {
        "checkpoint": {
            "v": 1,
            "id": checkpoint_id,
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {},
            "channel_versions": versions,
            "versions_seen": {},
        },
        "blobs": [
            {
                "channel": channel,
                "version": checkpoint_id,
                "type": "json",
                "data": base64.b64encode(data).decode(),
            }
            for channel, data in values.items()
        ],
        "metadata": metadata,
        "new_versions": versions,
    }


def record_of(item: Body) -> ConversationRecord | None:
    """Return the record of a checkpoint; None where the conversation ends."""
    data = _value(item, "record")
    return None if data is None else _RECORDS.validate_json(data)[0]


def entries_of(item: Body) -> list[ConversationEntry]:
    """Return the entries that a checkpoint brought, oldest first."""
    data = _value(item, "entries")
    return [] if data is None else _ENTRIES.validate_json(data)


def _value(item: Body, channel: str) -> bytes | None:
    for blob in item["blobs"]:
        if blob["channel"] == channel:
            return base64.b64decode(blob["data"])
    return None


def id_of(item: Body) -> str:
    """Return a checkpoint's id."""
    return str(item["config"]["configurable"]["checkpoint_id"])


def thread_of(item: Body) -> str:
    """Return the conversation of a checkpoint."""
    return str(item["config"]["configurable"]["thread_id"])


def history_of(
    entries: Mapping[str, ConversationEntry], head_id: str, limit: int | None
) -> list[ConversationEntry] | None:
    """Return the last entries up to the head; None if the chain leads out of those given."""
    history: list[ConversationEntry] = []
    entry_id: str | None = head_id
    while entry_id is not None and (limit is None or len(history) < limit):
        if (entry := entries.get(entry_id)) is None:
            return None
        history.append(entry)
        entry_id = entry.parent_id
    return history[::-1]


def _next_id(row: Row | None) -> str:
    """Return an id that sorts behind the row's: the newest checkpoint is the greatest."""
    count = int(row.checkpoint_id.partition("-")[0]) + 1 if row else 1
    return f"{count:010d}-{uuid4().hex}"
