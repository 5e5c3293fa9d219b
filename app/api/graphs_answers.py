"""The answers of the checkpoint routes: how they are written, and their documentation."""

from base64 import b64encode
from collections.abc import Mapping, Sequence

from pydantic import BaseModel

from app.core.graphs import DeltaHistory, GraphBlob, GraphTuple, GraphWrite, Typed


class ConfigurableOut(BaseModel):
    """Names one checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


class ConfigOut(BaseModel):
    """A LangGraph config that names one checkpoint."""

    configurable: ConfigurableOut


class PutOut(BaseModel):
    """The config of the checkpoint that was stored."""

    config: ConfigOut


class TypedOut(BaseModel):
    """A value as its client's serializer wrote it; `data` is base64."""

    type: str
    data: str


class GraphBlobOut(TypedOut):
    """A channel's value. version: as stored, the client's with a hash of the value behind it."""

    channel: str
    version: str


class GraphWriteOut(TypedOut):
    """One value that a task wrote."""

    task_id: str
    task_path: str
    idx: int
    channel: str


class TupleOut(BaseModel):
    """A stored checkpoint. pending_writes: in the order that LangGraph applies them."""

    config: ConfigOut
    checkpoint: dict[str, object]
    metadata: dict[str, object]
    parent_config: ConfigOut | None
    pending_writes: list[GraphWriteOut]
    blobs: list[GraphBlobOut]


class TuplesPage(BaseModel):
    """Checkpoints, newest first. A page with large values is shorter than its limit."""

    items: list[TupleOut]
    next_cursor: str | None
    has_more: bool


class DeltaHistoryOut(BaseModel):
    """Writes of ancestors, oldest first. found: whether there is a value to begin with, `seed`."""

    writes: list[GraphWriteOut]
    seed: TypedOut | None
    found: bool


class DeltaHistoriesOut(BaseModel):
    """What each channel is rebuilt from."""

    channels: dict[str, DeltaHistoryOut]


def config_json(thread_id: str, ns: str, checkpoint_id: str) -> dict[str, object]:
    """Return a config as LangGraph has it."""
    named = {"thread_id": thread_id, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
    return {"configurable": named}


def tuple_json(graph: GraphTuple) -> dict[str, object]:
    """Return a stored checkpoint."""
    parent = graph.parent_id
    place = graph.thread_id, graph.ns
    return {
        "config": config_json(*place, graph.checkpoint_id),
        "checkpoint": graph.checkpoint,
        "metadata": graph.metadata,
        "parent_config": None if parent is None else config_json(*place, parent),
        "pending_writes": [write_json(write) for write in graph.writes],
        "blobs": [blob_json(blob) for blob in graph.blobs],
    }


def tuples_json(graphs: Sequence[GraphTuple]) -> list[dict[str, object]]:
    """Return stored checkpoints."""
    return [tuple_json(graph) for graph in graphs]


def blob_json(blob: GraphBlob) -> dict[str, object]:
    """Return a channel's value."""
    return {"channel": blob.channel, "version": blob.version, **_typed_json(blob.value)}


def write_json(write: GraphWrite) -> dict[str, object]:
    """Return a task's write."""
    return {
        "task_id": write.task_id,
        "task_path": write.task_path,
        "idx": write.idx,
        "channel": write.channel,
        **_typed_json(write.value),
    }


def histories_json(histories: Mapping[str, DeltaHistory]) -> dict[str, object]:
    """Return what channels are rebuilt from."""
    return {
        channel: {
            "writes": [write_json(write) for write in history.writes],
            "seed": None if history.seed is None else _typed_json(history.seed),
            "found": history.seed is not None,
        }
        for channel, history in histories.items()
    }


def _typed_json(value: Typed) -> dict[str, object]:
    return {"type": value.type, "data": b64encode(value.data).decode("ascii")}
