"""BranchStore on PostgreSQL: the tree of a thread's turns, its head, forks."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from app.adapters.sql import rows
from app.adapters.sql.cursors import opened, sealed, storable
from app.adapters.sql.engine import Database
from app.adapters.sql.history import names, turn_id, utc_now
from app.adapters.sql.tables import TURNS
from app.core.branches import (
    Checkpoint,
    CheckpointPage,
    Forked,
    HeadMove,
    HeadMoved,
    Value,
    mark_current,
)
from app.core.errors import ChannelNotFound, CheckpointNotFound, ThreadNotFound
from app.core.model import Registry, ThreadKey, Turn

_VISIBLE = """t.tenant_id = $1 AND t.thread_id = $2 AND ($3::text IS NULL OR t.owner_id = $3)
   AND t.deleted_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > $4)"""

# A thread without checkpoints is one row of nulls, an unknown one is none.
_PAGE = """
SELECT t.head, c.*
  FROM {schema}.threads t
  LEFT JOIN LATERAL (
       SELECT c.checkpoint_id, c.parent_id, c.step, c.tokens, c.created_at, c.metadata
         FROM {schema}.checkpoints c
        WHERE c.tenant_id = $1 AND c.thread_id = $2 AND c.ns = $5 AND c.checkpoint_id < $6
        ORDER BY c.checkpoint_id DESC LIMIT $7) AS c ON true
 WHERE {visible}
 ORDER BY c.checkpoint_id DESC"""

_TURN = """
SELECT c.checkpoint_id, c.parent_id, c.step, c.tokens, c.created_at, c.identity AS raw,
       c.checkpoint AS payload, c.metadata,
       c.checkpoint_id IS NOT NULL
         AND {schema}.on_branch_v1($1, $2, t.head, c.checkpoint_id) AS current
  FROM {schema}.threads t
  LEFT JOIN {schema}.checkpoints c
    ON c.tenant_id = $1 AND c.thread_id = $2 AND c.ns = '~turns' AND c.checkpoint_id = $5
 WHERE {visible}"""

_VALUE = """
SELECT c.checkpoint_id, c.parent_id, c.step, c.tokens, c.created_at, c.identity AS raw,
       c.checkpoint AS payload, c.metadata, b.version, b.type, b.data
  FROM {schema}.threads t
  LEFT JOIN {schema}.checkpoints c
    ON c.tenant_id = $1 AND c.thread_id = $2 AND c.ns = '~turns' AND c.checkpoint_id = $5
  LEFT JOIN {schema}.checkpoint_blobs b
    ON b.tenant_id = $1 AND b.thread_id = $2 AND b.ns = '~turns' AND b.channel = $6
 WHERE {visible}"""

_MOVE = "SELECT * FROM {schema}.move_head_v1($1, $2, $3, $4, $5, $6, $7)"

_FORK = "SELECT * FROM {schema}.fork_thread_v1($1, $2, $3, $4, $5, $6)"

_ABOVE_ALL = "\U0010ffff"
"""Sorts behind every id."""


class SqlBranchStore:
    """Implements BranchStore."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    async def page(
        self, key: ThreadKey, ns: str, *, limit: int, cursor: str | None
    ) -> CheckpointPage | None:
        """List checkpoints, greatest id first. See BranchStore.page."""
        before, wanted = (_ABOVE_ALL, None) if cursor is None else opened(cursor, _tree_cursor)
        found = await self._run(_PAGE, *names(key), self._now(), ns, before, limit + 1)
        if not found:
            return None
        listed = [row for row in found if row["checkpoint_id"] is not None]
        if cursor is None and listed:
            wanted = found[0]["head"] if ns == TURNS else listed[0]["checkpoint_id"]
        page = listed[:limit]
        marks, wanted = mark_current(
            [(row["checkpoint_id"], row["parent_id"]) for row in page], wanted
        )
        items = tuple(_checkpoint(row, ns, mark) for row, mark in zip(page, marks, strict=True))
        if len(listed) <= limit:
            return items, None
        return items, sealed(items[-1].checkpoint_id, wanted)

    async def turn(self, key: ThreadKey, checkpoint_id: str) -> tuple[Turn, bool]:
        """Read one turn. See BranchStore.turn."""
        row = _held(await self._run(_TURN, *names(key), self._now(), turn_id(checkpoint_id)))
        return rows.turn(row), row["current"]

    async def value(self, key: ThreadKey, checkpoint_id: str, channel: str) -> Value:
        """Read one large value. See BranchStore.value."""
        found = await self._run(_VALUE, *names(key), self._now(), turn_id(checkpoint_id), channel)
        messages = rows.turn(_held(found)).messages
        held = {(large.channel, large.version) for message in messages for large in message.large}
        for row in found:
            if (channel, row["version"]) in held:
                return Value(channel, row["version"], row["type"], row["data"])
        raise ChannelNotFound

    async def move_head(self, key: ThreadKey, move: HeadMove) -> HeadMoved:
        """Choose another head. See BranchStore.move_head."""
        wanted = None if move.checkpoint_id is None else turn_id(move.checkpoint_id)
        found = await self._run(
            _MOVE, *names(key), wanted, move.expected_known, move.expected, self._now()
        )
        return HeadMoved(found[0]["outcome"], _registry(found[0]))

    async def fork(self, key: ThreadKey, checkpoint_id: str | None, target: str) -> Forked:
        """Copy a branch. See BranchStore.fork."""
        wanted = None if checkpoint_id is None else turn_id(checkpoint_id)
        found = await self._run(_FORK, *names(key), wanted, target, self._now())
        return Forked(found[0]["outcome"], _registry(found[0]))

    async def _run(self, sql: str, *args: object) -> Sequence[rows.Row]:
        text = sql.replace("{visible}", _VISIBLE).replace("{schema}", self._database.schema)
        return await self._database.fetch(text, *args)


def _held(found: Sequence[rows.Row]) -> rows.Row:
    """Return the first row of a turn that is there. Errors: ThreadNotFound, CheckpointNotFound."""
    if not found:
        raise ThreadNotFound
    if found[0]["checkpoint_id"] is None:
        raise CheckpointNotFound
    return found[0]


def _registry(row: rows.Row) -> Registry | None:
    return None if row["registry"] is None else rows.registry(rows.decode(row["registry"]))


def _checkpoint(row: rows.Row, ns: str, current: bool) -> Checkpoint:
    metadata = row["metadata"] or {}
    is_turn = ns == TURNS
    step, source = (row["step"], "turn") if is_turn else _of_graph(metadata)
    end, parent = row["checkpoint_id"], row["parent_id"]
    position = rows.end_position(end) if is_turn else None
    before = rows.end_position(parent) if is_turn and parent else 0
    return Checkpoint(
        checkpoint_id=end,
        parent_id=parent,
        ns=ns,
        step=step,
        source=source,
        position=position,
        messages=None if position is None else position - before,
        tokens=row["tokens"] if is_turn else None,
        created_at=row["created_at"],
        metadata=metadata,
        current=current,
    )


def _of_graph(metadata: rows.Row) -> tuple[int | None, str | None]:
    """Return step and source as LangGraph notes them, if it is they."""
    step, source = metadata.get("step"), metadata.get("source")
    return (
        step if type(step) is int else None,
        source if isinstance(source, str) else None,
    )


def _tree_cursor(before: str, wanted: Any) -> tuple[str, str | None]:
    return storable(before), None if wanted is None else storable(wanted)
