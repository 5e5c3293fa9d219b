"""Migrations: there and back, from many at once, and no drift from what the code believes."""

import asyncio
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import Connection

from app.adapters.sql.engine import Database, create_engine, migration_engine
from app.adapters.sql.health import SqlHealth, SqlPing
from app.adapters.sql.migrate import alembic_config, current_revision, migrate
from app.core.errors import StoreUnavailable
from tests.servers import SCHEMA, in_schema, run_sql

ROOT = Path(__file__).parents[2]

OBJECTS = """
SELECT string_agg(name, ',' ORDER BY name COLLATE "C") AS names FROM (
  SELECT c.relname AS name FROM pg_class c WHERE c.relnamespace = to_regnamespace($1)
  UNION ALL
  SELECT p.proname FROM pg_proc p WHERE p.pronamespace = to_regnamespace($1)) o"""

STORAGE = """
SELECT attstorage::text AS storage FROM pg_attribute
 WHERE attrelid = 'S.checkpoints'::regclass AND attname = 'checkpoint'"""


def alembic(url: str, verb: str, *arguments: str) -> None:
    """Run one of Alembic's commands on the database."""

    def run(connection: Connection) -> None:
        getattr(command, verb)(alembic_config(SCHEMA, connection), *arguments)

    async def connected() -> None:
        engine = migration_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(run)
        await engine.dispose()

    asyncio.run(connected())


def objects(url: str) -> str:
    """The names of everything in the schema."""

    async def ask() -> str:
        engine = create_engine(url)
        found = await Database(engine, SCHEMA).fetch(OBJECTS, SCHEMA)
        await engine.dispose()
        return found[0]["names"] or ""

    return asyncio.run(ask())


def healthy(url: str, check: type[SqlHealth | SqlPing] = SqlHealth) -> bool:
    """What a health check says of the database."""

    async def ask() -> bool:
        engine = create_engine(url)
        answer = await check(Database(engine, SCHEMA)).check()
        await engine.dispose()
        return answer

    return asyncio.run(ask())


def test_up_and_down_and_up_again(empty_database_url: str) -> None:
    """A migration undone leaves only Alembic's own table, and can be done again."""
    asyncio.run(migrate(empty_database_url, SCHEMA))
    made = objects(empty_database_url)

    alembic(empty_database_url, "downgrade", "base")
    assert objects(empty_database_url) == "alembic_version,alembic_version_pkc"
    asyncio.run(migrate(empty_database_url, SCHEMA))

    assert objects(empty_database_url) == made
    assert "save_turn_v1" in made


def test_the_code_believes_what_the_migrations_made(empty_database_url: str) -> None:
    """No drift: autogenerate finds nothing to do, also beside tables that are not ours."""
    asyncio.run(migrate(empty_database_url, SCHEMA))
    run_sql(empty_database_url, "CREATE TABLE public.checkpoints (x int)")

    alembic(empty_database_url, "check")


def test_many_may_migrate_at_once(empty_database_url: str) -> None:
    """Eight starting together: one migrates, the others wait for it, none fails."""

    def start() -> None:
        asyncio.run(migrate(empty_database_url, SCHEMA))

    with ThreadPoolExecutor(8) as pool:
        for started in [pool.submit(start) for _ in range(8)]:
            started.result()

    assert healthy(empty_database_url)


def test_processes_may_migrate_at_once(empty_database_url: str) -> None:
    """Alembic's own command takes the same lock as the service, and needs no ini file."""
    environment = {**os.environ, "DATABASE_URL": empty_database_url}
    upgrade = [sys.executable, "-m", "alembic", "upgrade", "head"]

    running = [subprocess.Popen(upgrade, cwd=ROOT, env=environment) for _ in range(2)]  # noqa: S603

    assert [process.wait() for process in running] == [0, 0]
    assert healthy(empty_database_url)


def test_a_newer_releases_schema_is_left_alone(empty_database_url: str) -> None:
    """A migration works with the previous release, so that one starts and is healthy on it."""
    asyncio.run(migrate(empty_database_url, SCHEMA))
    run_sql(empty_database_url, in_schema("UPDATE S.alembic_version SET version_num = '9999'"))

    asyncio.run(migrate(empty_database_url, SCHEMA))

    assert healthy(empty_database_url)


def test_a_database_without_the_schema_is_not_healthy(empty_database_url: str) -> None:
    """Not migrated, half migrated or away: not ready, and never an exception."""
    assert not healthy(empty_database_url)
    assert healthy(empty_database_url, SqlPing)
    asyncio.run(migrate(empty_database_url, SCHEMA))
    assert healthy(empty_database_url)
    alembic(empty_database_url, "downgrade", "base")
    assert not healthy(empty_database_url)
    for check in (SqlHealth, SqlPing):
        assert not healthy("postgresql://nobody@127.0.0.1:1/nothing", check)


def test_a_database_that_is_away_cannot_be_migrated() -> None:
    """The start is told that the database does not answer."""
    with pytest.raises(StoreUnavailable):
        asyncio.run(migrate("postgresql://nobody@127.0.0.1:1/nothing", SCHEMA))


def test_payloads_are_stored_in_their_row(empty_database_url: str) -> None:
    """The payload stays in the row, compressed, so that a load reads no second table."""

    async def ask() -> str:
        engine = create_engine(empty_database_url)
        found = await Database(engine, SCHEMA).fetch(in_schema(STORAGE))
        await engine.dispose()
        return str(found[0]["storage"])

    asyncio.run(migrate(empty_database_url, SCHEMA))

    assert asyncio.run(ask()) == "m"


def test_current_revision_is_none_before_the_first(empty_database_url: str) -> None:
    """An empty database has no revision."""

    async def ask() -> str | None:
        engine = create_engine(empty_database_url)
        async with engine.connect() as connection:
            revision = await connection.run_sync(current_revision, SCHEMA)
        await engine.dispose()
        return revision

    assert asyncio.run(ask()) is None
