"""LangGraph's checkpoints as values, and the store's role for them.

A channel's value is typed bytes that are never decoded here: what wrote them reads them back. It is
stored under its client's version and a hash of the bytes, so two branches that count to the same
version never share a value.   Source: langgraph.checkpoint.base (BaseCheckpointSaver).
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, Protocol, TypeAlias

from app.core.model import ThreadKey

MAX_NAME_BYTES: Final = 255
MAX_NS_BYTES: Final = 600
MAX_VERSION_BYTES: Final = 200
"""UTF-8. A key of an index holds several names and has to stay below 2,704 bytes (PostgreSQL)."""

HASH_LENGTH: Final = 22
"""Hex digits of a stored version that tell the values of one client version apart."""

SPECIAL_INDEX: Final[Mapping[str, int]] = {
    "__error__": -1,
    "__scheduled__": -2,
    "__interrupt__": -3,
    "__resume__": -4,
}
"""Index of writes that a task has one of at most. Source: langgraph WRITES_IDX_MAP."""

EMPTY: Final = "empty"
"""Type of a blob that says that its channel holds nothing. Source: langgraph _dump_blobs."""

Placing: TypeAlias = Literal["branch", "reject", "latest"]
"""branch: on the given parent. reject: only if that is the latest. latest: on whatever is."""


@dataclass(frozen=True, slots=True)
class Typed:
    """A value as its client's serializer wrote it."""

    type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class GraphBlob:
    """A channel's value. version: as stored."""

    channel: str
    version: str
    value: Typed


@dataclass(frozen=True, slots=True)
class GraphWrite:
    """One value that a task wrote on top of a checkpoint."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    value: Typed


@dataclass(frozen=True, slots=True)
class GraphTuple:
    """A stored checkpoint. checkpoint: as sent. writes: by (task_path, task_id, idx)."""

    thread_id: str
    ns: str
    checkpoint_id: str
    parent_id: str | None
    checkpoint: Mapping[str, object]
    metadata: Mapping[str, object]
    blobs: tuple[GraphBlob, ...]
    writes: tuple[GraphWrite, ...]

    @property
    def size_bytes(self) -> int:
        """Bytes of its values."""
        values = [item.value for item in self.blobs] + [item.value for item in self.writes]
        return sum(len(value.data) for value in values)


@dataclass(frozen=True, slots=True)
class NewGraph:
    """A checkpoint to be stored. new_channels: their value is in `blobs`, inline, or none."""

    thread: ThreadKey
    ns: str
    checkpoint_id: str
    parent_id: str | None
    placing: Placing
    checkpoint: Mapping[str, object]
    new_channels: tuple[str, ...]
    blobs: tuple[GraphBlob, ...]
    metadata: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class NewGraphWrites:
    """Writes to be stored, each idx once. overwrite: else those that are stored already stay."""

    thread: ThreadKey
    ns: str
    checkpoint_id: str
    writes: tuple[GraphWrite, ...]
    overwrite: bool


@dataclass(frozen=True, slots=True)
class GraphQuery:
    """What to list. None: any. owner_id: as in ThreadKey. filter: what metadata must contain."""

    tenant_id: str
    owner_id: str | None
    thread_id: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    filter: Mapping[str, object] | None = None
    limit: int = 20
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class DeltaHistory:
    """What a channel is rebuilt from: writes of ancestors, oldest first, on top of the seed."""

    writes: tuple[GraphWrite, ...] = ()
    seed: Typed | None = None

    @property
    def size_bytes(self) -> int:
        """Bytes of its values."""
        seed = 0 if self.seed is None else len(self.seed.data)
        return seed + sum(len(write.value.data) for write in self.writes)


class GraphStore(Protocol):
    """Graph checkpoints, blobs and writes: the namespaces that do not begin with `~`."""

    async def read(self, key: ThreadKey, ns: str, checkpoint_id: str | None) -> GraphTuple:
        """Read one checkpoint, the latest without an id, in one trip.

        Errors: ThreadNotFound, CheckpointNotFound.
        """
        ...

    async def page(self, query: GraphQuery) -> tuple[tuple[GraphTuple, ...], str | None]:
        """List checkpoints, greatest id first, in one trip; a page also ends at 16 MiB.

        Errors: InvalidPayload for a bad cursor; CheckpointNotFound for `before`, where the thread
            that is listed does not hold it.
        """
        ...

    async def put(self, graph: NewGraph) -> None:
        """Store a checkpoint; the same id takes the place of the one before.

        Errors: ThreadNotFound, ThreadDeleted, ParentMoved, VersionAmbiguous; nothing is stored.
        """
        ...

    async def put_writes(self, writes: NewGraphWrites) -> None:
        """Store writes, whether their checkpoint stands or is still to come.

        Errors: ThreadNotFound, ThreadDeleted.
        """
        ...

    async def blob(
        self, key: ThreadKey, ns: str, blob: tuple[str, str], checkpoint_id: str | None
    ) -> GraphBlob:
        """Read one value by (channel, version), the stored one or the client's.

        checkpoint_id: whose value is meant, where several branches have that version.
        Errors: ThreadNotFound, ChannelNotFound, VersionAmbiguous.
        """
        ...

    async def forget(self, key: ThreadKey) -> None:
        """Delete a thread's graph checkpoints; the thread too, where nothing else is in it."""
        ...

    async def forget_runs(
        self, tenant_id: str, owner_id: str | None, run_ids: Sequence[str]
    ) -> None:
        """Delete the checkpoints whose metadata names one of the runs, in every thread."""
        ...

    async def copy(self, source: ThreadKey, target: str) -> None:
        """Copy all of a thread's graph checkpoints.

        Errors: ThreadNotFound, ThreadDeleted; ThreadExists, where the target has other ones.
        """
        ...

    async def prune(
        self, tenant_id: str, owner_id: str | None, thread_ids: Sequence[str], *, delete: bool
    ) -> None:
        """Keep the latest checkpoint of each namespace, and what it is rebuilt from; or none."""
        ...

    async def delta_history(
        self, key: ThreadKey, ns: str, checkpoint_id: str | None, channels: Sequence[str]
    ) -> Mapping[str, DeltaHistory]:
        """Read what channels are rebuilt from at a checkpoint, in one trip.

        Errors: ThreadNotFound, CheckpointNotFound.
        """
        ...


def new_blob(channel: str, version: str | float, value: Typed) -> GraphBlob:
    """Return a blob under the version that it is stored with."""
    spelled = version if isinstance(version, str) else json.dumps(version)
    digest = sha256(value.type.encode() + b"\0" + value.data).hexdigest()
    return GraphBlob(channel, f"{spelled}.{digest[:HASH_LENGTH]}", value)


def write_index(channel: str, position: int) -> int:
    """Return a write's index: its place in the list, but for the special channels."""
    return SPECIAL_INDEX.get(channel, position)


def each_index_once(writes: Iterable[GraphWrite], *, overwrite: bool) -> tuple[GraphWrite, ...]:
    """Leave one write of each index: the last when writes overwrite, else the first."""
    kept: dict[int, GraphWrite] = {}
    for write in writes:
        if overwrite or write.idx not in kept:
            kept[write.idx] = write
    return tuple(kept.values())


def holds_nul(node: object) -> bool:
    """Tell whether any text or name in a JSON value holds NUL, which jsonb refuses."""
    if isinstance(node, str):
        return "\0" in node
    if isinstance(node, Mapping):
        return any(map(holds_nul, (*node, *node.values())))
    return isinstance(node, list) and any(map(holds_nul, node))
