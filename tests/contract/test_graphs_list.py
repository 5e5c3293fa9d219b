"""Lists of graph checkpoints: what is in them, page by page, and how they are found."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from app.adapters.sql import graphs_statements
from app.adapters.sql.engine import Database
from app.adapters.sql.graphs import SqlGraphStore
from app.adapters.sql.graphs_statements import listing
from app.adapters.sql.history import SqlHistoryStore
from app.core.errors import CheckpointNotFound
from app.core.graphs import GraphQuery
from app.core.model import ThreadKey
from tests.factories import NOW, saved_turns
from tests.graph_factories import listed, new_graph, new_writes, values_of, with_values
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

MANY = """
INSERT INTO S.checkpoints (tenant_id, thread_id, ns, checkpoint_id, created_at, checkpoint,
                           metadata)
SELECT $1, 't' || n / 1000, CASE WHEN n % 10 = 0 THEN 'sub:1' ELSE '' END, lpad(n::text, 8, '0'),
       $2,
       '{"versions": {}, "checkpoint": {"channel_versions": {}, "channel_values": {}}}',
       jsonb_build_object('source', 'loop', 'step', n, 'run_id', 'run-' || n / 5)
  FROM generate_series(0, 49999) n"""
THREADS = """
INSERT INTO S.threads (tenant_id, thread_id, created_at, updated_at)
SELECT $1, 't' || n, $2, $2 FROM generate_series(0, 49) n"""


@pytest.fixture
def store(database: Database) -> SqlGraphStore:
    return SqlGraphStore(database)


async def test_order_and_pages(
    store: SqlGraphStore, history_store: SqlHistoryStore, tenant: str
) -> None:
    """Greatest id first over threads and namespaces, never a turn; no page skips or repeats."""
    one, two = ThreadKey(tenant, "t1"), ThreadKey(tenant, "t2")
    await saved_turns(history_store, one, 3)
    for key, ns, name in (
        (one, "", "c1"),
        (two, "", "c1"),
        (one, "sub:1", "c1"),
        (one, "é", "c3"),
        (two, "", "c2"),
    ):
        await store.put(new_graph(key, name, ns=ns))

    everything = ["c3", "c2", "c1", "c1", "c1"]
    for limit in (1, 2, 5, 100):
        assert await listed(store, GraphQuery(tenant, None, limit=limit)) == everything
        assert await listed(store, GraphQuery(tenant, "", "t1", limit=limit)) == ["c3", "c1", "c1"]
    items, cursor = await store.page(GraphQuery(tenant, "", limit=5))
    places = [(item.thread_id, item.ns) for item in items]
    assert cursor is None
    assert places == [("t1", "é"), ("t2", ""), ("t2", ""), ("t1", "sub:1"), ("t1", "")]
    assert await listed(store, GraphQuery(tenant, "", "t1", ns="")) == ["c1"]
    assert await listed(store, GraphQuery(tenant, "", ns="", limit=1)) == ["c2", "c1", "c1"]
    assert await listed(store, GraphQuery(tenant, "", "t1", checkpoint_id="c3")) == ["c3"]
    assert await listed(store, GraphQuery(tenant, "", "none")) == []


async def test_before(store: SqlGraphStore, key: ThreadKey) -> None:
    """Only older ones than the one named, which the listed thread must hold."""
    for name in ("c1", "c2", "c3"):
        await store.put(new_graph(key, name))
    of_thread = GraphQuery(key.tenant_id, "", key.thread_id)

    assert await listed(store, replace(of_thread, before="c3")) == ["c2", "c1"]
    assert await listed(store, replace(of_thread, ns="", before="c3", limit=1)) == ["c2", "c1"]
    assert await listed(store, replace(of_thread, before="c1")) == []
    assert await listed(store, GraphQuery(key.tenant_id, "", before="c2x")) == ["c2", "c1"]
    for missing in (
        replace(of_thread, before="nope"),
        replace(of_thread, ns="sub", before="c3"),
        replace(of_thread, thread_id="none", before="c3"),
    ):
        with pytest.raises(CheckpointNotFound):
            await store.page(missing)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"tenant": "acme"}, ["c1"]),
        ({"nope": "x"}, []),
        ({"step": "1"}, []),
        ({"step": 1, "tenant": "acme"}, ["c1"]),
        ({"step": True}, []),
        ({"flag": True}, ["c2"]),
        ({"flag": 1}, []),
        ({"none": None}, ["c2"]),
        ({"none": 0}, []),
        ({"nested": {"a": 1}}, ["c2"]),
        ({"nested": {"a": "1"}}, []),
        ({"text": "1"}, ["c2"]),
        ({"text": 1}, []),
        ({}, ["c2", "c1"]),
    ],
)
async def test_filter_is_typed(
    store: SqlGraphStore, key: ThreadKey, wanted: Mapping[str, object], found: list[str]
) -> None:
    """Metadata must contain all that the filter says, in the filter's types.

    Source: langchain-ai/langgraphjs#2504 (case cp-metadata-filter-types).
    """
    nested = {"nested": {"a": 1, "b": [2]}, "flag": True, "none": None, "text": "1"}
    await store.put(new_graph(key, "c1", metadata={"tenant": "acme", "step": 1}))
    await store.put(new_graph(key, "c2", "c1", metadata={"tenant": "globex", "step": 2, **nested}))

    for thread in (key.thread_id, None):
        query = GraphQuery(key.tenant_id, "", thread, filter=wanted)
        assert await listed(store, query) == found


async def test_tuples_are_whole(store: SqlGraphStore, key: ThreadKey) -> None:
    """A listed checkpoint is the one that a read gives, values and writes and all."""
    await store.put(with_values(new_graph(key, "c1"), {"a": 1}, {"a": b"A"}))
    await store.put_writes(new_writes(key, "c1"))
    await store.put(with_values(new_graph(key, "c2", "c1"), {"a": 1, "b": 1}, {"b": b"B"}))

    items, _ = await store.page(GraphQuery(key.tenant_id, "", key.thread_id))

    assert [values_of(item) for item in items] == [{"a": b"A", "b": b"B"}, {"a": b"A"}]
    assert list(items) == [await store.read(key, "", name) for name in ("c2", "c1")]


async def test_large_pages_end_early(
    store: SqlGraphStore, key: ThreadKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page ends with the checkpoint that reaches the limit of bytes; the next goes on behind."""
    monkeypatch.setattr(graphs_statements, "PAGE_BYTES", 250)
    for number in range(5):
        graph = with_values(
            new_graph(key, f"c{number}"), {"a": number}, {"a": b"%d" % number * 100}
        )
        await store.put(graph)
    query = GraphQuery(key.tenant_id, "", key.thread_id)

    items, cursor = await store.page(query)

    assert [item.checkpoint_id for item in items] == ["c4", "c3", "c2"]
    assert cursor is not None
    assert await listed(store, query) == ["c4", "c3", "c2", "c1", "c0"]


async def explained(database: Database, query: GraphQuery, after: tuple[str, str, str]) -> str:
    """The plan of a list's statement."""
    statement = listing(query, after)
    lines = await database.fetch(
        "EXPLAIN " + statement.sql.replace("{schema}", database.schema),
        query.tenant_id,
        query.owner_id,
        NOW,
        query.limit,
        graphs_statements.PAGE_BYTES,
        *statement.arguments,
    )
    return "\n".join(line[0] for line in lines)


async def test_indexes_are_used(database: Database, store: SqlGraphStore, tenant: str) -> None:
    """In 50,000 checkpoints a filter finds its few by an index, and no list reads all of them."""
    await database.fetch(in_schema(THREADS), tenant, NOW)
    await database.fetch(in_schema(MANY), tenant, NOW)
    await database.fetch(in_schema("ANALYZE S.threads, S.checkpoints"))
    place = ("00049990", "t49", "")
    run = {"run_id": "run-77"}

    filtered = await explained(database, GraphQuery(tenant, "", filter=run), place)
    by_thread = await explained(database, GraphQuery(tenant, "", "t7", ns=""), place)
    everywhere = await explained(database, GraphQuery(tenant, ""), place)

    assert "checkpoints_graph_metadata" in filtered
    assert "checkpoints_pkey" in by_thread
    assert "checkpoints_graph_ids" in everywhere
    for plan in (filtered, by_thread, everywhere):
        assert "Seq Scan on checkpoints" not in plan
    assert "Sort Key: c.checkpoint_id" not in by_thread
    assert await listed(store, GraphQuery(tenant, "", filter=run)) == [
        f"{n:08}" for n in range(389, 384, -1)
    ]
