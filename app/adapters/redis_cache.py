"""SummaryCache on Redis (or Valkey): a short-lived copy that spares the durable read.

Fails open: whatever goes wrong is a miss. A breaker keeps a hanging server from costing every load
its time-out.
"""

import asyncio
import json
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from datetime import datetime

import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from app.core.model import Pointer, Summary, ThreadKey

_PREFIX = "threadkeep:summary:"
_INDEX = "threadkeep:summaries:"
"""A thread's set of entry names: what has to go with it cannot be told from its boundaries."""
_ERASED = "threadkeep:erased:"
"""Up to which epoch nothing may be remembered of a thread any more."""
_ERASED_SECONDS = 60
"""Longer than a load takes that had read the thread before it was erased."""
_FAILURES_TO_OPEN = 3
_OPEN_SECONDS = 5.0

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Breaker:
    """After 3 failures in a row refuses for 5 seconds, then lets one trial through at a time.

    clock: monotonic seconds.
    """

    clock: Callable[[], float]
    failures: int = 0
    _closed_at: float = 0.0
    _on_trial: bool = False

    def allow(self) -> bool:
        """Tell whether a call may be made now; each yes is to be followed by a report."""
        if self.failures < _FAILURES_TO_OPEN:
            return True
        if self._on_trial or self.clock() < self._closed_at:
            return False
        self._on_trial = True
        return True

    def report(self, *, success: bool) -> bool:
        """Take a call's outcome; tell whether it changed what is known: well, or failing."""
        was_failing = self.failures > 0
        self._on_trial = False
        self.failures = 0 if success else self.failures + 1
        self._closed_at = self.clock() + _OPEN_SECONDS
        return was_failing == success

    def give_up(self) -> None:
        """End a call without an outcome (it was cancelled)."""
        self._on_trial = False


class RedisSummaryCache:
    """Summaries in Redis under tenant, thread, boundary and epoch.

    Units: ttl_seconds how long an entry lives; timeout_seconds for each call, connecting included.
    """

    def __init__(
        self,
        url: str,
        *,
        ttl_seconds: int = 600,
        timeout_seconds: float = 0.25,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ttl_seconds = ttl_seconds
        self._timeout_seconds = timeout_seconds
        self._breaker = Breaker(clock)
        # No retry of the library's own: it would multiply the time-out.
        self._redis = redis.asyncio.from_url(
            url,
            socket_timeout=timeout_seconds,
            socket_connect_timeout=timeout_seconds,
            retry=Retry(NoBackoff(), 0),
        )

    async def get(self, key: ThreadKey, boundary: Pointer, *, epoch: int) -> Summary | None:
        """Return the cached summary of exactly this boundary and epoch; None on any trouble."""
        value = await self._guarded(lambda: self._redis.get(cache_key(key, boundary, epoch=epoch)))
        summary = load_entry(value) if isinstance(value, bytes) else None
        return summary if summary is not None and summary.boundary == boundary else None

    async def put(
        self, key: ThreadKey, summary: Summary, *, epoch: int, keep: bool = False
    ) -> None:
        """Remember a summary for the time to live; do nothing on any trouble.

        keep: not where an entry stands already; decided by Redis, so no two writers cross.
        """
        name = cache_key(key, summary.boundary, epoch=epoch)
        entry = dump_entry(summary)
        await self._guarded(lambda: self._put(key, name, entry, epoch=epoch, keep=keep))

    async def forget(self, key: ThreadKey, *, epoch: int) -> None:
        """Remove a thread's entries of every epoch; on any trouble they end with their time."""
        await self._guarded(lambda: self._forget(key, epoch))

    async def check(self) -> bool:
        """Tell whether Redis answers now; never raises."""
        return await self._guarded(self._redis.ping) is not None

    async def close(self) -> None:
        """Close the connections."""
        await self._redis.aclose()

    async def _put(
        self, key: ThreadKey, name: str, entry: bytes, *, epoch: int, keep: bool
    ) -> bool:
        """Write the entry, then look whether its thread was erased: `_forget` does the reverse.

        So whichever comes first, one of the two removes the entry.
        """
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.set(name, entry, ex=self._ttl_seconds, nx=keep)
            pipeline.sadd(_INDEX + _thread_name(key), name)
            pipeline.expire(_INDEX + _thread_name(key), self._ttl_seconds)
            pipeline.get(_ERASED + _thread_name(key))
            erased = (await pipeline.execute())[-1]
        if erased is not None and epoch <= int(erased):
            await self._redis.unlink(name)
        return True

    async def _forget(self, key: ThreadKey, epoch: int) -> bool:
        index = _INDEX + _thread_name(key)
        async with self._redis.pipeline(transaction=True) as pipeline:
            pipeline.set(_ERASED + _thread_name(key), epoch, ex=_ERASED_SECONDS)
            pipeline.smembers(index)
            names = (await pipeline.execute())[-1]
        await self._redis.unlink(index, *names)
        return True

    async def _guarded(self, call: Callable[[], Awaitable[object]]) -> object | None:
        if not self._breaker.allow():
            return None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                answer = await call()
        except Exception as error:  # noqa: BLE001 - a cache fails open, whatever it was
            if self._breaker.report(success=False):
                logger.warning("summary cache fails, going on without (%s)", type(error).__name__)
            return None
        except BaseException:
            self._breaker.give_up()
            raise
        if self._breaker.report(success=True):
            logger.info("summary cache answers again")
        return answer


class NullSummaryCache:
    """The cache of a deployment without Redis: every look is a miss."""

    async def get(self, key: ThreadKey, boundary: Pointer, *, epoch: int) -> Summary | None:
        """Return nothing."""
        del key, boundary, epoch
        return None

    async def put(
        self, key: ThreadKey, summary: Summary, *, epoch: int, keep: bool = False
    ) -> None:
        """Keep nothing."""
        del key, summary, epoch, keep

    async def forget(self, key: ThreadKey, *, epoch: int) -> None:
        """Have nothing to forget."""
        del key, epoch

    async def check(self) -> bool:
        """Tell that nothing is missing."""
        return True

    async def close(self) -> None:
        """Close nothing."""


def cache_key(key: ThreadKey, boundary: Pointer, *, epoch: int) -> str:
    """Return the entry's name: a JSON list, so no two sets of parts ever spell the same."""
    parts = [key.tenant_id, key.thread_id, boundary.checkpoint_id, boundary.position, epoch]
    return _PREFIX + json.dumps(parts, separators=(",", ":"))


def _thread_name(key: ThreadKey) -> str:
    return json.dumps([key.tenant_id, key.thread_id], separators=(",", ":"))


def dump_entry(summary: Summary) -> bytes:
    """Return the summary as JSON, all its members by their names."""
    return json.dumps(asdict(summary), default=datetime.isoformat).encode()


def load_entry(value: bytes) -> Summary | None:
    """Return the summary an entry holds; None when it is not one of ours, or damaged."""
    try:
        entry = json.loads(value)
        boundary = Pointer(**entry.pop("boundary"))
        created_at = datetime.fromisoformat(entry.pop("created_at"))
        summary = Summary(boundary=boundary, created_at=created_at, **entry)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        return None
    return summary if _is_sound(summary) else None


def _is_sound(summary: Summary) -> bool:
    texts = (summary.text, summary.boundary.checkpoint_id, summary.prompt, summary.model or "")
    return (
        all(isinstance(text, str) for text in texts)
        and bool(summary.text.strip())
        and summary.method in {"model", "extractive"}
        and summary.created_at.tzinfo is not None
    )
