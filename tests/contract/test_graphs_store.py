"""GraphStore on a real PostgreSQL: what is put comes back, to whom it belongs, in one trip."""

from dataclasses import replace
from datetime import timedelta

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.graphs import SqlGraphStore
from app.adapters.sql.history import SqlHistoryStore
from app.core.errors import (
    ChannelNotFound,
    CheckpointNotFound,
    InvalidPayload,
    ParentMoved,
    ThreadDeleted,
    ThreadNotFound,
    VersionAmbiguous,
)
from app.core.graphs import GraphQuery, GraphWrite, Typed
from app.core.model import ThreadKey
from tests.factories import NOW, clock_at, saved_turns
from tests.graph_factories import (
    graph_counts,
    listed,
    new_graph,
    new_writes,
    values_of,
    with_values,
    written,
)
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

TOMBSTONE = (
    "UPDATE S.threads SET deleted_at = $3, expires_at = $4 WHERE tenant_id = $1 AND thread_id = $2"
)


@pytest.fixture
def store(database: Database) -> SqlGraphStore:
    return SqlGraphStore(database)


async def test_put_and_read(store: SqlGraphStore, key: ThreadKey) -> None:
    """A checkpoint comes back as it was sent: inline values, blobs of any bytes, metadata."""
    sent = with_values(
        new_graph(key, "c1", metadata={"source": "loop", "step": 1, "é": [None, 1.5]}),
        {"a": "1.0.5", "b": 1, "c": 1.5, "gone": 3},
        {"a": b"\0\xff" * 9, "b": b""},
        {"c": 10**15, "n": None},
    )
    await store.put(replace(sent, parent_id="c0", new_channels=(*sent.new_channels, "gone")))

    found = await store.read(key, "", "c1")

    assert found.checkpoint == sent.checkpoint
    assert found.metadata == sent.metadata
    assert values_of(found) == {"a": b"\0\xff" * 9, "b": b""}
    assert {blob.channel: blob.version.rpartition(".")[0] for blob in found.blobs} == {
        "a": "1.0.5",
        "b": "1",
    }
    assert (found.thread_id, found.ns, found.parent_id) == (key.thread_id, "", "c0")
    assert await store.read(key, "", None) == found


async def test_latest_is_the_greatest_id(store: SqlGraphStore, key: ThreadKey) -> None:
    """Whatever was put last, the latest is the greatest id of its own namespace."""
    for ns, checkpoint_id in (("", "c2"), ("", "c1"), ("sub:1", "c9")):
        await store.put(new_graph(key, checkpoint_id, ns=ns))

    assert (await store.read(key, "", None)).checkpoint_id == "c2"
    assert (await store.read(key, "sub:1", None)).checkpoint_id == "c9"
    with pytest.raises(CheckpointNotFound):
        await store.read(key, "sub:2", None)
    with pytest.raises(CheckpointNotFound):
        await store.read(key, "", "c9")


async def test_placing(store: SqlGraphStore, key: ThreadKey) -> None:
    """reject stores nothing unless the parent is the latest, and takes a retry; latest follows."""
    await store.put(new_graph(key, "c1", placing="latest"))
    await store.put(new_graph(key, "c2", placing="latest"))
    await store.put(new_graph(key, "c3", "c2", placing="reject"))
    with pytest.raises(ParentMoved) as moved:
        await store.put(new_graph(key, "c4", "c2", placing="reject"))
    with pytest.raises(ParentMoved):
        await store.put(new_graph(key, "c0", None, placing="reject"))
    await store.put(new_graph(key, "c3", "c2", placing="reject"))
    await store.put(new_graph(key, "c3", placing="latest"))

    assert moved.value.extensions == {"head": "c3"}
    assert await listed(store, GraphQuery(key.tenant_id, "", key.thread_id)) == ["c3", "c2", "c1"]
    parents = [(await store.read(key, "", name)).parent_id for name in ("c3", "c2", "c1")]
    assert parents == ["c2", "c1", None]


async def test_refused_put_opens_no_thread(
    database: Database, store: SqlGraphStore, key: ThreadKey
) -> None:
    """A put that must follow something leaves nothing behind where there is nothing."""
    with pytest.raises(ThreadNotFound):
        await store.put(new_graph(key, "c2", "c1", placing="reject"))

    assert await graph_counts(database, key) == (0, 0, 0, 0)


async def test_same_id_is_replaced(store: SqlGraphStore, key: ThreadKey) -> None:
    """The same id again takes the place of the one before, and keeps values that it left out."""
    first = with_values(new_graph(key, "c1"), {"a": 1, "b": 1}, {"a": b"A", "b": b"B"})
    await store.put(first)
    again = with_values(new_graph(key, "c1", metadata={"n": 2}), {"a": 1, "b": 2}, {"b": b"B2"})
    await store.put(again)

    found = await store.read(key, "", "c1")

    assert values_of(found) == {"a": b"A", "b": b"B2"}
    assert found.metadata == {"n": 2}


async def test_writes_in_order(store: SqlGraphStore, key: ThreadKey) -> None:
    """Writes may come before their checkpoint, and come back by task path, task and index."""
    for path, task, count in (("~1:b", "aa", 2), ("~1:a", "zz", 1), ("", "mm", 12)):
        writes = tuple(
            GraphWrite(task, path, idx, "log", Typed("bytes", b"%d" % idx))
            for idx in reversed(range(count))
        )
        await store.put_writes(new_writes(key, "c1", writes=writes))
    await store.put(new_graph(key, "c1"))

    found = await store.read(key, "", "c1")

    order = [(write.task_path, write.task_id, write.idx) for write in found.writes]
    assert order == [
        *(("", "mm", idx) for idx in range(12)),
        ("~1:a", "zz", 0),
        ("~1:b", "aa", 0),
        ("~1:b", "aa", 1),
    ]


async def test_first_write_stays(store: SqlGraphStore, key: ThreadKey) -> None:
    """A task's write stays as it was first stored, but for a call that overwrites."""

    def write(idx: int, data: bytes) -> tuple[GraphWrite, ...]:
        return (GraphWrite("t", "", idx, "ch", Typed("bytes", data)),)

    await store.put(new_graph(key, "c1"))
    for idx, data, overwrite in ((0, b"a", False), (0, b"b", False), (-4, b"x", True)):
        await store.put_writes(new_writes(key, "c1", writes=write(idx, data), overwrite=overwrite))
    await store.put_writes(new_writes(key, "c1", writes=write(-4, b"y"), overwrite=True))
    await store.put_writes(new_writes(key, "c1", writes=()))

    assert written(await store.read(key, "", "c1")) == [("t", -4, b"y"), ("t", 0, b"a")]


async def test_owner_and_tenant_walls(store: SqlGraphStore, tenant: str) -> None:
    """A stranger's thread is none: not read, not listed, not written to, not changed."""
    mine = ThreadKey(tenant, "t1", "ann")
    await store.put(
        with_values(new_graph(mine, "c1", metadata={"run_id": "r"}), {"a": 1}, {"a": b"A"})
    )
    blob = (await store.read(mine, "", "c1")).blobs[0]

    for stranger in (replace(mine, owner_id="bob"), replace(mine, owner_id="")):
        for refused in (
            store.read(stranger, "", "c1"),
            store.blob(stranger, "", ("a", blob.version), None),
            store.delta_history(stranger, "", "c1", ["a"]),
            store.put(new_graph(stranger, "c2")),
            store.put_writes(new_writes(stranger, "c1")),
            store.copy(stranger, "t2"),
        ):
            with pytest.raises(ThreadNotFound):
                await refused
        await store.forget(stranger)
        await store.forget_runs(tenant, stranger.owner_id, ["r"])
        await store.prune(tenant, stranger.owner_id, ["t1"], delete=True)
        for query in (
            GraphQuery(tenant, stranger.owner_id, "t1"),
            GraphQuery(tenant, stranger.owner_id),
        ):
            assert await listed(store, query) == []
        with pytest.raises(CheckpointNotFound):
            await store.page(GraphQuery(tenant, stranger.owner_id, "t1", before="c1"))
    other = ThreadKey(f"{tenant}-2", "t1", None)
    with pytest.raises(ThreadNotFound):
        await store.read(other, "", "c1")
    await store.forget_runs(other.tenant_id, None, ["r"])

    assert await listed(store, GraphQuery(tenant, None)) == ["c1"]
    assert (await store.read(replace(mine, owner_id=None), "", None)).blobs == (blob,)


async def test_a_foreign_target_is_unknown(store: SqlGraphStore, tenant: str) -> None:
    """Nothing is copied into another owner's thread."""
    mine, theirs = ThreadKey(tenant, "t1", "ann"), ThreadKey(tenant, "t2", "bob")
    await store.put(new_graph(mine, "c1"))
    await store.put(new_graph(theirs, "c1"))

    with pytest.raises(ThreadNotFound):
        await store.copy(mine, "t2")
    with pytest.raises(ThreadNotFound):
        await store.copy(mine, "t2")


async def test_tombstones_take_nothing(
    database: Database, store: SqlGraphStore, history_store: SqlHistoryStore, tenant: str
) -> None:
    """A deleted thread takes no put, no writes and no copy, and reads as unknown."""
    key, source = ThreadKey(tenant, "t1"), ThreadKey(tenant, "source")
    await saved_turns(history_store, key, 1)
    await store.put(new_graph(source, "c1"))
    await database.fetch(in_schema(TOMBSTONE), tenant, "t1", NOW, NOW + timedelta(days=99))

    for refused in (
        store.put(new_graph(key, "c1")),
        store.put_writes(new_writes(key, "c1")),
        store.copy(source, "t1"),
    ):
        with pytest.raises(ThreadDeleted):
            await refused
    with pytest.raises(ThreadNotFound):
        await store.read(key, "", None)
    with pytest.raises(ThreadNotFound):
        await store.copy(key, "t3")
    await store.forget(key)
    await store.prune(tenant, None, ["t1"], delete=True)
    assert (await graph_counts(database, key)) == (0, 0, 0, 1)


async def test_expired_thread_begins_anew(database: Database, tenant: str) -> None:
    """What an expired thread held is gone from sight at once, and for good with the next put."""
    key = ThreadKey(tenant, "t1")
    store = SqlGraphStore(database, clock_at(NOW))
    await store.put(new_graph(key, "c1"))
    expire = "UPDATE S.threads SET expires_at = $3 WHERE tenant_id = $1 AND thread_id = $2"
    await database.fetch(in_schema(expire), tenant, "t1", NOW)

    with pytest.raises(ThreadNotFound):
        await store.read(key, "", "c1")
    assert await listed(store, GraphQuery(tenant, None)) == []
    await store.put(new_graph(key, "c2"))

    assert await listed(store, GraphQuery(tenant, None)) == ["c2"]


async def test_one_blob(store: SqlGraphStore, key: ThreadKey) -> None:
    """A value is read by its stored version, by the client's if that has one, or by checkpoint."""
    await store.put(with_values(new_graph(key, "c1"), {"a": 1}, {"a": b"1"}))
    for name, data in (("c2", b"left"), ("c3", b"right")):
        await store.put(with_values(new_graph(key, name, "c1"), {"a": 2}, {"a": data}))
    stored = (await store.read(key, "", "c3")).blobs[0]

    assert await store.blob(key, "", ("a", stored.version), None) == stored
    assert (await store.blob(key, "", ("a", "1"), None)).value.data == b"1"
    assert (await store.blob(key, "", ("a", "2"), "c2")).value.data == b"left"
    with pytest.raises(VersionAmbiguous):
        await store.blob(key, "", ("a", "2"), None)
    for missing in (("a", "3"), ("b", "1"), ("a", "")):
        with pytest.raises(ChannelNotFound):
            await store.blob(key, "", missing, None)
    for checkpoint_id in ("c1", "c9"):
        with pytest.raises(ChannelNotFound):
            await store.blob(key, "", ("a", "2"), checkpoint_id)
    with pytest.raises(ChannelNotFound):
        await store.blob(key, "sub", ("a", "1"), None)


async def test_bad_cursors(store: SqlGraphStore, tenant: str) -> None:
    """What is no cursor of this list is refused."""
    for cursor in ("x", "", "WzFd", "WyJcdTAwMDAiLCJhIiwiYiJd", "WzEsMiwzXQ"):
        with pytest.raises(InvalidPayload):
            await store.page(GraphQuery(tenant, None, cursor=cursor))
