"""StagingStore on PostgreSQL: what is staged for turns in flight. Each method is one round trip."""

from collections.abc import Callable
from datetime import datetime

from app.adapters.sql import rows
from app.adapters.sql.engine import Database
from app.adapters.sql.history import names, turn_id, utc_now
from app.adapters.sql.statements import statements
from app.core.model import ThreadKey
from app.core.staging import (
    MAX_STAGED_BYTES,
    MAX_STAGED_WRITES,
    DiscardOutcome,
    StageRequest,
    Stored,
)


class SqlStagingStore:
    """Implements StagingStore."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._sql = statements(database.schema)
        self._now = now

    async def stage(self, request: StageRequest) -> Stored:
        """Store one task's values. See StagingStore.stage."""
        found = await self._database.fetch(
            self._sql.stage,
            *names(request.thread),
            request.identity,
            None if request.parent is None else turn_id(request.parent),
            request.parent_known,
            request.key or "",
            request.task_id,
            [channel for channel, _ in request.values],
            [rows.encode(value).decode() for _, value in request.values],
            MAX_STAGED_WRITES,
            MAX_STAGED_BYTES,
            self._now(),
        )
        return rows.stored(found[0])

    async def discard(self, thread: ThreadKey, *, turn_key: str | None) -> DiscardOutcome:
        """Remove what is staged. See StagingStore.discard."""
        found = await self._database.fetch(self._sql.discard, *names(thread), turn_key, self._now())
        outcome: DiscardOutcome = found[0]["outcome"]
        return outcome
