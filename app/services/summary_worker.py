"""Builds in the background: a bounded queue of threads, a few at a time, owned by the lifespan."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from app.core.model import ThreadKey
from app.services.summary import Built

_CLEAN_UP_SECONDS = 1.0

logger = logging.getLogger(__name__)


class SummaryWorker:
    """Runs `build` for the threads it is told of, each once however often it was told.

    concurrency: builds at a time. capacity: threads that may wait; beyond it a notice is dropped,
        since the next load or save of the thread gives another.
    retry_seconds: how long a thread rests after a build in which the model failed.
    """

    def __init__(
        self,
        build: Callable[[ThreadKey], Awaitable[Built]],
        *,
        concurrency: int = 4,
        capacity: int = 1000,
        retry_seconds: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._build = build
        self._concurrency = concurrency
        self._capacity = capacity
        self._retry_seconds = retry_seconds
        self._clock = clock
        self._queue: asyncio.Queue[ThreadKey] = asyncio.Queue()
        self._waiting: set[ThreadKey] = set()
        self._running: set[ThreadKey] = set()
        self._again: set[ThreadKey] = set()
        self._resting: dict[ThreadKey, float] = {}

    def notify(self, key: ThreadKey) -> None:
        """Say that a thread's summary may be due; never blocks, never raises."""
        if key in self._running:
            # Its build may have read the registry before what made it due.
            self._again.add(key)
        elif key not in self._waiting and len(self._waiting) < self._capacity:
            self._waiting.add(key)
            self._queue.put_nowait(key)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Work for as long as the block lasts; builds under way are then cancelled and clean up."""
        async with asyncio.TaskGroup() as group:
            tasks = {group.create_task(self._work()) for _ in range(self._concurrency)}
            try:
                yield
            finally:
                await _end(tasks)

    async def drained(self) -> None:
        """Wait until nothing waits and nothing runs."""
        await self._queue.join()

    async def _work(self) -> None:
        while True:
            key = await self._queue.get()
            self._waiting.discard(key)
            self._running.add(key)
            try:
                await self._build_rested(key)
            except Exception as error:  # noqa: BLE001 - the next thread's build must go on
                logger.warning("summary build failed (%s)", type(error).__name__)
            finally:
                self._running.discard(key)
                if key in self._again:
                    self._again.discard(key)
                    self.notify(key)
                self._queue.task_done()

    async def _build_rested(self, key: ThreadKey) -> None:
        now = self._clock()
        if self._resting.get(key, now) > now:
            return
        built = await self._build(key)
        self._resting.pop(key, None)
        if built.failed:
            self._forget_rested(now)
            self._resting[key] = self._clock() + self._retry_seconds

    def _forget_rested(self, now: float) -> None:
        if len(self._resting) >= self._capacity:
            self._resting = {key: until for key, until in self._resting.items() if until > now}


async def _end(tasks: set[asyncio.Task[None]]) -> None:
    """Cancel tasks until they are done: once may not do.

    Source: in Python 3.11 asyncio.wait_for, in which redis-py sends, loses a cancellation that
        comes just as its call ends (python/cpython#86296); the service would never stop.
    """
    while tasks:
        for task in tasks:
            task.cancel()
        _, tasks = await asyncio.wait(tasks, timeout=_CLEAN_UP_SECONDS)
