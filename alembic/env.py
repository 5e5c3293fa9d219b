"""Runs migrations: on the connection handed over, or from the command line on DATABASE_URL."""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection, text

from app.adapters.sql.engine import migration_engine, quoted
from app.adapters.sql.migrate import wait_for_others
from app.adapters.sql.tables import tables

config = context.config
schema: str = config.attributes.get("schema") or os.environ.get(
    "THREADKEEP_DB_SCHEMA", "threadkeep"
)


def only_ours(name: str | None, kind: str, _parents: object) -> bool:
    return kind != "schema" or name == schema


def run(connection: Connection) -> None:
    wait_for_others(connection, schema)
    made = text("SELECT count(*) FROM pg_namespace WHERE nspname = :schema")
    # IF NOT EXISTS would want the right to create all the same.
    if not connection.scalar(made, {"schema": schema}):
        connection.execute(text(f"CREATE SCHEMA {quoted(schema)}"))
    # A migration must not queue behind a long query while everybody else queues behind it.
    connection.execute(text("SET LOCAL lock_timeout = '5s'"))
    connection.execute(text("SET LOCAL statement_timeout = '10min'"))
    context.configure(
        connection=connection,
        target_metadata=tables(schema).metadata,
        version_table_schema=schema,
        include_schemas=True,
        include_name=only_ours,
        compare_server_default=True,
    )
    with context.begin_transaction():
        context.run_migrations()


async def run_by_url() -> None:
    engine = migration_engine(os.environ["DATABASE_URL"])
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()


if context.is_offline_mode():
    raise SystemExit(
        "Migrations ask the server what it offers, so they cannot be written out unseen."
    )
if (given := config.attributes.get("connection")) is not None:
    run(given)
else:
    asyncio.run(run_by_url())
