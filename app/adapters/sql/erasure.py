"""Erasure on PostgreSQL: a deleted thread leaves a tombstone without content."""

from collections.abc import Callable
from datetime import datetime, timedelta

from app.adapters.sql.engine import Database
from app.adapters.sql.history import names, utc_now
from app.core.branches import Erased
from app.core.model import ThreadKey

_ERASE = "SELECT * FROM {schema}.erase_thread_v1($1, $2, $3, $4, $5, $6)"


class SqlErasure:
    """Implements Erasure. tombstone_seconds: how long a deleted thread refuses late retries."""

    def __init__(
        self,
        database: Database,
        now: Callable[[], datetime] = utc_now,
        *,
        tombstone_seconds: int = 86_400,
    ) -> None:
        self._database = database
        self._now = now
        self._tombstone = timedelta(seconds=tombstone_seconds)

    async def erase(self, key: ThreadKey, *, reuse: bool) -> Erased:
        """Remove all that a thread holds, in one trip. See Erasure.erase."""
        now = self._now()
        sql = _ERASE.replace("{schema}", self._database.schema)
        found = await self._database.fetch(sql, *names(key), reuse, now + self._tombstone, now)
        return Erased(found[0]["outcome"], found[0]["epoch"] or 0)
