"""The promise to prompt caches: a context begins as the one before, but once in a stride."""

import asyncio
import itertools
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import httpx
import pytest

from examples.prefix import HEADINGS, made_up
from tests.integration.callers import bearer, key_entry, path_of
from tests.integration.conftest import MakeClient, StartService
from tests.model_server import ModelServer, model_server
from tests.service import ROOT

pytestmark = pytest.mark.anyio

MARKER = "threadkeep_marker"
SUMMARY = "threadkeep_summary"
# A window of about ten turns of the long messages, so that a test crosses many lines of its grid.
SMALL = {"token_budget": 8_000, "summarizer_max_tokens": 500}
# A busy machine must not make the cache look dead: without it a text may change once more.
PATIENT = {"redis_timeout_seconds": 10}


@pytest.fixture
def model() -> Iterator[ModelServer]:
    with model_server() as model:
        yield model


class Talk:
    """One thread of a client, and the loads of it so far."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.loads: list[dict[str, Any]] = []
        self.turns = 0

    async def load(self, message: Mapping[str, object]) -> dict[str, Any]:
        body = {"thread_id": "t1", "message": message}
        answer = await self.client.post("/v1/context", json=body, headers=bearer("key"))
        assert answer.status_code == 200, answer.text
        self.loads.append(answer.json())
        return self.loads[-1]

    async def save(self, turn: Sequence[Mapping[str, object]]) -> None:
        self.turns += 1
        body = {"key": f"turn-{self.turns}", "messages": turn}
        answer = await self.client.post(path_of("t1", "/turns"), json=body, headers=bearer("key"))
        assert answer.status_code == 201, answer.text

    async def covered(self) -> int:
        """What the newest summary covers."""
        answer = await self.client.get(path_of("t1"), headers=bearer("key"))
        return int(answer.json()["summary"]["covers"]) if answer.is_success else 0

    async def covers_more_than(self, covered: int) -> None:
        """Wait for the background build under way."""
        for _ in range(2000):
            if await self.covered() > covered:
                return
            await asyncio.sleep(0.005)  # between two looks at a condition
        raise AssertionError("no summary came")

    async def build(self) -> dict[str, Any]:
        """Have the summaries built that are due, and wait for them."""
        answer = await self.client.post(path_of("t1", "/summary"), headers=bearer("key"))
        report: dict[str, Any] = answer.json()
        return report

    def check_prefixes(self) -> int:
        """Return how often the window moved; while it stands every load begins as the last did."""
        moves = 0
        for before, after in itertools.pairwise(self.loads):
            kept = history(before)
            if before["coverage"]["from_position"] == after["coverage"]["from_position"]:
                assert after["messages"][: len(kept)] == kept
            else:
                moves += 1
        return moves


def history(context: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What stands before the marker: all up to the end of the last complete exchange."""
    messages: list[dict[str, Any]] = context["messages"]
    return list(itertools.takewhile(lambda message: message.get("name") != MARKER, messages))


def rows(printed: str) -> dict[str, dict[str, int]]:
    """The example's table: for each row its figures by heading."""
    found = re.findall(r"^(.*?\S) {2,}([\d, ]+)$", printed, re.MULTILINE)
    numbers = {
        name: [int(cell.replace(",", "")) for cell in cells.split()] for name, cells in found
    }
    return {name: dict(zip(HEADINGS, cells, strict=True)) for name, cells in numbers.items()}


def test_nine_loads_in_ten_keep_their_prefix(start_service: StartService) -> None:
    """On a service process, short, long and recorded conversations break once a stride at most."""
    with start_service() as service:
        command = [sys.executable, "-m", "examples.prefix", "--url", service.url]
        ended = subprocess.run(  # noqa: S603 - our own file
            command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
        )
    assert ended.returncode == 0, ended.stderr
    table = rows(ended.stdout)

    for conversation, share in (
        ("short messages", 0.9),
        ("long messages", 0.8),
        ("recorded, with tools", 0.8),
    ):
        ours, plain = (table[f"{conversation}: {way}"] for way in ("threadkeep", "last 60"))
        everything = table[f"{conversation}: everything"]
        assert ours["breaks"] <= ours["strides"]
        assert 0 < ours["builds"] <= ours["strides"] + 1
        assert ours["kept"] >= share * ours["turns"]
        assert plain["kept"] < 0.2 * plain["turns"]
        assert ours["uncached"] < plain["uncached"] / 4
        assert ours["sent"] < everything["sent"] / 2


async def test_a_pasted_page_leaves_no_hole(make_client: MakeClient, tenant: str) -> None:
    """A message longer than its room moves the window on at once, and nothing is trimmed."""
    async with make_client(api_keys=key_entry(tenant, "key"), **PATIENT) as client:
        talk = Talk(client)
        for number, turn in enumerate(made_up(60, 150)):
            question, answer = turn
            if number % 4 == 0:
                question["content"] += " page " * 2500
            await talk.load(question)
            await talk.save([question, answer])

    begins = [load["coverage"]["from_position"] or 0 for load in talk.loads]
    assert begins == sorted(begins)
    assert {load["coverage"]["trimmed"] for load in talk.loads} == {0}
    assert not [load for load in talk.loads if load["tokens"]["over_budget"]]
    tokens = sum(load["tokens"]["message"] + 200 for load in talk.loads)
    assert 0 < talk.check_prefixes() <= tokens / 4_900


@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize("words", [20, 300])
async def test_builds_that_end_between_loads(
    make_client: MakeClient, tenant: str, model: ModelServer, words: int, late: int
) -> None:
    """However late a build is through, a summary's text changes only when its window moves."""
    gate = threading.Semaphore(0)

    def answer(_: str, number: int) -> str:
        assert gate.acquire(timeout=30)
        return f"Summary {number}: " + "fact, " * 50

    model.answer = answer
    settings = {
        "api_keys": key_entry(tenant, "key"),
        "summarizer_url": model.url,
        **SMALL,
        **PATIENT,
    }
    async with make_client(**settings) as client:
        talk, ends = Talk(client), []
        for number, turn in enumerate(made_up(70, words)):
            await talk.load(turn[0])
            if model.arrived.acquire(blocking=False):
                ends.append(number + late)
            if ends and ends[0] <= number:
                ends.pop()
                covered = await talk.covered()
                gate.release()
                await talk.covers_more_than(covered)
            await talk.save(turn)
        gate.release(1000)

    moves = talk.check_prefixes()
    assert moves >= 4
    assert len(model.bodies) <= moves + 2
    assert {load["coverage"]["trimmed"] for load in talk.loads} == {0}


async def test_an_extract_stays_until_the_window_moves(
    make_client: MakeClient, tenant: str, model: ModelServer
) -> None:
    """What stood in for a late build is not replaced under the model's eyes, and never built on."""
    model.answer = lambda _, number: f"Summary {number}."
    settings = {
        "api_keys": key_entry(tenant, "key"),
        "summarizer_url": model.url,
        **SMALL,
        **PATIENT,
    }
    turns = made_up(60, 300)
    async with make_client(**settings) as client:
        talk = Talk(client)
        for turn in turns[:12]:
            await talk.save(turn)
        await talk.build()
        model.mode = "hang"
        for turn in turns[12:]:
            await talk.save(turn)
            if (await talk.load(turns[-1][0]))["summary"]["method"] == "extractive":
                break
        extract = talk.loads[-1]
        model.mode = "answer"
        model.release.set()
        built = await talk.build()
        again = await talk.load(turns[-1][0])
        async with make_client(**settings, redis_url=None) as uncached:
            anew = await Talk(uncached).load(turns[-1][0])
        for turn in turns[20:40]:
            await talk.save(turn)
            await talk.build()
        later = await talk.load(turns[-1][0])

    assert extract["summary"]["state"] == "fresh"
    assert history(again) == history(extract)
    assert again["summary"]["method"] == "extractive"
    assert built["method"] == anew["summary"]["method"] == later["summary"]["method"] == "model"
    assert anew["summary"]["boundary"] == extract["summary"]["boundary"]
    quoted = extract["summary"]["text"].splitlines()[-1]
    assert not [prompt for prompt in model.prompts if quoted in prompt]
    talk.check_prefixes()
