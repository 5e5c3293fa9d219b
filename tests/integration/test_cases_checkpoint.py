"""The cases of LangGraph's checkpoints, played over HTTP as a checkpointer would.

A case's steps become calls; each answer is kept under its step. What a case expects in plain words
is checked by a function of its name. Where it leaves a choice, the test says which was made.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import httpx
import pytest

from app.adapters.sql.engine import Database
from app.core.model import ThreadKey
from tests.graph_factories import graph_counts
from tests.integration.callers import bearer, key_entry
from tests.integration.cases import CASES, Sent, source_of
from tests.integration.conftest import MakeClient
from tests.integration.graph_calls import (
    ROOT,
    call,
    chain,
    config,
    get,
    pending_in,
    put_body,
    typed,
    values_in,
    writes_body,
)

pytestmark = pytest.mark.anyio


@dataclass
class Run:
    """One case under way. answers: by step, in order; chains: ids and whether they are whole."""

    client: httpx.AsyncClient
    database: Database
    tenant: str
    answers: dict[str, list[httpx.Response]] = field(default_factory=dict)
    chains: list[tuple[list[str], bool]] = field(default_factory=list)

    async def play(self, steps: list[Sent]) -> None:
        """Do the steps in order."""
        for step in steps:
            for name, given in step.items():
                await STEPS[name](self, given)

    async def keep(self, step: str, answer: Awaitable[httpx.Response]) -> None:
        response = await answer
        assert response.status_code < 500, response.text
        self.answers.setdefault(step, []).append(response)

    async def put(self, given: Mapping[str, Any]) -> None:
        """A put; values are blobs but for scalars, as in LangGraph's layout."""
        body = put_body(
            given["id"],
            given.get("parent"),
            thread=given["thread"],
            ns=given.get("ns", ""),
            values=given.get("channel_values", {}),
            versions=given.get("channel_versions", {}),
            metadata=given.get("metadata", {}),
        )
        latest = {"parent": "latest"} if given.get("parent_is_latest") else {}
        await self.keep("put", call(self.client, "put", {**body, **latest}))

    async def late(self, given: Mapping[str, Any]) -> None:
        """A put that says on what it must stand, and the same without."""
        late = given["cp_put"]
        body = put_body(late["id"], late["parent"], thread=late["thread"], on_conflict="reject")
        await self.keep("late", call(self.client, "put", body))

    async def get(self, given: Mapping[str, Any]) -> None:
        target = config(given["thread"], given["id"], given["ns"])
        await self.keep("get", call(self.client, "get-tuple", {"config": target}))

    async def page(self, given: Mapping[str, Any]) -> None:
        rest = {name: value for name, value in given.items() if name != "thread"}
        body = {"config": config(given["thread"], ns=None), **rest}
        await self.keep("list", call(self.client, "list", body))

    async def writes(self, given: Mapping[str, Any]) -> None:
        pairs = [(channel, value) for channel, value in given["writes"]]
        path = {"task_path": given["path"]} if "path" in given else {}
        body = writes_body(given["checkpoint"], pairs, thread=given["thread"], **path)
        await self.keep(
            "writes", call(self.client, "put-writes", {**body, "task_id": given["task"]})
        )

    async def copy(self, given: Mapping[str, Any]) -> None:
        body = {"source": given["from"], "target": given["to"]}
        await self.keep("copy", call(self.client, "copy-thread", body))

    async def delete(self, thread: str) -> None:
        await self.keep("delete", self.client.delete(f"{ROOT}/threads/{thread}"))

    async def walk(self, given: Mapping[str, Any]) -> None:
        async with asyncio.timeout(1):
            self.chains.append(await chain(self.client, given["from"], given["thread"]))

    async def parallel(self, given: list[Sent]) -> None:
        await asyncio.gather(*(self.put(step["cp_put"]) for step in given))

    async def count(self, _: str) -> None:
        counts = await graph_counts(self.database, ThreadKey(self.tenant, "t1"))
        assert counts == (0, 0, 0, 0)

    async def nothing(self, _: object) -> None:
        """A step that is left to the client."""

    def all_taken(self) -> None:
        for responses in self.answers.values():
            assert all(response.status_code < 300 for response in responses)

    def tuples(self) -> list[Sent]:
        """What the gets gave."""
        return [response.json() for response in self.answers["get"]]

    def lists(self) -> list[list[str]]:
        """The ids that the lists gave."""
        return [
            [item["checkpoint"]["id"] for item in response.json()["items"]]
            for response in self.answers["list"]
        ]


STEPS: Mapping[str, Callable[[Run, Any], Awaitable[None]]] = {
    "cp_put": Run.put,
    "cp_get": Run.get,
    "cp_list": Run.page,
    "cp_writes": Run.writes,
    "cp_copy": Run.copy,
    "cp_chain": Run.walk,
    "cp_replay": Run.nothing,
    "delete_thread": Run.delete,
    "count_rows": Run.count,
    "parallel": Run.parallel,
    "late": Run.late,
}
Check: TypeAlias = Callable[[Run], Awaitable[None]]


async def concurrent_writers_fork(run: Run) -> None:
    """Both are stored, the greatest id is the latest; who must follow c1 is refused by then."""
    items = run.answers["list"][0].json()["items"]
    parents = {item["checkpoint"]["id"]: item["parent_config"] for item in items}
    loser = await call(run.client, "put", put_body("c2c", "c1", on_conflict="reject"))

    run.all_taken()
    assert parents == {"c2a": config("t1", "c1"), "c2b": config("t1", "c1"), "c1": None}
    assert run.tuples()[0]["checkpoint"]["id"] == "c2b"
    assert (loser.status_code, loser.json()["head"]) == (409, "c2b")
    assert (await call(run.client, "get-tuple", {"config": config("t1", "c2c")})).status_code == 404


async def copy_thread(run: Run) -> None:
    """The copy is whole and outlives its source; a copy of an unknown thread is 404."""
    copied = run.tuples()[0]

    assert copied["config"] == config("t9", "c2")
    assert values_in(copied) == {"a": 2}
    assert pending_in(copied) == [("task1", "ch", "v")]
    assert run.chains == [(["c2", "c1"], True)]
    assert [response.status_code for response in run.answers["copy"]] == [204, 404]


async def delete_thread_complete(run: Run) -> None:
    """Nothing of the thread is left (counted in the tables), another's stays, again is 204."""
    assert [response.status_code for response in run.answers["delete"]] == [204, 204]
    assert values_in(run.tuples()[0]) == {"a": 2}


async def falsy_values_roundtrip(run: Run) -> None:
    """All six come back, each of its own type."""
    found = values_in(run.tuples()[0])
    sent: Sent = {"n": None, "z": 0, "s": "", "l": [], "d": {}, "f": False}

    assert found == sent
    assert {name: type(value) for name, value in found.items()} == {
        name: type(value) for name, value in sent.items()
    }


async def fork_same_version_blob(run: Run) -> None:
    """Both forks are stored, each with the value that it was put with."""
    run.all_taken()
    assert [values_in(found)["messages"] for found in run.tuples()] == [
        ["base", "left"],
        ["base", "right"],
    ]


async def late_stale_write(run: Run) -> None:
    """Refused when it says what it must follow; else the greatest id stays the latest."""
    late = run.answers["late"][0]
    assert (late.status_code, late.json()["head"]) == (409, "c2")
    assert run.tuples()[0]["checkpoint"]["id"] == "c2"

    await call(run.client, "put", put_body("c1b", "c1"))
    assert (await get(run.client))["checkpoint"]["id"] == "c2"


async def list_includes_writes(run: Run) -> None:
    """The listed checkpoint is the one that a get gives, pending writes and all."""
    assert run.answers["list"][0].json()["items"] == run.tuples()
    assert pending_in(run.tuples()[0]) == [("task1", "ch", "v")]


async def list_limit_edges(run: Run) -> None:
    """No limit of 0 or below, no unknown `before`; an unknown thread is an empty list."""
    statuses = [response.status_code for response in run.answers["list"]]

    assert statuses == [422, 422, 404, 200, 200]
    del run.answers["list"][:3]
    assert run.lists() == [["c2"], []]


async def metadata_filter_types(run: Run) -> None:
    """Every key must match, in its own type."""
    assert run.lists() == [["c1"], [], [], ["c1"]]


async def missing_ancestor(run: Run) -> None:
    """The chain ends where the parent is gone; that it is named tells that it was not the root."""
    assert run.chains == [(["c3"], False)]
    assert run.tuples()[0]["parent_config"] == config("t1", "gone")


async def parent_chain(run: Run) -> None:
    """On top of the latest by `parent: latest`; without any parent a checkpoint is a root."""
    assert run.chains == [(["c3", "c2", "c1"], True)]

    await call(run.client, "put", put_body("c4"))
    assert await chain(run.client, "c4") == (["c4"], True)


async def parent_cycle(run: Run) -> None:
    """A checkpoint is never its own parent (422); a longer circle is stored, and each walk ends."""
    assert [response.status_code for response in run.answers["put"]] == [200, 200, 422]
    assert run.chains == [(["c2", "c1"], False), ([], False)]
    async with asyncio.timeout(1):
        body = {"config": config("t1", "c2"), "channels": ["log"]}
        assert (await call(run.client, "delta-history", body)).status_code == 200
        pruned = await call(run.client, "prune", {"thread_ids": ["t1"]})
        assert pruned.status_code == 204


async def replay_drops_stale_resume(run: Run) -> None:
    """A get shows all that was stored; the names of the channels let the runtime drop a resume."""
    found = pending_in(await get(run.client, "c1"))

    assert found == [("task1", "__resume__", "yes"), ("task1", "__interrupt__", {"q": "sure?"})]


async def writes_before_put(run: Run) -> None:
    """The writes are kept, and show up with their checkpoint."""
    run.all_taken()
    assert pending_in(run.tuples()[0]) == [("task1", "ch", "v")]


async def writes_empty(run: Run) -> None:
    """A task without writes is taken, and leaves none."""
    run.all_taken()
    assert pending_in(run.tuples()[0]) == []


async def writes_order(run: Run) -> None:
    """By task path, task id and index, on every read."""
    order = [value for _, _, value in pending_in(run.tuples()[0])]

    assert order == ["first", "second", "third"]
    for _ in range(3):
        assert await get(run.client, "c1") == run.tuples()[0]


async def no_object_revival(run: Run) -> None:
    """What looks like an object is plain data, as blob and inline; a pickle is refused."""
    sent = CASES["sec-no-object-revival"]["input"]["steps"][0]["cp_put"]["channel_values"]
    inline = put_body("c2", "c1", versions=dict.fromkeys(sent, 2))
    inline["checkpoint"]["channel_values"] = sent
    await call(run.client, "put", inline)
    pickled = put_body("c3", values={"x": [1]})
    pickled["blobs"][0]["type"] = "pickle"
    refused = await call(run.client, "put", pickled)

    assert values_in(run.tuples()[0]) == sent
    assert values_in(await get(run.client, "c2")) == sent
    assert (refused.status_code, refused.json()["errors"][0]["pointer"]) == (422, "#/blobs/0/type")


CHECKS: Mapping[str, Check] = {
    "cp-concurrent-writers-fork": concurrent_writers_fork,
    "cp-copy-thread": copy_thread,
    "cp-delete-thread-complete": delete_thread_complete,
    "cp-falsy-values-roundtrip": falsy_values_roundtrip,
    "cp-fork-same-version-blob": fork_same_version_blob,
    "cp-late-stale-write": late_stale_write,
    "cp-list-includes-writes": list_includes_writes,
    "cp-list-limit-edges": list_limit_edges,
    "cp-metadata-filter-types": metadata_filter_types,
    "cp-missing-ancestor": missing_ancestor,
    "cp-parent-chain": parent_chain,
    "cp-parent-cycle": parent_cycle,
    "cp-replay-drops-stale-resume": replay_drops_stale_resume,
    "cp-writes-before-put": writes_before_put,
    "cp-writes-empty": writes_empty,
    "cp-writes-order": writes_order,
    "sec-no-object-revival": no_object_revival,
}
BY_HAND = ["cp-large-blob"]


@pytest.mark.parametrize("name", CHECKS, ids=source_of)
async def test_case(name: str, make_client: MakeClient, database: Database, tenant: str) -> None:
    """A case's steps are answered without a 500, and what it expects holds."""
    async with make_client(api_keys=key_entry(tenant, "key")) as client:
        client.headers.update(bearer("key"))
        run = Run(client, database, tenant)
        await run.play(CASES[name]["input"]["steps"])
        await CHECKS[name](run)


async def test_large_blob(make_client: MakeClient, database: Database, tenant: str) -> None:
    """20 MiB in one channel come back byte for byte; a body over the limit is 413, and no row.

    Source: near lobehub/lobehub#16112 (case cp-large-blob).
    """
    generated = CASES["cp-large-blob"]["input"]["steps"][0]["cp_put"]["channel_values_gen"]
    size = int(re.findall(r"\d+", generated)[0]) * 1024 * 1024
    data = os.urandom(size)
    async with make_client(api_keys=key_entry(tenant, "key")) as client:
        client.headers.update(bearer("key"))
        body = put_body("c1", versions={"x": 1})
        stored = await call(client, "put", {**body, "blobs": [blob_of("x", data)]})
        found = await get(client, "c1")
        listed = await call(client, "list", {"config": config()})
        larger = put_body("c1", versions={"x": 1}, thread="t2")
        refused = await call(client, "put", {**larger, "blobs": [blob_of("x", data + data)]})

    assert stored.status_code == 200
    assert values_in(found) == {"x": data}
    assert listed.json()["items"] == [found]
    assert refused.status_code == 413
    assert await graph_counts(database, ThreadKey(tenant, "t2")) == (0, 0, 0, 0)


def blob_of(channel: str, data: bytes) -> Sent:
    return {"channel": channel, "version": 1, **typed(data)}
