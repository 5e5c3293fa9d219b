"""Races and faults over HTTP: many callers at once, a cache that fails, a deploy in the middle."""

import asyncio
import random
import time
from collections.abc import Mapping
from itertools import count

import asyncpg
import httpx
import pytest

from tests.integration.callers import path_of
from tests.integration.cases import CASES, Run, Sent, numbered, playing, texts
from tests.integration.conftest import MakeClient, StartService
from tests.integration.lines import line_to
from tests.pooler import pooler

pytestmark = pytest.mark.anyio

CHECKS: Mapping[str, object] = {}
BY_HAND = [
    "con-cancel-leaves-clean-connection",
    "con-first-save-creates-thread-twice",
    "con-pgbouncer-transaction-mode",
    "con-position-loser-not-failed",
    "con-redis-down",
    "con-redis-hangs",
    "con-same-turn-twenty-times",
    "con-shutdown-drains",
    "con-stale-cache-after-failed-invalidate",
]


def batch(name: str, thread: str = "t1") -> Sent:
    """A turn of one exchange under a key of its own."""
    messages = [
        {"role": "user", "content": f"q {name}"},
        {"role": "assistant", "content": f"r {name}"},
    ]
    return {"thread": thread, "key": f"key-{name}", "messages": messages}


def turns(messages: list[Sent]) -> list[str]:
    """The names of the stored turns, each of which must be whole."""
    names = [message["content"] for message in messages]
    assert [name[2:] for name in names[::2]] == [name[2:] for name in names[1::2]]
    return [name[2:] for name in names[::2]]


async def test_cancel_leaves_clean_connection(
    make_client: MakeClient, tenant: str, database_url: str
) -> None:
    """After 200 saves cut off anywhere, a pool of 5 serves on and no transaction is left open.

    Source: sqlalchemy/sqlalchemy#13381 (con-cancel-leaves-clean-connection).
    """
    moments = random.Random(5)  # noqa: S311
    name = "con-cancel-leaves-clean-connection"
    async with playing(name, make_client, tenant, pool_size=5) as run:
        for number in range(200):
            saving = asyncio.ensure_future(run.save(batch(f"storm {number}")))
            await asyncio.wait([saving], timeout=moments.uniform(0, 0.006))
            saving.cancel()
            await asyncio.gather(saving, return_exceptions=True)
        run.saved.clear()
        await asyncio.gather(*(run.save(batch(f"calm {number}")) for number in range(50)))
        loads = await asyncio.gather(*(run.load(window=2) for _ in range(50)))
        stored = turns(await run.raw())

    assert [saved.status_code for saved in run.saved] == [201] * 50
    assert [load.status_code for load in loads] == [200] * 50
    assert len(stored) == len(set(stored))
    assert {f"calm {number}" for number in range(50)} <= set(stored)
    assert await idle_in_transaction(database_url) == 0


async def idle_in_transaction(database_url: str) -> int:
    connection = await asyncpg.connect(database_url, statement_cache_size=0)
    try:
        sql = "SELECT count(*) FROM pg_stat_activity WHERE state LIKE 'idle in transaction%'"
        return int(await connection.fetchval(sql))
    finally:
        await connection.close()


async def test_first_save_creates_thread_twice(make_client: MakeClient, tenant: str) -> None:
    """Ten first saves of a thread are ten turns of one thread.

    Source: liam-hq/liam#3090 (con-first-save-creates-thread-twice).
    """
    async with playing("con-first-save-creates-thread-twice", make_client, tenant) as run:
        saves = await asyncio.gather(*(run.save(batch(str(number))) for number in range(10)))
        stored = turns(await run.raw())
        threads = (await run.client.get("/v1/threads")).json()["items"]

    assert [saved.status_code for saved in saves] == [201] * 10
    assert sorted(stored) == sorted(str(number) for number in range(10))
    assert [thread["thread_id"] for thread in threads] == ["t1"]


async def test_pgbouncer_transaction_mode(
    make_client: MakeClient, tenant: str, database_url: str
) -> None:
    """Behind a pooler with 2 connections for 20 clients, 500 saves and loads all go through.

    Source: MagicStack/asyncpg#252 (con-pgbouncer-transaction-mode).
    """
    numbers, name = count(), "con-pgbouncer-transaction-mode"

    async def work(run: Run) -> None:
        while (number := next(numbers)) < 250:
            thread = f"t{number % 10}"
            assert (await run.save(batch(str(number), thread))).status_code == 201
            assert (await run.load(thread)).status_code == 200

    async with pooler(database_url, backends=2) as url:
        settings = {"database_url": url, "pool_size": 20, "pool_timeout_seconds": 30}
        async with playing(name, make_client, tenant, **settings) as run:
            await asyncio.gather(*(work(run) for _ in range(20)))
            stored = [turns(await run.raw(f"t{number}")) for number in range(10)]

    assert sorted(int(name) for names in stored for name in names) == list(range(250))


async def test_position_loser_not_failed(make_client: MakeClient, tenant: str) -> None:
    """Of two saves released together none fails, 200 times.

    Source: OnyxAxisOwO/ObsidianArc#9 (con-position-loser-not-failed).
    """
    async with playing("con-position-loser-not-failed", make_client, tenant) as run:
        for number in range(200):
            await asyncio.gather(run.save(batch(f"{number} a")), run.save(batch(f"{number} b")))
        stored = turns(await run.raw())

    assert {saved.status_code for saved in run.saved} == {201}
    assert len(set(stored)) == len(stored) == 400


async def test_same_turn_twenty_times(make_client: MakeClient, tenant: str) -> None:
    """Twenty equal saves at once store one turn and are answered alike.

    Source: chatwoot/chatwoot#15743 (con-same-turn-twenty-times).
    """
    async with playing("con-same-turn-twenty-times", make_client, tenant) as run:
        saves = await asyncio.gather(*(run.save(batch("once")) for _ in range(20)))
        stored = turns(await run.raw())
    lines = [places(saved) for saved in saves]

    assert sorted(saved.status_code for saved in saves) == [200] * 19 + [201]
    assert lines == [lines[0]] * 20
    assert stored == ["once"]


def places(saved: httpx.Response) -> list[tuple[str, int]]:
    """The ids and positions that an answer names."""
    return [(message["id"], message["position"]) for message in saved.json()["messages"]]


async def timed(run: Run, thread_id: str) -> float:
    """Load a thread, and return the seconds it took."""
    began = time.monotonic()
    await run.load(thread_id)
    return time.monotonic() - began


async def test_redis_down(make_client: MakeClient, tenant: str, redis_url: str) -> None:
    """Without its cache the service answers the same, soon, and afterwards nothing is stale.

    Source: c2corg/v6_api#590 (con-redis-down). A long thread stands beside the case's, since only
    a summary is read from the cache.
    """
    async with (
        line_to(redis_url) as line,
        playing("con-redis-down", make_client, tenant, redis_url=line.url) as run,
    ):
        await run.seed(100, thread="long")
        await run.build_summary("long")
        await run.play(run.steps[:1])
        whole = (await run.load("long")).json()
        run.loaded.clear()
        line.break_down("refuse")
        took = [await timed(run, "long")]
        assert run.loaded.pop().json() == whole
        began = time.monotonic()
        await run.play(run.steps[2:5])
        took.append((time.monotonic() - began) / 3)
        line.fault = None
        await run.play(run.steps[6:])
        await run.check_data()

    assert max(took) < 1


async def test_redis_hangs(make_client: MakeClient, tenant: str, redis_url: str) -> None:
    """A cache that never answers costs a few time-outs in all, and no load its answer.

    Source: caching-tools/next-shared-cache#230 (con-redis-hangs).
    """
    async with (
        line_to(redis_url) as line,
        playing("con-redis-hangs", make_client, tenant, redis_url=line.url) as run,
    ):
        await run.seed(100)
        await run.build_summary()
        whole = (await run.load()).json()
        line.break_down("hang")
        first = await asyncio.gather(*(timed(run, "t1") for _ in range(20)))
        later = [await timed(run, "t1") for _ in range(20)]

    assert whole["summary"]["state"] == "fresh"
    assert {load.text for load in run.loaded} == {run.loaded[0].text}
    assert max(first) < 1
    assert sum(later) < 1


async def test_stale_cache_after_failed_invalidate(
    make_client: MakeClient, tenant: str, redis_url: str
) -> None:
    """A save whose cache could not be written is in the next load: no history lives in the cache.

    Source: near formbricks/formbricks#2931 (con-stale-cache-after-failed-invalidate).
    """
    name = "con-stale-cache-after-failed-invalidate"
    async with (
        line_to(redis_url) as line,
        playing(name, make_client, tenant, redis_url=line.url) as run,
    ):
        await run.play(run.steps[:1])
        await run.load()
        line.break_down("refuse")
        await run.save(CASES[name]["input"]["steps"][2]["save"])
        line.fault = None
        loaded = await run.load()

    assert texts(loaded) == [*numbered(range(1, 5)), "q", "r"]


async def test_shutdown_drains(start_service: StartService) -> None:
    """What was acknowledged before a stop is there after it, and with retries all is there once.

    Source: near langchain-ai/langgraph#8039 (con-shutdown-drains).
    """
    thread = f"t-{random.SystemRandom().getrandbits(64)}"

    async def save_all(url: str) -> list[httpx.Response | BaseException]:
        async with httpx.AsyncClient(base_url=url, timeout=30) as client:
            bodies = [{k: v for k, v in batch(str(n)).items() if k != "thread"} for n in range(20)]
            saves = [client.post(path_of(thread, "/turns"), json=body) for body in bodies]
            return await asyncio.gather(*saves, return_exceptions=True)

    with start_service() as first:
        in_flight = asyncio.ensure_future(save_all(first.url))
        await asyncio.wait([in_flight], timeout=0.02)
        await asyncio.to_thread(first.stop)
        before = await in_flight
    with start_service() as second:
        after = await save_all(second.url)
        async with httpx.AsyncClient(base_url=second.url) as client:
            page = await client.get(path_of(thread, "/messages"), params={"limit": 100})

    assert sorted(map(int, turns(page.json()["items"]))) == list(range(20))
    for answered, retried in zip(before, after, strict=True):
        assert isinstance(retried, httpx.Response)
        if isinstance(answered, httpx.Response) and answered.is_success:
            assert retried.status_code == 200
            assert places(retried) == places(answered)
        else:
            assert not isinstance(answered, httpx.Response) or answered.status_code == 503
