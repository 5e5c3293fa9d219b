"""BranchStore on PostgreSQL: the tree of a thread's turns, its head, forks."""

from collections.abc import Callable
from datetime import datetime

from app.adapters.sql.engine import Database
from app.adapters.sql.history import utc_now


class SqlBranchStore:
    """Implements BranchStore."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now
