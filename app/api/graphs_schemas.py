"""The requests of the checkpoint routes, as LangGraph's savers put their questions."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, JsonValue, WithJsonSchema

from app.api.validation import Name, PageParameters, RequestModel

MAX_WRITES = 10_000
MAX_THREADS = 1_000
_INT32 = 2**31

_CONFIG: dict[str, JsonValue] = {
    "configurable": {"thread_id": "t1", "checkpoint_ns": "", "checkpoint_id": "1f0-a"}
}
_TYPED: dict[str, JsonValue] = {"type": "msgpack", "data": "kaRiYXNl"}
_CHECKPOINT: dict[str, JsonValue] = {
    "v": 4,
    "id": "1f0-b",
    "ts": "2030-01-02T03:04:05+00:00",
    "channel_values": {"step": 2},
    "channel_versions": {"messages": "2.0.5", "step": "2.0.5"},
    "versions_seen": {},
    "updated_channels": ["messages"],
}


def _example(**body: JsonValue) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [body]})


class ConfigurableIn(RequestModel):
    """What of a LangGraph config counts here; the rest is ignored."""

    thread_id: str
    checkpoint_ns: Annotated[str | None, Field(description="The root graph's is empty.")] = None
    checkpoint_id: Annotated[str | None, Field(description="Absent: the latest.")] = None


class ConfigIn(RequestModel):
    """A LangGraph config; its `configurable` may also be sent in its place."""

    configurable: ConfigurableIn


class TypedIn(RequestModel):
    """A value as its client's serializer wrote it; never decoded here."""

    type: Annotated[str, Field(min_length=1, max_length=255)]
    data: Annotated[str | None, Field(description="Base64.")] = None


class GraphBlobIn(TypedIn):
    """A channel's value. version: as in `channel_versions`."""

    channel: Name
    version: Annotated[object, WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "number"}]})]


class GraphWriteIn(TypedIn):
    """One value that a task wrote. idx: its place in the list, if absent."""

    channel: Name
    idx: Annotated[int | None, Field(ge=-_INT32, lt=_INT32)] = None


class TargetIn(RequestModel):
    """What most requests begin with. ns: stands for, or equals, the config's checkpoint_ns."""

    config: ConfigIn
    ns: str | None = None


class GetTupleIn(TargetIn):
    """Which checkpoint to read."""

    model_config = _example(config=_CONFIG)


class ListIn(PageParameters):
    """What to list; without a config all threads, without a namespace all of them."""

    model_config = _example(
        config={"configurable": {"thread_id": "t1"}}, filter={"source": "loop"}, limit=5
    )

    config: ConfigIn | None = None
    ns: str | None = None
    filter: Annotated[
        dict[str, object] | None, Field(description="What the metadata must contain; 1 is not '1'.")
    ] = None
    before: Annotated[
        object,
        WithJsonSchema({"anyOf": [{"type": "string"}, {"type": "object"}]}),
        Field(description="Only checkpoints older than this one: its id, or its config."),
    ] = None


class PutIn(TargetIn):
    """A checkpoint; the config's checkpoint_id is its parent."""

    model_config = _example(
        config=_CONFIG,
        checkpoint=_CHECKPOINT,
        blobs=[{"channel": "messages", "version": "2.0.5", **_TYPED}],
        metadata={"source": "loop", "step": 1},
        new_versions={"messages": "2.0.5", "step": "2.0.5"},
    )

    checkpoint: Annotated[
        dict[str, object], Field(description="As LangGraph has it, without the values in `blobs`.")
    ]
    blobs: Annotated[list[GraphBlobIn], Field(default_factory=list)]
    metadata: Annotated[dict[str, object], Field(default_factory=dict)]
    new_versions: Annotated[
        dict[str, object],
        Field(
            default_factory=dict, description="Channels whose value this put brings, or empties."
        ),
    ]
    on_conflict: Annotated[
        Literal["branch", "reject"],
        Field(description="If the parent is not the latest; reject: 409, nothing is stored."),
    ] = "branch"
    parent: Annotated[
        Literal["latest"] | None, Field(description="On top of the latest, whatever it is.")
    ] = None


class PutWritesIn(TargetIn):
    """What a task wrote on top of the config's checkpoint."""

    model_config = _example(
        config=_CONFIG, task_id="task-1", writes=[{"channel": "messages", **_TYPED}]
    )

    task_id: Name
    task_path: Annotated[str, Field(max_length=1000)] = ""
    writes: Annotated[list[GraphWriteIn], Field(max_length=MAX_WRITES)]
    all_special: Annotated[
        bool | None, Field(description="Overwrite; if absent: when every channel is a special one.")
    ] = None


class ForgetRunsIn(RequestModel):
    """Runs whose checkpoints are deleted."""

    model_config = _example(run_ids=["run-1"])

    run_ids: Annotated[list[Name], Field(max_length=MAX_THREADS)]


class CopyThreadIn(RequestModel):
    """From which thread to which."""

    model_config = _example(source="t1", target="t2")

    source: str
    target: str


class PruneIn(RequestModel):
    """Threads of which only each namespace's latest checkpoint stays, or none."""

    model_config = _example(thread_ids=["t1"], strategy="keep_latest")

    thread_ids: Annotated[list[str], Field(max_length=MAX_THREADS)]
    strategy: Literal["keep_latest", "delete"] = "keep_latest"


class DeltaHistoryIn(TargetIn):
    """Channels that are rebuilt from writes, at a checkpoint."""

    model_config = _example(config=_CONFIG, channels=["messages"])

    channels: Annotated[list[Name], Field(max_length=MAX_THREADS)]


class BlobParameters(RequestModel):
    """Which of several values of a channel."""

    ns: Annotated[str, Field(description="The root graph's is empty.")] = ""
    checkpoint_id: Annotated[
        Name | None, Field(description="Whose value, where `version` is the client's.")
    ] = None


GRAPH_REQUESTS = (
    GetTupleIn,
    ListIn,
    PutIn,
    PutWritesIn,
    ForgetRunsIn,
    CopyThreadIn,
    PruneIn,
    DeltaHistoryIn,
)
"""The bodies of this module, for the contract."""


def unwrapped(body: Mapping[str, object]) -> Mapping[str, object]:
    """Put a config that was sent flat under `configurable`."""
    config = body.get("config")
    if not isinstance(config, dict) or "configurable" in config:
        return body
    return {**body, "config": {"configurable": config}}
