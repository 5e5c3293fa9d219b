"""Measure the service against the floor and against its budgets, on embedded servers.

    ./dev bench                    the matrix, the tail, disk, memory, start (about ten minutes)
    ./dev bench matrix --lengths 20,200 --blocks 4
    ./dev bench full --messages 10000000
    ./dev bench model              what it costs the model, against other ways of sending history
    ./dev bench peers              other memories, driven as their users do

Prints tables, and writes what it measured to bench/results/<part>.json.
"""

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import uvloop

from app.adapters.embedded import EmbeddedUrls, embedded_servers
from bench import budgets, growth, matrix, model, peers, servers
from bench.budgets import Figures
from tests.model_server import model_server

RESULTS = Path(__file__).parent / "results"
MEGABYTE = 1024 * 1024
PEER_LENGTH = 2_000
"""Some peers take quadratic time to get further."""


@contextmanager
def fresh_servers() -> Iterator[EmbeddedUrls]:
    """Run PostgreSQL and Valkey in a folder of their own, as durable as in production."""
    folder = Path(tempfile.mkdtemp(prefix="threadkeep-bench-"))
    try:
        with embedded_servers(folder) as urls:
            yield urls
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_matrix(options: argparse.Namespace) -> dict[str, object]:
    """Measure the matrix, and the tail at half of what saturates the service."""
    cells: list[Figures] = []
    lengths = [int(length) for length in options.lengths.split(",")]
    with fresh_servers() as urls, servers.service(urls) as service, servers.floor(urls) as floor:
        run = uvloop.run(matrix.prepare(urls.database_url, service, lengths))
        pair = matrix.Pair(service, floor, run)
        for length in lengths:
            for at_once in matrix.AT_ONCE:
                found = uvloop.run(matrix.measure(pair, length, at_once, options.blocks))
                cells += [cell.figures() for cell in found]
                print(budgets.matrix_table([cell.figures() for cell in found]), flush=True)
        saturation = max(
            _service(cell)["per_second"]
            for cell in cells
            if cell["what"] == "load" and cell["length"] == 200
        )
        tail = uvloop.run(matrix.tail(pair, saturation))
    return {"matrix": cells, "tail": tail.p99 / tail.p50, "tail_figures": tail.figures()}


def run_growth(options: argparse.Namespace) -> dict[str, object]:
    """Measure disk, memory and start."""
    with fresh_servers() as urls:
        with servers.service(urls) as service:
            disk = uvloop.run(growth.disk(urls, service, (200, 2_000, 20_000)))
        with servers.service(urls) as service:
            memory = uvloop.run(growth.memory(service, options.requests))
        start = growth.starts(urls)
    return {
        "disk": max(found.stored / found.text for found in disk if found.messages > 200),
        "disk_by_length": {found.messages: found.stored / found.text for found in disk},
        "memory": memory[-1] / MEGABYTE,
        "growth": memory[-1] / memory[2],
        "memory_by_tenth": [round(size / MEGABYTE, 1) for size in memory],
        "start": start,
    }


def run_full(options: argparse.Namespace) -> dict[str, object]:
    """Measure a load from a store that holds many messages, against one that holds few."""
    run, step = "full", growth.sampling(options.messages)
    with ExitStack() as stack:
        empty, full = (stack.enter_context(fresh_servers()) for _ in range(2))
        pair = [stack.enter_context(servers.service(urls)) for urls in (empty, full)]
        uvloop.run(growth.fill_store(full.database_url, options.messages, run))
        uvloop.run(growth.fill_store(empty.database_url, options.messages, run, step=step))
        p50 = uvloop.run(growth.empty_against_full(*pair, run=run, step=step))
    return {"full": p50["full"] / p50["empty"], "full_p50": p50, "full_messages": options.messages}


def run_peers(options: argparse.Namespace) -> dict[str, object]:
    """Measure other memories beside the service."""
    lengths = [int(length) for length in options.lengths.split(",") if int(length) <= PEER_LENGTH]
    with fresh_servers() as urls, servers.service(urls) as service:
        return {"peers": uvloop.run(peers.measure(urls, service, lengths))}


def run_model(_: argparse.Namespace) -> dict[str, object]:
    """Measure what ways of sending history cost at the model."""
    with (
        fresh_servers() as urls,
        model_server() as provider,
        servers.service(urls, THREADKEEP_SUMMARIZER_URL=provider.url) as service,
    ):
        rows = uvloop.run(model.measure(service, provider))
    print(model.table(rows))
    return {"model": rows}


def _service(cell: Figures) -> Mapping[str, float]:
    found = cell["service"]
    assert isinstance(found, Mapping)
    return found


PARTS: Mapping[str, Callable[[argparse.Namespace], dict[str, object]]] = {
    "matrix": run_matrix,
    "growth": run_growth,
    "full": run_full,
    "model": run_model,
    "peers": run_peers,
}
BY_DEFAULT = ("matrix", "growth")


def main() -> None:
    """Run parts, print the tables, keep the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=BY_DEFAULT)
    parser.add_argument("--lengths", default=",".join(map(str, matrix.LENGTHS)))
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--requests", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=10_000_000)
    options = parser.parse_args()
    RESULTS.mkdir(exist_ok=True)
    print(budgets.machine())
    for part in options.parts:
        measured = {"machine": budgets.machine(), **PARTS[part](options)}
        (RESULTS / f"{part}.json").write_text(json.dumps(measured, indent=2) + "\n")
        if isinstance(cells := measured.get("matrix"), list):
            print(budgets.matrix_table(cells))
        print(budgets.table(budgets.verdicts(measured)))


if __name__ == "__main__":
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    main()
