"""The servers of one test run, and databases of its own for a test that needs an empty one."""

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import asyncpg

from app.adapters.embedded import (
    EmbeddedUrls,
    start_postgres,
    start_valkey,
    stop_postgres,
    stop_valkey,
)

SCHEMA = "threadkeep"


@contextmanager
def running_servers() -> Iterator[EmbeddedUrls]:
    """Run PostgreSQL (not durable) and Valkey in a fresh folder; remove them at the end."""
    folder = Path(tempfile.mkdtemp(prefix="threadkeep-tests-"))
    try:
        yield EmbeddedUrls(start_postgres(folder, durable=False), start_valkey(folder))
    finally:
        stop_valkey(folder)
        stop_postgres(folder)
        shutil.rmtree(folder, ignore_errors=True)


def with_database(url: str, name: str) -> str:
    """Return the same server's URL for another database."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=f"/{name}"))


def with_user(url: str, user: str) -> str:
    """Return the same server's URL for another role."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=f"{user}@{parts.netloc.rpartition('@')[2]}"))


def in_schema(sql: str) -> str:
    """Put the suite's schema where a statement says `S.`."""
    return sql.replace("S.", f"{SCHEMA}.")


def run_sql(url: str, *statements: str) -> None:
    """Run statements one by one on a connection of their own."""

    async def run() -> None:
        connection = await asyncpg.connect(url, statement_cache_size=0)
        try:
            for statement in statements:
                await connection.execute(statement)
        finally:
            await connection.close()

    asyncio.run(run())


async def terminate_connections(url: str, pids: list[int]) -> None:
    """End server processes and wait until they are gone."""
    connection = await asyncpg.connect(url, statement_cache_size=0)
    try:
        for pid in pids:
            assert await connection.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
    finally:
        await connection.close()
