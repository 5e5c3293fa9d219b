"""The checkpoint routes over HTTP: what they take, what they answer, and for whom."""

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from app.adapters.sql.engine import Database
from app.api import graphs_answers as answers
from app.api.graphs_schemas import GRAPH_REQUESTS
from app.main import create_app
from app.settings import load_settings
from tests.graph_factories import turn_rows
from tests.integration.callers import bearer, key_entry, path_of, turn
from tests.integration.conftest import MakeClient
from tests.integration.graph_calls import (
    ROOT,
    blob_path,
    call,
    config,
    get,
    pending_in,
    put,
    put_body,
    typed,
    untyped,
    values_in,
    writes_body,
)
from tests.integration.test_openapi import assert_documented

pytestmark = pytest.mark.anyio


@pytest.fixture
async def mine(make_client: MakeClient, tenant: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service for a tenant without threads; the key may read and write."""
    keys = ",".join([key_entry(tenant, "k"), key_entry(tenant, "r", "read")])
    async with make_client(api_keys=keys) as client:
        client.headers.update(bearer("k"))
        yield client


async def test_answers_are_as_documented(mine: httpx.AsyncClient) -> None:
    """What each route answers is what its schema says, no member more or less."""
    stored = await put(mine, "c1", values={"log": ["a"], "n": None}, metadata={"step": 1})
    await call(mine, "put-writes", writes_body("c1", [("log", "b")]))
    await put(mine, "c2", "c1", values={"log": ["b"]}, versions={"log": 2})
    found = await call(mine, "get-tuple", {"config": config()})
    page = await call(mine, "list", {"config": config(), "limit": 1})
    history = await call(mine, "delta-history", {"config": config(), "channels": ["log", "x"]})
    blob = await mine.get(blob_path("t1", "log", "1"))

    assert_documented(answers.PutOut, stored.json())
    assert_documented(answers.TupleOut, found.json())
    assert_documented(answers.TuplesPage, page.json())
    assert_documented(answers.DeltaHistoriesOut, history.json())
    assert_documented(answers.GraphBlobOut, blob.json())
    assert stored.json() == {"config": config("t1", "c1")}
    assert found.json()["parent_config"] == config("t1", "c1")
    assert page.json()["has_more"] is True


@pytest.mark.parametrize("model", GRAPH_REQUESTS)
async def test_examples_are_taken(mine: httpx.AsyncClient, model: type) -> None:
    """Every example of a request in the contract is a request that its route takes."""
    document = create_app(load_settings(database_url="postgresql://nowhere")).openapi()
    example = document["components"]["schemas"][model.__name__]["examples"][0]
    reference = f"#/components/schemas/{model.__name__}"
    routes = [
        path
        for path, operations in document["paths"].items()
        if reference in str(operations.get("post", {}).get("requestBody"))
    ]
    await put(mine, "1f0-a", values={"messages": ["a"]})

    response = await mine.post(routes[0], json=example)

    assert len(routes) == 1
    assert response.status_code in {200, 204}, response.text


async def test_a_run(mine: httpx.AsyncClient) -> None:
    """What a graph run puts comes back as one tuple, at every checkpoint of it and in the list."""
    await put(mine, "c1", values={"log": ["a"], "raw": b"\0\xff", "n": 5, "none": None})
    written = await call(
        mine, "put-writes", writes_body("c1", [("log", "b"), ("__interrupt__", {"q": 1})])
    )
    await put(mine, "c2", "c1", values={"log": ["a", "b"]}, versions={"log": 2, "raw": 1})

    first, second = await get(mine, "c1"), await get(mine)
    listed = (await call(mine, "list", {"config": config()})).json()["items"]

    assert (written.status_code, written.content) == (204, b"")
    assert values_in(first) == {"log": ["a"], "raw": b"\0\xff", "n": 5, "none": None}
    assert pending_in(first) == [("task1", "__interrupt__", {"q": 1}), ("task1", "log", "b")]
    assert [write["idx"] for write in first["pending_writes"]] == [-3, 0]
    assert values_in(second) == {"log": ["a", "b"], "raw": b"\0\xff"}
    assert listed == [second, first]


async def test_special_writes_overwrite(mine: httpx.AsyncClient) -> None:
    """A call of special channels alone overwrites; in any other, what was there first stays."""
    await put(mine, "c1")
    calls: list[list[tuple[str, object]]] = [
        [("__resume__", "a"), ("__error__", "x"), ("__error__", "y")],
        [("__resume__", "b")],
        [("log", 1), ("__resume__", "c")],
        [("log", 2)],
    ]
    for writes in calls:
        await call(mine, "put-writes", writes_body("c1", writes))
    forced = writes_body("c1", [("log", 3)], all_special=True)
    assert pending_in(await get(mine, "c1"))[-1] == ("task1", "log", 1)
    await call(mine, "put-writes", forced)

    assert pending_in(await get(mine, "c1")) == [
        ("task1", "__resume__", "b"),
        ("task1", "__error__", "y"),
        ("task1", "log", 3),
    ]


async def test_forms_of_a_config(mine: httpx.AsyncClient) -> None:
    """Flat or under `configurable`, the namespace inside or beside: the same; other keys pass."""
    await put(mine, "c1", ns="sub:1")
    named = {"thread_id": "t1", "checkpoint_ns": "sub:1"}
    bodies = [
        {"config": {"configurable": named}},
        {"config": named},
        {"config": {"configurable": {"thread_id": "t1"}}, "ns": "sub:1"},
        {"config": {**named, "checkpoint_id": ""}, "ns": "sub:1", "unknown": 1},
        {"config": {"configurable": {**named, "user": {"a": 1}}, "tags": [], "metadata": {}}},
        {"config": {**named, "checkpoint_id": None}, "ns": None},
    ]

    for body in bodies:
        found = await call(mine, "get-tuple", body)
        assert found.json()["config"] == config("t1", "c1", "sub:1"), body
    both = await call(mine, "get-tuple", {"config": named, "ns": ""})
    assert both.json()["errors"][0]["pointer"] == "#/ns"
    root = await call(mine, "get-tuple", {"config": {"thread_id": "t1"}})
    assert root.json()["type"].endswith(":checkpoint-not-found")


async def test_lists(mine: httpx.AsyncClient) -> None:
    """Lists narrow by thread, namespace, id, filter and `before`, and go on by cursor."""
    for name in ("c1", "c2", "c3"):
        await put(mine, name, metadata={"step": int(name[1])})
    await put(mine, "c1", ns="sub:1")
    await put(mine, "d1", thread="t2")

    async def listed(**body: object) -> list[str]:
        response = await call(mine, "list", body)
        assert response.status_code == 200, response.text
        return [item["checkpoint"]["id"] for item in response.json()["items"]]

    everywhere = {"configurable": {"thread_id": "t1"}}
    assert await listed() == ["d1", "c3", "c2", "c1", "c1"]
    assert await listed(config=None, ns="") == ["d1", "c3", "c2", "c1"]
    assert await listed(config=everywhere) == ["c3", "c2", "c1", "c1"]
    assert await listed(config=config("t1")) == ["c3", "c2", "c1"]
    assert await listed(config=everywhere, ns="sub:1") == ["c1"]
    assert await listed(config=config("t1", "c2")) == ["c2"]
    assert await listed(config=config(), filter={"step": 2}) == ["c2"]
    assert await listed(filter={"step": "2"}) == []
    for before in ("c3", config("t1", "c3"), {"checkpoint_id": "c3"}):
        assert await listed(config=config(), before=before, limit=1) == ["c2"]
    page = (await call(mine, "list", {"limit": 3})).json()
    assert await listed(limit=3, cursor=page["next_cursor"]) == ["c1", "c1"]
    missing = await call(mine, "list", {"config": config(), "before": "nope"})
    assert missing.json()["type"].endswith(":checkpoint-not-found")


async def test_one_value_is_cached(mine: httpx.AsyncClient) -> None:
    """A stored version may be kept for ever; by a client's version it is asked for again."""
    await put(mine, "c1", values={"a/b": [1]}, versions={"a/b": "0.5"})
    stored = (await get(mine))["blobs"][0]["version"]

    by_stored = await mine.get(blob_path("t1", "a/b", stored))
    by_client = await mine.get(blob_path("t1", "a/b", "0.5"), params={"ns": ""})
    tag = by_stored.headers["etag"]
    same = await mine.get(blob_path("t1", "a/b", stored), headers={"If-None-Match": tag})

    assert by_stored.json() == by_client.json()
    assert untyped(by_stored.json()) == [1]
    assert "immutable" in by_stored.headers["cache-control"]
    assert by_client.headers["cache-control"] == "private, no-cache"
    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    for path, slug in (
        (blob_path("t1", "a/b", "2"), "channel-not-found"),
        (blob_path("t9", "a/b", stored), "thread-not-found"),
    ):
        assert (await mine.get(path)).json()["type"].endswith(slug)


async def test_ambiguous_values(mine: httpx.AsyncClient) -> None:
    """Of several values under one count none is picked: not on a read, not for an orphan's put."""
    for name in ("c1", "c2"):
        await put(mine, name, values={"log": [name]}, versions={"log": 7})

    read = await mine.get(blob_path("t1", "log", "7"))
    orphan = await call(mine, "put", put_body("c3", "gone", versions={"log": 7}))
    one = await mine.get(blob_path("t1", "log", "7"), params={"checkpoint_id": "c2"})

    for refused in (read, orphan):
        assert refused.status_code == 409
        assert refused.json()["type"].endswith(":version-ambiguous")
    assert orphan.json()["channel"] == "log"
    assert untyped(one.json()) == ["c2"]


async def test_deletes_copies_and_prunes(mine: httpx.AsyncClient) -> None:
    """Each answers 204, for what is not there too; but a copy of nothing, or into a mixture."""
    await put(mine, "c1", values={"log": ["a"]}, metadata={"run_id": "r1"})
    await put(mine, "c2", "c1", versions={"log": 1}, metadata={"run_id": "r2"})
    done = [
        await call(mine, "copy-thread", {"source": "t1", "target": "t2"}),
        await call(mine, "prune", {"thread_ids": ["t2", "none"]}),
        await call(mine, "delete-for-runs", {"run_ids": ["r1", "none"]}),
        await mine.delete(f"{ROOT}/threads/none"),
    ]
    assert values_in(await get(mine, "c2", "t2")) == {"log": ["a"]}
    assert (await get(mine, "c2", "t2"))["parent_config"] is None
    assert (await call(mine, "get-tuple", {"config": config("t1", "c1")})).status_code == 404
    assert values_in(await get(mine, "c2")) == {"log": ["a"]}
    done += [
        await mine.delete(f"{ROOT}/threads/t1"),
        await mine.delete(f"{ROOT}/threads/t1"),
        await call(mine, "prune", {"thread_ids": ["t2"], "strategy": "delete"}),
    ]
    assert [response.status_code for response in done] == [204] * len(done)
    assert (await call(mine, "list", {})).json()["items"] == []
    await put(mine, "z1", thread="t2")
    await put(mine, "c1")
    unknown = await call(mine, "copy-thread", {"source": "none", "target": "t3"})
    mixed = await call(mine, "copy-thread", {"source": "t1", "target": "t2"})
    itself = await call(mine, "copy-thread", {"source": "t1", "target": "t1"})
    assert [unknown.status_code, mixed.status_code, itself.status_code] == [404, 409, 422]
    assert mixed.json()["type"].endswith(":thread-exists")


async def test_both_kinds_of_memory(
    mine: httpx.AsyncClient, database: Database, tenant: str
) -> None:
    """One thread may hold turns and a graph's checkpoints; each reads as if alone."""
    await mine.post(path_of("t1", "/turns"), json=turn("hello", metadata={"run_id": "r1"}))
    before = await turn_rows(database, tenant)
    await put(mine, "c1", values={"log": ["a"]}, metadata={"run_id": "r1"})
    head = (await mine.post("/v1/context", json={"thread_id": "t1"})).json()["head"]
    not_ours = await call(mine, "get-tuple", {"config": config("t1", head)})
    below = await call(mine, "put", put_body("c2", "c1", placing=1))
    for route, body in (
        ("delete-for-runs", {"run_ids": ["r1"]}),
        ("prune", {"thread_ids": ["t1"], "strategy": "delete"}),
    ):
        await call(mine, route, body)
    await mine.delete(f"{ROOT}/threads/t1")

    loaded = (await mine.post("/v1/context", json={"thread_id": "t1"})).json()

    assert not_ours.status_code == 404
    assert below.status_code == 200
    assert await turn_rows(database, tenant) == before
    assert loaded["head"] == head
    assert loaded["messages"][0]["content"] == "hello"


async def test_forks_over_http_share_nothing(mine: httpx.AsyncClient) -> None:
    """Forty branches put at once with one integer version are forty values.

    Source: langchain-ai/langgraphjs#2584.
    """
    await put(mine, "a", values={"log": ["base"]})
    names = [f"b{number:02}" for number in range(40)]
    await asyncio.gather(
        *(put(mine, name, "a", values={"log": [name]}, versions={"log": 2}) for name in names)
    )

    graphs = await asyncio.gather(*(get(mine, name) for name in names))

    assert [values_in(graph)["log"] for graph in graphs] == [[name] for name in names]


async def test_walls(mine: httpx.AsyncClient, make_client: MakeClient, tenant: str) -> None:
    """No route shows, lists or changes another owner's or tenant's, or works without its scope."""
    ann, bob = bearer("k", "ann"), bearer("k", "bob")
    mine.headers.update(ann)
    await put(mine, "c1", values={"log": ["a"]}, metadata={"run_id": "r1"})
    before = await get(mine)
    version = before["blobs"][0]["version"]
    reads = [
        ("get-tuple", {"config": config()}),
        ("delta-history", {"config": config(), "channels": ["log"]}),
    ]
    writes: list[tuple[str, dict[str, object]]] = [
        ("put", put_body("c2", "c1")),
        ("put", put_body("c2", "c1", on_conflict="reject")),
        ("put", put_body("c2") | {"parent": "latest"}),
        ("put-writes", writes_body("c1", [("log", 1)])),
        ("copy-thread", {"source": "t1", "target": "t2"}),
    ]
    silent = [
        ("delete-for-runs", {"run_ids": ["r1"]}),
        ("prune", {"thread_ids": ["t1"], "strategy": "delete"}),
    ]
    keys = ",".join([key_entry(f"{tenant}-2", "o"), key_entry(tenant, "r", "read")])
    async with make_client(api_keys=keys) as other:
        for client, headers in ((mine, bob), (mine, bearer("k")), (other, bearer("o"))):
            client.headers.clear()
            client.headers.update(headers)
            same_tenant = client is mine
            for route, body in [*reads, *(writes if same_tenant else writes[-1:])]:
                response = await call(client, route, body)
                assert (route, response.status_code) == (route, 404)
                assert response.json()["type"].endswith(":thread-not-found")
            assert (await client.get(blob_path("t1", "log", version))).status_code == 404
            for route, body in silent:
                assert (await call(client, route, body)).status_code == 204
            assert (await client.delete(f"{ROOT}/threads/t1")).status_code == 204
            for query in ({}, {"config": config()}):
                assert (await call(client, "list", query)).json()["items"] == []
        other.headers.clear()
        other.headers.update(bearer("r"))
        for route, body in [*writes, *silent]:
            assert (await call(other, route, body)).status_code == 403
        assert (await other.delete(f"{ROOT}/threads/t1")).status_code == 403
    mine.headers.update(ann)
    assert await get(mine) == before


async def test_typed_helper_roundtrips() -> None:
    """The values of these tests are told apart from their bytes."""
    assert untyped(typed(b"x")) == b"x"
    assert untyped(typed({"a": [1]})) == {"a": [1]}
