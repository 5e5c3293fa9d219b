"""Regenerate, edit, go back, fork and delete over HTTP, the way a chat page does."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import redis.asyncio as redis

from tests.integration.callers import bearer, key_entry, path_of
from tests.integration.conftest import MakeClient

pytestmark = pytest.mark.anyio

QUESTION = {"role": "user", "content": "How long is the Nile?"}
LARGE = "long " * 3_000


def said(text: str) -> dict[str, object]:
    return {"role": "assistant", "content": text}


class Caller:
    """One tenant's client, with a key that may do everything but see other owners' threads."""

    def __init__(self, client: httpx.AsyncClient, key: str = "k") -> None:
        self._client, self._headers = client, bearer(key)

    async def call(self, method: str, path: str, **given: Any) -> httpx.Response:
        return await self._client.request(method, path, headers=self._headers, **given)

    async def save(self, *messages: object, thread: str = "t", **members: object) -> str:
        body = {"messages": messages, **members}
        response = await self.call("POST", path_of(thread, "/turns"), json=body)
        assert response.status_code == 201, response.text
        return str(response.json()["checkpoint_id"])

    async def load(self, thread: str = "t", **members: object) -> list[object]:
        body = {"thread_id": thread, "marker": "off", **members}
        response = await self.call("POST", "/v1/context", json=body)
        assert response.status_code == 200, response.text
        return [message["content"] for message in response.json()["messages"]]

    async def tree(self, **query: object) -> list[dict[str, Any]]:
        response = await self.call("GET", path_of("t", "/checkpoints"), params=query)
        assert response.status_code == 200, response.text
        items: list[dict[str, Any]] = response.json()["items"]
        return items

    async def head(self, **body: object) -> httpx.Response:
        return await self.call("PUT", path_of("t", "/head"), json=body)


@pytest.fixture
async def caller(make_client: MakeClient, tenant: str) -> AsyncIterator[Caller]:
    entries = [key_entry(tenant, "k"), key_entry(f"{tenant}-b", "b")]
    async with make_client(api_keys=",".join(entries)) as client:
        yield Caller(client)


async def test_an_answer_is_made_anew(caller: Caller) -> None:
    """Both answers stay; the new one is what loads show, the old one can be chosen again."""
    asked = await caller.save(QUESTION, parent=None)
    first = await caller.save(said("6,650 km"), parent=asked)
    second = await caller.save(said("About 6,650 km"), parent=asked, on_conflict="branch")

    assert await caller.load() == [QUESTION["content"], "About 6,650 km"]
    listed = {item["checkpoint_id"]: item for item in await caller.tree()}
    assert {one: item["current"] for one, item in listed.items()} == {
        asked: True,
        first: False,
        second: True,
    }
    assert listed[first]["parent_checkpoint_id"] == listed[second]["parent_checkpoint_id"] == asked

    assert (await caller.head(checkpoint_id=first, expected=second)).json()["head"] == first
    assert await caller.load() == [QUESTION["content"], "6,650 km"]


async def test_a_question_is_edited(caller: Caller) -> None:
    """A sibling of the question begins another branch; a load as of the old one still works."""
    begun = await caller.save(QUESTION, said("6,650 km"), parent=None)
    old = await caller.save({"role": "user", "content": "And the Amazon?"}, parent=begun)
    await caller.save(
        {"role": "user", "content": "And the Congo?"}, parent=begun, on_conflict="branch"
    )

    assert (await caller.load())[-1] == "And the Congo?"
    assert (await caller.load(checkpoint_id=old))[-1] == "And the Amazon?"
    assert await caller.load(checkpoint_id=begun) == [QUESTION["content"], "6,650 km"]


async def test_the_head_is_compared_before_it_moves(caller: Caller) -> None:
    """Who saw another head is told the present one; null goes before the first turn."""
    first = await caller.save(QUESTION, parent=None)
    second = await caller.save(said("6,650 km"), parent=first)

    refused = await caller.head(checkpoint_id=None, expected=first)

    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:threadkeep:problem:parent-moved"
    assert refused.json()["head"] == second
    emptied = await caller.head(checkpoint_id=None, expected=second)
    assert (emptied.json()["head"], emptied.json()["messages"]) == (None, 0)
    assert await caller.load() == []
    assert len(await caller.tree()) == 2


async def test_one_turn_and_one_channel_alone(caller: Caller) -> None:
    """A large value is named by its turn and a stub, and read without anything else."""
    turn = await caller.save(QUESTION, said(LARGE), parent=None)

    found = (await caller.call("GET", path_of("t", f"/checkpoints/{turn}"))).json()
    (channel,) = found["channels"]
    value = await caller.call(
        "GET", path_of("t", f"/checkpoints/{turn}/channels/{channel['channel']}")
    )

    assert [message["content"] for message in found["messages"]] == [QUESTION["content"], LARGE]
    assert (found["step"], found["position"], found["current"]) == (0, 2, True)
    assert value.json()["value"] == LARGE
    assert value.json()["bytes"] == channel["bytes"] == len(LARGE) + 2


async def test_a_fork_outlives_its_source(caller: Caller) -> None:
    """The copy loads what the source did, says where it is from, and does not need it."""
    first = await caller.save(QUESTION, said(LARGE), parent=None)
    await caller.save({"role": "user", "content": "Later"}, parent=first)
    wanted = {"checkpoint_id": first, "thread_id": "copy"}

    made = await caller.call("POST", path_of("t", "/fork"), json=wanted)
    again = await caller.call("POST", path_of("t", "/fork"), json=wanted)
    await caller.call("DELETE", path_of("t"))

    assert (made.status_code, again.status_code) == (201, 200)
    assert made.json()["forked_from"] == {"thread_id": "t", "checkpoint_id": first}
    assert await caller.load("copy") == [QUESTION["content"], LARGE]
    assert await caller.save(said("on"), thread="copy", parent=first)
    assert await caller.load("t") == []


async def test_a_deleted_thread_stays_deleted(caller: Caller, redis_url: str, tenant: str) -> None:
    """A late save, stage, fork or head brings nothing back, and the cache holds nothing of it."""
    for number in range(50):
        question = {"role": "user", "content": f"Question {number}"}
        await caller.save(question, said(f"Answer {number}"), key=f"turn-{number}")
    assert (await caller.call("POST", path_of("t", "/summary"))).json()["covers"] > 0
    await caller.load()

    assert (await caller.call("DELETE", path_of("t"))).status_code == 204

    late = [
        await caller.call("POST", path_of("t", "/turns"), json={"messages": [QUESTION]}),
        await caller.call(
            "PUT",
            path_of("t", "/writes/task"),
            json={"parent": None, "writes": [{"channel": "c", "value": 1}]},
        ),
        await caller.head(checkpoint_id=None),
    ]
    assert [one.status_code for one in late] == [410, 410, 410]
    assert (await caller.call("GET", path_of("t"))).status_code == 404
    assert (await caller.call("GET", path_of("t", "/checkpoints"))).status_code == 404
    assert (await caller.call("DELETE", path_of("t"))).status_code == 204
    async with redis.Redis.from_url(redis_url) as valkey:
        assert [name async for name in valkey.scan_iter(f"threadkeep:summar*{tenant}*")] == []


async def test_a_deleted_id_is_used_again(caller: Caller) -> None:
    """With reuse the id begins anew at once."""
    await caller.save(QUESTION, key="k")

    assert (await caller.call("DELETE", path_of("t"), params={"reuse": "true"})).status_code == 204

    await caller.save(said("new"), key="k")
    assert await caller.load() == ["new"]


async def test_a_graphs_checkpoints_are_listed_beside(caller: Caller) -> None:
    """With `ns` the list shows what LangGraph put there, by its own step and source."""
    await caller.save(QUESTION, key="k")
    put = await caller.call(
        "POST",
        "/v1/checkpoints/put",
        json={
            "config": {"configurable": {"thread_id": "t", "checkpoint_ns": ""}},
            "checkpoint": {"id": "c1", "v": 4, "channel_values": {}, "channel_versions": {}},
            "metadata": {"step": -1, "source": "input"},
            "blobs": [],
            "new_versions": {},
        },
    )
    assert put.status_code == 200, put.text

    (graph,) = await caller.tree(ns="")
    (turn,) = await caller.tree()

    assert (graph["checkpoint_id"], graph["step"], graph["source"]) == ("c1", -1, "input")
    assert (graph["position"], graph["messages"], graph["tokens"]) == (None, None, None)
    assert (turn["step"], turn["source"], turn["ns"]) == (0, "turn", "~turns")


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "where"),
    [
        ("PUT", "/head", {}, 422, "#/checkpoint_id"),
        ("PUT", "/head", {"checkpoint_id": 1}, 422, "#/checkpoint_id"),
        ("PUT", "/head", {"checkpoint_id": "a\0"}, 422, "#/checkpoint_id"),
        ("PUT", "/head", {"checkpoint_id": "nope"}, 404, None),
        ("PUT", "/head", {"checkpoint_id": None, "expected": []}, 422, "#/expected"),
        ("POST", "/fork", {}, 422, "#/thread_id"),
        ("POST", "/fork", {"thread_id": ""}, 422, "#/thread_id"),
        ("POST", "/fork", {"thread_id": "x", "checkpoint_id": "nope"}, 404, None),
        ("POST", "/fork", {"thread_id": "t"}, 409, None),
        ("GET", "/checkpoints?limit=0", None, 422, "#/limit"),
        ("GET", "/checkpoints?limit=101", None, 422, "#/limit"),
        ("GET", "/checkpoints?cursor=nope", None, 422, "#/cursor"),
        ("GET", "/checkpoints?ns=~secret", None, 422, "#/ns"),
        ("GET", "/checkpoints/nope", None, 404, None),
        ("GET", "/checkpoints/%00", None, 422, "#/checkpoint_id"),
        ("GET", "/checkpoints/nope/channels/c", None, 404, None),
        ("GET", "/checkpoints/x/channels/%ff", None, 422, "#/channel"),
        ("DELETE", "?reuse=maybe", None, 422, "#/reuse"),
    ],
)
async def test_what_is_wrong_is_named(
    caller: Caller, method: str, path: str, body: object, status: int, where: str | None
) -> None:
    """Bad input is a problem that names its place, and changes nothing."""
    await caller.save(QUESTION, key="k")

    answer = await caller.call(method, path_of("t") + path, json=body)

    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    if where is not None:
        assert where in [flaw["pointer"] for flaw in answer.json()["errors"]]
    assert await caller.load() == [QUESTION["content"]]


async def test_another_tenants_thread_looks_like_none(caller: Caller) -> None:
    """Every route of the tree answers another tenant as for an unknown thread."""
    turn = await caller.save(QUESTION, said(LARGE), parent=None)
    stranger = Caller(caller._client, "b")

    answers = [
        await stranger.call("GET", path_of("t", "/checkpoints")),
        await stranger.call("GET", path_of("t", f"/checkpoints/{turn}")),
        await stranger.call("GET", path_of("t", f"/checkpoints/{turn}/channels/c")),
        await stranger.head(checkpoint_id=None),
        await stranger.call("POST", path_of("t", "/fork"), json={"thread_id": "x"}),
        await stranger.call("DELETE", path_of("t")),
    ]

    assert [answer.status_code for answer in answers] == [404] * 6
    assert {answer.json()["type"] for answer in answers} == {
        "urn:threadkeep:problem:thread-not-found"
    }
    assert await caller.load() == [QUESTION["content"], LARGE]
