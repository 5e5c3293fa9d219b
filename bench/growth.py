"""What does not show in one request: a full store, bytes on disk, memory, the time of a start."""

import secrets
import statistics
from dataclasses import dataclass
from itertools import count

import asyncpg

from app.adapters.embedded import EmbeddedUrls
from app.adapters.sql.engine import driver_dsn
from bench.fill import SCHEMA, fill, template
from bench.measure import Target, interleaved
from bench.servers import Server, service
from bench.texts import Message, Writer
from bench.wire import Call, call, connections

_TABLES = ("threads", "checkpoints", "checkpoint_blobs", "checkpoint_writes")
_FILL_THREADS = 2_000
_SAMPLED = 500


@dataclass(frozen=True, slots=True)
class Disk:
    """What threads take. stored: indexes included. Units: bytes."""

    messages: int
    text: int
    stored: int


async def disk(urls: EmbeddedUrls, server: Server, lengths: tuple[int, ...]) -> list[Disk]:
    """Save chat turn by turn through the service; after each length, what it added to the store."""
    connection = await asyncpg.connect(driver_dsn(urls.database_url))
    writer = Writer()
    found = []
    try:
        for length in lengths:
            before = await _stored(connection)
            text = await _save_thread(server, length, writer)
            found.append(Disk(length, text, await _stored(connection) - before))
    finally:
        await connection.close()
    return found


async def _stored(connection: asyncpg.Connection) -> int:
    size = 0
    for table in _TABLES:
        await connection.execute(f"VACUUM {SCHEMA}.{table}")
        named = f"{SCHEMA}.{table}"
        size += await connection.fetchval("SELECT pg_total_relation_size($1::regclass)", named)
    return size


async def _save_thread(server: Server, length: int, writer: Writer) -> int:
    thread, text = secrets.token_hex(6), 0
    async with connections(server.url, 1) as (connection,):
        for number in range(length // 2):
            said = writer.turn()
            text += sum(len(str(message["content"]).encode()) for message in said)
            body = {"key": f"turn-{number}", "messages": said}
            await connection.send(call("POST", f"/v1/threads/{thread}/turns", body))
    return text


async def fill_store(database_url: str, messages: int, run: str, *, step: int = 1) -> None:
    """Copy in threads of 100 short messages, up to so many messages; with a step, every step-th."""
    made = [template(100, Writer(100, 400, seed=seed)) for seed in range(20)]
    numbers = range(0, messages // 100, step)
    for begin in range(0, len(numbers), _FILL_THREADS):
        part = numbers[begin : begin + _FILL_THREADS]
        await fill(database_url, [(f"{run}-{number}", made[number % 20]) for number in part])


def sampling(messages: int) -> int:
    """Return the step between the threads that are asked for."""
    return max(1, messages // 100 // _SAMPLED)


async def empty_against_full(
    empty: Server, full: Server, *, run: str, step: int
) -> dict[str, float]:
    """Load the same threads from a store that holds no others, and from a full one."""

    def load(number: int) -> Call:
        return call("POST", "/v1/context", {"thread_id": f"{run}-{number % _SAMPLED * step}"})

    targets = {"empty": Target(empty.url, load), "full": Target(full.url, load)}
    timings = await interleaved(targets, at_once=1, requests=_SAMPLED, blocks=6)
    return {name: timing.p50 for name, timing in timings.items()}


async def memory(server: Server, requests: int) -> list[int]:
    """Mix loads and saves, five to one, over 1,000 threads; the worker's memory ten times."""
    writer = Writer()
    said: list[list[Message]] = [writer.turn() for _ in range(200)]
    run, found = secrets.token_hex(3), [server.memory_bytes()]
    numbers = count()

    def make(_: int) -> Call:
        number = next(numbers)
        thread = f"memory-{run}-{number % 1_000}"
        if number % 6 == 0:
            body = {"key": str(number), "messages": said[number % len(said)]}
            return call("POST", f"/v1/threads/{thread}/turns", body)
        return call("POST", "/v1/context", {"thread_id": thread})

    target = Target(server.url, make)
    for _ in range(10):
        await interleaved({"service": target}, at_once=16, requests=requests // 20, blocks=1)
        found.append(server.memory_bytes())
    return found


def starts(urls: EmbeddedUrls, times: int = 5) -> float:
    """Return the median seconds from the start of the process until it is ready."""
    seconds = []
    for _ in range(times):
        with service(urls) as server:
            seconds.append(server.seconds)
    return statistics.median(seconds)
