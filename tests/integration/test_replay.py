"""The replay example as a newcomer runs it: one process against another."""

import re
import subprocess
import sys

from tests.integration.conftest import StartService
from tests.service import ROOT

DATA = "tests/data/airline_support.jsonl"


def replay(url: str) -> str:
    """Run the example and return what it printed."""
    command = [sys.executable, "-m", "examples.replay", DATA, "--url", url]
    return subprocess.run(  # noqa: S603 - our own file
        command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True, timeout=120
    ).stdout


def test_replay_stores_each_turn_once(start_service: StartService) -> None:
    """A hundred conversations are stored and read back whole; a second run stores nothing new."""
    with start_service() as service:
        first, second = replay(service.url), replay(service.url)

    size = "686 turns, 2426 messages"
    for printed, stored in ((first, 686), (second, 0)):
        assert f"100 threads: {size};\n  stored now: {stored} turns;" in printed
        assert f"joined thread: {size}; stored now: {stored} turns" in printed
        assert "'total': 2426," in printed
        assert "summary fresh" in printed
        ((used, budget),) = re.findall(r"tokens (\d+) of (\d+)", printed)
        assert int(used) <= int(budget)
