"""Summaries when the model, the lease, the cache or the time is not as it should be.

Ids in docstrings name the public report behind a test, in tests/data/cases.jsonl.
"""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import get_args

import pytest
from sqlalchemy import delete, update
from sqlalchemy.ext.asyncio import AsyncEngine

from app.adapters.http_summarizer import HttpSummarizer
from app.adapters.redis_cache import NullSummaryCache
from app.adapters.sql.engine import Database
from app.adapters.sql.history import SqlHistoryStore
from app.adapters.sql.summaries import SqlSummaryStore
from app.adapters.sql.tables import tables
from app.core.model import ThreadKey
from app.services.summary import build_due
from app.services.summary_worker import SummaryWorker
from tests.integration.summary_thread import POLICY, Thread, first_line, open_thread
from tests.model_server import Mode
from tests.servers import SCHEMA

pytestmark = pytest.mark.anyio

CASES = {
    case["id"]: case
    for line in (Path(__file__).parents[1] / "data" / "cases.jsonl").read_bytes().splitlines()
    if (case := json.loads(line))["area"] == "summary"
}


@pytest.fixture(name="thread")
async def _thread(engine: AsyncEngine, redis_url: str, key: ThreadKey) -> AsyncIterator[Thread]:
    async with open_thread(engine, redis_url, key) as thread:
        yield thread


async def test_two_builds_at_once_make_one_call(thread: Thread) -> None:
    """While one process builds, another finds the lease taken and goes away."""
    await thread.grow(52)
    thread.model.mode = "hang"
    first = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    others = await asyncio.gather(*(build_due(thread.key, thread.builder) for _ in range(5)))
    thread.model.release.set()

    assert len((await first).summaries) == 1
    assert all(other.summaries == () for other in others)
    assert len(thread.model.bodies) == 1


BAD_MODES: dict[str, Mode] = {
    "returns ''": "empty",
    "returns '   '": "blank",
    "stops with reason length": "length",
    "stream breaks after 20 words": "cut-body",
}


@pytest.mark.parametrize(
    "behaviour",
    [each["summariser"] for each in CASES["summary-partial-or-empty-not-used"]["input"]["each"]],
)
async def test_no_useless_answer_advances_coverage(thread: Thread, behaviour: str) -> None:
    """summary-partial-or-empty-not-used: the old summary and its coverage stay as they were.

    A refusal in words cannot be told from a summary; that one is accepted.
    """
    await thread.grow(52)
    thread.model.answer = lambda *_: "I cannot help with that."
    before = (await build_due(thread.key, thread.builder)).summaries
    await thread.grow(72)
    thread.model.mode = BAD_MODES.get(behaviour, "answer")
    built = await build_due(thread.key, thread.builder)
    useless = behaviour in BAD_MODES

    assert built.failed == useless
    assert await thread.positions() == ([20] if useless else [20, 40])
    assert not useless or await thread.newest() == before[0]


@pytest.mark.parametrize(
    "mode", [mode for mode in get_args(Mode) if mode not in {"answer", "newer-limit"}]
)
async def test_a_failing_model_keeps_the_old_summary(thread: Thread, mode: Mode) -> None:
    """Whatever the provider does, time-outs included, coverage stays and no lease is kept."""
    await thread.grow(52)
    impatient = HttpSummarizer(
        thread.model.url, "small-1", count=thread.builder.count, timeout_seconds=0.3
    )
    builder = replace(thread.builder, model=impatient)
    thread.model.mode = mode
    built = await build_due(thread.key, builder)
    await impatient.close()

    assert built.failed
    assert await thread.positions() == []
    thread.model.mode = "answer"
    thread.model.release.set()
    assert len((await build_due(thread.key, thread.builder)).summaries) == 1
    assert await thread.positions() == [20]


async def test_the_extractive_one_fills_before_the_window_cannot_reach_back(
    thread: Thread,
) -> None:
    """With a dead model coverage is never more than two strides behind, quoted instead."""
    thread.model.mode = "error"
    for last in range(2, 141, 2):
        await thread.grow(last)
        await build_due(thread.key, thread.builder)
        start = max(0, -(-(last - 60) // 20) * 20)

        assert start - max(await thread.positions(), default=0) <= 40
    summary = await thread.newest()

    assert (summary.method, summary.model, summary.prompt) == ("extractive", None, "extractive-1")
    assert "msg 001" in summary.text

    thread.model.mode = "answer"
    await build_due(thread.key, thread.builder)

    assert (await thread.newest()).method == "model"
    assert first_line(thread.model.prompts[-2])["previous_summary"] == summary.text


async def test_without_a_model_every_summary_is_extractive(thread: Thread) -> None:
    """A deployment that names no provider gets labelled extracts."""
    await thread.grow(120)
    built = await build_due(thread.key, replace(thread.builder, model=None))

    assert [summary.method for summary in built.summaries] == ["extractive", "extractive"]
    assert await thread.positions() == [60, 80]
    assert not built.failed


async def test_an_interrupted_import_goes_on_where_it_stopped(thread: Thread) -> None:
    """A model that fails half-way through an import has not worked in vain."""
    await thread.grow(300)
    builder = replace(thread.builder, input_tokens=2_000)

    def answer(_: str, number: int) -> str:
        thread.model.mode = "error" if number == 2 else "answer"
        return f"TEXT-{number}."

    thread.model.answer = answer
    await build_due(thread.key, replace(builder, policy=replace(POLICY, stride=60)))
    reached = (await thread.positions())[-1]
    thread.model.mode, before = "answer", len(thread.model.bodies)
    thread.model.answer = lambda _, number: f"TEXT-{number}."
    await build_due(thread.key, builder)

    assert thread.told()[before][0] == reached + 1
    assert (await thread.positions())[-1] == 260


async def test_a_build_longer_than_its_lease_is_done_in_several(thread: Thread) -> None:
    """Past half of the lease no call is begun; the next claim goes on where the last one wrote."""
    await thread.grow(300)
    ticks = itertools.count(step=60)
    builder = replace(thread.builder, input_tokens=1_500, clock=lambda: float(next(ticks)))
    built = await build_due(thread.key, builder)

    assert len(built.summaries) == len(thread.model.bodies) > 4
    assert [number for call in thread.told() for number in call] == list(range(1, 261))


async def test_a_lost_durable_copy_is_made_anew(thread: Thread) -> None:
    """Without the old text the next summary begins at the first message, and goes further."""
    await thread.grow(52)
    await build_due(thread.key, thread.builder)
    blobs = tables(SCHEMA).blobs
    async with thread.database.connection() as connection:
        await connection.execute(delete(blobs).where(blobs.c.tenant_id == thread.key.tenant_id))
    await thread.grow(72)
    builder = replace(thread.builder, cache=NullSummaryCache(), input_tokens=1_000)
    await build_due(thread.key, builder)

    assert [number for call in thread.told()[1:] for number in call] == list(range(1, 41))
    assert await thread.positions() == [20, 40]


async def test_survives_a_restart(thread: Thread, engine: AsyncEngine) -> None:
    """summary-survives-restart: a process with nothing in memory reads the same, and goes on."""
    await thread.grow(52)
    await build_due(thread.key, thread.builder)
    await thread.grow(72)
    database = Database(engine, SCHEMA)
    fresh = replace(
        thread.builder,
        history=SqlHistoryStore(database),
        summaries=SqlSummaryStore(database),
        cache=NullSummaryCache(),
    )
    await build_due(thread.key, fresh)

    assert first_line(thread.model.prompts[1]) == {"previous_summary": "Summary number 1."}
    assert thread.told() == [list(range(1, 21)), list(range(21, 41))]


async def test_an_emptied_cache_is_read_again_not_paid_again(thread: Thread) -> None:
    """After the cache lost everything the durable copy serves, without a call of the model."""
    await thread.grow(120)
    await build_due(thread.key, thread.builder)
    calls = len(thread.model.bodies)
    empty = replace(thread.builder, cache=NullSummaryCache())

    assert (await build_due(thread.key, empty)).summaries == ()
    assert (await thread.newest()).text == "Summary number 2."
    assert len(thread.model.bodies) == calls


async def test_an_older_run_cannot_overwrite(thread: Thread) -> None:
    """summary-older-run-cannot-overwrite: who finishes late, with less, changes nothing."""
    await thread.grow(52)
    thread.model.mode = "hang"
    older = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    await thread.grow(112)
    thread.model.mode = "answer"
    an_hour_on = SqlSummaryStore(
        thread.database, now=lambda: datetime.now(UTC) + timedelta(hours=1)
    )
    newer = await build_due(thread.key, replace(thread.builder, summaries=an_hour_on))
    thread.model.release.set()
    late = await older

    assert late.summaries == ()
    assert await thread.positions() == [60, 80]
    assert await thread.newest() == newer.summaries[-1]


async def test_what_was_read_before_a_redaction_is_not_written(thread: Thread) -> None:
    """summary-invalidated-by-delete: an epoch raised during the call makes its text worthless."""
    await thread.grow(52)
    thread.model.mode = "hang"
    build = asyncio.ensure_future(build_due(thread.key, thread.builder))
    await thread.arrived()
    await raise_epoch(thread)
    thread.model.release.set()

    assert (await build).summaries == ()
    assert await thread.positions() == []


async def raise_epoch(thread: Thread) -> None:
    threads = tables(SCHEMA).threads
    statement = (
        update(threads)
        .where(threads.c.tenant_id == thread.key.tenant_id)
        .values(summary_epoch=threads.c.summary_epoch + 1, summaries=[])
    )
    async with thread.database.connection() as connection:
        await connection.execute(statement)


async def test_a_shutdown_gives_the_lease_back(thread: Thread) -> None:
    """A build cancelled in the middle of a call leaves the thread to the next process at once."""
    await thread.grow(52)
    thread.model.mode = "hang"
    worker = SummaryWorker(partial(build_due, builder=thread.builder))
    async with worker.running():
        worker.notify(thread.key)
        await thread.arrived()
    thread.model.mode = "answer"

    assert len((await build_due(thread.key, thread.builder)).summaries) == 1


async def test_a_build_notified_from_many_sides_is_one(thread: Thread) -> None:
    """Two workers told of the same thread over and over make one call between them."""
    await thread.grow(52)
    workers = [SummaryWorker(partial(build_due, builder=thread.builder)) for _ in range(2)]
    async with workers[0].running(), workers[1].running():
        for worker in workers * 10:
            worker.notify(thread.key)
        await asyncio.gather(*(worker.drained() for worker in workers))

    assert len(thread.model.bodies) == 1
    assert await thread.positions() == [20]
