"""Connections to PostgreSQL: how they are made, lent, retried and given up.

The hot statements go to the driver through SQLAlchemy's pool, which spares four fifths of what a
statement through SQLAlchemy adds; everything else is SQLAlchemy Core on the same engine. Nothing
here leaves state in a session, so PgBouncer in transaction mode may stand in between.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

import asyncpg
import orjson
from sqlalchemy import event
from sqlalchemy.exc import DBAPIError, InvalidatePoolError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import PoolProxiedConnection

from app.core.errors import StoreUnavailable

_LIBPQ_ONLY = frozenset(
    {
        "channel_binding",
        "connect_timeout",
        "gssencmode",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "pgbouncer",
        "prepare_threshold",
        "prepared_statements",
        "sslcompression",
    }
)
"""What libpq and other drivers take in a URL; asyncpg would send it on as a server setting."""

_LOST = (
    OSError,
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
)
_RETRIED = (asyncpg.UniqueViolationError, asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_OUT_OF_SERVICE = frozenset({"08", "53", "55", "57"})
"""SQLSTATE classes: connection, resources, object not in state (a lock time-out), operator."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """How many connections, and how long to wait. Units: seconds."""

    size: int = 10
    wait_seconds: float = 5.0
    command_seconds: float = 15.0
    connect_seconds: float = 5.0


def driver_dsn(database_url: str) -> str:
    """Return the URL as asyncpg wants it: libpq's form, without what only other drivers know."""
    parts = urlsplit(database_url)
    scheme = parts.scheme.partition("+")[0]
    query = [
        pair
        for pair in parse_qsl(parts.query, keep_blank_values=True)
        if pair[0] not in _LIBPQ_ONLY
    ]
    return urlunsplit((scheme, parts.netloc, parts.path, urlencode(query), parts.fragment))


def create_engine(database_url: str, options: PoolOptions = PoolOptions()) -> AsyncEngine:
    """Make the service's engine; it connects when it is first used.

    json comes and goes as bytes, jsonb arrives as values.
    """
    engine = _plain_engine(database_url, options)
    event.listen(engine.sync_engine, "connect", _set_codecs)
    event.listen(engine.sync_engine, "checkout", _refuse_closed)
    return engine


def migration_engine(database_url: str) -> AsyncEngine:
    """Make an engine for Alembic, which reads json itself and wants transactions."""
    options = PoolOptions(size=1, command_seconds=600)
    return _plain_engine(database_url, options).execution_options(isolation_level="READ COMMITTED")


def _plain_engine(database_url: str, options: PoolOptions) -> AsyncEngine:
    """Make an engine without what PgBouncer does not take, and without a trip too many.

    statement_cache_size=0 is what PgBouncer needs; no pre-ping and no reset, since each costs a
    trip and no session keeps anything.
    """
    dsn = driver_dsn(database_url)

    async def connect() -> asyncpg.Connection:
        return await asyncpg.connect(
            dsn,
            statement_cache_size=0,
            timeout=options.connect_seconds,
            command_timeout=options.command_seconds,
        )

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        isolation_level="AUTOCOMMIT",
        pool_reset_on_return=None,
        pool_size=options.size,
        max_overflow=0,
        pool_timeout=options.wait_seconds,
        json_serializer=lambda value: orjson.dumps(value).decode(),
    )


def _set_codecs(adapted: Any, _record: object) -> None:
    adapted.run_async(_install_codecs)


async def _install_codecs(connection: asyncpg.Connection) -> None:
    """Keep json as bytes: orjson reads what the server sent, a quarter off the decoding."""
    await connection.set_type_codec(
        "json", schema="pg_catalog", format="binary", encoder=_as_bytes, decoder=bytes
    )
    await connection.set_type_codec(
        "jsonb",
        schema="pg_catalog",
        format="binary",
        encoder=lambda value: b"\x01" + _as_bytes(value),
        decoder=lambda value: orjson.loads(value[1:]),
    )


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _refuse_closed(adapted: Any, _record: object, _proxy: object) -> None:
    """Lend none of the pool again after a server that went away, which closed them all."""
    if adapted.driver_connection.is_closed():
        raise InvalidatePoolError


class Database:
    """The engine as the stores use it.

    schema: quoted, ready to stand in a statement.
    named_statements: the server parses each hot statement once a connection; only straight to
        PostgreSQL, or through PgBouncer 1.21 and newer with `max_prepared_statements`.
    """

    def __init__(self, engine: AsyncEngine, schema: str, *, named_statements: bool = False) -> None:
        self._engine = engine
        self._transactions = engine.execution_options(isolation_level="READ COMMITTED")
        self._named = named_statements
        self.schema_name = schema
        self.schema = quoted(schema)

    async def fetch(self, sql: str, *args: object) -> list[asyncpg.Record]:
        """Run one hot statement in one round trip. It must be safe to run twice.

        Errors: StoreUnavailable.
        """

        async def run(connection: PoolProxiedConnection) -> list[asyncpg.Record]:
            return await self.fetch_on(connection, sql, *args)

        return await self._twice(run)

    async def fetch_on(
        self, connection: PoolProxiedConnection, sql: str, *args: object
    ) -> list[asyncpg.Record]:
        """Run one hot statement on a connection already lent."""
        # Kept per connection: asyncpg then sends Parse, Bind and Execute as one packet. It does not
        # promise that, so a test counts on the wire.
        statement = connection.info.get(sql)
        if statement is None:
            name = f"threadkeep_{len(connection.info)}" if self._named else ""
            statement = await _driver(connection).prepare(sql, name=name)
            connection.info[sql] = statement
        rows: list[asyncpg.Record] = await statement.fetch(*args)
        return rows

    async def in_transaction(self, work: Callable[[PoolProxiedConnection], Awaitable[T]]) -> T:
        """Run hot statements in one transaction. It must be safe to run twice.

        Errors: StoreUnavailable, and what `work` raises; nothing is kept then.
        """

        async def run(connection: PoolProxiedConnection) -> T:
            async with _driver(connection).transaction():
                return await work(connection)

        return await self._twice(run)

    async def _twice(self, work: Callable[[PoolProxiedConnection], Awaitable[T]]) -> T:
        """Try once more when the connection was lost or the database refused a race."""
        with store_errors():
            try:
                return await self._once(work)
            except (*_LOST, *_RETRIED) as error:
                if isinstance(error, TimeoutError):
                    raise  # it has waited long enough
                return await self._once(work)

    async def _once(self, work: Callable[[PoolProxiedConnection], Awaitable[T]]) -> T:
        connection = await self._lend()
        # SQLAlchemy does not see the errors of driver calls: left in the pool, a dead connection
        # would be lent for ever, and a cancelled one might still be in a transaction.
        try:
            result = await work(connection)
        except Exception as error:
            if isinstance(error, _LOST) or not _is_idle(connection):
                connection.invalidate(error)
            else:
                connection.close()
            raise
        except BaseException as error:
            connection.invalidate(error)
            raise
        connection.close()
        return result

    async def _lend(self) -> PoolProxiedConnection:
        try:
            return await self._engine.raw_connection()
        except Exception as error:
            # SQLAlchemy wraps what the driver says while connecting in a class it does not export.
            cause = error.__cause__
            if isinstance(cause, OSError | asyncpg.PostgresError | asyncpg.InterfaceError):
                raise cause from None
            raise

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection for a Core statement, committed by itself. Errors: StoreUnavailable."""
        with store_errors():
            async with self._engine.connect() as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """Lend a connection for Core statements committed together. Errors: StoreUnavailable."""
        with store_errors():
            async with self._transactions.begin() as connection:
                yield connection


def _driver(connection: PoolProxiedConnection) -> Any:
    return connection.driver_connection


def _is_idle(connection: PoolProxiedConnection) -> bool:
    driver = _driver(connection)
    return not driver.is_closed() and not driver.is_in_transaction()


@contextmanager
def store_errors() -> Iterator[None]:
    """Turn "the database does not answer" into StoreUnavailable; our own mistakes stay."""
    try:
        yield
    except (
        OSError,
        PoolTimeout,
        asyncpg.PostgresError,
        asyncpg.InterfaceError,
        DBAPIError,
    ) as error:
        if _is_unavailable(error):
            raise StoreUnavailable from error
        raise


def _is_unavailable(error: BaseException) -> bool:
    cause = (error.orig or error) if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    if isinstance(state, str):
        return state[:2] in _OUT_OF_SERVICE
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    return isinstance(cause, OSError | PoolTimeout | asyncpg.InterfaceError)


def quoted(identifier: str) -> str:
    """Return the identifier quoted for PostgreSQL."""
    return '"' + identifier.replace('"', '""') + '"'
