"""ThreadIndex on PostgreSQL: plain reads of the registry and of raw messages, page by page."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from sqlalchemy import ColumnElement, select, tuple_

from app.adapters.sql import rows
from app.adapters.sql.cursors import opened, sealed, storable
from app.adapters.sql.engine import Database
from app.adapters.sql.history import names, utc_now
from app.adapters.sql.statements import statements
from app.adapters.sql.tables import alive, tables, visible
from app.core.model import Registry, StoredMessage, ThreadKey

Page: TypeAlias = tuple[tuple[StoredMessage, ...], str | None]


class SqlThreadIndex:
    """Implements ThreadIndex."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._threads = tables(database.schema_name).threads
        self._sql = statements(database.schema)
        self._now = now

    async def get(self, key: ThreadKey) -> Registry | None:
        """Read one registry row."""
        statement = select(self._threads).where(*visible(self._threads, key, self._now()))
        async with self._database.connection() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return None if row is None else rows.registry(row)

    async def page(
        self, tenant_id: str, owner_id: str | None, *, limit: int, cursor: str | None
    ) -> tuple[tuple[Registry, ...], str | None]:
        """List threads, newest first by creation. Errors: InvalidPayload for a bad cursor."""
        columns = self._threads.c
        order = (columns.created_at, columns.thread_id)
        wanted: list[ColumnElement[bool]] = [columns.tenant_id == tenant_id]
        wanted += alive(self._threads, self._now())
        if owner_id is not None:
            wanted.append(columns.owner_id == owner_id)
        if cursor is not None:
            created_at, thread_id = opened(cursor, _thread_cursor)
            wanted.append(tuple_(*order) < tuple_(created_at, thread_id))
        statement = select(self._threads).where(*wanted)
        statement = statement.order_by(*(column.desc() for column in order)).limit(limit + 1)
        async with self._database.connection() as connection:
            found = (await connection.execute(statement)).mappings().all()
        items = tuple(rows.registry(row) for row in found[:limit])
        if len(found) <= limit:
            return items, None
        return items, sealed(items[-1].created_at.isoformat(), items[-1].thread_id)

    async def messages(
        self, key: ThreadKey, *, newest_first: bool, limit: int, cursor: str | None
    ) -> Page | None:
        """Page through the raw messages of the branch that was current on the first page.

        None: an unknown thread. Errors: InvalidPayload for a bad cursor.
        """
        if cursor is not None:
            turn_id, position = opened(cursor, _message_cursor)
        elif registry := await self.get(key):
            turn_id, position = registry.head or "", None
        else:
            return None
        read = self._backwards if newest_first else self._forwards
        page = await read(key, turn_id, limit, position)
        # A cursor names a turn, so nothing found means that the thread has gone since.
        return None if cursor is not None and not page[0] else page

    async def _backwards(
        self, key: ThreadKey, turn_id: str, limit: int, before: int | None
    ) -> Page:
        """From the turn back, positions below `before`. A turn has one message at least."""
        found = await self._database.fetch(
            self._sql.backwards, *names(key), self._now(), turn_id, limit + 1
        )
        listed = [
            message
            for turn in map(rows.turn, found)
            for message in reversed(turn.messages)
            if before is None or message.position < before
        ]
        page = tuple(listed[:limit])
        if len(listed) <= limit:
            return page, None
        return page, sealed(listed[limit].checkpoint_id, page[-1].position)

    async def _forwards(self, key: ThreadKey, head: str, limit: int, after: int | None) -> Page:
        """On the branch that ends in `head`, positions above `after`."""
        after = after or 0
        found = await self._database.fetch(
            self._sql.forwards, *names(key), self._now(), head, after, limit + 1
        )
        listed = [
            message
            for turn in map(rows.turn, found)
            for message in turn.messages
            if message.position > after
        ]
        page = tuple(listed[:limit])
        return page, sealed(head, page[-1].position) if len(listed) > limit else None


def _thread_cursor(created_at: str, thread_id: Any) -> tuple[datetime, str]:
    return datetime.fromisoformat(created_at).astimezone(UTC), storable(thread_id)


def _message_cursor(turn_id: str, position: Any) -> tuple[str, int | None]:
    if not 0 < position < 2**31:
        raise ValueError(position)
    return storable(turn_id), position
