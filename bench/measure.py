"""Time two servers against each other: blocks in turn, so that what disturbs one disturbs both."""

import asyncio
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.wire import Call, Connection, connections

MakeCall = Callable[[int], Call]
"""Makes the n-th request of a run."""


@dataclass(slots=True)
class Timing:
    """What one server did. Units: seconds."""

    latencies: list[float] = field(default_factory=list)
    busy: float = 0.0

    @property
    def p50(self) -> float:
        """The median."""
        return statistics.median(self.latencies)

    @property
    def p99(self) -> float:
        """The 99th percentile."""
        return sorted(self.latencies)[int(len(self.latencies) * 0.99)]

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.latencies) / self.busy

    def figures(self) -> dict[str, float]:
        """Return what is kept of a timing. Units: microseconds; requests a second."""
        return {
            "p50_us": round(self.p50 * 1e6, 1),
            "p99_us": round(self.p99 * 1e6, 1),
            "per_second": round(self.rate, 1),
            "requests": len(self.latencies),
        }


@dataclass(frozen=True, slots=True)
class Target:
    """A server and what is asked of it."""

    url: str
    make: MakeCall


async def interleaved(
    targets: Mapping[str, Target], *, at_once: int, requests: int, blocks: int
) -> dict[str, Timing]:
    """Ask every target in turn, block by block, the order changing; the first block only warms up.

    Units: requests of one block; at_once connections, each with one request under way.
    """
    timings = {name: Timing() for name in targets}
    order = list(targets)
    shuffler = random.Random(blocks)
    sent = dict.fromkeys(targets, 0)
    for block in range(blocks + 1):
        shuffler.shuffle(order)
        for name in order:
            target = targets[name]
            async with connections(target.url, at_once) as opened:
                calls = [target.make(sent[name] + number) for number in range(requests)]
                began = time.perf_counter()
                latencies = await _run(opened, calls)
                busy = time.perf_counter() - began
            sent[name] += requests
            if block > 0:
                timings[name].latencies += latencies
                timings[name].busy += busy
    return timings


async def _run(opened: Sequence[Connection], calls: Sequence[Call]) -> list[float]:
    waiting = iter(calls)
    latencies: list[float] = []

    async def work(connection: Connection) -> None:
        for wanted in waiting:
            latencies.append(await connection.timed(wanted))

    await asyncio.gather(*(work(connection) for connection in opened))
    return latencies


async def at_rate(target: Target, *, per_second: float, requests: int, at_once: int) -> Timing:
    """Send requests at a steady rate, as users do who do not wait for one another.

    Shape: a latency counts from when the request was due, so that a stall is not left out.
    """
    timing = Timing()
    due: asyncio.Queue[tuple[float, Call]] = asyncio.Queue()

    async def work(connection: Connection) -> None:
        while True:
            moment, wanted = await due.get()
            await connection.send(wanted)
            timing.latencies.append(time.perf_counter() - moment)
            due.task_done()

    async with connections(target.url, at_once) as opened:
        workers = [asyncio.create_task(work(connection)) for connection in opened]
        began = time.perf_counter()
        for number in range(requests):
            moment = began + number / per_second
            if (early := moment - time.perf_counter()) > 0:
                await asyncio.sleep(early)
            due.put_nowait((moment, target.make(number)))
        await due.join()
        timing.busy = time.perf_counter() - began
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return timing
