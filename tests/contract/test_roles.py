"""Who may create the schema, who may only use it, and who else lives in the database."""

import asyncio
import secrets
from collections.abc import Iterator

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver

from app.adapters.embedded import EmbeddedUrls
from app.adapters.sql.engine import Database, create_engine
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.migrate import MigrationError, migrate
from app.core.model import ThreadKey
from tests.factories import saved_turns
from tests.servers import SCHEMA, run_sql, with_user


@pytest.fixture
def role(servers: EmbeddedUrls) -> Iterator[str]:
    """A role with no rights but to connect."""
    name = f"role_{secrets.token_hex(4)}"
    run_sql(servers.database_url, f'CREATE ROLE "{name}" LOGIN')
    yield name
    run_sql(servers.database_url, f'DROP OWNED BY "{name}"', f'DROP ROLE "{name}"')


def used(url: str, schema: str = SCHEMA) -> int:
    """Save three turns and load them; return how many came back."""

    async def use() -> int:
        engine = create_engine(url)
        store, key = SqlHistoryStore(Database(engine, schema)), ThreadKey("tenant", "thread")
        await saved_turns(store, key, 3)
        history = await store.recent(key, window=60, stride=20)
        await engine.dispose()
        return len(history.turns) if history else 0

    return asyncio.run(use())


def test_a_role_that_may_not_create_is_told_what_to_grant(
    role: str, empty_database_url: str
) -> None:
    """The error is one sentence with the GRANT in it, and that GRANT is enough."""
    as_role = with_user(empty_database_url, role)

    with pytest.raises(MigrationError) as refused:
        asyncio.run(migrate(as_role, SCHEMA))

    text = str(refused.value)
    assert f'TO "{role}";' in text
    assert "\n" not in text
    run_sql(empty_database_url, text.split("`")[1])
    asyncio.run(migrate(as_role, SCHEMA))
    assert used(as_role) == 3


@pytest.mark.parametrize("given", ["", "USAGE", "CREATE"])
def test_a_schema_that_is_there_needs_rights_in_it(
    role: str, empty_database_url: str, given: str
) -> None:
    """An administrator may create the schema beforehand; the role needs both rights in it then."""
    as_role = with_user(empty_database_url, role)
    run_sql(empty_database_url, f"CREATE SCHEMA {SCHEMA}")
    if given:
        run_sql(empty_database_url, f'GRANT {given} ON SCHEMA {SCHEMA} TO "{role}"')

    with pytest.raises(MigrationError) as refused:
        asyncio.run(migrate(as_role, SCHEMA))

    run_sql(empty_database_url, str(refused.value).split("`")[1])
    asyncio.run(migrate(as_role, SCHEMA))
    assert used(as_role) == 3


def test_a_role_that_may_only_use_the_tables_starts(role: str, empty_database_url: str) -> None:
    """Once migrated by somebody else, reading and writing rows is all the service needs."""
    as_role = with_user(empty_database_url, role)
    asyncio.run(migrate(empty_database_url, SCHEMA))
    with pytest.raises(MigrationError, match="GRANT"):
        asyncio.run(migrate(as_role, SCHEMA))

    run_sql(
        empty_database_url,
        f'GRANT USAGE ON SCHEMA {SCHEMA} TO "{role}"',
        f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA {SCHEMA} TO "{role}"',
    )

    asyncio.run(migrate(as_role, SCHEMA))
    assert used(as_role) == 3


def test_it_lives_beside_langgraphs_own_tables(empty_database_url: str) -> None:
    """LangGraph's tables have the same names, in schema public; neither notices the other."""
    config = {"configurable": {"thread_id": "thread", "checkpoint_ns": ""}}
    with PostgresSaver.from_conn_string(empty_database_url) as saver:
        saver.setup()
        stored = saver.put(config, empty_checkpoint(), {"source": "input"}, {})  # type: ignore[arg-type]

        asyncio.run(migrate(empty_database_url, SCHEMA))

        assert used(empty_database_url) == 3
        saver.setup()
        found = saver.get_tuple(stored)
        assert found is not None
        assert len(list(saver.list(config))) == 1  # type: ignore[arg-type]


@pytest.mark.parametrize("schema", ["public", 'an "odd" Schema; --', "s-1.x"])
def test_any_schema_name_will_do(empty_database_url: str, schema: str) -> None:
    """The schema's name is quoted everywhere it is named."""
    asyncio.run(migrate(empty_database_url, schema))

    assert used(empty_database_url, schema) == 3
