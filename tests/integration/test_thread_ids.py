"""Hostile thread ids: usable on every route with one meaning, or refused on every route."""

import http.client
import json
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI

from tests.integration.callers import bearer, key_entry, path_of, turn
from tests.integration.conftest import MakeClient, StartService

pytestmark = pytest.mark.anyio

USABLE = [
    "a/b",
    "a%2Fb",
    "../x",
    "a?b#c",
    "a b",
    "\u00e9",
    "e\u0301",
    "日本/東京",
    "😀",
    "A",
    "a",
    "con",
    "null",
    "0",
    "-1",
    "\u202etxt",
    "x" * 255,
    "turns",
    "t/turns",
    "%",
    "+",
    ";",
    "🏳️‍🌈" * 42,
]
REFUSED = {
    "empty": "",
    "long": "x" * 5000,
    "256": "x" * 256,
    "newline": "a%0Ab",
    "nul": "a%00b",
    "delete": "%7F",
    "c1": "%C2%85",
    "not UTF-8": "%FF",
    "surrogate": "%ED%A0%80",
    "escape": "a%2",
    "dot": "%2E",
    "dots": "%2e%2e",
}


@pytest.fixture
async def mine(make_client: MakeClient, tenant: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service for a tenant without threads."""
    async with make_client(api_keys=key_entry(tenant, "k")) as client:
        client.headers.update(bearer("k"))
        yield client


def routes_with_an_id(app: FastAPI) -> list[tuple[str, str]]:
    """Every operation of the contract whose path names a thread."""
    return [
        (method.upper(), path)
        for path, operations in app.openapi()["paths"].items()
        for method in operations
        if "{thread_id}" in path
    ]


async def test_usable_on_every_route(mine: httpx.AsyncClient) -> None:
    """Every id keeps its own thread: each route gives what was saved under it, nothing else.

    Source: fastapi/fastapi#791 (case enc-thread-id-hostile).
    """
    for thread_id in USABLE:
        saved = await mine.post(path_of(thread_id, "/turns"), json=turn(f"of {thread_id}"))
        assert (saved.status_code, saved.json()["thread_id"]) == (201, thread_id)

    for thread_id in USABLE:
        by_body = await mine.post("/v1/context", json={"thread_id": thread_id})
        by_path = await mine.get(path_of(thread_id, "/context"))
        assert by_body.json() == by_path.json()
        raw = (await mine.get(path_of(thread_id, "/messages"))).json()["items"]
        assert raw[0]["content"] == f"of {thread_id}"
        assert len(raw) == 2
        assert (await mine.get(path_of(thread_id))).json()["thread_id"] == thread_id
        assert (await mine.post(path_of(thread_id, "/summary"))).status_code == 200
    listed = (await mine.get("/v1/threads", params={"limit": 100})).json()["items"]
    assert sorted(USABLE) == sorted(item["thread_id"] for item in listed)


@pytest.mark.parametrize("segment", REFUSED.values(), ids=REFUSED)
async def test_refused_on_every_route(client: httpx.AsyncClient, segment: str) -> None:
    """What cannot be an id is 422 on every route that takes one, never a 404 of the router."""
    routes = routes_with_an_id(client._transport.app)  # type: ignore[attr-defined]
    assert routes

    for method, path in routes:
        url = client.base_url.copy_with(raw_path=path.replace("{thread_id}", segment).encode())
        response = await client.request(method, url, json=turn("hello"))
        assert (method, path, response.status_code) == (method, path, 422)
        assert response.json()["errors"][0]["pointer"] == "#/thread_id"


@pytest.mark.parametrize(
    "thread_id", ["", "x" * 256, "a\nb", "a\0b", "..", 42, 653247040368672768, 1.5, True, ["t"], {}]
)
async def test_refused_in_a_body(client: httpx.AsyncClient, thread_id: object) -> None:
    """The same rule holds in a body, where no number is an id: 42 and "42" are not two threads.

    Source: near oceanbase/powercontext#91 (case shapes-thread-id-types).
    """
    response = await client.post("/v1/context", json={"thread_id": thread_id})

    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/thread_id"


async def test_static_words_escaped(client: httpx.AsyncClient) -> None:
    """An escaped letter of a route's own words is that letter."""
    url = client.base_url.copy_with(raw_path=b"/v1/%74hreads/t1/conte%78t")

    assert (await client.get(url)).status_code == 200


async def test_slash_is_not_an_id(client: httpx.AsyncClient) -> None:
    """An id's slash is sent as %2F; a bare one makes another path, which does not exist."""
    response = await client.get("/v1/threads/a/b/context")

    assert (response.status_code, response.json()["type"]) == (
        404,
        "urn:threadkeep:problem:not-found",
    )


def test_over_the_wire(start_service: StartService) -> None:
    """A real server hands paths over as they were sent, dot segments and empty ones included."""
    sent = {
        "a%2Fb": "a/b",
        "a%252Fb": "a%2Fb",
        "%F0%9F%98%80": "😀",
        "..%2Fx": "../x",
        "..": None,
        "": None,
        "%FF": None,
        "%zz": None,
        "a%00b": None,
    }
    with start_service() as service:
        host = service.url.removeprefix("http://")
        for segment, thread_id in sent.items():
            connection = http.client.HTTPConnection(host)
            connection.request("GET", f"/v1/threads/{segment}/context")
            response = connection.getresponse()
            told = json.loads(response.read())
            connection.close()

            expected = (200, thread_id) if thread_id else (422, None)
            assert (segment, response.status, told.get("thread_id")) == (segment, *expected)
