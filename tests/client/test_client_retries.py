"""Tries through real connections that fail: refused, cut, hanging, answered with a failure."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from tests.client.scripted_server import Scripted, scripted_server
from tests.faults import Line
from tests.service import Service, free_port
from threadkeep_client import AsyncThreadkeep, Threadkeep, Unreachable
from threadkeep_client.errors import BadAnswer, RateLimited, StoreUnavailable, Unavailable

pytestmark = pytest.mark.anyio

TURN = [
    {"role": "user", "content": "How long is the Nile?"},
    {"role": "assistant", "content": "Long."},
]
BUSY = Scripted(503, b'{"type": "urn:threadkeep:problem:store-unavailable", "detail": "no"}')
PATIENT_RETRIES = 20


@pytest.fixture
async def line(service: Service) -> AsyncIterator[Line]:
    """A line to the service that can be told to fail."""
    target = urlsplit(service.url)
    line = Line(lambda: asyncio.open_connection(target.hostname, target.port))
    await line.tell("pass")
    yield line
    await line.close()


@pytest.fixture
async def far(line: Line, api_key: str) -> AsyncIterator[AsyncThreadkeep]:
    """A client at the other end of the line."""
    url = f"http://127.0.0.1:{line.port}"
    async with AsyncThreadkeep(url, api_key=api_key, retries=PATIENT_RETRIES) as far:
        yield far


@pytest.mark.parametrize("anchor", [{"parent": None}, {"key": "turn-1"}, {}])
async def test_lost_answer_is_asked_for_again(
    line: Line, far: AsyncThreadkeep, memory: AsyncThreadkeep, anchor: dict[str, Any]
) -> None:
    """A save whose answer was lost after it was stored is answered by the next try, stored once."""
    await line.tell("cut")
    saving = asyncio.create_task(far.save("t", TURN, **anchor))
    while not [thread async for thread in memory.threads()]:
        pass
    await line.tell("pass")
    saved = await saving
    assert saved["created"] is False
    assert [message["content"] async for message in memory.messages("t")] == [
        message["content"] for message in TURN
    ]


async def test_refused_connection_is_tried_again(line: Line, far: AsyncThreadkeep) -> None:
    """A service that restarts is found again by a call that began while it was away."""
    await line.tell("refuse")
    saving = asyncio.create_task(far.save("t", TURN, parent=None))
    await asyncio.wait([saving], timeout=0.05)
    assert not saving.done()
    await line.tell("pass")
    assert (await saving)["created"] is True


async def test_kept_connection_that_died_is_replaced(line: Line, far: AsyncThreadkeep) -> None:
    """A connection that broke while it was idle costs a try, not the call."""
    await far.load("t")
    await line.tell("refuse")
    await line.tell("pass")
    assert (await far.load("t"))["head"] is None


async def test_silence_ends_in_time(line: Line, api_key: str) -> None:
    """A service that accepts and never answers is given up after three time-outs."""
    await line.tell("hang")
    url = f"http://127.0.0.1:{line.port}"
    began = time.monotonic()
    async with AsyncThreadkeep(url, api_key=api_key, timeout=0.2, retries=100) as far:
        with pytest.raises(Unreachable, match="ReadTimeout"):
            await far.load("t")
    assert time.monotonic() - began < 10
    assert line.accepted > 1
    await line.tell("pass")


async def test_nobody_there() -> None:
    """A port where nobody listens is Unreachable, for both clients."""
    url = f"http://127.0.0.1:{free_port()}"
    async with AsyncThreadkeep(url, retries=1) as memory:
        with pytest.raises(Unreachable, match="after 2 tries"):
            await memory.load("t")
    with Threadkeep(url, retries=0) as sync_memory, pytest.raises(Unreachable):
        sync_memory.load("t")


def test_passing_failure_is_asked_again() -> None:
    """The same request is sent until the service can answer it, over one connection."""
    failures = (BUSY, Scripted(502, b"<html>"))
    with scripted_server(*failures, Scripted()) as server, Threadkeep(server.url) as memory:
        memory.save("t", TURN, key="k")
    assert server.asked == ["POST /v1/threads/t/turns"] * 3
    assert len(set(server.bodies)) == 1
    assert server.connections == 1


def test_retry_after_is_honoured() -> None:
    """A service that asks for a second gets it."""
    busy = Scripted(429, b"", {"Retry-After": "1"})
    began = time.monotonic()
    with scripted_server(busy, Scripted()) as server, Threadkeep(server.url) as memory:
        memory.load("t")
    assert 1 <= time.monotonic() - began < 10


def test_answer_that_stays_a_failure_is_raised() -> None:
    """The last try's problem is the error, with the time the service named."""
    later = Scripted(503, BUSY.content, {"Retry-After": "0"})
    with (
        scripted_server(later) as server,
        Threadkeep(server.url, retries=2) as memory,
        pytest.raises(StoreUnavailable) as caught,
    ):
        memory.load("t")
    assert len(server.asked) == 3
    assert caught.value.retry_after == 0


def test_too_long_a_wait_is_left_to_the_caller() -> None:
    """A Retry-After beyond the deadline is raised at once, with its seconds."""
    busy = Scripted(429, b"", {"Retry-After": "3600"})
    with (
        scripted_server(busy) as server,
        Threadkeep(server.url) as memory,
        pytest.raises(RateLimited) as caught,
    ):
        memory.load("t")
    assert len(server.asked) == 1
    assert caught.value.retry_after == 3600


def test_half_an_answer_is_none() -> None:
    """An answer whose end is missing is asked for again."""
    half = Scripted(200, b'{"head": null}', missing=5)
    whole = Scripted(200, b'{"head": "h"}')
    with scripted_server(half, whole) as server, Threadkeep(server.url) as memory:
        assert memory.load("t")["head"] == "h"


@pytest.mark.parametrize(
    "scripted",
    [
        Scripted(200, b"<html>a portal</html>"),
        Scripted(200, b"\xff\xfe{"),
        Scripted(200, b"{}", {"Content-Encoding": "gzip"}),
    ],
)
def test_another_servers_page_is_no_answer(scripted: Scripted) -> None:
    """A success that is not JSON is an error of its own, and is not asked for again."""
    with (
        scripted_server(scripted) as server,
        Threadkeep(server.url) as memory,
        pytest.raises(BadAnswer),
    ):
        memory.load("t")
    assert len(server.asked) == 1


def test_a_proxys_failure_is_told_by_its_status() -> None:
    """A failure without a problem document is the class of its status, with the status' phrase."""
    with (
        scripted_server(Scripted(502, b"[1]")) as server,
        Threadkeep(server.url, retries=0) as memory,
        pytest.raises(Unavailable) as caught,
    ):
        memory.load("t")
    assert str(caught.value) == "502: Bad Gateway"


async def test_connections_are_reused(service: Service, api_key: str) -> None:
    """Calls one after another go over one connection."""
    with scripted_server(Scripted()) as server:
        async with AsyncThreadkeep(server.url) as memory:
            for _ in range(5):
                await memory.for_owner("ann").load("t")
    assert server.connections == 1


async def test_whoever_made_the_client_closes_it(service: Service, api_key: str) -> None:
    """A client that was handed in stays open; an own one is closed."""
    async with httpx.AsyncClient() as http:
        async with AsyncThreadkeep(service.url, api_key=api_key, http=http) as memory:
            await memory.load("t")
        assert not http.is_closed
    with httpx.Client() as sync_http:
        with Threadkeep(service.url, api_key=api_key, http=sync_http) as sync_memory:
            sync_memory.load("t")
        assert not sync_http.is_closed
    closed = Threadkeep(service.url)
    closed.close()
    with pytest.raises(RuntimeError, match="closed"):
        closed.load("t")
