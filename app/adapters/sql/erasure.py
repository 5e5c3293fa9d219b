"""Erasure on PostgreSQL: a deleted thread leaves a tombstone without content."""

from collections.abc import Callable
from datetime import datetime

from app.adapters.sql.engine import Database
from app.adapters.sql.history import utc_now


class SqlErasure:
    """Implements Erasure."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now
