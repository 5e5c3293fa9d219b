"""RedisSummaryCache against a real Valkey, a server that never answers, and nobody at all."""

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from datetime import UTC, datetime
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
import redis.asyncio
from hypothesis import given
from hypothesis import strategies as st

from app.adapters.redis_cache import (
    Breaker,
    NullSummaryCache,
    RedisSummaryCache,
    cache_key,
    load_entry,
)
from app.core.model import Pointer, Summary, ThreadKey

pytestmark = pytest.mark.anyio

SUMMARY = Summary(
    text="FACT-A: the order is 4711. ü 日本 👍",
    boundary=Pointer("0000000040-" + "ab" * 11, 40, 812),
    method="model",
    model="small-1",
    prompt="summary-1",
    created_at=datetime(2026, 11, 30, 12, 0, 0, 123456, tzinfo=UTC),
)


def fresh_key(thread_id: str = "t1") -> ThreadKey:
    return ThreadKey(f"tenant-{uuid4().hex}", thread_id)


@pytest.fixture(name="cache")
async def _cache(redis_url: str) -> AsyncIterator[RedisSummaryCache]:
    cache = RedisSummaryCache(redis_url)
    yield cache
    await cache.close()


@asynccontextmanager
async def mute_server() -> AsyncIterator[tuple[str, asyncio.Queue[asyncio.StreamWriter]]]:
    """Accept every connection and never say a word."""
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()

    async def hold(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.put_nowait(writer)

    server = await asyncio.start_server(hold, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0", accepted
    finally:
        server.close()
        while not accepted.empty():
            accepted.get_nowait().close()


@asynccontextmanager
async def forwarder(port: int, target: str) -> AsyncIterator[None]:
    """Listen on the port and pass every byte on to the target and back."""
    address, writers = urlsplit(target), list[asyncio.StreamWriter]()

    async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        while data := await source.read(65536):
            sink.write(data)
        sink.close()

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection(address.hostname, address.port)
        writers.extend((writer, forth))
        await asyncio.gather(pump(reader, forth), pump(back, writer))

    server = await asyncio.start_server(join, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
        for writer in writers:
            writer.close()


async def free_port() -> int:
    """Name a port that nobody listens on."""
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
    port: int = server.sockets[0].getsockname()[1]
    server.close()
    await server.wait_closed()
    return port


async def test_gives_back_what_was_put(cache: RedisSummaryCache) -> None:
    """A summary comes back equal in every member."""
    key = fresh_key('a/b:c ["x"]')
    await cache.put(key, SUMMARY, epoch=3)

    assert await cache.get(key, SUMMARY.boundary, epoch=3) == SUMMARY


async def test_what_is_to_be_kept_stays(cache: RedisSummaryCache) -> None:
    """With keep the first entry of a boundary stays, without it the last one does."""
    key, later = fresh_key(), replace(SUMMARY, text="later")
    await cache.put(key, SUMMARY, epoch=0, keep=True)
    await cache.put(key, later, epoch=0, keep=True)
    kept = await cache.get(key, SUMMARY.boundary, epoch=0)
    await cache.put(key, later, epoch=0)

    assert kept == SUMMARY
    assert await cache.get(key, SUMMARY.boundary, epoch=0) == later


async def test_every_part_of_the_key_counts(cache: RedisSummaryCache) -> None:
    """Another tenant, thread, boundary or epoch is a miss."""
    key, boundary = fresh_key(), SUMMARY.boundary
    await cache.put(key, SUMMARY, epoch=0)
    misses = [
        (replace(key, tenant_id=key.tenant_id + "x"), boundary, 0),
        (replace(key, thread_id="t2"), boundary, 0),
        (key, replace(boundary, checkpoint_id="0000000040-" + "cd" * 11), 0),
        (key, replace(boundary, position=39), 0),
        (key, boundary, 1),
    ]

    for other, at, epoch in misses:
        assert await cache.get(other, at, epoch=epoch) is None


PARTS = st.tuples(st.text(), st.text(), st.text(), st.integers(0), st.integers(0))


@given(PARTS, PARTS)
def test_no_two_keys_spell_the_same(
    one: tuple[str, str, str, int, int], other: tuple[str, str, str, int, int]
) -> None:
    """Whatever stands in the parts, separators included, different parts give different names."""

    def name(parts: tuple[str, str, str, int, int]) -> str:
        tenant, thread, checkpoint, position, epoch = parts
        return cache_key(ThreadKey(tenant, thread), Pointer(checkpoint, position, 0), epoch=epoch)

    assert (one == other) == (name(one) == name(other))


async def test_an_entry_lives_for_its_time(redis_url: str) -> None:
    """What is written expires by itself after the configured seconds."""
    cache, client = RedisSummaryCache(redis_url, ttl_seconds=77), redis.asyncio.from_url(redis_url)
    key = fresh_key()
    await cache.put(key, SUMMARY, epoch=0)
    left = await client.ttl(cache_key(key, SUMMARY.boundary, epoch=0))
    await client.aclose()
    await cache.close()

    assert 70 < left <= 77


GOOD_BOUNDARY = asdict(SUMMARY.boundary)
GOOD = {
    "text": "t",
    "boundary": GOOD_BOUNDARY,
    "method": "model",
    "model": None,
    "prompt": "p",
    "created_at": "2026-11-30T12:00:00+00:00",
}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{}",
        b"[" * 100_000,
        *(
            json.dumps({**GOOD, **damage}).encode()
            for damage in (
                {"text": 5},
                {"text": "  "},
                {"boundary": None},
                {"boundary": ["x", 40, 812]},
                {"boundary": {**GOOD_BOUNDARY, "extra": 1}},
                {"method": "guess"},
                {"created_at": "yesterday"},
                {"created_at": "2026-11-30T12:00:00"},
                {"boundary": {**GOOD_BOUNDARY, "checkpoint_id": "other"}},
                {"boundary": {**GOOD_BOUNDARY, "position": "40"}},
                {"extra": 1},
            )
        ),
    ],
)
async def test_a_damaged_entry_is_a_miss(
    cache: RedisSummaryCache, redis_url: str, value: bytes
) -> None:
    """Whatever else stands under the key, it is never taken for a summary."""
    key, client = fresh_key(), redis.asyncio.from_url(redis_url)
    await client.set(cache_key(key, SUMMARY.boundary, epoch=0), value)
    await client.aclose()

    assert await cache.get(key, SUMMARY.boundary, epoch=0) is None


def test_the_damaged_entries_are_damaged_in_one_place() -> None:
    """The entry they are made from is itself sound."""
    assert load_entry(json.dumps(GOOD).encode()) is not None


async def test_another_type_under_the_key_is_a_miss(
    cache: RedisSummaryCache, redis_url: str
) -> None:
    """An error that the server answers is a miss as well."""
    key, client = fresh_key(), redis.asyncio.from_url(redis_url)
    await client.lpush(cache_key(key, SUMMARY.boundary, epoch=0), "x")
    await client.aclose()

    assert await cache.get(key, SUMMARY.boundary, epoch=0) is None


async def test_nobody_listening_is_a_miss_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """A refused connection raises nothing and is said once, without the address."""
    cache = RedisSummaryCache(f"redis://127.0.0.1:{await free_port()}/0")
    with caplog.at_level(logging.INFO):
        for _ in range(10):
            await cache.put(fresh_key(), SUMMARY, epoch=0)

            assert await cache.get(fresh_key(), SUMMARY.boundary, epoch=0) is None
    await cache.close()

    assert [record.message for record in caplog.records] == [
        "summary cache fails, going on without (ConnectionError)"
    ]


async def test_a_hanging_server_costs_three_time_outs_in_all() -> None:
    """A hundred loads against a server that never answers wait for three of them only."""
    async with mute_server() as (url, accepted):
        cache, begun = RedisSummaryCache(url, timeout_seconds=0.1), time.monotonic()
        for _ in range(100):
            assert await cache.get(fresh_key(), SUMMARY.boundary, epoch=0) is None

        assert time.monotonic() - begun < 5
        assert accepted.qsize() == 3
        await cache.close()


async def test_after_a_pause_one_trial_at_a_time_is_made() -> None:
    """Five seconds later one call of many tries again, the others go on without."""
    now = [100.0]
    async with mute_server() as (url, accepted):
        cache = RedisSummaryCache(url, timeout_seconds=0.1, clock=lambda: now[0])
        for seconds, connections in ((0.0, 3), (4.9, 3), (5.1, 4), (5.2, 4), (10.3, 5)):
            now[0] = 100.0 + seconds
            await asyncio.gather(
                *(cache.get(fresh_key(), SUMMARY.boundary, epoch=0) for _ in range(3))
            )

            assert accepted.qsize() == connections
        await cache.close()


async def test_a_server_that_comes_back_is_used_again(
    redis_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """After the trial that succeeds every call goes through, and each change is logged once."""
    now, key, port = [0.0], fresh_key(), await free_port()
    parts = urlsplit(redis_url)
    netloc = parts.netloc.replace(f":{parts.port}", f":{port}")
    cache = RedisSummaryCache(urlunsplit(parts._replace(netloc=netloc)), clock=lambda: now[0])
    with caplog.at_level(logging.INFO):
        for _ in range(4):
            await cache.put(key, SUMMARY, epoch=0)
        async with forwarder(port, redis_url):
            now[0] = 6.0
            await cache.put(key, SUMMARY, epoch=0)

            assert await cache.get(key, SUMMARY.boundary, epoch=0) == SUMMARY
            await cache.close()

    assert [record.message for record in caplog.records] == [
        "summary cache fails, going on without (ConnectionError)",
        "summary cache answers again",
    ]


async def test_a_cancelled_trial_leaves_room_for_the_next() -> None:
    """A caller who hangs up in the middle of a trial does not close the cache for ever."""
    now = [0.0]
    async with mute_server() as (url, accepted):
        cache = RedisSummaryCache(url, timeout_seconds=0.1, clock=lambda: now[0])
        for _ in range(3):
            cache._breaker.report(success=False)
        for now[0] in (6.0, 12.0, 18.0):
            call = asyncio.ensure_future(cache.check())
            (await accepted.get()).close()
            call.cancel()
            # While connecting, asyncio may lose a cancellation; the time-out ends it then.
            with contextlib.suppress(asyncio.CancelledError):
                await call
        await cache.close()


async def test_a_cancelled_call_is_no_outcome() -> None:
    """Hanging up while an answer is awaited counts neither as a success nor as a failure."""
    breaker = Breaker(lambda: 6.0, failures=3)
    assert breaker.allow()
    assert not breaker.allow()
    breaker.give_up()

    assert breaker.allow()


def test_the_breaker_tells_each_change_once() -> None:
    """Only the first failure and the first success after it are news."""
    breaker = Breaker(lambda: 0.0)
    outcomes = (True, False, False, True, True, False)

    assert [breaker.report(success=outcome) for outcome in outcomes] == [
        False,
        True,
        False,
        True,
        False,
        True,
    ]


async def test_check_tells_whether_it_answers(cache: RedisSummaryCache) -> None:
    """A living server is ready; a refused port is not."""
    absent = RedisSummaryCache(f"redis://127.0.0.1:{await free_port()}/0")

    assert await cache.check() is True
    assert await absent.check() is False
    await absent.close()


async def test_without_redis_every_look_is_a_miss() -> None:
    """The null cache keeps nothing and is always well."""
    cache = NullSummaryCache()
    await cache.put(fresh_key(), SUMMARY, epoch=0)

    assert await cache.get(fresh_key(), SUMMARY.boundary, epoch=0) is None
    assert await cache.check() is True
    await cache.close()
