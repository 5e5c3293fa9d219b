"""What every test may ask for: real servers, started once a run, and a fresh tenant per test."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.embedded import EmbeddedUrls
from app.adapters.sql.engine import Database, create_engine
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.migrate import migrate
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.threads import SqlThreadIndex
from app.core.model import ThreadKey
from tests.servers import SCHEMA, run_sql, running_servers, with_database

UNIT_TESTS = Path(__file__).parent / "unit"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Unit tests connect to nothing.

    Only `connect` is guarded, not the class `socket.socket` itself: a module that is imported for
    the first time during a unit test (uvloop keeps the class) would hold on to the guard for ever.
    """
    for item in items:
        if UNIT_TESTS in item.path.parents:
            item.add_marker(pytest.mark.allow_hosts([]))


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"use_uvloop": True}


@pytest.fixture(scope="session")
def servers() -> Iterator[EmbeddedUrls]:
    """PostgreSQL and Valkey; one that cannot start fails the tests, it never skips them."""
    with running_servers() as urls:
        yield urls


@pytest.fixture(scope="session")
def database_url(servers: EmbeddedUrls) -> str:
    """A database brought up by the real migration, shared by the run."""
    asyncio.run(migrate(servers.database_url, SCHEMA))
    return servers.database_url


@pytest.fixture(scope="session")
def redis_url(servers: EmbeddedUrls) -> str:
    return servers.redis_url


@pytest.fixture
def empty_database_url(servers: EmbeddedUrls) -> Iterator[str]:
    """A database of its own with nothing in it."""
    name = f"test_{secrets.token_hex(6)}"
    run_sql(servers.database_url, f"CREATE DATABASE {name}")
    yield with_database(servers.database_url, name)
    run_sql(servers.database_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="session")
async def engine(database_url: str, anyio_backend: object) -> AsyncIterator[AsyncEngine]:
    engine = create_engine(database_url)
    yield engine
    await engine.dispose()


@pytest.fixture
def database(engine: AsyncEngine) -> Database:
    return Database(engine, SCHEMA)


@pytest.fixture
def history_store(database: Database) -> SqlHistoryStore:
    return SqlHistoryStore(database)


@pytest.fixture
def summary_store(database: Database) -> SqlSummaryStore:
    return SqlSummaryStore(database)


@pytest.fixture
def thread_index(database: Database) -> SqlThreadIndex:
    return SqlThreadIndex(database)


@pytest.fixture
def tenant() -> str:
    """A tenant that no other test has."""
    return f"tenant-{secrets.token_hex(8)}"


@pytest.fixture
def key(tenant: str) -> ThreadKey:
    """A thread nobody has written to yet, of nobody in particular."""
    return ThreadKey(tenant_id=tenant, thread_id="thread-1")
