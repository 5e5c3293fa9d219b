"""Values, writes and lists through a running service: what comes back is what was put."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from tests.service import Service
from threadkeep_client import AsyncThreadkeep, Threadkeep
from threadkeep_client.errors import Invalid, Unauthenticated
from threadkeep_client.langgraph import PickledValue, ThreadkeepSaver

pytestmark = pytest.mark.anyio

SERDE = JsonPlusSerializer(allowed_msgpack_modules=True)
THREAD: RunnableConfig = {"configurable": {"thread_id": "thread/1 é", "checkpoint_ns": ""}}
MIB = 1024 * 1024


class Profile(BaseModel):
    name: str
    born: datetime


@dataclass
class Point:
    x: int
    y: int


class Reversed(CipherProtocol):
    """Not a cipher, but as opaque to the service as one."""

    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "aes", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        assert ciphername == "aes"
        return ciphertext[::-1]


VALUES = {
    "none": None,
    "false": False,
    "true": True,
    "zero": 0,
    "one": 1.0,
    "minus": -0.0,
    "long": 2**62 + 1,
    "empty": "",
    "text": "é\U0001f600\n",
    "nul": "a\0b",
    "huge": "y" * 20_000,
    "list": [],
    "dict": {},
    "nested": [[1, {"a": [None]}], []],
    "bytes": b"\0\xff",
    "bytearray": bytearray(b"x"),
    "keys": {1: "int", "1": "str"},
    "nan": float("inf"),
    "set": {1, 2},
    "uuid": UUID(int=5),
    "time": datetime(2026, 1, 2, tzinfo=UTC),
    "model": Profile(name="Ada", born=datetime(1815, 12, 10, tzinfo=UTC)),
    "dataclass": Point(1, 2),
    "message": HumanMessage("hi", id="m1"),
    "constructor": {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"a": 1}},
    "nine_kib": os.urandom(9 * 1024),
}


@pytest.fixture
def saver(
    memory: AsyncThreadkeep, sync_memory: Threadkeep, anyio_backend: object
) -> ThreadkeepSaver:
    """A saver of a fresh tenant."""
    return ThreadkeepSaver(memory, sync_memory, serde=SERDE)


def put(
    saver: BaseCheckpointSaver[str],
    values: Mapping[str, Any],
    config: RunnableConfig = THREAD,
    **metadata: Any,
) -> RunnableConfig:
    """Store a checkpoint with these values, all of them new."""
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = dict(values)
    checkpoint["channel_versions"] = {name: saver.get_next_version(None, None) for name in values}
    return saver.put(config, checkpoint, metadata, checkpoint["channel_versions"])  # type: ignore[arg-type]  # any metadata


def values_of(saver: BaseCheckpointSaver[str], config: RunnableConfig) -> dict[str, Any]:
    """Return the values of a stored checkpoint."""
    found = saver.get_tuple(config)
    assert found is not None
    return found.checkpoint["channel_values"]


@pytest.mark.parametrize("serde", [SERDE, EncryptedSerializer(Reversed(), SERDE)])
def test_values_come_back(sync_memory: Threadkeep, serde: Any) -> None:
    """Every value comes back with its exact type, encrypted or not."""
    saver = ThreadkeepSaver(sync_memory, serde=serde)

    returned = values_of(saver, put(saver, VALUES))

    assert {name: (type(value), value) for name, value in returned.items()} == {
        name: (type(value), value) for name, value in VALUES.items()
    }
    assert str(returned["minus"]) == "-0.0"


def test_encrypted_values_are_not_stored_in_clear(sync_memory: Threadkeep) -> None:
    """With an encrypting serializer the service holds no readable value, and types say so."""
    saver = ThreadkeepSaver(sync_memory, serde=EncryptedSerializer(Reversed(), SERDE))
    stored = put(saver, {"name": "Ada", "list": [1]})
    saver.put_writes(stored, [("name", "Grace")], "task")

    wire = sync_memory.request("POST", "/v1/checkpoints/get-tuple", json={"config": stored})

    assert {blob["type"] for blob in wire["blobs"]} == {"msgpack+aes"}
    assert [write["type"] for write in wire["pending_writes"]] == ["msgpack+aes"]
    assert "channel_values" not in wire["checkpoint"] or wire["checkpoint"]["channel_values"] == {}


async def test_five_mebibytes_come_back(saver: ThreadkeepSaver) -> None:
    """A state of five MiB is stored and read back byte for byte, as a value and as a write."""
    large = os.urandom(5 * MIB)
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"file": large}
    checkpoint["channel_versions"] = {"file": "1"}
    stored = await saver.aput(THREAD, checkpoint, {}, {"file": "1"})
    await saver.aput_writes(stored, [("file", large)], "task")

    found = await saver.aget_tuple(stored)

    assert found is not None
    assert found.checkpoint["channel_values"]["file"] == large
    assert found.pending_writes == [("task", "file", large)]


async def test_many_tasks_write_at_once(saver: ThreadkeepSaver) -> None:
    """Forty tasks that stage at the same time all stay, in the order of their paths."""
    stored = await asyncio.to_thread(put, saver, {})

    await asyncio.gather(
        *(
            saver.aput_writes(stored, [("a", n), ("b", n)], f"task-{40 - n}", f"~{n:03}")
            for n in range(40)
        )
    )

    found = await saver.aget_tuple(stored)
    assert found is not None
    assert found.pending_writes == [
        (f"task-{40 - n}", channel, n) for n in range(40) for channel in "ab"
    ]


def test_special_writes_replace_others_do_not(saver: ThreadkeepSaver) -> None:
    """A task's result is kept as first written; an error or interrupt is replaced by a newer."""
    stored = put(saver, {})
    for value in (1, 2):
        saver.put_writes(stored, [("out", value)], "task")
        saver.put_writes(stored, [("__interrupt__", value)], "task")
    saver.put_writes(stored, [], "idle")

    found = saver.get_tuple(stored)

    assert found is not None
    assert found.pending_writes == [("task", "__interrupt__", 2), ("task", "out", 1)]


def test_lists_are_fetched_as_they_are_read(
    saver: ThreadkeepSaver, sync_memory: Threadkeep
) -> None:
    """A list goes through all of its pages, a limit is exact, and the first item costs one page."""
    config = THREAD
    for step in range(45):
        config = put(saver, {"step": step, "kept": [step]}, config, step=step)

    steps = [one.metadata["step"] for one in saver.list(THREAD)]
    limited = [one.checkpoint["channel_values"]["kept"] for one in saver.list(THREAD, limit=23)]
    first = next(saver.list(THREAD))

    assert steps == list(range(44, -1, -1))
    assert limited == [[step] for step in range(44, 21, -1)]
    assert first.config == config
    assert list(saver.list(THREAD, limit=0)) == []


async def test_lists_across_threads(saver: ThreadkeepSaver) -> None:
    """Without a config every thread of the tenant is listed; a metadata filter applies to all."""
    for name in ("a", "b"):
        config: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ""}}
        await asyncio.to_thread(put, saver, {}, config, user=name)

    everywhere = [one.config["configurable"]["thread_id"] async for one in saver.alist(None)]
    ours = [one.metadata async for one in saver.alist(None, filter={"user": "b"})]

    assert everywhere == ["b", "a"]
    assert ours == [{"user": "b"}]


async def test_nothing_stored_is_none(saver: ThreadkeepSaver) -> None:
    """An unknown thread, namespace or checkpoint is None, and an empty list."""
    nowhere: RunnableConfig = {"configurable": {"thread_id": "nowhere"}}
    stored = await asyncio.to_thread(put, saver, {})
    unknown: RunnableConfig = {"configurable": {**stored["configurable"], "checkpoint_id": "nope"}}

    assert await saver.aget_tuple(nowhere) is None
    assert await saver.aget_tuple(unknown) is None
    assert saver.get_tuple(nowhere) is None
    assert [one async for one in saver.alist(nowhere)] == []


def test_a_refusal_is_not_an_empty_thread(service: Service) -> None:
    """A key that is refused raises; it does not look like a thread without checkpoints."""
    with (
        ThreadkeepSaver.from_url(service.url, api_key="wrong") as saver,
        pytest.raises(Unauthenticated),
    ):
        saver.get_tuple(THREAD)


def test_pickle_never_leaves_and_is_never_taken(sync_memory: Threadkeep) -> None:
    """The saver refuses to send a pickle, and the service refuses one that is sent anyway."""
    saver = ThreadkeepSaver(sync_memory, serde=JsonPlusSerializer(pickle_fallback=True))
    with pytest.raises(PickledValue, match="'tool' holds a Service"):
        put(saver, {"tool": Service.__new__(Service)})
    stored = put(saver, {})
    write = {"channel": "tool", "type": "pickle", "data": "gASV"}

    with pytest.raises(Invalid, match="pickle"):
        sync_memory.request(
            "POST",
            "/v1/checkpoints/put-writes",
            json={"config": stored, "task_id": "task", "writes": [write]},
        )


def test_strict_types(sync_memory: Threadkeep) -> None:
    """With an allow-list, as LangGraph's strict mode makes one, other types come back as data."""
    strict = ThreadkeepSaver(sync_memory, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
    stored = put(strict, {"point": Point(1, 2)})

    allowing = strict.with_allowlist([(Point.__module__, Point.__name__)])

    assert values_of(allowing, stored) == {"point": Point(1, 2)}
    assert values_of(strict, stored) == {"point": {"x": 1, "y": 2}}
