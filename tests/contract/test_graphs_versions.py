"""Which value a channel has: its own branch's, whatever others counted to."""

import asyncio
from dataclasses import replace

import pytest

from app.adapters.sql.engine import Database
from app.adapters.sql.graphs import SqlGraphStore
from app.core.errors import ParentMoved, VersionAmbiguous
from app.core.graphs import GraphQuery
from app.core.model import ThreadKey
from tests.graph_factories import graph_counts, listed, new_graph, values_of, with_values

pytestmark = pytest.mark.anyio


@pytest.fixture
def store(database: Database) -> SqlGraphStore:
    return SqlGraphStore(database)


async def values(store: SqlGraphStore, key: ThreadKey, name: str) -> dict[str, bytes]:
    return values_of(await store.read(key, "", name))


async def test_inherited_along_the_branch(store: SqlGraphStore, key: ThreadKey) -> None:
    """A value that a put leaves out is its parent's, on each of two branches of one count.

    Source: langchain-ai/langgraphjs#2584.
    """
    base = {"log": 1, "kept": 1}
    await store.put(with_values(new_graph(key, "c1"), base, {"log": b"base", "kept": b"K"}))
    for name, data in (("c2", b"left"), ("c3", b"right")):
        branch = with_values(new_graph(key, name, "c1"), {**base, "log": 2}, {"log": data})
        await store.put(branch)
    for name, parent in (("c4", "c2"), ("c5", "c3")):
        onward = with_values(new_graph(key, name, parent), {"log": 2, "n": 3}, inline={"n": 1})
        await store.put(onward)

    assert await values(store, key, "c2") == {"log": b"left", "kept": b"K"}
    assert await values(store, key, "c3") == {"log": b"right", "kept": b"K"}
    assert await values(store, key, "c4") == {"log": b"left"}
    assert await values(store, key, "c5") == {"log": b"right"}


async def test_a_sibling_has_nothing_to_give(store: SqlGraphStore, key: ThreadKey) -> None:
    """A channel that a branch emptied, or has inline, stays so where a sibling has a value."""
    await store.put(with_values(new_graph(key, "c1"), {"a": 1}, {"a": b"base"}))
    await store.put(
        with_values(new_graph(key, "c2", "c1"), {"a": 2, "b": 2}, {"a": b"L", "b": b"L"})
    )
    emptied = replace(new_graph(key, "c3", "c1"), new_channels=("a",))
    await store.put(with_values(emptied, {"a": 2}))
    await store.put(with_values(new_graph(key, "c4", "c1"), {"a": 2}, inline={"a": 5}))
    await store.put(with_values(new_graph(key, "c5", "c3"), {"a": 2}))
    await store.put(with_values(new_graph(key, "c6", "c1"), {"a": 1, "b": 2}))

    for name in ("c3", "c4", "c5"):
        assert await values(store, key, name) == {}
    assert await values(store, key, "c6") == {"a": b"base"}


async def test_without_the_parent(store: SqlGraphStore, key: ThreadKey) -> None:
    """Where the parent is not there to ask, the only value of a version counts; of several none.

    A refused put leaves nothing behind.
    """
    for name, data in (("c1", b"one"), ("c2", b"two")):
        await store.put(with_values(new_graph(key, name), {"a": 7, "b": "7.5"}, {"a": data}))
    await store.put(with_values(new_graph(key, "c3"), {"b": "7.5"}, {"b": b"only"}))

    await store.put(with_values(new_graph(key, "c4", "gone"), {"b": "7.5", "x": 1}))
    with pytest.raises(VersionAmbiguous) as ambiguous:
        await store.put(with_values(new_graph(key, "c5", "gone"), {"a": 7, "b": "7.5"}))
    await store.put(with_values(new_graph(key, "c6"), {"a": 7}, {"a": b"sent"}))

    assert ambiguous.value.extensions == {"channel": "a"}
    assert await values(store, key, "c4") == {"b": b"only"}
    assert await values(store, key, "c6") == {"a": b"sent"}
    assert "c5" not in await listed(store, GraphQuery(key.tenant_id, "", key.thread_id))


async def test_versions_that_begin_alike(store: SqlGraphStore, key: ThreadKey) -> None:
    """A version is not taken for one that goes on after a dot, or for another's spelling."""
    for name, version in (("c1", "1"), ("c2", "1.5"), ("c3", "1.5.0"), ("c4", "01"), ("c5", "1-")):
        await store.put(with_values(new_graph(key, name), {"a": version}, {"a": version.encode()}))

    for version in ("1", "1.5", "1.5.0", "01", "1-"):
        await store.put(with_values(new_graph(key, "c9", "gone"), {"a": version}))
        assert await values(store, key, "c9") == {"a": version.encode()}
    await store.put(with_values(new_graph(key, "d9", "gone"), {"a": 1}))
    assert await values(store, key, "d9") == {"a": b"1"}


async def test_namespaces_share_nothing(store: SqlGraphStore, key: ThreadKey) -> None:
    """The same ids and versions in another namespace are other checkpoints and values."""
    for ns in ("", "sub:1", "sub:1|sub:2"):
        graph = with_values(new_graph(key, "c1", ns=ns), {"a": 1}, {"a": ns.encode()})
        await store.put(graph)
    await store.put(with_values(new_graph(key, "c2", ns="sub:3"), {"a": 1}))

    for ns in ("", "sub:1", "sub:1|sub:2"):
        assert values_of(await store.read(key, ns, "c1")) == {"a": ns.encode()}
    assert values_of(await store.read(key, "sub:3", "c2")) == {}


async def test_forty_branches_at_once(
    database: Database, store: SqlGraphStore, key: ThreadKey
) -> None:
    """Forty branches that reach one count at once keep forty values, and their children too."""
    await store.put(with_values(new_graph(key, "a"), {"log": 1}, {"log": b"base"}))
    names = [f"b{number:02}" for number in range(40)]
    await asyncio.gather(
        *(
            store.put(with_values(new_graph(key, name, "a"), {"log": 2}, {"log": name.encode()}))
            for name in names
        )
    )
    await asyncio.gather(
        *(store.put(with_values(new_graph(key, f"c{name}", name), {"log": 2})) for name in names)
    )

    for name in names:
        assert await values(store, key, name) == {"log": name.encode()}
        assert await values(store, key, f"c{name}") == {"log": name.encode()}
    assert await graph_counts(database, key) == (81, 41, 0, 1)


async def test_one_of_forty_follows(store: SqlGraphStore, key: ThreadKey) -> None:
    """Of forty puts that must follow the latest one does; put on top of it, forty make a chain."""
    await store.put(new_graph(key, "a"))
    names = [f"b{number:02}" for number in range(40)]
    answers = await asyncio.gather(
        *(store.put(new_graph(key, name, "a", placing="reject")) for name in names),
        return_exceptions=True,
    )
    won = [name for name, answer in zip(names, answers, strict=True) if answer is None]
    assert [type(answer) for answer in answers if answer is not None] == [ParentMoved] * 39
    assert await listed(store, GraphQuery(key.tenant_id, "", key.thread_id)) == [*won, "a"]

    await asyncio.gather(
        *(store.put(new_graph(key, f"c{n:02}", placing="latest")) for n in range(40))
    )

    parents = [(await store.read(key, "", f"c{n:02}")).parent_id for n in range(40)]
    assert won[0] in parents
    assert all(parent is not None and parent >= won[0] for parent in parents)


async def test_first_puts_at_once(database: Database, store: SqlGraphStore, tenant: str) -> None:
    """Forty first puts of one thread, and of the same checkpoint, are one thread and one row."""
    key = ThreadKey(tenant, "new")
    graph = with_values(new_graph(key, "a"), {"log": 1}, {"log": b"base"})
    await asyncio.gather(*(store.put(graph) for _ in range(40)))

    assert await graph_counts(database, key) == (1, 1, 0, 1)
