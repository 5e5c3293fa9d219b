"""Rows and stored JSON to values of the domain, and back. A row never leaves the adapter."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias

import orjson

from app.core.digest import message_id
from app.core.model import (
    History,
    Large,
    NewMessage,
    NewTurn,
    Pointer,
    Registry,
    StoredMessage,
    Summary,
    Turn,
)
from app.core.origin import ForkedFrom
from app.core.pending import StaleTask, Write
from app.core.staging import Stored

PAYLOAD_VERSION = 1
"""Version of the layout of a turn's payload, see `encode_turn`."""

_STANDARD_LIBRARY = b" "
"""First byte of JSON text that orjson would not read back as it was written."""

Row: TypeAlias = Mapping[Any, Any]
"""A row by column name, of the driver or of Core."""


def encode(value: object) -> bytes:
    """Write JSON text, also lone surrogates and integers over 64 bits, which orjson refuses."""
    try:
        return orjson.dumps(value)
    except TypeError:
        return _STANDARD_LIBRARY + json.dumps(value, separators=(",", ":")).encode()


def decode(text: bytes) -> Any:
    """Read what `encode` wrote."""
    return json.loads(text) if text.startswith(_STANDARD_LIBRARY) else orjson.loads(text)


def encode_turn(turn: NewTurn) -> bytes:
    """Write a turn's payload: messages without their large members, costs, and where those are.

    Shape: `dialect` is left out where it is openai.
    """
    dialect = {} if turn.dialect == "openai" else {"dialect": turn.dialect}
    return encode(
        {
            "v": PAYLOAD_VERSION,
            "rules": turn.rules,
            **dialect,
            "messages": [message.body for message in turn.messages],
            "tokens": [message.tokens for message in turn.messages],
            "large": [
                entry
                for index, message in enumerate(turn.messages)
                for entry in _large_entries(index, message)
            ],
        }
    )


def _large_entries(index: int, message: NewMessage) -> Iterable[Mapping[str, object]]:
    for large, _ in message.large:
        yield {
            "index": index,
            "member": large.member,
            "channel": large.channel,
            "version": large.version,
            "bytes": large.size_bytes,
            "tokens": large.tokens,
            "preview": large.preview,
            "digest": _hex(message.digest),
            "cleaned": _hex(message.cleaned_digest),
        }


def end_position(checkpoint_id: str) -> int:
    """Return the position of a turn's last message, which its id begins with."""
    return int(checkpoint_id[:10])


def turn(row: Row) -> Turn:
    """Read one turn. raw: its identity."""
    return Turn(
        checkpoint_id=row["checkpoint_id"],
        parent_id=row["parent_id"],
        position=end_position(row["checkpoint_id"]),
        tokens=row["tokens"],
        step=row["step"],
        created_at=row["created_at"],
        messages=_messages(row["checkpoint_id"], row["raw"], decode(row["payload"])),
        metadata=row["metadata"] or {},
    )


def _messages(checkpoint_id: str, identity: bytes, payload: Row) -> tuple[StoredMessage, ...]:
    bodies, tokens, rules = payload["messages"], payload["tokens"], payload["rules"]
    first = end_position(checkpoint_id) - len(bodies) + 1
    dialect = payload.get("dialect", "openai")
    messages = [
        StoredMessage(
            id=message_id(identity, index),
            position=first + index,
            checkpoint_id=checkpoint_id,
            body=body,
            tokens=cost,
            rules=rules,
            dialect=dialect,
        )
        for index, (body, cost) in enumerate(zip(bodies, tokens, strict=True))
    ]
    if large := payload["large"]:
        for index in {entry["index"] for entry in large}:
            entries = [entry for entry in large if entry["index"] == index]
            messages[index] = _with_large(messages[index], entries)
    return tuple(messages)


def _with_large(message: StoredMessage, entries: Sequence[Row]) -> StoredMessage:
    return replace(
        message,
        large=tuple(
            Large(
                member=entry["member"],
                channel=entry["channel"],
                version=entry["version"],
                size_bytes=entry["bytes"],
                tokens=entry["tokens"],
                preview=entry["preview"],
            )
            for entry in entries
        ),
        digest=_unhex(entries[0]["digest"]),
        cleaned_digest=_unhex(entries[0]["cleaned"]),
    )


def branch(
    rows: Sequence[Row], head: str | None, read: Callable[[Row], Turn] = turn
) -> tuple[Turn, ...]:
    """Follow parents from the head and keep that chain. Shape: rows, turns oldest first."""
    chain: list[Turn] = []
    wanted = head
    for row in reversed(rows):
        if row["checkpoint_id"] == wanted:
            chain.append(read(row))
            wanted = row["parent_id"]
    return tuple(reversed(chain))


def history(
    rows: Sequence[Row], checkpoint_id: str | None, read: Callable[[Row], Turn] = turn
) -> History | None:
    """Read the load function's answer. None: no such thread; no turns: no such checkpoint."""
    if not rows:
        return None
    found = registry(decode(rows[0]["payload"]))
    head = checkpoint_id or found.head
    turns = branch([row for row in rows if row["kind"] == "turn"], head, read)
    return History(
        registry=found,
        head=head,
        position=turns[-1].position if turns else 0,
        tokens=turns[-1].tokens if turns else 0,
        turns=turns,
        pending=tuple(_write(row) for row in rows if row["kind"] == "write"),
        stale=tuple(_stale(row) for row in rows if row["kind"] == "stale"),
    )


def _write(row: Row) -> Write:
    return Write(
        key=row["checkpoint_id"],
        task_id=row["parent_id"],
        idx=row["step"],
        channel=decode(row["payload"])["channel"],
        value=decode(row["raw"]),
    )


def _stale(row: Row) -> StaleTask:
    parent = decode(row["payload"])["parent"]
    return StaleTask(parent=parent or None, key=row["checkpoint_id"], task_id=row["parent_id"])


def stored(row: Row) -> Stored:
    """Read the stage function's answer."""
    values = zip(row["channels"] or (), row["values"] or (), strict=True)
    return Stored(
        outcome=row["outcome"],
        parent=row["parent"] or None,
        checkpoint_id=row["checkpoint_id"],
        values=tuple((channel, decode(value.encode())) for channel, value in values),
    )


def registry(row: Row) -> Registry:
    """Read a registry row, from a statement or from the JSON in the load function's answer."""
    return Registry(
        thread_id=row["thread_id"],
        owner_id=row["owner_id"],
        head=row["head"],
        position=row["position"],
        turns=row["turns"],
        tokens=row["tokens"],
        size_bytes=row["bytes"],
        title=row["title"],
        metadata=row["metadata"],
        created_at=_time(row["created_at"]),
        updated_at=_time(row["updated_at"]),
        expires_at=_time(row["expires_at"]) if row["expires_at"] else None,
        summaries=pointers(row["summaries"]),
        summary_epoch=row["summary_epoch"],
        forked_from=_origin(row["forked_from"]),
    )


def _origin(stored: str | None) -> ForkedFrom | None:
    """Read what fork_thread_v1 notes: a checkpoint's id and a thread's, which may hold spaces."""
    if stored is None:
        return None
    checkpoint_id, _, thread_id = stored.partition(" ")
    return ForkedFrom(thread_id, checkpoint_id)


def pointers(stored: Iterable[Row]) -> tuple[Pointer, ...]:
    """Read the registry's summary pointers."""
    return tuple(
        Pointer(pointer["checkpoint_id"], pointer["position"], pointer["tokens"])
        for pointer in stored
    )


def pointer_json(pointer: Pointer) -> dict[str, object]:
    """Write one summary pointer."""
    return {
        "checkpoint_id": pointer.checkpoint_id,
        "position": pointer.position,
        "tokens": pointer.tokens,
    }


def encode_summary(summary: Summary) -> bytes:
    """Write a durable summary."""
    return encode(
        {
            "text": summary.text,
            "boundary": pointer_json(summary.boundary),
            "method": summary.method,
            "model": summary.model,
            "prompt": summary.prompt,
            "created_at": summary.created_at.isoformat(),
        }
    )


def summary(data: bytes) -> Summary:
    """Read a durable summary."""
    stored = decode(data)
    return Summary(
        text=stored["text"],
        boundary=pointers([stored["boundary"]])[0],
        method=stored["method"],
        model=stored["model"],
        prompt=stored["prompt"],
        created_at=_time(stored["created_at"]),
    )


def _time(value: datetime | str) -> datetime:
    moment = datetime.fromisoformat(value) if isinstance(value, str) else value
    return moment.astimezone(UTC)


def _hex(digest: bytes | None) -> str | None:
    return None if digest is None else digest.hex()


def _unhex(digest: str | None) -> bytes | None:
    return None if digest is None else bytes.fromhex(digest)
