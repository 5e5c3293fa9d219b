"""What goes over the line: one round trip a load and a save; and what if the line breaks."""

import asyncio
from collections.abc import AsyncIterator

import anyio
import pytest

from app.adapters.sql.engine import Database, PoolOptions, create_engine
from app.adapters.sql.history import SqlHistoryStore
from app.core.errors import StoreUnavailable
from app.core.model import History, NewTurn, ThreadKey
from tests.factories import large_message, new_message, new_turn, saved_turns
from tests.servers import SCHEMA, terminate_connections
from tests.wire import Wire, counted

pytestmark = pytest.mark.anyio

ONE = PoolOptions(size=1, wait_seconds=0.05)


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Wire]:
    async with counted(database_url) as wire:
        yield wire


@pytest.fixture(params=[False, True], ids=["unnamed", "named"])
async def store(wire: Wire, request: pytest.FixtureRequest) -> AsyncIterator[SqlHistoryStore]:
    """A store on one counted connection."""
    engine = create_engine(wire.url, ONE)
    yield SqlHistoryStore(Database(engine, SCHEMA, named_statements=request.param))
    await engine.dispose()


async def test_a_load_and_a_save_are_one_round_trip(
    store: SqlHistoryStore, wire: Wire, key: ThreadKey
) -> None:
    """After the first use of a connection, every save and load is one trip, whatever it finds."""
    first = (await saved_turns(store, key, 2))[0]
    await store.recent(key, window=60, stride=20)
    saves = [
        new_turn("plain", key="k1", parent_known=False),
        new_turn("plain", key="k1", parent_known=False),
        new_turn("rebased", expected=first.head),
        new_turn("branch", expected=first.head, on_conflict="branch"),
        new_turn("large", messages=(large_message(b'"x"' * 5000, "m.content"),)),
    ]

    for turn in saves:
        wire.clear()
        await store.append(key, turn)
        assert wire.trips == 1
    for checkpoint_id in (None, first.head):
        wire.clear()
        await store.recent(key, window=60, stride=20, checkpoint_id=checkpoint_id)
        assert wire.trips == 1


async def test_a_new_connection_looks_nothing_up(
    store: SqlHistoryStore, wire: Wire, key: ThreadKey
) -> None:
    """Types are known to the driver: a new connection parses the statement and no other."""
    await store.append(key, new_turn("hello"))
    await store.recent(key, window=60, stride=20)

    calls = [text for text in wire.parsed if "save_turn_v2" in text or "load_recent_v2" in text]
    assert calls
    assert not any("pg_type" in text or "jit" in text for text in wire.parsed)


async def test_named_statements_are_parsed_once(wire: Wire, key: ThreadKey) -> None:
    """With names allowed the server parses each statement once a connection."""
    engine = create_engine(wire.url, ONE)
    store = SqlHistoryStore(Database(engine, SCHEMA, named_statements=True))
    await saved_turns(store, key, 1)
    wire.clear()

    await saved_turns(store, key, 3)

    assert wire.parsed == []
    await engine.dispose()


async def test_a_line_that_breaks_is_tried_once_more(
    store: SqlHistoryStore, wire: Wire, key: ThreadKey
) -> None:
    """A connection lost under a save is replaced, and the save is stored once."""
    await saved_turns(store, key, 1)

    wire.cut_next = True
    saved = await store.append(key, new_turn("after the cut"))
    history = await store.recent(key, window=60, stride=20)

    assert saved.outcome == "created"
    assert history is not None
    assert history.registry.turns == 2


async def test_connections_that_died_in_the_pool_are_not_lent(
    database_url: str, key: ThreadKey
) -> None:
    """After a restart of the database the whole pool is dead, and no request fails of it."""
    engine = create_engine(database_url, PoolOptions(size=4))
    store = SqlHistoryStore(Database(engine, SCHEMA))
    turns = [new_turn(f"{n}", key=f"k{n}", parent_known=False) for n in range(4)]
    await asyncio.gather(*(store.append(key, turn) for turn in turns))

    pids = await pool_pids(store, engine_size=4)
    await terminate_connections(database_url, pids)

    assert await store.recent(key, window=60, stride=20) is not None
    await asyncio.gather(*(store.append(key, turn) for turn in turns))
    await engine.dispose()


async def test_a_cancelled_call_leaves_the_pool_sound(
    database_url: str, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A caller that goes away in the middle of a transaction leaves no lock and no transaction."""
    engine = create_engine(database_url, ONE)
    store = SqlHistoryStore(Database(engine, SCHEMA))
    await saved_turns(store, key, 1)
    holding, done = asyncio.Event(), asyncio.Event()

    async def wait(connection: object) -> None:
        holding.set()
        await done.wait()

    async def cancelled() -> None:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as group:
                group.start_soon(store._database.in_transaction, wait)
                await holding.wait()
                scope.cancel()

    await cancelled()
    with anyio.move_on_after(0.05):
        await store._database.fetch("SELECT pg_sleep(30)")
    saved = await store.append(key, new_turn("still here", key="k", parent_known=False))

    assert saved.outcome == "created"
    seen = await history_store.recent(key, window=60, stride=20)
    assert seen is not None
    assert seen.head == saved.head
    await engine.dispose()


async def test_a_refused_decision_keeps_its_connection(
    store: SqlHistoryStore, wire: Wire, key: ThreadKey
) -> None:
    """An error of the caller's making rolls back and costs no new connection."""
    await saved_turns(store, key, 1)
    wire.clear()

    def refuse(_: History | None) -> NewTurn:
        raise ValueError("no")

    for _ in range(3):
        with pytest.raises(ValueError, match="no"):
            await store.append_locked(key, back=4, decide=refuse)
    await store.append(key, new_turn("x", messages=(new_message("x"),), expected=None))

    assert len([text for text in wire.parsed if "load_recent_v2" in text]) <= 4
    assert wire.trips <= 3 * 4 + 3


async def test_a_pool_that_is_busy_is_unavailable(database_url: str, key: ThreadKey) -> None:
    """A request that gets no connection in time is told to come back, not left waiting."""
    engine = create_engine(database_url, ONE)
    database = Database(engine, SCHEMA)
    holding, done = asyncio.Event(), asyncio.Event()

    async def wait(connection: object) -> None:
        holding.set()
        await done.wait()

    holder = asyncio.create_task(database.in_transaction(wait))
    await holding.wait()
    with pytest.raises(StoreUnavailable):
        await SqlHistoryStore(database).recent(key, window=60, stride=20)
    done.set()
    await holder
    await engine.dispose()


async def test_a_statement_that_takes_too_long_is_unavailable(database_url: str) -> None:
    """Past its time a statement is given up, once, and the pool goes on."""
    engine = create_engine(database_url, PoolOptions(size=1, command_seconds=0.1))
    database = Database(engine, SCHEMA)

    with pytest.raises(StoreUnavailable):
        await database.fetch("SELECT pg_sleep(30)")
    with pytest.raises(StoreUnavailable):
        async with database.connection() as connection:
            await connection.exec_driver_sql("SELECT pg_sleep(30)")
    assert len(await database.fetch("SELECT 1")) == 1
    await engine.dispose()


async def pool_pids(store: SqlHistoryStore, engine_size: int) -> list[int]:
    """The server processes behind every connection of the pool."""
    met = asyncio.Barrier(engine_size)

    async def ask(connection: object) -> int:
        rows = await store._database.fetch_on(connection, "SELECT pg_backend_pid() AS pid")  # type: ignore[arg-type]
        await met.wait()
        pid: int = rows[0]["pid"]
        return pid

    return await asyncio.gather(*(store._database.in_transaction(ask) for _ in range(engine_size)))
