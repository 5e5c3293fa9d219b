"""Rows of graph checkpoints to values, and values to what the functions take."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

from app.adapters.sql import rows
from app.adapters.sql.rows import Row
from app.core.graphs import (
    DeltaHistory,
    GraphBlob,
    GraphTuple,
    GraphWrite,
    NewGraph,
    NewGraphWrites,
    Typed,
)


def graph_tuples(found: Iterable[Row]) -> tuple[GraphTuple, ...]:
    """Read checkpoints. Shape: rows of graph_tuples_v1, those of one checkpoint together."""
    numbered = (row for row in found if row["n"] is not None)
    return tuple(_graph_tuple(list(group)) for _, group in groupby(numbered, itemgetter("n")))


def _graph_tuple(found: Sequence[Row]) -> GraphTuple:
    row = found[0]
    return GraphTuple(
        thread_id=row["thread_id"],
        ns=row["ns"],
        checkpoint_id=row["checkpoint_id"],
        parent_id=row["parent_id"],
        checkpoint=rows.decode(row["payload"])["checkpoint"],
        metadata=row["metadata"] or {},
        blobs=tuple(
            GraphBlob(blob["channel"], blob["version"], _typed(blob))
            for blob in found
            if blob["kind"] == "blob"
        ),
        writes=tuple(_write(write) for write in found if write["kind"] == "write"),
    )


def _write(row: Row) -> GraphWrite:
    return GraphWrite(row["task_id"], row["task_path"], row["idx"], row["channel"], _typed(row))


def _typed(row: Row) -> Typed:
    return Typed(row["type"], row["data"])


def blob_of(channel: str, row: Row) -> GraphBlob:
    """Read one value."""
    return GraphBlob(channel, row["version"], _typed(row))


def delta_histories(found: Sequence[Row], channels: Sequence[str]) -> Mapping[str, DeltaHistory]:
    """Read what channels are rebuilt from. Shape: rows of delta_history_v1, nearest first."""
    oldest_first = sorted(found, key=lambda row: -row["depth"])
    return {
        channel: DeltaHistory(
            writes=tuple(_write(row) for row in oldest_first if _is(row, channel, "write")),
            seed=next((_seed(row) for row in found if _is(row, channel, "blob", "inline")), None),
        )
        for channel in channels
    }


def _is(row: Row, channel: str, *kinds: str) -> bool:
    return row["channel"] == channel and row["kind"] in kinds


def _seed(row: Row) -> Typed:
    """Return a value; one that stood in the checkpoint itself is the JSON it was sent as."""
    return Typed("json", row["payload"]) if row["kind"] == "inline" else _typed(row)


def put_arguments(graph: NewGraph) -> tuple[object, ...]:
    """Return what put_graph_v1 takes between the namespace and the time."""
    slices, data = _sliced([blob.value for blob in graph.blobs])
    blobs = [
        {"channel": blob.channel, "version": blob.version, **place}
        for blob, place in zip(graph.blobs, slices, strict=True)
    ]
    return (
        graph.checkpoint_id,
        graph.parent_id,
        graph.placing == "latest",
        graph.placing == "reject",
        rows.encode(graph.checkpoint),
        list(graph.new_channels),
        rows.encode(blobs),
        data,
        rows.encode(graph.metadata),
    )


def put_writes_arguments(new: NewGraphWrites) -> tuple[object, ...]:
    """Return what put_graph_writes_v1 takes between the namespace and the time."""
    first = new.writes[0]
    slices, data = _sliced([write.value for write in new.writes])
    writes = [
        {"idx": write.idx, "channel": write.channel, **place}
        for write, place in zip(new.writes, slices, strict=True)
    ]
    return (
        new.checkpoint_id,
        first.task_id,
        first.task_path,
        rows.encode(writes),
        data,
        new.overwrite,
    )


def _sliced(values: Sequence[Typed]) -> tuple[list[dict[str, object]], bytes]:
    """Return where each value stands, from 1, and all of them as one.

    An array of bytes would do, but the driver asks each new connection for what that is.
    """
    places: list[dict[str, object]] = []
    first = 1
    for value in values:
        places.append({"type": value.type, "first": first, "size": len(value.data)})
        first += len(value.data)
    return places, b"".join(value.data for value in values)
