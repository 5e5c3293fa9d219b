"""A tool loop over HTTP that survives a restart at every point, and what becomes of late calls."""

import itertools
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
import pytest

from app.api.writes_answers import StagedOut
from app.api.writes_schemas import WritesIn, parse_writes, unknown_in_writes
from app.core.model import ThreadKey
from tests.integration.callers import bearer, key_entry, path_of, turn
from tests.integration.conftest import MakeClient, StartService
from tests.integration.test_openapi import assert_documented, examples_of

pytestmark = pytest.mark.anyio

ASK = {"role": "user", "content": "What is the weather in Oslo and in Rome?"}
CALLS = {
    "role": "assistant",
    "content": None,
    "tool_calls": [
        {"id": f"call_{n}", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        for n in (2, 1)
    ],
}
RESULTS = [{"role": "tool", "tool_call_id": f"call_{n}", "content": f"{n} degrees"} for n in (2, 1)]
ANSWER = {"role": "assistant", "content": "Cold in Oslo, warm in Rome."}
TASKS: list[tuple[str, list[Mapping[str, object]]]] = [
    ("question", [ASK]),
    ("call_2", [CALLS, RESULTS[0]]),
    ("call_1", [RESULTS[1]]),
]


class Caller:
    """A client of a service that is started anew for every call."""

    def __init__(self, make_client: MakeClient, tenant: str) -> None:
        self._make_client = make_client
        self._entry = key_entry(tenant, "k")

    async def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        async with self._make_client(api_keys=self._entry) as client:
            return await client.request(method, path, headers=bearer("k"), **given)

    async def load(self, **body: object) -> dict[str, Any]:
        response = await self.call("POST", "/v1/context", json={"thread_id": "t", **body})
        assert response.status_code == 200
        loaded: dict[str, Any] = response.json()
        return loaded

    async def stage(self, task: str, *values: object, **members: object) -> httpx.Response:
        writes = [{"channel": "messages", "value": value} for value in values]
        path = path_of("t", f"/writes/{task}")
        return await self.call("PUT", path, json={"writes": writes, **members})

    async def save(self, *messages: object, **members: object) -> httpx.Response:
        return await self.call(
            "POST", path_of("t", "/turns"), json={"messages": messages, **members}
        )


@pytest.fixture
def caller(make_client: MakeClient, tenant: str) -> Caller:
    return Caller(make_client, tenant)


@pytest.fixture
async def mine(make_client: MakeClient, tenant: str) -> AsyncIterator[httpx.AsyncClient]:
    """The service for a tenant without threads, with a second key that may only read."""
    entries = [key_entry(tenant, "k"), key_entry(tenant, "reads", "read")]
    async with make_client(api_keys=",".join(entries)) as client:
        client.headers.update(bearer("k"))
        yield client


def pending_of(loaded: dict[str, Any], key: str | None) -> list[Any]:
    """The values that are pending for a key, in the order of replay."""
    found = [group for group in loaded["pending"] if group["key"] == key]
    return [write["value"] for group in found for write in group["writes"]]


def stale_of(loaded: dict[str, Any]) -> list[tuple[str | None, str | None, list[str]]]:
    """What a load names as left behind."""
    warnings = [w for w in loaded["warnings"] if w["code"] == "stale-writes"]
    return [(w["parent"], w["key"], w["tasks"]) for w in warnings]


@pytest.mark.parametrize("key", ["turn-1", None], ids=["keyed", "unkeyed"])
@pytest.mark.parametrize("new", [True, False], ids=["new thread", "old thread"])
async def test_a_tool_loop_survives_every_restart(
    caller: Caller, key: str | None, new: bool
) -> None:
    """With a restart between any two calls every load shows what was done, in order; a save folds.

    A retry of each call on the way changes nothing.
    """
    if not new:
        assert (await caller.save(*turn("hello")["messages"], key="k0")).status_code == 201  # type: ignore[misc]
    head = (await caller.load())["head"]
    keyed = {"key": key} if key else {}
    for number, (task, values) in enumerate(TASKS):
        for created in (True, False):
            staged = (await caller.stage(task, *values, parent=head, **keyed)).json()
            assert (staged["created"], staged["folded"], staged["parent"]) == (created, False, head)
        loaded = await caller.load()
        done = [value for _, values in TASKS[: number + 1] for value in values]
        assert pending_of(loaded, key) == done
        assert (loaded["head"], stale_of(loaded)) == (head, [])

    replayed = pending_of(await caller.load(), key)
    saved = await caller.save(*replayed, ANSWER, parent=head, **keyed)
    loaded = await caller.load(marker="off")
    again = await caller.save(*replayed, ANSWER, parent=head, **keyed)

    assert (saved.status_code, again.status_code) == (201, 200)
    assert loaded["pending"] == []
    assert loaded["messages"][-5:] == [ASK, CALLS, *RESULTS, ANSWER]
    assert loaded["head"] == saved.json()["checkpoint_id"]
    assert (await caller.load(marker="off")) == loaded


async def test_a_killed_process_loses_nothing(start_service: StartService, tenant: str) -> None:
    """What was answered with 200 is there after the process was killed."""
    keys = key_entry(tenant, "k")
    members = {"parent": None, "key": "turn-1"}
    for number in range(2):
        with start_service(THREADKEEP_API_KEYS=keys) as service:
            task, values = TASKS[number]
            writes = [{"channel": "messages", "value": value} for value in values]
            async with httpx.AsyncClient(base_url=service.url, headers=bearer("k")) as client:
                loaded = (await client.get(path_of("t", "/context"))).json()
                assert len(pending_of(loaded, "turn-1")) == number
                path = path_of("t", f"/writes/{task}")
                staged = await client.put(path, json={"writes": writes, **members})
                assert staged.json()["created"] is True
            service.kill()


async def test_a_lost_race_keeps_the_turn_together(caller: Caller) -> None:
    """When another turn wins, loads name what was left behind; its own save folds it, rebased."""
    first = (await caller.save(ASK, ANSWER, key="k0")).json()["checkpoint_id"]
    await caller.stage("question", ASK, parent=first, key="mine")
    await caller.stage("question", ASK, parent=first)
    winner = (await caller.save(ASK, ANSWER, parent=first, key="winner")).json()["checkpoint_id"]

    await caller.stage("call_2", *TASKS[1][1], key="mine")
    loaded = await caller.load()
    there = await caller.load(checkpoint_id=first)

    assert (loaded["head"], loaded["pending"]) == (winner, [])
    assert stale_of(loaded) == [
        (first, None, ["question"]),
        (first, "mine", ["question", "call_2"]),
    ]
    assert pending_of(there, "mine") == [ASK, CALLS, RESULTS[0]]
    assert stale_of(there) == []
    saved = await caller.save(*pending_of(there, "mine"), parent=first, key="mine")
    assert saved.json()["rebased"] is True
    assert stale_of(await caller.load()) == [(first, None, ["question"])]


async def test_stale_writes_are_named_beside_a_conversation(caller: Caller) -> None:
    """A load of the caller's own messages names pending and stale work of its thread too."""
    await caller.stage("old", 1, parent=None, key="k1")
    await caller.save(ASK, ANSWER, key="k0")
    await caller.stage("new", 2, key="k2")

    for body in ({"conversation": [ASK]}, {"history": "User: hi"}):
        loaded = await caller.load(**body)
        assert stale_of(loaded) == [(None, "k1", ["old"])]
        assert pending_of(loaded, "k2") == [2]


async def test_a_stage_after_its_save_leaves_nothing(caller: Caller) -> None:
    """A late retry of a stage is told that the turn is saved, and under which id."""
    await caller.stage("question", ASK, parent=None, key="turn-1")
    saved = (await caller.save(ASK, ANSWER, parent=None, key="turn-1")).json()["checkpoint_id"]

    for members in ({"parent": None}, {}, {"parent": saved}):
        late = await caller.stage("question", ASK, key="turn-1", **members)
        assert late.status_code == 200
        assert_documented(StagedOut, late.json())
        assert late.json() == {
            "thread_id": "t",
            "task_id": "question",
            "parent": members.get("parent"),
            "key": "turn-1",
            "staged": 0,
            "created": False,
            "folded": True,
            "checkpoint_id": saved,
            "warnings": [],
        }
    loaded = await caller.load()
    assert (loaded["pending"], stale_of(loaded)) == ([], [])


async def test_a_task_has_one_set_of_values(mine: httpx.AsyncClient) -> None:
    """Other values for a staged task are 409, which says which task; what stands stays."""
    path = path_of("t", "/writes/a%2Fb")
    first = await mine.put(path, json={"writes": [{"channel": "c", "value": {"x": 1, "y": 2}}]})
    same = await mine.put(path, json={"writes": [{"value": {"y": 2, "x": 1}, "channel": "c"}]})
    other = await mine.put(path, json={"writes": [{"channel": "c", "value": "secret"}]})

    assert_documented(StagedOut, first.json())
    assert (first.json()["created"], first.json()["staged"]) == (True, 1)
    assert (same.status_code, same.json()["created"]) == (200, False)
    assert (other.status_code, other.json()["type"]) == (
        409,
        "urn:threadkeep:problem:write-differs",
    )
    assert other.json()["task_id"] == "a/b"
    assert "secret" not in other.text
    loaded = (await mine.get(path_of("t", "/context"))).json()
    assert loaded["pending"] == [
        {
            "key": None,
            "writes": [{"task_id": "a/b", "channel": "c", "value": {"x": 1, "y": 2}}],
        }
    ]


async def test_discard_over_http(mine: httpx.AsyncClient) -> None:
    """DELETE discards one key's writes or all, and is 204 whether there were any or not."""
    for key, task in itertools.product(("k1", "schön"), ("a", "b")):
        body = {"key": key, "writes": [{"channel": "c", "value": 1}]}
        await mine.put(path_of("t", f"/writes/{task}"), json=body)

    for _ in range(2):
        gone = await mine.delete(path_of("t", "/writes"), params={"key": "schön"})
        assert (gone.status_code, gone.content) == (204, b"")
    loaded = (await mine.get(path_of("t", "/context"))).json()
    assert [group["key"] for group in loaded["pending"]] == ["k1"]
    assert (await mine.delete(path_of("t", "/writes"))).status_code == 204
    assert (await mine.get(path_of("t", "/context"))).json()["pending"] == []
    assert (await mine.delete(path_of("nobody", "/writes"))).status_code == 404


async def test_who_may_stage(mine: httpx.AsyncClient) -> None:
    """Staging needs the scope to write, and another owner's thread is unknown."""
    body = {"writes": [{"channel": "c", "value": 1}]}
    path = path_of("t", "/writes/a")
    assert (await mine.put(path, json=body, headers=bearer("k", "ann"))).status_code == 200

    for headers, status in ((bearer("reads"), 403), (bearer("no"), 401), (bearer("k", "bob"), 404)):
        assert (await mine.put(path, json=body, headers=headers)).status_code == status
        gone = await mine.delete(path_of("t", "/writes"), headers=headers)
        assert gone.status_code == status
    loaded = await mine.get(path_of("t", "/context"), headers=bearer("k", "ann"))
    assert len(loaded.json()["pending"]) == 1


def test_examples() -> None:
    """The examples of the contract are taken without a warning, and given as documented."""
    for example in examples_of(WritesIn):
        assert parse_writes(ThreadKey("t", "t1"), "call_1", example, None).parent_known
        assert unknown_in_writes(example) == ()
    for example in examples_of(StagedOut):
        assert_documented(StagedOut, example)
