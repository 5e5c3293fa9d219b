"""A tool loop whose process, or whose memory, is killed at every boundary."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Self

import pytest

from tests.client.tool_loop import NODES, QUESTION, THREAD
from tests.service import ROOT, Service, free_port
from threadkeep_client import Threadkeep
from threadkeep_client.langgraph import ThreadkeepSaver

PROGRAM = Path(__file__).with_name("tool_loop.py")


def boundaries(pattern: str) -> list[str]:
    """Every boundary of the loop, in its order."""
    inner = [f"{place} {node}" for node in NODES for place in ("before", "effect", "staged")]
    if pattern == "a":
        inner = [name for name in inner if not name.startswith("staged")]
        return ["loaded", *inner, "saved"]
    return ["loaded", *inner, "unsaved", "saved"]


class Mortal:
    """A service that can be killed, and started again where it was."""

    def __init__(self, environment: dict[str, str], folder: Path) -> None:
        self._given = (free_port(), environment, folder / "service.log")
        self.running = Service(*self._given)
        self.running.wait_ready()

    @property
    def url(self) -> str:
        return self.running.url

    def die_and_return(self) -> None:
        self.running.kill()
        self.running = Service(*self._given)
        self.running.wait_ready()


@pytest.fixture
def mortal(service_environment: dict[str, str], tmp_path: Path) -> Iterator[Mortal]:
    mortal = Mortal(service_environment, tmp_path)
    yield mortal
    mortal.running.stop()


class Loop:
    """The program as a process."""

    def __init__(self, pattern: str, url: str, api_key: str, log: Path, stops: list[str]) -> None:
        self.process = subprocess.Popen(  # noqa: S603 - our own
            [sys.executable, PROGRAM, pattern, url, api_key, log, *stops],
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def says(self) -> str:
        """The next thing it says; empty when it has ended."""
        return self._pipe(self.process.stdout).readline().strip()

    def go_on(self) -> None:
        pipe = self._pipe(self.process.stdin)
        pipe.write("\n")
        pipe.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            self._pipe(pipe).close()
        for pipe in (self.process.stdin, self.process.stdout):
            self._pipe(pipe).close()

    @staticmethod
    def _pipe(pipe: IO[str] | None) -> IO[str]:
        assert pipe is not None
        return pipe


def effects(log: Path) -> dict[str, list[str]]:
    """The idempotency keys under which each node had its effect."""
    found: dict[str, list[str]] = {}
    for line in log.read_text().splitlines():
        key, node = line.split(" ")
        found.setdefault(node, []).append(key)
    return found


def assert_whole(pattern: str, url: str, api_key: str) -> None:
    """The loop's work stands in the store, once, and nothing is left in flight."""
    if pattern == "a":
        with ThreadkeepSaver.from_url(url, api_key=api_key) as saver:
            found = saver.get_tuple({"configurable": {"thread_id": THREAD}})
        assert found is not None
        assert found.checkpoint["channel_values"]["done"] == [f"{node} done" for node in NODES]
        assert found.pending_writes == []
        return
    with Threadkeep(url, api_key=api_key) as memory:
        assert [m["content"] for m in memory.messages(THREAD)] == [QUESTION, "Booked."]
        assert memory.load(THREAD)["pending"] == []
        assert len(list(memory.checkpoints(THREAD))) == 1


@pytest.mark.parametrize("pattern", ["a", "b"])
def test_its_process_is_killed_at_every_boundary(
    pattern: str, service: Service, api_key: str, tmp_path: Path
) -> None:
    """Each try dies one boundary later. A node whose work was kept never runs again; one that was
    cut off after its effect runs once more, under the same key."""
    log = tmp_path / "effects"
    for boundary in boundaries(pattern):
        with Loop(pattern, service.url, api_key, log, [boundary]) as loop:
            said = loop.says()
            if said == "saved before":  # the turn was saved by the try that died behind its save
                said = loop.says()
            assert said == boundary

    with Loop(pattern, service.url, api_key, log, []) as loop:
        last = [loop.says(), loop.says()]

    assert last == (["saved before", "end"] if pattern == "b" else ["end", ""])
    found = effects(log)
    assert list(found) == list(NODES)
    assert [len(keys) for keys in found.values()] == [2] * len(NODES)
    assert [len(set(keys)) for keys in found.values()] == [1] * len(NODES)
    assert len({keys[0] for keys in found.values()}) == len(NODES)
    assert_whole(pattern, service.url, api_key)


@pytest.mark.parametrize("pattern", ["a", "b"])
def test_its_memory_is_killed_at_every_boundary(
    pattern: str, mortal: Mortal, api_key: str, tmp_path: Path
) -> None:
    """The service dies and comes back at each boundary: the loop goes on, every node runs once."""
    log = tmp_path / "effects"
    with Loop(pattern, mortal.url, api_key, log, boundaries(pattern)) as loop:
        for boundary in boundaries(pattern):
            assert loop.says() == boundary
            mortal.die_and_return()
            loop.go_on()
        assert loop.says() == "end"

    assert {node: len(keys) for node, keys in effects(log).items()} == dict.fromkeys(NODES, 1)
    assert_whole(pattern, mortal.url, api_key)
