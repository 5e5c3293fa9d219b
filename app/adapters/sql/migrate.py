"""Bring a database's schema up to this release, from however many processes at once."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from app.adapters.sql.engine import migration_engine, quoted, store_errors

_SCRIPTS = Path(__file__).resolve().parents[3] / "alembic"

_WAIT_FOR_OTHERS = "60s"
"""How long to wait for another process that migrates; a migration itself is short."""

_RIGHTS = """
SELECT n.oid IS NOT NULL AS made, current_database() AS database, current_user AS role,
       CASE WHEN n.oid IS NULL THEN has_database_privilege(current_database(), 'CREATE')
            ELSE has_schema_privilege(n.oid, 'CREATE')
                 AND has_schema_privilege(n.oid, 'USAGE') END AS allowed
  FROM (SELECT 1) one LEFT JOIN pg_namespace n ON n.nspname = :schema"""

_MADE = """
SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = :schema AND c.relname = 'alembic_version'"""


class MigrationError(Exception):
    """The schema cannot be brought up to date; the text is one sentence for people."""


def alembic_config(schema: str, connection: Connection | None = None) -> Config:
    """Return Alembic's configuration, wherever the service is installed and without a file."""
    config = Config(attributes={"connection": connection, "schema": schema})
    config.set_main_option("script_location", str(_SCRIPTS).replace("%", "%%"))
    return config


async def migrate(database_url: str, schema: str) -> None:
    """Run `alembic upgrade head` in one transaction, under an advisory lock of this schema.

    A database that is up to date is only read, so the service's role needs no right to create
    then. One that a newer release has migrated is left alone.
    Errors: MigrationError; StoreUnavailable when the database does not answer.
    """
    engine = migration_engine(database_url)
    try:
        with store_errors(), _explained(schema):
            async with engine.begin() as connection:
                if await connection.run_sync(_is_done, schema):
                    return
            async with engine.begin() as connection:
                await connection.run_sync(_upgrade, schema)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection, schema: str) -> None:
    wait_for_others(connection, schema)
    if _is_done(connection, schema):
        return
    _require_rights(connection, schema)
    command.upgrade(alembic_config(schema, connection), "head")


def wait_for_others(connection: Connection, schema: str) -> None:
    """Take the lock of this schema's migrations until the transaction ends."""
    connection.execute(text(f"SET LOCAL lock_timeout = '{_WAIT_FOR_OTHERS}'"))
    lock = text("SELECT pg_advisory_xact_lock(hashtext('threadkeep'), hashtext(:schema))")
    connection.execute(lock, {"schema": schema})


def current_revision(connection: Connection, schema: str) -> str | None:
    """Return the schema's revision, None where nothing was migrated yet."""
    if not connection.scalar(text(_MADE), {"schema": schema}):
        return None
    table = f"{quoted(schema)}.alembic_version"
    revision: str | None = connection.scalar(text(f"SELECT version_num FROM {table}"))  # noqa: S608  # quoted
    return revision


def is_current(revision: str | None) -> bool:
    """Tell whether a schema at this revision serves this release: at its head, or newer."""
    heads, known = _revisions()
    return revision is not None and (revision in heads or revision not in known)


@cache
def _revisions() -> tuple[frozenset[str], frozenset[str]]:
    """Return this release's head and all of its revisions."""
    script = ScriptDirectory(str(_SCRIPTS))
    known = frozenset(script.revision for script in script.walk_revisions())
    return frozenset(script.get_heads()), known


def _is_done(connection: Connection, schema: str) -> bool:
    return is_current(current_revision(connection, schema))


def _require_rights(connection: Connection, schema: str) -> None:
    """Ask first: PostgreSQL's own refusal does not say what to grant. Errors: MigrationError."""
    row = connection.execute(text(_RIGHTS), {"schema": schema}).one()
    if row.allowed:
        return
    grant = (
        f"GRANT CREATE, USAGE ON SCHEMA {quoted(schema)}"
        if row.made
        else f"GRANT CREATE ON DATABASE {quoted(row.database)}"
    )
    raise MigrationError(
        f"The role {row.role} may not create the tables in schema {schema}: run"
        f" `{grant} TO {quoted(row.role)};` as an administrator."
    )


@contextmanager
def _explained(schema: str) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        state = getattr(error.orig, "sqlstate", None)
        if state == "55P03":
            raise MigrationError(
                f"The schema {schema} is in use, by another migration or a long query: try again."
            ) from error
        if state == "42501":
            raise MigrationError(
                f"The role of DATABASE_URL lacks a right in schema {schema}: run"
                f" `GRANT ALL ON ALL TABLES IN SCHEMA {quoted(schema)} TO ...;` as its owner."
            ) from error
        raise
