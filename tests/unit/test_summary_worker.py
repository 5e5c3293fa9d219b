"""The background worker: bounded, once each, and never in anyone's way."""

import asyncio
import logging

import pytest

from app.core.model import ThreadKey
from app.services.summary import Built
from app.services.summary_worker import SummaryWorker

pytestmark = pytest.mark.anyio


class Builds:
    """Stands in for a build: counts, and waits at a gate."""

    def __init__(self, *, failed: bool = False) -> None:
        self.keys: list[str] = []
        self.at_once = self.most_at_once = 0
        self.gate = asyncio.Event()
        self.begun = asyncio.Event()
        self.cancelled: list[str] = []
        self.failed = failed

    async def __call__(self, key: ThreadKey) -> Built:
        self.keys.append(key.thread_id)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.set()
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled.append(key.thread_id)
            raise
        finally:
            self.at_once -= 1
        return Built(failed=self.failed)


def thread(number: int) -> ThreadKey:
    return ThreadKey("tenant", f"t{number}")


async def test_a_waiting_thread_is_built_once() -> None:
    """However often it is notified, it waits in one place."""
    builds = Builds()
    builds.gate.set()
    worker = SummaryWorker(builds)
    for _ in range(100):
        worker.notify(thread(1))
    async with worker.running():
        await worker.drained()

    assert builds.keys == ["t1"]


async def test_a_notice_during_a_build_is_not_lost() -> None:
    """What became due while the build was at it gets another."""
    builds = Builds()
    worker = SummaryWorker(builds, concurrency=2)
    async with worker.running():
        worker.notify(thread(1))
        await builds.begun.wait()
        for _ in range(10):
            worker.notify(thread(1))
        builds.gate.set()
        await worker.drained()

    assert builds.keys == ["t1", "t1"]
    assert builds.most_at_once == 1


async def test_only_so_many_builds_run_at_once() -> None:
    """A hundred due threads do not make a hundred calls at a time."""
    builds = Builds()
    worker = SummaryWorker(builds, concurrency=3)
    async with worker.running():
        for number in range(100):
            worker.notify(thread(number))
        await builds.begun.wait()
        builds.gate.set()
        await worker.drained()

    assert sorted(builds.keys) == sorted(f"t{number}" for number in range(100))
    assert builds.most_at_once == 3


async def test_the_queue_is_bounded() -> None:
    """Beyond its capacity a notice is dropped, without a word to who gave it."""
    builds = Builds()
    builds.gate.set()
    worker = SummaryWorker(builds, capacity=5)
    for number in range(100):
        worker.notify(thread(number))
    async with worker.running():
        await worker.drained()

    assert builds.keys == [f"t{number}" for number in range(5)]


async def test_a_failing_build_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    """An error is logged by its kind alone, and the next thread's build goes on."""
    built: list[str] = []

    async def build(key: ThreadKey) -> Built:
        built.append(key.thread_id)
        if key == thread(1):
            raise RuntimeError("SECRET")
        return Built()

    worker = SummaryWorker(build, concurrency=1)
    with caplog.at_level(logging.DEBUG):
        async with worker.running():
            worker.notify(thread(1))
            worker.notify(thread(2))
            await worker.drained()

    assert built == ["t1", "t2"]
    assert [record.getMessage() for record in caplog.records] == [
        "summary build failed (RuntimeError)"
    ]


async def test_a_thread_whose_model_failed_rests() -> None:
    """A dead provider is not asked again at every save."""
    now = [0.0]
    builds = Builds(failed=True)
    builds.gate.set()
    worker = SummaryWorker(builds, retry_seconds=30, clock=lambda: now[0])
    async with worker.running():
        for now[0] in (0.0, 10.0, 29.0, 31.0, 40.0, 62.0):
            worker.notify(thread(1))
            await worker.drained()

    assert len(builds.keys) == 3


async def test_the_end_cancels_what_is_under_way() -> None:
    """Leaving the block ends builds at once, and they can clean up; what waits is not begun."""
    builds = Builds()
    worker = SummaryWorker(builds, concurrency=1)
    async with worker.running():
        worker.notify(thread(1))
        worker.notify(thread(2))
        await builds.begun.wait()

    assert builds.keys == ["t1"]
    assert builds.cancelled == ["t1"]


async def test_the_end_comes_though_a_cancellation_is_lost() -> None:
    """A build that goes on after it was cancelled, as a driver can make it, ends all the same."""
    lost: list[str] = []
    begun = asyncio.Event()

    async def build(key: ThreadKey) -> Built:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            lost.append(key.thread_id)
        return Built()

    worker = SummaryWorker(build, concurrency=1)
    async with asyncio.timeout(10), worker.running():
        worker.notify(thread(1))
        await begun.wait()

    assert lost == ["t1"]


async def test_notices_before_the_start_wait_for_it() -> None:
    """A worker that does not run yet takes notices all the same."""
    builds = Builds()
    builds.gate.set()
    worker = SummaryWorker(builds)
    worker.notify(thread(1))
    async with worker.running():
        await worker.drained()

    assert builds.keys == ["t1"]
