"""A turn that does not reach its end: what the next try finds, and what runs again."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service import Service
from threadkeep_client import AsyncThreadkeep, Threadkeep, Turn

pytestmark = pytest.mark.anyio

CLIENT = Path(__file__).resolve().parents[2] / "client"
QUESTION = "Book me the train to Como."

PROCESS = """
import sys
from threadkeep_client import Threadkeep

def hang(key):
    print(key, flush=True)
    sys.stdin.read()

with Threadkeep(sys.argv[1], api_key=sys.argv[2]) as memory:
    with memory.turn("t", sys.argv[3]) as turn:
        print(turn.step("search", lambda key: {"train": "EC 37", "key": key})["key"], flush=True)
        turn.step("book", hang)
"""


class Steps:
    """Steps that count their runs, with the keys they got."""

    def __init__(self) -> None:
        self.keys: dict[str, list[str]] = {}
        self.fails = False

    async def search(self, key: str) -> object:
        self.keys.setdefault("search", []).append(key)
        return ("EC 37", {"price": 49}, None)

    async def book(self, key: str) -> object:
        self.keys.setdefault("book", []).append(key)
        if self.fails:
            raise LookupError("no seat")
        return {"number": "B-1"}


async def run(memory: AsyncThreadkeep, steps: Steps) -> tuple[object, object]:
    async with memory.turn("t", QUESTION) as turn:
        offers = await turn.step("search", steps.search)
        booked = await turn.step("book", steps.book)
        turn.reply("Booked.")
    return offers, booked


async def test_an_exception_keeps_what_was_staged(memory: AsyncThreadkeep) -> None:
    """After an error in the body nothing is saved; the next try runs only what is missing."""
    steps = Steps()
    steps.fails = True
    with pytest.raises(LookupError):
        await run(memory, steps)
    assert (await memory.thread("t"))["messages"] == 0
    steps.fails = False
    results = await run(memory, steps)
    assert results == (["EC 37", {"price": 49}, None], {"number": "B-1"})
    assert [len(steps.keys[name]) for name in ("search", "book")] == [1, 2]
    assert len(set(steps.keys["book"])) == 1
    assert [message["content"] async for message in memory.messages("t")] == [QUESTION, "Booked."]
    assert (await memory.load("t"))["pending"] == []


async def test_results_are_the_same_in_every_try(memory: AsyncThreadkeep) -> None:
    """What a step returns comes back as JSON from the first try on."""
    assert (await run(memory, Steps()))[0] == ["EC 37", {"price": 49}, None]


async def test_a_load_shows_what_was_asked(memory: AsyncThreadkeep) -> None:
    """Between the tries a load lists the question and the finished tasks, in order."""
    steps = Steps()
    steps.fails = True
    with pytest.raises(LookupError):
        await run(memory, steps)
    [pending] = (await memory.load("t"))["pending"]
    assert [(write["task_id"], write["value"]) for write in pending["writes"]] == [
        ("~question", {"role": "user", "content": QUESTION}),
        ("search", ["EC 37", {"price": 49}, None]),
    ]


async def test_a_cancelled_turn_is_not_saved(memory: AsyncThreadkeep) -> None:
    """A task that is cancelled in the body saves nothing and keeps what was staged."""
    reached = asyncio.Event()

    async def wait(_: str) -> None:
        reached.set()
        await asyncio.Event().wait()

    async def body() -> None:
        async with memory.turn("t", QUESTION) as turn:
            await turn.stage("search", 1)
            await turn.step("book", wait)

    task = asyncio.create_task(body())
    await reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await memory.thread("t"))["head"] is None
    async with memory.turn("t", QUESTION) as turn:
        assert (turn.done("search"), turn.done("book"), turn.result("search")) == (True, False, 1)


def keys_of_a_killed_process(service: Service, api_key: str) -> list[str]:
    """Run the process until it is in its second step, kill it; return the keys of both steps."""
    with subprocess.Popen(  # noqa: S603 (our own script)
        [sys.executable, "-c", PROCESS, service.url, api_key, QUESTION],
        cwd=CLIENT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        keys = [process.stdout.readline().strip() for _ in range(2)]
        process.kill()
    return keys


async def test_a_killed_process_is_resumed_by_another(
    memory: AsyncThreadkeep, service: Service, api_key: str
) -> None:
    """What a process staged before it was killed is found by the next, which repeats the rest."""
    search_key, book_key = await asyncio.to_thread(keys_of_a_killed_process, service, api_key)
    steps = Steps()
    offers, _ = await run(memory, steps)
    assert offers == {"train": "EC 37", "key": search_key}
    assert steps.keys == {"book": [book_key]}


async def test_steps_at_once(memory: AsyncThreadkeep) -> None:
    """Of steps that run at the same time each is staged, though one of them fails."""
    steps = Steps()
    steps.fails = True

    async def body() -> None:
        async with memory.turn("t", QUESTION) as turn:
            searches = (turn.step(f"search-{number}", steps.search) for number in range(8))
            book = turn.step("book", steps.book)
            results = await asyncio.gather(*searches, book, return_exceptions=True)
            raise results[-1]

    with pytest.raises(LookupError):
        await body()
    async with memory.turn("t", QUESTION) as turn:
        assert sorted(turn.pending) == [f"search-{number}" for number in range(8)]


async def test_several_values_of_a_task(memory: AsyncThreadkeep) -> None:
    """A task may stage values by channel, which come back by channel."""
    values = {"route": ["Milan", "Como"], "note": None}

    async def body() -> None:
        async with memory.turn("t", QUESTION) as turn:
            await turn.stage_writes("plan", values)
            raise LookupError

    with pytest.raises(LookupError):
        await body()
    async with memory.turn("t", QUESTION) as turn:
        assert turn.pending == {"plan": values}


async def test_discarded_work_is_gone(memory: AsyncThreadkeep) -> None:
    """What will not be finished is dropped by its key, and the next try begins anew."""
    steps = Steps()
    steps.fails = True
    with pytest.raises(LookupError):
        await run(memory, steps)
    async with memory.turn("t", QUESTION) as turn:
        await memory.discard("t", key=turn.key)
        await memory.discard("t", key=turn.key)
    assert turn.saved is not None
    steps.fails = False
    await run(memory, steps)
    assert len(steps.keys["search"]) == 2


async def test_a_turn_saved_in_between(memory: AsyncThreadkeep) -> None:
    """After another turn the question has another context: its old work is reported, not used."""
    steps = Steps()
    steps.fails = True
    with pytest.raises(LookupError):
        await run(memory, steps)
    await memory.save("t", [{"role": "user", "content": "Wait."}], parent=None, key="other")
    async with memory.turn("t", QUESTION) as turn:
        assert turn.pending == {}
        assert [warning["code"] for warning in turn.context["warnings"]] == ["stale-writes"]
        turn.reply("Booked.")


def test_resume_without_asyncio(sync_memory: Threadkeep) -> None:
    """The sync turn resumes as well."""
    keys: list[str] = []

    def search(key: str) -> int:
        keys.append(key)
        return len(keys)

    def book(key: str) -> None:
        raise LookupError(key)

    def body(turn: Turn) -> None:
        with turn:
            turn.step("search", search)
            turn.step("book", book)

    for _ in range(2):
        with pytest.raises(LookupError, match=":book"):
            body(sync_memory.turn("t", QUESTION))
    with sync_memory.turn("t", QUESTION) as turn:
        assert turn.result("search") == 1
    assert keys == [turn.step_key("search")]
