"""SummaryStore on PostgreSQL: summaries in blobs, their pointers and the lease in the registry."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import ColumnElement, delete, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from app.adapters.sql import rows
from app.adapters.sql.engine import Database
from app.adapters.sql.history import utc_now
from app.adapters.sql.tables import SUMMARY_CHANNEL, TURNS, of_thread, tables, visible
from app.core.model import Pointer, Registry, Summary, ThreadKey
from app.core.ports import Lease


@dataclass(frozen=True, slots=True)
class SqlLease:
    """The lease as it was granted."""

    token: str
    registry: Registry


class SqlSummaryStore:
    """Implements SummaryStore."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._tables = tables(database.schema_name)
        self._now = now

    async def claim(self, key: ThreadKey, *, lease_seconds: float) -> SqlLease | None:
        """Take the thread's summary lease. See SummaryStore.claim."""
        now, token = self._now(), secrets.token_hex(16)
        threads = self._tables.threads
        statement = (
            update(threads)
            .where(*visible(threads, key, now))
            .where(or_(threads.c.lease_until.is_(None), threads.c.lease_until <= now))
            .values(lease_token=token, lease_until=now + timedelta(seconds=lease_seconds))
            .returning(threads)
        )
        async with self._database.connection() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
        return row and SqlLease(token=token, registry=rows.registry(row))

    async def read(self, key: ThreadKey, boundary: Pointer, *, epoch: int) -> Summary | None:
        """Read one durable summary. See SummaryStore.read."""
        threads, blobs = self._tables.threads, self._tables.blobs
        statement = select(blobs.c.data).where(
            *self._summaries_of(key),
            blobs.c.version == version(boundary, epoch),
            select(threads.c.thread_id).where(*visible(threads, key, self._now())).exists(),
        )
        async with self._database.connection() as connection:
            data = (await connection.execute(statement)).scalar_one_or_none()
        return None if data is None else rows.summary(data)

    async def write(self, key: ThreadKey, lease: Lease, summary: Summary, *, needed: int) -> bool:
        """Write the summary and its pointer together. See SummaryStore.write."""
        async with self._database.transaction() as connection:
            standing = await self._standing(connection, key, lease, summary.boundary)
            if standing is None:
                return False
            kept = [*_newest(standing, needed), summary.boundary]
            await self._point(connection, key, kept)
            await self._replace(connection, key, lease.registry.summary_epoch, kept, summary)
        return True

    async def release(self, key: ThreadKey, lease: Lease) -> None:
        """Give the lease back if it is still held."""
        threads = self._tables.threads
        statement = (
            update(threads)
            .where(*of_thread(threads, key), threads.c.lease_token == lease.token)
            .values(lease_token=None, lease_until=None)
        )
        async with self._database.connection() as connection:
            await connection.execute(statement)

    async def _standing(
        self, connection: AsyncConnection, key: ThreadKey, lease: Lease, boundary: Pointer
    ) -> tuple[Pointer, ...] | None:
        """Lock the thread and return its pointers; None when the summary may not be written."""
        threads = self._tables.threads
        statement = (
            select(threads.c.summaries, threads.c.head)
            .where(*visible(threads, key, self._now()))
            .where(threads.c.lease_token == lease.token)
            .where(threads.c.summary_epoch == lease.registry.summary_epoch)
            .with_for_update()
        )
        row = (await connection.execute(statement)).one_or_none()
        if row is None:
            return None
        standing = rows.pointers(row.summaries)
        if any(pointer.position >= boundary.position for pointer in standing):
            return None
        # A branch made since the input was read may have left the summarised turns behind.
        on_branch = text(
            f"SELECT {self._database.schema}.on_branch_v1(:tenant, :thread, :head, :turn)"
        )
        names = {
            "tenant": key.tenant_id,
            "thread": key.thread_id,
            "head": row.head,
            "turn": boundary.checkpoint_id,
        }
        return standing if await connection.scalar(on_branch, names) else None

    async def _point(
        self, connection: AsyncConnection, key: ThreadKey, kept: list[Pointer]
    ) -> None:
        threads = self._tables.threads
        pointers = [rows.pointer_json(pointer) for pointer in kept]
        await connection.execute(
            update(threads).where(*of_thread(threads, key)).values(summaries=pointers)
        )

    async def _replace(
        self,
        connection: AsyncConnection,
        key: ThreadKey,
        epoch: int,
        kept: list[Pointer],
        summary: Summary,
    ) -> None:
        """Store the summary; remove those that no pointer names any more."""
        blobs = self._tables.blobs
        named = [version(pointer, epoch) for pointer in kept]
        content = {"data": rows.encode_summary(summary), "created_at": self._now()}
        statement = insert(blobs).values(
            tenant_id=key.tenant_id,
            thread_id=key.thread_id,
            ns=TURNS,
            channel=SUMMARY_CHANNEL,
            version=named[-1],
            type="json",
            **content,
        )
        # One may be there without a pointer: a branch dropped it, then the thread came back.
        await connection.execute(
            statement.on_conflict_do_update(index_elements=blobs.primary_key.columns, set_=content)
        )
        await connection.execute(
            delete(blobs).where(*self._summaries_of(key), blobs.c.version.not_in(named))
        )

    def _summaries_of(self, key: ThreadKey) -> tuple[ColumnElement[bool], ...]:
        blobs = self._tables.blobs
        return (*of_thread(blobs, key), blobs.c.ns == TURNS, blobs.c.channel == SUMMARY_CHANNEL)


def version(boundary: Pointer, epoch: int) -> str:
    """Return the version under which a boundary's summary is kept."""
    return f"{boundary.checkpoint_id}.{boundary.position}.{epoch}"


def _newest(standing: tuple[Pointer, ...], needed: int) -> list[Pointer]:
    """Of the standing pointers the newest that the window can use now."""
    usable = [pointer for pointer in standing if pointer.position <= needed]
    return [max(usable, key=lambda pointer: pointer.position)] if usable else []
