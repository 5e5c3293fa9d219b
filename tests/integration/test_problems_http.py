"""Every error over HTTP is a problem document that names its request."""

import logging
from collections.abc import AsyncIterator

import httpx
import pytest
from fastapi import FastAPI, Request, Response

from app.api.dependencies import DirectRoute, Resources
from app.api.install import install_api
from app.core.errors import StoreUnavailable
from app.telemetry import JsonFormatter

pytestmark = pytest.mark.anyio


class Down:
    """A dependency that does not answer."""

    async def check(self) -> bool:
        return False


async def fail(_: Request) -> Response:
    raise RuntimeError("my code is ZEBRA-77")


async def lose_store(_: Request) -> Response:
    raise StoreUnavailable from OSError("INSERT ... ZEBRA-77")


@pytest.fixture
async def broken() -> AsyncIterator[httpx.AsyncClient]:
    """The HTTP face with routes that fail in every way, on no resources at all."""
    app = FastAPI()
    install_api(app)
    app.router.route_class = DirectRoute
    app.add_api_route("/fail", fail)
    app.add_api_route("/store", lose_store)
    app.state.resources = Resources(
        database=Down(),
        schema=Down(),
        cache=Down(),
        **NOTHING,  # type: ignore[arg-type]
    )
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


NOTHING = dict.fromkeys(
    ["history", "index", "staging", "branches", "erasure", "graphs", "build_summary"]
)


async def test_unknown_path_and_method(client: httpx.AsyncClient) -> None:
    """An unknown path or method is a problem like any other, with what is allowed."""
    unknown = await client.get("/v2/threads")
    wrong = await client.delete("/v1/context")

    assert (unknown.status_code, unknown.json()["type"]) == (
        404,
        "urn:threadkeep:problem:not-found",
    )
    assert (wrong.status_code, wrong.json()["type"]) == (
        405,
        "urn:threadkeep:problem:method-not-allowed",
    )
    assert wrong.headers["allow"] == "POST"
    for response in (unknown, wrong):
        assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("sent", ["req-1", "3f0c5c0a.x_Y-9", "x" * 128])
async def test_request_id_is_kept(client: httpx.AsyncClient, sent: str) -> None:
    """A request keeps the id that the caller gave it, in the answer and in a problem's instance."""
    fine = await client.get("/healthz", headers={"X-Request-Id": sent})
    wrong = await client.get("/nowhere", headers={"X-Request-Id": sent})

    assert fine.headers["x-request-id"] == sent
    assert wrong.headers["x-request-id"] == wrong.json()["instance"] == sent


@pytest.mark.parametrize("sent", ["", "a b", "x" * 129, '"}', "caf\u00e9"])
async def test_odd_request_id_is_replaced(client: httpx.AsyncClient, sent: str) -> None:
    """An id that could be anything else than an id is replaced, not repeated."""
    response = await client.get("/healthz", headers={b"X-Request-Id": sent.encode()})

    assert len(response.headers["x-request-id"]) == 32


async def test_unexpected_error(
    broken: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    """An error nobody foresaw is a 500 without its text; the log tells its type and place."""
    response = await broken.get("/fail", headers={"X-Request-Id": "req-1"})

    assert (response.status_code, response.json()) == (
        500,
        {
            "type": "urn:threadkeep:problem:internal-error",
            "title": "Internal error",
            "status": 500,
            "detail": "Internal error",
            "instance": "req-1",
        },
    )
    [line] = [r.getMessage() for r in caplog.records if r.levelno == logging.ERROR]
    assert "RuntimeError" in line
    assert "test_problems_http.py" in line
    assert "ZEBRA" not in line + response.text + caplog.text


async def test_store_gone(broken: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    """A database that does not answer is a 503 that says when to try again, and nothing else."""
    response = await broken.get("/store")

    assert (response.status_code, response.json()["type"]) == (
        503,
        "urn:threadkeep:problem:store-unavailable",
    )
    assert response.headers["retry-after"] == "1"
    assert "ZEBRA" not in response.text + caplog.text


async def test_not_ready(broken: httpx.AsyncClient, client: httpx.AsyncClient) -> None:
    """Alive is not ready: without its database the service says 503, with it 200."""
    assert (await broken.get("/healthz")).status_code == 200
    down, up = await broken.get("/readyz"), await client.get("/readyz")

    assert (down.status_code, down.json()) == (
        503,
        {"status": "unavailable", "database": False, "migrated": False, "cache": False},
    )
    assert (up.status_code, up.json()) == (
        200,
        {"status": "ready", "database": True, "migrated": True, "cache": True},
    )


async def test_access_log(client: httpx.AsyncClient, caplog: pytest.LogCaptureFixture) -> None:
    """A request is one line: method, route template, status, milliseconds; no id, no query."""
    caplog.set_level(logging.INFO, "threadkeep.access")
    await client.get("/v1/threads/secret-thread/context?checkpoint_id=secret-checkpoint")
    await client.get("/secret-path")

    lines = [r for r in caplog.records if r.name == "threadkeep.access"]
    told = [(vars(r)["method"], vars(r)["route"], vars(r)["status"]) for r in lines]
    assert told == [("GET", "/v1/threads/{thread_id}/context", 404), ("GET", "unmatched", 404)]
    assert all(vars(line)["milliseconds"] > 0 for line in lines)
    assert not any("secret" in JsonFormatter().format(line) for line in lines)


async def test_server_timing(client: httpx.AsyncClient) -> None:
    """A load tells how long the store, the cache and the assembling took."""
    timing = (await client.get("/v1/threads/t1/context")).headers["server-timing"]

    assert [part.split(";")[0] for part in timing.split(", ")] == ["store", "cache", "assemble"]
