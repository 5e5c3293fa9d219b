"""Health of the database: it answers, and its schema serves this release."""

from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError

from app.adapters.sql.engine import Database
from app.adapters.sql.migrate import current_revision, is_current
from app.core.errors import StoreUnavailable


class SqlPing:
    """Implements Health: the database answers."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self) -> bool:
        """Tell whether the database answers."""
        try:
            async with self._database.connection() as connection:
                await connection.execute(text("SELECT 1"))
        except (StoreUnavailable, SQLAlchemyError):
            return False
        return True


class SqlHealth:
    """Implements Health: the database answers and is migrated, by this release or a newer one."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def check(self) -> bool:
        """Tell whether the schema serves this release."""
        try:
            async with self._database.connection() as connection:
                schema = self._database.schema_name
                return is_current(await connection.run_sync(current_revision, schema))
        except (StoreUnavailable, SQLAlchemyError):
            return False
