"""What callers get while something that the service depends on is gone, hangs or fails.

Ids in docstrings name the public report behind a test, in tests/data/cases.jsonl.
"""

import asyncio
import random
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, get_args

import asyncpg
import httpx
import pytest
import redis.asyncio

from tests.faults import Line, postgres_line, redis_line
from tests.faults import Mode as Fault
from tests.integration.callers import path_of
from tests.integration.conftest import MakeClient
from tests.model_server import Mode, ModelServer, model_server
from tests.servers import in_schema

pytestmark = pytest.mark.anyio

Json: TypeAlias = dict[str, Any]
SMALL_WINDOW = {"window": 4, "stride": 2}
BREAKER_SECONDS = 5.0
UNAVAILABLE = "urn:threadkeep:problem:store-unavailable"
USELESS: tuple[Mode, ...] = tuple(
    mode for mode in get_args(Mode) if mode not in {"answer", "hang", "newer-limit"}
)


@dataclass(slots=True)
class Thread:
    """A thread and a caller that saves numbered turns of two messages to it."""

    client: httpx.AsyncClient
    thread_id: str
    turns: int = 0

    async def save(self) -> httpx.Response:
        number = self.turns = self.turns + 1
        return await self.client.post(path_of(self.thread_id, "/turns"), json=exchange(number))

    async def grow(self, turns: int) -> None:
        while self.turns < turns:
            assert (await self.save()).status_code == 201

    async def load(self, **members: object) -> httpx.Response:
        return await self.client.post("/v1/context", json={"thread_id": self.thread_id, **members})

    async def build(self) -> Json:
        """Build the summaries that are due, and say where the newest stands."""
        report = await self.client.post(path_of(self.thread_id, "/summary"))
        assert report.status_code == 200
        return dict(report.json())

    def check(self, loaded: httpx.Response) -> None:
        """Fail unless a load's answer is whole: the last turn ends it and its sums are right."""
        assert loaded.status_code == 200
        told, last = loaded.json(), exchange(self.turns)["messages"]
        assert said(told)[-2:] == [message["content"] for message in last]
        coverage = told["coverage"]
        assert coverage["total"] == 2 * self.turns
        parts = (coverage[name] for name in ("summarized", "window", "trimmed"))
        assert sum(parts) == coverage["total"]


def exchange(number: int) -> Json:
    return {
        "key": f"turn-{number}",
        "messages": [
            {"role": "user", "content": f"question {number}"},
            {"role": "assistant", "content": f"answer {number}"},
        ],
    }


def said(loaded: Json) -> list[str]:
    """What users and assistants say in a loaded context."""
    return [m["content"] for m in loaded["messages"] if m["role"] != "system"]


def fresh_id() -> str:
    return f"thread-{secrets.token_hex(8)}"


@asynccontextmanager
async def with_summary(make_client: MakeClient, **settings: object) -> AsyncIterator[Thread]:
    """A thread that is longer than its window, so that each load asks the cache for its summary."""
    async with make_client(**SMALL_WINDOW, **settings) as client:
        thread = Thread(client, fresh_id())
        await thread.grow(6)
        assert (await thread.build())["state"] == "fresh"
        yield thread


# --- the cache


@pytest.fixture(name="cache_line")
async def _cache_line(redis_url: str) -> AsyncIterator[tuple[Line, str]]:
    async with redis_line(redis_url) as line:
        yield line


@pytest.mark.parametrize("fault", ["refuse", "hang", "cut"])
async def test_cache_trouble_costs_no_answer(
    make_client: MakeClient, cache_line: tuple[Line, str], fault: Fault
) -> None:
    """With a cache that is gone, mute or broken, loads and saves answer as before; then too.

    Sources: c2corg/v6_api#590 (case con-redis-down), near formbricks/formbricks#2931
    (case con-stale-cache-after-failed-invalidate).
    """
    line, url = cache_line
    async with with_summary(make_client, redis_url=url) as thread:
        before = await thread.load()
        await line.tell(fault)
        for _ in range(4):
            began = time.monotonic()
            loaded = await thread.load()
            assert time.monotonic() - began < 10
            thread.check(loaded)
            assert loaded.json()["summary"]["state"] != "none"
            began = time.monotonic()
            assert (await thread.save()).status_code == 201
            assert time.monotonic() - began < 10
        ready = await thread.client.get("/readyz")
        await line.tell("pass")
        after = await thread.load()

    assert before.json()["summary"]["covers"] == 8
    assert (ready.status_code, ready.json()["cache"]) == (200, False)
    thread.check(after)
    assert said(after.json())[-2:] == ["question 10", "answer 10"]


async def test_breaker_spares_the_time_out(
    make_client: MakeClient, cache_line: tuple[Line, str]
) -> None:
    """Loads stop asking a mute cache: after the first ones only a rare trial reaches it.

    Source: caching-tools/next-shared-cache#230 (case con-redis-hangs).
    """
    line, url = cache_line
    async with with_summary(make_client, redis_url=url) as thread:
        await line.tell("hang")
        began = time.monotonic()
        first = await asyncio.gather(*(thread.load() for _ in range(20)))
        assert time.monotonic() - began < 10
        asked = line.accepted
        then = [await thread.load() for _ in range(40)]
        trials = 1 + (time.monotonic() - began) / BREAKER_SECONDS

    for loaded in (*first, *then):
        thread.check(loaded)
    assert asked > 0
    assert line.accepted - asked <= trials


async def test_flushed_cache_is_filled_again(
    make_client: MakeClient, cache_line: tuple[Line, str], redis_url: str
) -> None:
    """A cache that lost everything costs a read of the durable copy, no summary and no model."""
    _, url = cache_line
    with model_server() as model:
        async with with_summary(make_client, redis_url=url, summarizer_url=model.url) as thread:
            before, calls = await thread.load(), len(model.bodies)
            async with redis.asyncio.from_url(redis_url) as cache:
                await cache.flushall()
            after = await thread.load()

            assert len(model.bodies) == calls
            assert after.json()["summary"] == before.json()["summary"]
            assert after.content == before.content


# --- the model


@pytest.fixture(name="model")
def _model() -> Iterator[ModelServer]:
    with model_server() as model:
        yield model


async def test_hanging_model_holds_nobody_up(make_client: MakeClient, model: ModelServer) -> None:
    """While the model hangs, loads and saves answer with the old summary; then comes a new one."""
    async with with_summary(make_client, summarizer_url=model.url) as thread:
        newest = len(model.bodies)
        while model.arrived.acquire(blocking=False):
            pass
        model.mode = "hang"
        await thread.save()
        assert await asyncio.to_thread(model.arrived.acquire, timeout=10)
        loads = []
        for _ in range(2):
            assert (await thread.save()).status_code == 201
            loads.append(await thread.load())
            thread.check(loads[-1])
        hung = len(model.bodies)
        model.release.set()
        built = await thread.build()
        new = (await thread.load()).json()["summary"]

    old = [loaded.json()["summary"] for loaded in loads]
    assert hung == newest + 1
    assert [summary["text"] for summary in old] == [f"Summary number {newest}."] * 2
    assert [summary["covers"] for summary in old] == [10, 10]
    assert built["state"] == new["state"] == "fresh"
    assert (new["covers"], new["method"]) == (14, "model")


@pytest.mark.parametrize("mode", USELESS)
async def test_useless_model_leaves_the_old_summary(
    make_client: MakeClient, model: ModelServer, mode: Mode
) -> None:
    """Whatever the model does instead, the old summary stays and nothing is missing."""
    async with with_summary(make_client, summarizer_url=model.url) as thread:
        newest, model.mode = len(model.bodies), mode
        await thread.grow(8)
        report = await thread.build()
        loaded = await thread.load()

    summary = loaded.json()["summary"]
    thread.check(loaded)
    assert report["built"] == 0
    assert (summary["state"], summary["text"]) == ("stale", f"Summary number {newest}.")
    assert loaded.json()["coverage"]["trimmed"] == 0
    assert "SECRET-ECHO" not in loaded.text


# --- the database


@pytest.fixture(name="database_line")
async def _database_line(database_url: str) -> AsyncIterator[tuple[Line, str]]:
    async with postgres_line(database_url) as line:
        yield line


IMPATIENT = {
    "db_timeout_seconds": 0.5,
    "db_connect_timeout_seconds": 0.5,
    "pool_timeout_seconds": 0.5,
}


@pytest.mark.parametrize("fault", ["refuse", "hang", "cut"])
async def test_without_a_database(
    make_client: MakeClient, database_line: tuple[Line, str], fault: Fault
) -> None:
    """Without its database the service says 503 and when to come back; it lives, and recovers."""
    line, url = database_line
    async with make_client(database_url=url, **IMPATIENT) as client:
        thread = Thread(client, fresh_id())
        await thread.grow(3)
        await line.tell(fault)
        refused = [await thread.load(), await thread.save()]
        thread.turns -= 1
        health, ready = await client.get("/healthz"), await client.get("/readyz")
        listed = await client.get("/v1/threads")
        await line.tell("pass")
        saved, loaded = await thread.save(), await thread.load()
        recovered = await client.get("/readyz")

    for answer in (*refused, listed):
        assert answer.status_code == 503
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["type"] == UNAVAILABLE
        assert int(answer.headers["retry-after"]) > 0
        assert url not in answer.text
    assert (health.status_code, ready.status_code, recovered.status_code) == (200, 503, 200)
    assert (ready.json()["status"], ready.json()["database"]) == ("unavailable", False)
    assert saved.status_code in {200, 201}  # a save that hung may have been stored after all
    thread.check(loaded)


async def test_lost_answer_stores_once(
    make_client: MakeClient, database_line: tuple[Line, str]
) -> None:
    """A save whose commit is not heard of is 503, and its retry finds the turn that was stored."""
    line, url = database_line
    async with make_client(database_url=url, **IMPATIENT) as client:
        thread = Thread(client, fresh_id())
        await thread.grow(3)
        await line.tell("cut")
        lost = await thread.save()
        await line.tell("pass")
        retried = await client.post(path_of(thread.thread_id, "/turns"), json=exchange(4))
        loaded = await thread.load()

    assert lost.status_code == 503
    assert (retried.status_code, retried.json()["created"]) == (200, False)
    thread.check(loaded)


async def test_lost_connections_are_replaced(
    make_client: MakeClient, database_line: tuple[Line, str]
) -> None:
    """A database that was away between two calls is not noticed: connections are made anew."""
    line, url = database_line
    async with make_client(database_url=url, pool_size=3) as client:
        thread = Thread(client, fresh_id())
        await thread.grow(1)
        await asyncio.gather(*(thread.load() for _ in range(10)))
        await line.tell("refuse")
        await line.tell("pass")
        loads = await asyncio.gather(*(thread.load() for _ in range(10)))
        saved = await thread.save()

    assert {loaded.status_code for loaded in loads} == {200}
    assert saved.status_code == 201


async def test_exhausted_pool_is_said(make_client: MakeClient, database_url: str) -> None:
    """When every connection is taken, others are told so and do not wait for those to come back."""
    limits = {"pool_size": 2, "pool_timeout_seconds": 0.2, "db_timeout_seconds": 30}
    async with make_client(**limits) as client:
        thread, other = Thread(client, fresh_id()), Thread(client, fresh_id())
        await thread.grow(1)
        async with locked(database_url, thread.thread_id) as waiting_for_it:
            saves = [asyncio.create_task(thread.save()) for _ in range(2)]
            await waiting_for_it(2)
            refused = [await other.load(), await other.save()]
            lives = await client.get("/healthz")
            assert not any(save.done() for save in saves)
        stored = await asyncio.gather(*saves)
        again = await other.load()

    assert [answer.status_code for answer in refused] == [503, 503]
    assert {answer.json()["type"] for answer in refused} == {UNAVAILABLE}
    assert (lives.status_code, again.status_code) == (200, 200)
    assert [answer.status_code for answer in stored] == [201, 201]


async def test_cancelled_calls_leave_clean_connections(
    make_client: MakeClient, database_url: str
) -> None:
    """After 200 calls cancelled anywhere, a pool of five serves 100 calls and holds nothing open.

    Source: sqlalchemy/sqlalchemy#13381 (case con-cancel-leaves-clean-connection).
    """
    chance = random.Random(13381)  # noqa: S311 - chance, not secrets
    async with make_client(pool_size=5) as client:
        thread = Thread(client, fresh_id())
        await thread.grow(3)
        began = time.monotonic()
        await thread.save()
        usual = time.monotonic() - began
        cancelled = 0
        for _ in range(50):
            storm = [thread.save, thread.save, thread.save, thread.load]
            cut = [cut_off(call(), chance.uniform(0, 2 * usual)) for call in storm]
            cancelled += sum(await asyncio.gather(*cut))
        bodies = [exchange(number) for number in range(1, thread.turns + 1)]
        path = path_of(thread.thread_id, "/turns")
        retried = [await client.post(path, json=body) for body in bodies]
        ordinary = await asyncio.gather(*(thread.load() for _ in range(100)))

        assert cancelled > 20
        assert {answer.status_code for answer in retried} <= {200, 201}
        assert len({answer.json()["checkpoint_id"] for answer in retried}) == thread.turns
        assert {answer.status_code for answer in ordinary} == {200}
        assert {answer.json()["coverage"]["total"] for answer in ordinary} == {2 * thread.turns}
        assert await in_transaction(database_url) == 0


@asynccontextmanager
async def locked(
    database_url: str, thread_id: str
) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Hold a thread's row lock; give a function that waits until so many sessions wait for it."""
    holder = await asyncpg.connect(database_url, statement_cache_size=0)

    async def waited_for(sessions: int) -> None:
        watcher = await asyncpg.connect(database_url, statement_cache_size=0)
        try:
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            async with asyncio.timeout(10):
                while await watcher.fetchval(waiting) < sessions:
                    pass
        finally:
            await watcher.close()

    try:
        async with holder.transaction():
            row = "SELECT FROM S.threads WHERE thread_id = $1 FOR UPDATE"
            await holder.fetch(in_schema(row), thread_id)
            yield waited_for
    finally:
        await holder.close()


async def in_transaction(database_url: str) -> int:
    """How many sessions sit in an open transaction, once those of ended connections are gone."""
    idle = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
    watcher = await asyncpg.connect(database_url, statement_cache_size=0)
    try:
        deadline = time.monotonic() + 5
        while (found := await watcher.fetchval(idle)) and time.monotonic() < deadline:
            pass
        return int(found)
    finally:
        await watcher.close()


async def cut_off(call: Awaitable[object], seconds: float) -> bool:
    """Make a call and cancel it after a time; tell whether it was."""
    try:
        async with asyncio.timeout(seconds):
            await call
    except TimeoutError:
        return True
    return False
