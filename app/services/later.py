"""What is left to do once the caller has its answer."""

import asyncio
import logging
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Self

logger = logging.getLogger(__name__)


class Later:
    """Runs small jobs beside the requests. Trouble is logged; the last are waited for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def run(self, job: Coroutine[object, object, None]) -> None:
        """Start a job and return at once."""
        task = asyncio.get_running_loop().create_task(self._guarded(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Take jobs for as long as the block lasts, then wait for those under way."""
        try:
            yield self
        finally:
            await asyncio.gather(*self._tasks)

    async def _guarded(self, job: Coroutine[object, object, None]) -> None:
        try:
            await job
        except Exception as error:  # noqa: BLE001 - nobody waits for it
            logger.warning("a job after an answer failed (%s)", type(error).__name__)
