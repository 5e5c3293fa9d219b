"""Bad requests of the checkpoint routes: 422 that names the field, never a 500, nothing stored."""

from collections.abc import AsyncIterator, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.adapters.sql.engine import Database
from app.core.model import ThreadKey
from tests.graph_factories import graph_counts
from tests.integration.callers import bearer, key_entry
from tests.integration.conftest import MakeClient
from tests.integration.graph_calls import (
    ROOT,
    blob_path,
    call,
    config,
    get,
    put,
    put_body,
    typed,
    writes_body,
)
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

ROUTES: Mapping[str, Mapping[str, Any]] = {
    "get-tuple": {"config": config()},
    "list": {"config": config()},
    "put": put_body("c1", values={"log": ["a"]}),
    "put-writes": writes_body("c1", [("log", 1)]),
    "delete-for-runs": {"run_ids": ["r1"]},
    "copy-thread": {"source": "t1", "target": "t2"},
    "prune": {"thread_ids": ["t1"]},
    "delta-history": {"config": config(), "channels": ["log"]},
}
NO_IDS = ["x" * 256, "a\0b", "a\nb", 1, True, [], {}, 1.5]
NO_NAMES = ["", "é" * 200, *NO_IDS]
"""Too many bytes for a name of LangGraph's, though a thread's id may have as many."""
NO_SPACES = ["~turns", "~", "n" * 601, "é" * 301, "a\0b", 5]
CONFIGURABLE = "#/config/configurable"
Make = Callable[[Any], Mapping[str, Any]]
Bad = list[tuple[str, Mapping[str, Any], str]]


@pytest.fixture
async def mine(make_client: MakeClient, tenant: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service for a tenant without threads."""
    async with make_client(api_keys=key_entry(tenant, "k")) as client:
        client.headers.update(bearer("k"))
        yield client


def deep(levels: int) -> object:
    node: object = 1
    for _ in range(levels):
        node = {"a": node}
    return node


def each(route: str, pointer: str, make: Make, *values: object) -> Bad:
    """Requests that are wrong at the pointer, one with each value there."""
    return [(route, make(value), pointer) for value in values]


def member(route: str, name: str, *values: object) -> Bad:
    """Requests with something wrong in one member of the body."""
    return each(route, f"#/{name}", lambda value: {**ROUTES[route], name: value}, *values)


def named(name: str, *values: object) -> Bad:
    """Requests with something wrong in the config."""

    def make(value: object) -> Mapping[str, Any]:
        return {"config": {"configurable": {"thread_id": "t1", name: value}}}

    return each("get-tuple", f"{CONFIGURABLE}/{name}", make, *values)


def checkpoint(name: str, *values: object, pointer: str | None = None) -> Bad:
    """Puts with something wrong in the checkpoint."""
    body = ROUTES["put"]
    return each(
        "put",
        (f"#/checkpoint/{name}" if pointer is None else pointer),
        lambda value: {**body, "checkpoint": {**body["checkpoint"], name: value}},
        *values,
    )


def blob_with(name: str, value: object) -> dict[str, Any]:
    body = ROUTES["put"]
    return {**body, "blobs": [{**body["blobs"][0], name: value}]}


def blob(name: str, *values: object) -> Bad:
    """Puts with something wrong in a blob."""
    return each("put", f"#/blobs/0/{name}", lambda value: blob_with(name, value), *values)


def write_with(name: str, value: object) -> dict[str, Any]:
    return {**ROUTES["put-writes"], "writes": [{"channel": "log", **typed(1), name: value}]}


def write(name: str, *values: object) -> Bad:
    """Puts of writes with something wrong in one of them."""
    return each("put-writes", f"#/writes/0/{name}", lambda value: write_with(name, value), *values)


def listed(route: str, name: str, *values: object) -> Bad:
    """Requests with something wrong in the second item of a list."""
    body = ROUTES[route]
    return each(route, f"#/{name}/1", lambda value: {**body, name: ["a", value]}, *values)


LONG_VERSION = {
    **put_body("c1", versions={"log": "v" * 201}),
    "blobs": [{"channel": "log", "version": "v" * 201, **typed(1)}],
}
BAD: Bad = [
    *((route, {}, "#") for route in ROUTES if route != "list"),
    *member("get-tuple", "config", 1, "t1", [], True, {}, {"configurable": None}),
    *member("list", "config", 1, "t1", []),
    *named("thread_id", "", "..", None, *NO_IDS),
    *named("checkpoint_ns", *NO_SPACES),
    *named("checkpoint_id", *NO_NAMES[1:]),
    *(
        bad
        for route in ROUTES
        if "config" in ROUTES[route]
        for bad in member(route, "ns", *NO_SPACES)
    ),
    *member("list", "limit", 0, -1, 101, "5", 1.5, True, 2**63),
    *member("list", "cursor", "x", "", 5, "WzFd"),
    *member("list", "filter", "a", [], 1, {"a": "b\0"}, {"a\0": 1}),
    *member("list", "before", *NO_NAMES, config("t1")),
    ("list", {"filter": deep(200)}, "#"),
    ("put", {**ROUTES["put"], "checkpoint": deep(99)}, "#"),
    *member("put", "checkpoint", 1, "c1", []),
    *checkpoint("id", "", None, "é" * 200, "x" * 256, "a\nb", 1, True, [], {}),
    ("put", put_body("c1", "c1"), "#/checkpoint/id"),
    *checkpoint("channel_versions", 1, None, [], {"log": True}, {"x": {}}, {"x": None}),
    *checkpoint("channel_values", 1, None, []),
    *checkpoint("channel_values", {"a\0": 1}, {"a": [{"b": "c\0"}]}, pointer="#/checkpoint"),
    *member("put", "metadata", 1, [], "a", {"a": "b\0"}, {"a": [{"b\0": 1}]}),
    *member("put", "new_versions", 1, [], {"a\0": 1}),
    *member("put", "on_conflict", "append", 1),
    *member("put", "parent", "c0", 1),
    *member("put", "blobs", 1, {}, "a", [1]),
    *listed("put", "blobs", 1),
    ("put", {**ROUTES["put"], "blobs": ROUTES["put"]["blobs"] * 2}, "#/blobs/1/channel"),
    *blob("channel", *NO_NAMES),
    ("put", blob_with("channel", "other"), "#/blobs/0/version"),
    *blob("version", 2, "1", None, True, [], {}),
    *blob("type", "pickle", "pickle+aes", "Pickle", "", 1, None, "a\0", "x" * 256),
    *blob("data", "a", "é", "YQ=", "YQ==YQ==", "Y Q==", "YQ\n==", 1, [], "_-8="),
    ("put", LONG_VERSION, "#/blobs/0/version"),
    ("put-writes", writes_body(None, [("log", 1)]), f"{CONFIGURABLE}/checkpoint_id"),
    *member("put-writes", "task_id", *NO_NAMES),
    *member("put-writes", "task_path", "a\0", 1, "x" * 1001),
    *member("put-writes", "writes", 1, {}, "a"),
    *member("put-writes", "all_special", 1, "true"),
    *write("idx", 2**31, -(2**31) - 1, 2**63, "1", 1.5, True),
    *write("channel", *NO_NAMES),
    *write("type", "pickle", 1, ""),
    *write("data", "?", 1),
    *member("delete-for-runs", "run_ids", "r1", {}, 1, ["r"] * 1001),
    *listed("delete-for-runs", "run_ids", "", None, *NO_IDS),
    *member("copy-thread", "source", "", None, *NO_IDS),
    *member("copy-thread", "target", "", "t1", "..", *NO_IDS),
    *member("prune", "strategy", "keep_all", "", 1),
    *member("prune", "thread_ids", "t1", 1, ["t"] * 1001),
    *listed("prune", "thread_ids", "", None, *NO_IDS),
    *member("delta-history", "channels", "log", 1, {}),
    *listed("delta-history", "channels", None, *NO_NAMES),
]


async def test_bad_input_is_named(mine: httpx.AsyncClient, database: Database, tenant: str) -> None:
    """Each flaw is a 422 that names its place, and nothing of the request is stored."""
    wrong = []
    for route, body, pointer in BAD:
        response = await call(mine, route, body)
        named = [flaw["pointer"] for flaw in response.json().get("errors", [])]
        if response.status_code != 422 or not any(name.startswith(pointer) for name in named):
            wrong.append((route, str(body)[:200], pointer, response.status_code, response.text))

    assert wrong == []
    assert await graph_counts(database, ThreadKey(tenant, "t1")) == (0, 0, 0, 0)


async def test_pickles_are_refused(mine: httpx.AsyncClient) -> None:
    """A pickle is refused with a reason, on both ways in (case sec-no-object-revival)."""
    for route, body in (
        ("put", blob_with("type", "pickle")),
        ("put-writes", write_with("type", "pickle")),
    ):
        flaw = (await call(mine, route, body)).json()["errors"][0]
        assert "runs code" in flaw["detail"]


@pytest.mark.parametrize("route", ROUTES)
async def test_bodies(make_client: MakeClient, route: str) -> None:
    """No JSON, no object, another media type and too large a body are refused by every route."""
    async with make_client(max_checkpoint_bytes=2000) as client:
        url = f"{ROOT}/{route}"
        for content in (b"", b"[]", b"1", b"{", b'{"a": NaN}', b'"\xff"', b'{"a": "\\ud800"}'):
            response = await client.post(url, content=content)
            assert response.status_code == 422, content
        large = {**ROUTES[route], "padding": "x" * 2000}
        assert (await client.post(url, json=large)).status_code == 413
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        assert (await client.post(url, content=b"a=1", headers=form)).status_code == 415


async def test_limits_of_other_routes_stay(make_client: MakeClient) -> None:
    """Only the checkpoint routes take bodies as large as graph states."""
    async with make_client(max_body_bytes=1024) as client:
        body = put_body("c1", thread="large", values={"log": ["x" * 5000]})
        assert (await call(client, "put", body)).status_code == 200
        context = await client.post("/v1/context", json={"history": "x" * 5000})
        assert context.status_code == 413


async def test_paths_and_queries(mine: httpx.AsyncClient) -> None:
    """The names of a value's path and its query are checked like those of bodies."""
    await put(mine, "c1", values={"log": ["a"]})
    for path, pointer in (
        (blob_path("", "log", "1"), "#/thread_id"),
        (blob_path("t1", "a\0b", "1"), "#/channel"),
        (blob_path("t1", "log", "x" * 256), "#/version"),
        (blob_path("t1", "log", "1") + "?ns=~turns", "#/ns"),
        (blob_path("t1", "log", "1") + "?ns=a%00b", "#/ns"),
        (blob_path("t1", "log", "1") + "?checkpoint_id=", "#/checkpoint_id"),
        (blob_path("t1", "log", "1") + "?checkpoint_id=a%00", "#/checkpoint_id"),
    ):
        response = await mine.get(path)
        assert response.status_code == 422, path
        assert response.json()["errors"][0]["pointer"] == pointer


async def test_longest_names(mine: httpx.AsyncClient) -> None:
    """Names as long as they may be fit into the database's keys, however badly they compress."""
    wide = "".join(chr(0x20000 + number * 37) for number in range(255))
    short = "".join(chr(0x4E00 + number * 61) for number in range(85))
    ns = "".join(chr(0x5000 + number * 31) for number in range(200))
    version = "".join(chr(33 + number * 7 % 90) for number in range(200))
    body = put_body(short, thread=wide, ns=ns, values={short: [1]}, versions={short: version})
    assert (await call(mine, "put", body)).status_code == 200
    writes = writes_body(short, [(short, 1)], thread=wide, ns=ns, task_id=short)
    assert (await call(mine, "put-writes", writes)).status_code == 204

    found = await get(mine, thread=wide, ns=ns)
    stored = await mine.get(blob_path(wide, short, found["blobs"][0]["version"]), params={"ns": ns})

    assert len(found["pending_writes"]) == 1
    assert stored.status_code == 200
    listed = await call(mine, "list", {"config": config(wide, ns=ns), "before": short})
    assert listed.json()["items"] == []


async def test_tombstone(mine: httpx.AsyncClient, database: Database, tenant: str) -> None:
    """A deleted thread takes nothing, so that a late retry does not bring it back."""
    await put(mine, "c1")
    await put(mine, "c1", thread="t2")
    now = datetime.now(UTC)
    bury = """UPDATE S.threads SET deleted_at = $3, expires_at = $4
               WHERE tenant_id = $1 AND thread_id = $2"""
    await database.fetch(in_schema(bury), tenant, "t1", now, now + timedelta(days=1))

    for route, body in (
        ("put", put_body("c2", "c1")),
        ("put", put_body("c2", "c1", on_conflict="reject")),
        ("put-writes", writes_body("c1", [("log", 1)])),
        ("copy-thread", {"source": "t2", "target": "t1"}),
    ):
        response = await call(mine, route, body)
        assert (route, response.status_code) == (route, 410)
        assert response.json()["type"].endswith(":thread-deleted")
    assert (await call(mine, "get-tuple", {"config": config()})).status_code == 404
    assert (await call(mine, "list", {"config": config()})).json()["items"] == []


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**70), 2**70),
        st.text(max_size=5),
        st.floats(allow_nan=False, allow_infinity=False),
    ),
    lambda below: st.one_of(
        st.lists(below, max_size=3), st.dictionaries(st.text(max_size=5), below, max_size=3)
    ),
    max_leaves=8,
)


def mutated(node: object) -> st.SearchStrategy[Any]:
    """The value with something else in one place."""
    choices = [JSON]
    if isinstance(node, Mapping):
        choices += [in_place(node, name) for name in node]
    if isinstance(node, list) and node:
        choices.append(mutated(node[0]).map(lambda new: [new, *node[1:]]))
    return st.one_of(choices)


def in_place(node: Mapping[str, object], name: str) -> st.SearchStrategy[Any]:
    return mutated(node[name]).map(lambda new: {**node, name: new})


def requests() -> st.SearchStrategy[tuple[str, Any]]:
    """A route, and a body that is right in all but one place."""
    return st.one_of([st.tuples(st.just(route), mutated(ROUTES[route])) for route in ROUTES])


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(request_of=requests())
async def test_anything_anywhere(mine: httpx.AsyncClient, request_of: tuple[str, Any]) -> None:
    """Any JSON in the place of any member is taken, or refused by a 4xx; it is never a 500."""
    route, body = request_of

    response = await call(mine, route, body)

    assert response.status_code < 500, (route, body, response.text)
