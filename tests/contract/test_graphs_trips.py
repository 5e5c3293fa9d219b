"""What graph checkpoints cost on the line, and that it does not grow with the thread."""

from collections.abc import AsyncIterator, Awaitable, Callable

import orjson
import pytest

from app.adapters.sql.engine import Database, PoolOptions, create_engine
from app.adapters.sql.graphs import SqlGraphStore
from app.core.graphs import GraphQuery
from app.core.model import ThreadKey
from tests.factories import NOW
from tests.graph_factories import new_graph, new_writes, with_values
from tests.servers import SCHEMA, in_schema
from tests.wire import Wire, counted

pytestmark = pytest.mark.anyio

FILL = """
WITH c AS (
  INSERT INTO S.checkpoints (tenant_id, thread_id, ns, checkpoint_id, parent_id, created_at,
                             checkpoint, metadata)
  SELECT $1, $2, '', lpad(n::text, 8, '0'), lpad((n - 1)::text, 8, '0'), $3,
         json_build_object('versions', json_build_object('log', n || '.x'), 'checkpoint',
           json_build_object('channel_versions', json_build_object('log', n),
                             'channel_values', json_build_object())), '{"source": "loop"}'
    FROM generate_series(1, $4::integer) n)
INSERT INTO S.checkpoint_blobs (tenant_id, thread_id, ns, channel, version, type, data, created_at)
SELECT $1, $2, '', 'log', n || '.x', 'bytes', '\\x00', $3 FROM generate_series(1, $4::integer) n"""

READ = "SELECT * FROM S.read_graph_v1('TENANT', 'THREAD', '', '', NULL, now())"
PUT = """
SELECT * FROM S.put_graph_v1('TENANT', 'THREAD', '', '', 'NEXT', 'LAST', false, true,
  '{"channel_versions": {"log": VERSION}, "channel_values": {}}', '{}', '[]', '', '{}', now())"""


@pytest.fixture
async def wire(database_url: str) -> AsyncIterator[Wire]:
    async with counted(database_url) as wire:
        yield wire


async def test_each_method_is_one_trip(wire: Wire, key: ThreadKey) -> None:
    """After the first use of a connection every method is one round trip, and looks no type up."""
    engine = create_engine(wire.url, PoolOptions(size=1))
    store = SqlGraphStore(Database(engine, SCHEMA))
    query = GraphQuery(key.tenant_id, "", key.thread_id, ns="", filter={"a": 1}, before="c2")
    graph = with_values(new_graph(key, "c2", "c1"), {"a": 1}, {"a": b"A"})
    await store.put(new_graph(key, "c1", metadata={"a": 1}))
    methods: list[Callable[[], Awaitable[object]]] = [
        lambda: store.put(graph),
        lambda: store.put_writes(new_writes(key, "c2")),
        lambda: store.read(key, "", None),
        lambda: store.page(query),
        lambda: store.blob(key, "", ("a", "1"), None),
        lambda: store.delta_history(key, "", None, ["a"]),
        lambda: store.copy(key, "copy"),
        lambda: store.prune(key.tenant_id, "", [key.thread_id, "copy"], delete=False),
        lambda: store.forget_runs(key.tenant_id, "", ["r1", "r2"]),
        lambda: store.forget(key),
    ]

    for method in methods:
        await store.put(graph)
        await method()
        await store.put(graph)
        wire.clear()
        await method()
        assert wire.trips == 1
    await engine.dispose()
    assert not any("pg_type" in text or "jit" in text for text in wire.parsed)


async def test_read_and_put_do_not_grow(database: Database, tenant: str) -> None:
    """With 5,000 checkpoints a read and a put touch hardly more pages than with 5."""
    store = SqlGraphStore(database)
    touched: list[list[int]] = []
    for name, count in (("small", 5), ("large", 5000)):
        await store.put(new_graph(ThreadKey(tenant, name), "00000000"))
        await database.fetch(in_schema(FILL), tenant, name, NOW, count)
        await database.fetch(in_schema("ANALYZE S.checkpoints, S.checkpoint_blobs"))
        touched.append([await pages(database, call, tenant, name, count) for call in (READ, PUT)])

    small, large = touched
    for few, many in zip(small, large, strict=True):
        assert many <= few + 12, touched


async def pages(database: Database, call: str, tenant: str, name: str, count: int) -> int:
    """Pages that a call asks for, found in the cache or not."""
    sql = in_schema("EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) " + call)
    sql = sql.replace("TENANT", tenant).replace("THREAD", name)
    sql = sql.replace("LAST", f"{count:08}").replace("NEXT", f"{count + 1:08}")
    found = await database.fetch(sql.replace("VERSION", str(count)))
    plan = orjson.loads(found[0][0])[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
