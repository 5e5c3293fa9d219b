"""Many callers at once, against two processes of the service on one database.

Ids in docstrings name the public report behind a test, in tests/data/cases.jsonl.
"""

import asyncio
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TypeAlias

import httpx
import pytest

from tests.integration.callers import path_of
from tests.integration.conftest import StartService
from tests.service import STOP_SECONDS, running_service

pytestmark = pytest.mark.anyio

AT_ONCE = 40
BURST = 160
CONNECTION_LOST = {
    httpx.ReadError,
    httpx.WriteError,
    httpx.ConnectError,
    httpx.RemoteProtocolError,
}
Members: TypeAlias = Mapping[str, object]
Anchor: TypeAlias = Callable[[int, str], Members]
"""From the number of a save and the thread's first turn to how the save is anchored."""

ANCHORS: dict[str, Anchor] = {
    "key": lambda number, _: {"key": f"turn-{number}"},
    "parent-null": lambda *_: {"parent": None},
    "stale-parent": lambda _, first: {"parent": first},
    "content": lambda *_: {},
}


@pytest.fixture(name="urls", scope="module")
def _urls(
    database_url: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, str]]:
    """Two processes of the service, started once for the module."""
    environment = {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "THREADKEEP_MIGRATE": "false",
    }
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(running_service(environment, tmp_path_factory.mktemp(name)))
            for name in ("first", "second")
        )
        yield first.url, second.url


@pytest.fixture(name="callers")
async def _callers(urls: tuple[str, str]) -> AsyncIterator[tuple[httpx.AsyncClient, ...]]:
    """A client of each process."""
    async with client_of(urls[0]) as first, client_of(urls[1]) as second:
        yield first, second


@pytest.fixture
def thread_id() -> str:
    """A thread nobody has written to yet."""
    return f"thread-{secrets.token_hex(8)}"


def client_of(url: str) -> httpx.AsyncClient:
    limits = httpx.Limits(max_connections=AT_ONCE, max_keepalive_connections=AT_ONCE)
    return httpx.AsyncClient(base_url=url, limits=limits, timeout=30)


def numbered(number: int) -> list[Members]:
    """A turn with a tool call; each of its four messages says the turn's number."""
    call = {"id": "call_0", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "user", "content": f"question {number}"},
        {"role": "assistant", "content": f"looking {number}", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_0", "content": f"found {number}"},
        {"role": "assistant", "content": f"answer {number}"},
    ]


async def save(
    client: httpx.AsyncClient, thread_id: str, messages: Sequence[Members], **members: object
) -> httpx.Response:
    return await client.post(path_of(thread_id, "/turns"), json={"messages": messages, **members})


async def save_each(
    callers: Sequence[httpx.AsyncClient], thread_id: str, bodies: Sequence[Members]
) -> list[httpx.Response]:
    """Send all saves at once, to the processes in turn."""
    calls = [
        callers[number % len(callers)].post(path_of(thread_id, "/turns"), json=body)
        for number, body in enumerate(bodies)
    ]
    return await asyncio.gather(*calls)


async def stored(client: httpx.AsyncClient, thread_id: str) -> list[str]:
    """The content of every message of the branch, in order, whose positions have no gap."""
    items, cursor = [], None
    while True:
        page = {"limit": 100, **({"cursor": cursor} if cursor else {})}
        found = (await client.get(path_of(thread_id, "/messages"), params=page)).json()
        items += found["items"]
        cursor = found["next_cursor"]
        if cursor is None:
            break
    assert [item["position"] for item in items] == list(range(1, len(items) + 1))
    return [item["content"] for item in items]


def turns_of(contents: Sequence[str]) -> list[int]:
    """The numbers of the stored turns, in order; each must be whole and in one piece."""
    runs = [contents[at : at + 4] for at in range(0, len(contents), 4)]
    numbers = [int(run[0].split()[1]) for run in runs]
    assert runs == [[str(m["content"]) for m in numbered(number)] for number in numbers]
    return numbers


def statuses(answers: Sequence[httpx.Response]) -> list[int]:
    return sorted(answer.status_code for answer in answers)


@pytest.mark.parametrize(
    "anchor", [{"key": "k1"}, {"parent": None}, {}], ids=["key", "parent", "content"]
)
async def test_equal_saves_store_one_turn(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str, anchor: Members
) -> None:
    """Forty equal saves at once store one turn, and every caller is told the same ids.

    Source: chatwoot/chatwoot#15743 (case con-same-turn-twenty-times).
    """
    body = {"messages": numbered(1), **anchor}

    answers = await save_each(callers, thread_id, [body] * AT_ONCE)
    again = await save(callers[1], thread_id, numbered(1), **anchor)

    assert statuses(answers) == [200] * (AT_ONCE - 1) + [201]
    told = {
        (answer.json()["checkpoint_id"], *((m["id"], m["position"]) for m in messages))
        for answer in (*answers, again)
        if (messages := answer.json()["messages"])
    }
    assert len(told) == 1
    assert {a.json()["parent_checkpoint_id"] for a in (*answers, again)} == {None}
    assert turns_of(await stored(callers[0], thread_id)) == [1]


@pytest.mark.parametrize("anchor", ANCHORS)
async def test_different_saves_are_all_stored(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str, anchor: str
) -> None:
    """Forty different saves at once store forty turns, each whole, and none is refused."""
    first = (await save(callers[0], thread_id, numbered(100))).json()["checkpoint_id"]
    await save(callers[0], thread_id, numbered(101), key="turn-101")

    bodies = [
        {"messages": numbered(number), **ANCHORS[anchor](number, first)}
        for number in range(AT_ONCE)
    ]
    answers = await save_each(callers, thread_id, bodies)

    assert statuses(answers) == [201] * AT_ONCE
    assert {answer.json()["rebased"] for answer in answers} == {"parent" in bodies[0]}
    told = [(a.json()["messages"][0]["position"], number) for number, a in enumerate(answers)]
    in_order = [number for _, number in sorted(told)]
    assert turns_of(await stored(callers[1], thread_id)) == [100, 101, *in_order]


@pytest.mark.parametrize("anchor", ["key", "parent-null", "content"])
async def test_first_saves_make_one_thread(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str, anchor: str
) -> None:
    """Ten first saves at once make one thread of ten turns.

    Source: liam-hq/liam#3090 (case con-first-save-creates-thread-twice).
    """
    bodies = [{"messages": numbered(number), **ANCHORS[anchor](number, "")} for number in range(10)]
    answers = await save_each(callers, thread_id, bodies)
    listed = (await callers[0].get("/v1/threads", params={"limit": 100})).json()["items"]

    assert statuses(answers) == [201] * 10
    assert sorted(turns_of(await stored(callers[1], thread_id))) == list(range(10))
    assert [(t["turns"], t["messages"]) for t in listed if t["thread_id"] == thread_id] == [
        (10, 40)
    ]


async def test_loser_of_a_race_is_stored_too(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str
) -> None:
    """Of two saves released together 200 times, none fails and each is there.

    Source: OnyxAxisOwO/ObsidianArc#9 (case con-position-loser-not-failed).
    """
    for number in range(0, 400, 2):
        pair = [{"messages": numbered(n), "key": f"turn-{n}"} for n in (number, number + 1)]
        answers = await save_each(callers, thread_id, pair)
        assert statuses(answers) == [201, 201]

    numbers = turns_of(await stored(callers[0], thread_id))
    assert [sorted(numbers[at : at + 2]) for at in range(0, 400, 2)] == [
        [number, number + 1] for number in range(0, 400, 2)
    ]


async def test_reads_what_was_written_elsewhere(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str
) -> None:
    """A load right after a save shows it, whichever process is asked and whatever is cached.

    Source: langchain-ai/langgraph#4985 (case load-read-your-writes).
    """
    for number in range(60):
        writer, reader = callers[number % 2], callers[1 - number % 2]
        saved = (await save(writer, thread_id, numbered(number), key=f"turn-{number}")).json()
        loaded = (await reader.post("/v1/context", json={"thread_id": thread_id})).json()

        assert loaded["head"] == saved["checkpoint_id"]
        assert loaded["messages"][-1]["content"] == f"answer {number}"
        coverage = loaded["coverage"]
        assert coverage["total"] == 4 * (number + 1)
        assert (
            coverage["summarized"] + coverage["window"] + coverage["trimmed"] == coverage["total"]
        )


async def test_reject_lets_one_through(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str
) -> None:
    """Of forty saves on one head that reject conflicts one is stored; the others learn the head."""
    first = (await save(callers[0], thread_id, numbered(100))).json()["checkpoint_id"]
    bodies = [
        {"messages": numbered(number), "parent": first, "on_conflict": "reject"}
        for number in range(AT_ONCE)
    ]
    answers = await save_each(callers, thread_id, bodies)

    assert statuses(answers) == [201] + [409] * (AT_ONCE - 1)
    (head,) = [a.json()["checkpoint_id"] for a in answers if a.status_code == 201]
    refused = [a.json() for a in answers if a.status_code == 409]
    assert {(problem["type"], problem["head"]) for problem in refused} == {
        ("urn:threadkeep:problem:parent-moved", head)
    }
    assert len(await stored(callers[0], thread_id)) == 8


async def test_branches_stand_side_by_side(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str
) -> None:
    """Forty branches from one parent at once are forty siblings, and one of them is the head."""
    first = (await save(callers[0], thread_id, numbered(100))).json()["checkpoint_id"]
    bodies = [
        {"messages": numbered(number), "parent": first, "on_conflict": "branch"}
        for number in range(AT_ONCE)
    ]
    answers = await save_each(callers, thread_id, bodies)
    thread = (await callers[0].get(path_of(thread_id))).json()

    assert statuses(answers) == [201] * AT_ONCE
    assert {a.json()["parent_checkpoint_id"] for a in answers} == {first}
    assert {a.json()["messages"][0]["position"] for a in answers} == {5}
    siblings = [a.json()["checkpoint_id"] for a in answers]
    assert len(set(siblings)) == AT_ONCE
    assert (thread["turns"], thread["messages"]) == (2, 8)
    assert turns_of(await stored(callers[1], thread_id)) == [100, siblings.index(thread["head"])]
    for number, sibling in enumerate(siblings):
        as_of = {"thread_id": thread_id, "checkpoint_id": sibling, "marker": "off"}
        loaded = (await callers[number % 2].post("/v1/context", json=as_of)).json()
        assert turns_of([m["content"] for m in loaded["messages"]]) == [100, number]


async def test_appends_and_branches_race(
    callers: tuple[httpx.AsyncClient, ...], thread_id: str
) -> None:
    """Saves without an anchor that race with branches follow a turn that stands in the thread."""
    first = (await save(callers[0], thread_id, numbered(100))).json()["checkpoint_id"]
    branch = {"parent": first, "on_conflict": "branch"}
    bodies = [
        {"messages": numbered(number), **(branch if number % 4 == 0 else {})}
        for number in range(AT_ONCE)
    ]
    answers = await save_each(callers, thread_id, bodies)
    contents = await stored(callers[1], thread_id)
    thread = (await callers[0].get(path_of(thread_id))).json()

    assert statuses(answers) == [201] * AT_ONCE
    turns = {a.json()["checkpoint_id"]: a.json()["parent_checkpoint_id"] for a in answers}
    assert len(turns) == AT_ONCE
    assert set(turns.values()) <= {first, *turns}
    numbers = turns_of(contents)
    assert (numbers[0], numbers[1] % 4) == (100, 0)
    assert (thread["turns"], thread["messages"]) == (len(numbers), len(contents))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_no_turn_is_lost_with_its_process(
    callers: tuple[httpx.AsyncClient, ...],
    thread_id: str,
    start_service: StartService,
    number: signal.Signals,
) -> None:
    """A process ends in the middle of a burst; once all is retried, each turn is there once.

    What it had acknowledged keeps its ids.
    Source: near langchain-ai/langgraph#8039 (case con-shutdown-drains).
    """
    acknowledged: dict[int, str] = {}
    enough = asyncio.Event()

    async def send(client: httpx.AsyncClient, turn: int) -> None:
        answer = await save(client, thread_id, numbered(turn), key=f"turn-{turn}")
        assert answer.status_code == 201
        acknowledged[turn] = answer.json()["checkpoint_id"]
        if len(acknowledged) >= AT_ONCE:
            enough.set()

    with start_service() as doomed:
        async with client_of(doomed.url) as client:
            calls = [send((client, callers[0])[turn % 2], turn) for turn in range(BURST)]
            burst = asyncio.gather(*calls, return_exceptions=True)
            await enough.wait()
            doomed.process.send_signal(number)
            await asyncio.to_thread(doomed.process.wait, STOP_SECONDS)
            ended = await burst
    bodies = [{"messages": numbered(turn), "key": f"turn-{turn}"} for turn in range(BURST)]
    retried = await save_each(callers[1:], thread_id, bodies)

    assert any(ended)
    assert {type(error) for error in ended if error} <= CONNECTION_LOST
    assert {answer.status_code for answer in retried} <= {200, 201}
    now = {turn: answer.json()["checkpoint_id"] for turn, answer in enumerate(retried)}
    assert acknowledged.items() <= now.items()
    assert sorted(turns_of(await stored(callers[1], thread_id))) == list(range(BURST))
