"""Calls of the checkpoint routes, as a checkpointer makes them."""

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import httpx

Sent = dict[str, Any]
ROOT = "/v1/checkpoints"


def config(thread_id: str = "t1", checkpoint_id: str | None = None, ns: str | None = "") -> Sent:
    """A LangGraph config."""
    named = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": {name: value for name, value in named.items() if value is not None}}


def typed(value: object) -> Sent:
    """A value as this test's serializer writes it."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    kind = "bytes" if isinstance(value, bytes) else "json"
    return {"type": kind, "data": b64encode(data).decode()}


def untyped(sent: Mapping[str, str]) -> object:
    """The value of typed bytes."""
    data = b64decode(sent["data"])
    return data if sent["type"] == "bytes" else json.loads(data)


def put_body(
    checkpoint_id: str, parent: str | None = None, thread: str = "t1", **given: Any
) -> Sent:
    """A put. values: by channel, those that are no scalars as blobs; versions: 1 each if absent."""
    values = given.pop("values", {})
    versions = given.pop("versions", dict.fromkeys(values, 1))
    inline = {name: value for name, value in values.items() if is_scalar(value)}
    blobs = [
        {"channel": name, "version": versions[name], **typed(value)}
        for name, value in values.items()
        if name not in inline
    ]
    body = {"v": 4, "id": checkpoint_id, "ts": "2030-01-02T03:04:05+00:00", "versions_seen": {}}
    return {
        "config": config(thread, parent, given.pop("ns", "")),
        "checkpoint": {**body, "channel_values": inline, "channel_versions": versions},
        "blobs": blobs,
        "metadata": {},
        "new_versions": {name: versions[name] for name in values},
        **given,
    }


def is_scalar(value: object) -> bool:
    """Whether LangGraph keeps the value in the checkpoint itself."""
    return value is None or isinstance(value, str | int | float)


def values_in(graph: Mapping[str, Any]) -> Sent:
    """The channel values of a tuple."""
    blobs = {blob["channel"]: untyped(blob) for blob in graph["blobs"]}
    return {**graph["checkpoint"]["channel_values"], **blobs}


def pending_in(graph: Mapping[str, Any]) -> list[tuple[str, str, object]]:
    """The pending writes of a tuple, as LangGraph has them."""
    return [(w["task_id"], w["channel"], untyped(w)) for w in graph["pending_writes"]]


def writes_body(
    checkpoint_id: str | None,
    writes: Sequence[tuple[str, object]],
    thread: str = "t1",
    **given: Any,
) -> Sent:
    """A put of writes."""
    return {
        "config": config(thread, checkpoint_id, given.pop("ns", "")),
        "task_id": "task1",
        "writes": [{"channel": channel, **typed(value)} for channel, value in writes],
        **given,
    }


async def call(client: httpx.AsyncClient, route: str, body: object) -> httpx.Response:
    """Post to a checkpoint route."""
    return await client.post(f"{ROOT}/{route}", json=body)


async def put(client: httpx.AsyncClient, *names: str | None, **given: Any) -> httpx.Response:
    """Put a checkpoint (id, parent); it must be taken."""
    response = await call(client, "put", put_body(*names, **given))  # type: ignore[arg-type]
    assert response.status_code == 200, response.text
    return response


async def get(
    client: httpx.AsyncClient, checkpoint_id: str | None = None, thread: str = "t1", ns: str = ""
) -> Sent:
    """Read a checkpoint that must be there."""
    response = await call(client, "get-tuple", {"config": config(thread, checkpoint_id, ns)})
    assert response.status_code == 200, response.text
    graph: Sent = response.json()
    return graph


async def chain(
    client: httpx.AsyncClient, start: str, thread: str = "t1"
) -> tuple[list[str], bool]:
    """Follow parents from a checkpoint: the ids, and whether the chain ended at a root."""
    ids: list[str] = []
    target: Any = config(thread, start)
    while target is not None:
        response = await call(client, "get-tuple", {"config": target})
        if response.status_code != 200 or response.json()["checkpoint"]["id"] in ids:
            return ids, False
        ids.append(response.json()["checkpoint"]["id"])
        target = response.json()["parent_config"]
    return ids, True


def blob_path(thread: str, channel: str, version: str) -> str:
    """The path of one value: each name is one escaped segment."""
    return "/".join(
        [f"{ROOT}/blobs", *(quote(part, safe="") for part in (thread, channel, version))]
    )
