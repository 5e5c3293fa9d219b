"""Deleting, copying and pruning graph checkpoints: all of what was meant, nothing of the turns."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.graphs import SqlGraphStore
from app.adapters.sql.history import SqlHistoryStore
from app.core.errors import ThreadExists, ThreadNotFound
from app.core.graphs import GraphQuery, GraphWrite, NewGraph, Typed
from app.core.model import ThreadKey
from tests.factories import large_message, new_turn, saved_turns
from tests.graph_factories import (
    graph_counts,
    listed,
    new_graph,
    new_writes,
    turn_rows,
    values_of,
    with_values,
    written,
)
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

STAGE = """
INSERT INTO S.checkpoint_writes (tenant_id, thread_id, ns, checkpoint_id, key, task_id, idx,
                                 channel, type, data, created_at)
VALUES ($1, $2, '~turns', $3, 'k', 't', 0, 'messages', 'json', '{}', now())"""


@pytest.fixture
def store(database: Database) -> SqlGraphStore:
    return SqlGraphStore(database)


def counting(channel: str) -> dict[str, object]:
    """Metadata as LangGraph writes it while a delta channel has no snapshot."""
    return {"counters_since_delta_snapshot": {channel: [1, 1]}}


async def ids(store: SqlGraphStore, key: ThreadKey, ns: str | None = None) -> list[str]:
    return await listed(store, GraphQuery(key.tenant_id, None, key.thread_id, ns=ns))


async def chain(
    store: SqlGraphStore, key: ThreadKey, count: int, **overrides: object
) -> list[NewGraph]:
    """c1 to cN, each with a value of its own and one of c1, and with a write."""
    graphs: list[NewGraph] = []
    for number in range(1, count + 1):
        parent = graphs[-1].checkpoint_id if graphs else None
        blobs = {"log": b"log %d" % number} | ({} if graphs else {"first": b"first"})
        graph = new_graph(key, f"c{number}", parent, **overrides)
        graphs.append(with_values(graph, {"log": number, "first": 1}, blobs))
        await store.put(graphs[-1])
        await store.put_writes(new_writes(key, f"c{number}", ns=graph.ns))
    return graphs


async def test_forget(database: Database, store: SqlGraphStore, tenant: str) -> None:
    """No row of the thread is left, in any namespace; another thread stays; again is a no-op.

    Source: aegra/aegra#499.
    """
    one, two = ThreadKey(tenant, "t1"), ThreadKey(tenant, "t2")
    for key in (one, two):
        await chain(store, key, 2)
        await chain(store, key, 2, ns="sub:1")

    await store.forget(one)
    await store.forget(one)
    await store.forget(ThreadKey(tenant, "none"))

    assert await graph_counts(database, one) == (0, 0, 0, 0)
    assert await graph_counts(database, two) == (4, 6, 4, 1)
    with pytest.raises(ThreadNotFound):
        await store.read(one, "", None)


async def test_forget_keeps_what_is_staged(
    database: Database, store: SqlGraphStore, key: ThreadKey
) -> None:
    """A thread in which only a turn in flight is left stays."""
    await chain(store, key, 1)
    await database.fetch(in_schema(STAGE), key.tenant_id, key.thread_id, "")

    await store.forget(key)

    assert await graph_counts(database, key) == (0, 0, 0, 1)


async def test_forget_runs(database: Database, store: SqlGraphStore, tenant: str) -> None:
    """A run's checkpoints go in every thread and namespace, with writes and values of their own."""
    one, two, three = (ThreadKey(tenant, name) for name in ("t1", "t2", "t3"))
    for key, ns in ((one, ""), (one, "sub:1"), (two, "")):
        await chain(store, key, 2, ns=ns, metadata={"run_id": "a"})
        onward = with_values(
            new_graph(key, "d1", "c2", ns=ns, metadata={"run_id": "b"}),
            {"log": 2, "first": 1, "own": 3},
            {"own": b"own"},
        )
        await store.put(onward)
    await chain(store, three, 2, metadata={"run_id": "a"})
    await store.put(new_graph(ThreadKey(tenant, "t4"), "c1", metadata={"run_id": 5}))

    await store.forget_runs(tenant, "", ["a", "none", "5"])
    await store.forget_runs(tenant, "", [])

    assert await listed(store, GraphQuery(tenant, "")) == ["d1", "d1", "d1", "c1"]
    assert await graph_counts(database, one) == (2, 6, 0, 1)
    assert await graph_counts(database, three) == (0, 0, 0, 0)
    kept = await store.read(one, "sub:1", "d1")
    assert values_of(kept) == {"log": b"log 2", "first": b"first", "own": b"own"}


async def test_copy(database: Database, store: SqlGraphStore, tenant: str) -> None:
    """A copy has the chain, namespaces, values and writes, and is independent of its source.

    Source: oceanbase/langchain-oceanbase#157.
    """
    source, target = ThreadKey(tenant, "t1"), ThreadKey(tenant, "t0")
    await chain(store, source, 3, metadata={"run_id": "a"})
    await chain(store, source, 1, ns="sub:1")
    expected, _ = await store.page(GraphQuery(tenant, None, "t1", limit=100))

    await store.copy(source, "t0")
    await store.copy(source, "t0")
    await store.forget(source)

    copied, _ = await store.page(GraphQuery(tenant, None, "t0", limit=100))
    assert [replace(item, thread_id="t1") for item in copied] == list(expected)
    await store.put(with_values(new_graph(target, "c4", "c3"), {"log": 3, "first": 1}))
    assert values_of(await store.read(target, "", "c4")) == {"log": b"log 3", "first": b"first"}


async def test_copy_refuses_a_mixture(
    database: Database, store: SqlGraphStore, history_store: SqlHistoryStore, tenant: str
) -> None:
    """A target with checkpoints of its own is refused; one with turns takes the copy."""
    source, target = ThreadKey(tenant, "t1"), ThreadKey(tenant, "t2")
    await chain(store, source, 2)
    await saved_turns(history_store, ThreadKey(tenant, "turns"), 1)
    await store.put(new_graph(target, "z1"))

    with pytest.raises(ThreadExists):
        await store.copy(source, "t2")
    with pytest.raises(ThreadNotFound):
        await store.copy(ThreadKey(tenant, "none"), "t3")
    await store.copy(ThreadKey(tenant, "turns"), "t3")
    await store.copy(source, "turns")

    assert await ids(store, target) == ["z1"]
    assert await ids(store, ThreadKey(tenant, "turns")) == ["c2", "c1"]
    assert await graph_counts(database, ThreadKey(tenant, "t3")) == (0, 0, 0, 0)


async def test_a_copy_is_the_owners(store: SqlGraphStore, tenant: str) -> None:
    """An admin's copy belongs to whom the source belongs."""
    await store.put(new_graph(ThreadKey(tenant, "t1", "ann"), "c1"))

    await store.copy(ThreadKey(tenant, "t1", None), "t2")

    assert await ids(store, ThreadKey(tenant, "t2", "ann")) == ["c1"]
    assert await listed(store, GraphQuery(tenant, "ann")) == ["c1", "c1"]


async def test_prune(database: Database, store: SqlGraphStore, tenant: str) -> None:
    """Each namespace keeps its latest with writes and values; writes still to come stay."""
    one, two = ThreadKey(tenant, "t1"), ThreadKey(tenant, "t2")
    for key in (one, two):
        await chain(store, key, 3)
        await chain(store, key, 2, ns="sub:1")
    await store.put_writes(new_writes(one, "c9"))

    await store.prune(tenant, "", ["t1", "none", "t1"], delete=False)

    assert await ids(store, one, "") == ["c3"]
    assert await ids(store, one, "sub:1") == ["c2"]
    latest = await store.read(one, "", None)
    assert latest.parent_id is None
    assert values_of(latest) == {"log": b"log 3", "first": b"first"}
    assert written(latest) == [("task-1", 0, b"v")]
    assert await graph_counts(database, one) == (2, 4, 3, 1)
    assert len(await ids(store, two)) == 5
    await store.prune(tenant, "", ["t1", "t2"], delete=True)
    assert await graph_counts(database, one) == (0, 0, 0, 0)


async def rebuilt(store: SqlGraphStore, key: ThreadKey, channel: str) -> tuple[object, ...]:
    """What a channel is rebuilt from at the latest checkpoint."""
    history = (await store.delta_history(key, "", None, [channel]))[channel]
    return history.seed, *(write.value.data for write in history.writes)


async def delta_chain(
    store: SqlGraphStore,
    key: ThreadKey,
    *,
    metadata: Callable[[int], Mapping[str, object]],
    snapshots: tuple[int, ...] = (),
) -> None:
    """d1 to d6: each is written on, `d3` and others hold a snapshot of the channel `log`."""
    for number in range(1, 7):
        graph = new_graph(
            key, f"d{number}", f"d{number - 1}" if number > 1 else None, metadata=metadata(number)
        )
        snapshot = {"log": b"snapshot %d" % number} if number in snapshots else {}
        inline = {"log": True} if snapshot else {}
        await store.put(with_values(graph, {"log": number, "idle": 1}, snapshot, inline))
        write = GraphWrite("t", "", 0, "log", Typed("bytes", b"write %d" % number))
        await store.put_writes(new_writes(key, f"d{number}", writes=(write,)))


async def test_prune_keeps_what_deltas_need(store: SqlGraphStore, key: ThreadKey) -> None:
    """A delta channel is rebuilt from the same after pruning: ancestors back to its snapshot stay.

    Source: langgraph.checkpoint.base, the warning on prune.
    """
    await delta_chain(store, key, metadata=lambda _: counting("log"), snapshots=(1, 3))
    before = await rebuilt(store, key, "log")

    await store.prune(key.tenant_id, "", [key.thread_id], delete=False)

    assert await ids(store, key) == ["d6", "d5", "d4", "d3"]
    assert await rebuilt(store, key, "log") == before
    assert before == (
        Typed("bytes", b"snapshot 3"),
        b"write 3",
        b"write 4",
        b"write 5",
    )
    assert (await store.read(key, "", "d3")).parent_id is None


async def test_prune_without_a_snapshot(store: SqlGraphStore, key: ThreadKey) -> None:
    """Without a snapshot all of the chain stays, but not another branch."""
    await delta_chain(store, key, metadata=lambda _: counting("log"))
    await store.put(new_graph(key, "d5x", "d4", metadata=counting("log")))
    before = await rebuilt(store, key, "log")

    await store.prune(key.tenant_id, "", [key.thread_id], delete=False)

    assert await ids(store, key) == ["d6", "d5", "d4", "d3", "d2", "d1"]
    assert await rebuilt(store, key, "log") == before
    assert len(before) == 6


@pytest.mark.parametrize(
    ("metadata", "kept"),
    [
        (lambda _: {}, ["d6"]),
        (lambda number: counting("log") if number == 2 else {}, ["d6", "d5", "d4", "d3"]),
        (lambda _: counting("never written"), ["d6"]),
        (lambda _: {"delta_writes_versioned": True}, ["d6", "d5", "d4", "d3", "d2", "d1"]),
        (lambda _: {"counters_since_delta_snapshot": [1]}, ["d6"]),
    ],
)
async def test_what_tells_a_delta_channel(
    store: SqlGraphStore,
    key: ThreadKey,
    metadata: Callable[[int], Mapping[str, object]],
    kept: list[str],
) -> None:
    """Counted once is a delta channel for good; LangGraph.js's mark keeps every ancestor."""
    await delta_chain(store, key, metadata=metadata, snapshots=(3,))

    await store.prune(key.tenant_id, "", [key.thread_id], delete=False)

    assert await ids(store, key) == kept


async def test_a_copy_can_be_rebuilt(store: SqlGraphStore, key: ThreadKey) -> None:
    """A copy has the whole chain that its delta channels are rebuilt from."""
    await delta_chain(store, key, metadata=lambda _: counting("log"), snapshots=(2,))

    await store.copy(key, "copy")

    target = ThreadKey(key.tenant_id, "copy")
    assert await rebuilt(store, target, "log") == await rebuilt(store, key, "log")


async def test_turns_are_never_touched(
    database: Database, store: SqlGraphStore, history_store: SqlHistoryStore, key: ThreadKey
) -> None:
    """A thread used by both keeps every row of its turns, byte by byte, whatever a graph does."""
    saved = await saved_turns(history_store, key, 2)
    turn = new_turn(expected=saved[-1].head, messages=(large_message(b'"big"', "m.content"),))
    await history_store.append(key, replace(turn, metadata={"run_id": "a"}, digest=b"d" * 32))
    await database.fetch(in_schema(STAGE), key.tenant_id, key.thread_id, saved[-1].head)
    before = await turn_rows(database, key.tenant_id)
    other = ThreadKey(key.tenant_id, "other")
    delta = counting("log") | {"run_id": "a"}
    steps: list[Callable[[], Awaitable[object]]] = [
        lambda: chain(store, key, 3, metadata=delta),
        lambda: store.put_writes(new_writes(key, "c1")),
        lambda: store.read(key, "", None),
        lambda: store.page(GraphQuery(key.tenant_id, None)),
        lambda: store.page(GraphQuery(key.tenant_id, None, key.thread_id, before="c2")),
        lambda: store.blob(key, "", ("first", "1"), None),
        lambda: store.delta_history(key, "", None, ["log"]),
        lambda: store.copy(key, "other"),
        lambda: store.prune(key.tenant_id, None, [key.thread_id, "other"], delete=False),
        lambda: store.forget_runs(key.tenant_id, None, ["a"]),
        lambda: chain(store, key, 2),
        lambda: store.prune(key.tenant_id, None, [key.thread_id, "other"], delete=True),
        lambda: chain(store, key, 2),
        lambda: store.forget(key),
        lambda: store.forget(other),
    ]

    for step in steps:
        await step()
        assert await turn_rows(database, key.tenant_id) == before

    assert before.count('"run_id"') == 1
    assert before.count("~turns") == 5
    assert await graph_counts(database, key) == (0, 0, 0, 1)
    history = await history_store.recent(key, window=60, stride=20)
    assert history is not None
    assert history.position == 5
