"""Load, save and load-after-save, by length of the thread and by calls under way at once."""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.fill import fill, template
from bench.measure import Target, Timing, at_rate, interleaved
from bench.servers import Server
from bench.texts import Writer
from bench.wire import Call, call, connections

LENGTHS = (20, 200, 2_000, 20_000)
AT_ONCE = (1, 16, 64)
THREADS = 64
RATED_REQUESTS = 2_000


@dataclass(frozen=True, slots=True)
class Pair:
    """What is compared, and where its threads are."""

    service: Server
    floor: Server
    run: str

    def thread(self, length: int, number: int) -> str:
        """Return the id of one of the threads of a length."""
        return f"{self.run}-{length}-{number % THREADS}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One line of the table."""

    what: str
    length: int
    at_once: int
    service: Timing
    floor: Timing

    def figures(self) -> dict[str, object]:
        """Return the line as it is kept."""
        return {
            "what": self.what,
            "length": self.length,
            "at_once": self.at_once,
            "service": self.service.figures(),
            "floor": self.floor.figures(),
            "p50_over_floor": round(self.service.p50 / self.floor.p50, 2),
            "rate_over_floor": round(self.service.rate / self.floor.rate, 2),
        }


async def prepare(database_url: str, service: Server, lengths: Sequence[int]) -> str:
    """Write THREADS threads of every length and have their summaries made; return their run."""
    run = secrets.token_hex(3)
    made = {length: template(length, Writer(seed=length)) for length in lengths}
    await fill(
        database_url,
        [(f"{run}-{n}-{number}", made[n]) for n in lengths for number in range(THREADS)],
    )
    async with connections(service.url, 1) as (connection,):
        for length in lengths:
            for number in range(THREADS):
                await connection.send(call("POST", f"/v1/threads/{run}-{length}-{number}/summary"))
    return run


async def measure(pair: Pair, length: int, at_once: int, blocks: int) -> list[Cell]:
    """Measure the three verbs against the floor's two."""
    requests = max(100, 5 * at_once)
    cells = []
    for what, targets in _targets(pair, length).items():
        timings = await interleaved(targets, at_once=at_once, requests=requests, blocks=blocks)
        cells.append(Cell(what, length, at_once, timings["service"], timings["floor"]))
    return cells


def _targets(pair: Pair, length: int) -> Mapping[str, Mapping[str, Target]]:
    loads = _loads(pair, length)
    saves = _saves(pair, length)
    return {
        "load": loads,
        "save": saves,
        "load after save": {name: _in_turn(saves[name], loads[name]) for name in loads},
    }


def _loads(pair: Pair, length: int) -> dict[str, Target]:
    def load(number: int) -> Call:
        return call("POST", "/v1/context", {"thread_id": pair.thread(length, number)})

    def bare(number: int) -> Call:
        return call("GET", f"/load/{pair.thread(length, number)}")

    return {"service": Target(pair.service.url, load), "floor": Target(pair.floor.url, bare)}


def _saves(pair: Pair, length: int) -> dict[str, Target]:
    writer = Writer()
    said = [writer.turn() for _ in range(200)]

    def body(number: int) -> dict[str, object]:
        return {"key": secrets.token_hex(8), "messages": said[number % len(said)]}

    def save(number: int) -> Call:
        return call("POST", f"/v1/threads/{pair.thread(length, number)}/turns", body(number))

    def bare(number: int) -> Call:
        return call("POST", f"/save/{pair.thread(length, number)}", body(number))

    return {"service": Target(pair.service.url, save), "floor": Target(pair.floor.url, bare)}


def _in_turn(first: Target, second: Target) -> Target:
    def make(number: int) -> Call:
        half: Callable[[int], Call] = second.make if number % 2 else first.make
        return half(number // 2)

    return Target(first.url, make)


async def tail(pair: Pair, saturation: float) -> Timing:
    """Load at half the rate that saturates the service, for how long the slowest wait."""
    target = _loads(pair, 200)["service"]
    return await at_rate(
        target, per_second=saturation / 2, requests=RATED_REQUESTS, at_once=max(AT_ONCE)
    )
