"""Graph checkpoints for tests, each right by itself; what a test is about is given."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from app.adapters.sql.engine import Database
from app.core.graphs import (
    GraphQuery,
    GraphStore,
    GraphTuple,
    GraphWrite,
    NewGraph,
    NewGraphWrites,
    Typed,
    new_blob,
)
from app.core.model import ThreadKey
from tests.servers import in_schema

TURN_ROWS = """
SELECT coalesce(json_agg(x ORDER BY x::text), '[]')::text AS rows FROM (
  SELECT row_to_json(c) AS x FROM S.checkpoints c WHERE c.tenant_id = $1 AND c.ns LIKE '~%'
  UNION ALL
  SELECT row_to_json(b) FROM S.checkpoint_blobs b WHERE b.tenant_id = $1 AND b.ns LIKE '~%'
  UNION ALL
  SELECT row_to_json(w) FROM S.checkpoint_writes w WHERE w.tenant_id = $1 AND w.ns LIKE '~%') t"""

GRAPH_COUNTS = """
SELECT (SELECT count(*) FROM S.checkpoints WHERE tenant_id = $1 AND thread_id = $2
           AND ns NOT LIKE '~%') AS checkpoints,
       (SELECT count(*) FROM S.checkpoint_blobs WHERE tenant_id = $1 AND thread_id = $2
           AND ns NOT LIKE '~%') AS blobs,
       (SELECT count(*) FROM S.checkpoint_writes WHERE tenant_id = $1 AND thread_id = $2
           AND ns NOT LIKE '~%') AS writes,
       (SELECT count(*) FROM S.threads WHERE tenant_id = $1 AND thread_id = $2) AS threads"""


def new_graph(
    key: ThreadKey, checkpoint_id: str, parent_id: str | None = None, **overrides: Any
) -> NewGraph:
    """A checkpoint without channels."""
    graph = NewGraph(
        thread=key,
        ns="",
        checkpoint_id=checkpoint_id,
        parent_id=parent_id,
        placing="branch",
        checkpoint={"v": 4, "id": checkpoint_id, "channel_values": {}, "channel_versions": {}},
        new_channels=(),
        blobs=(),
        metadata={},
    )
    return replace(graph, **overrides)


def with_values(
    graph: NewGraph,
    versions: Mapping[str, Any],
    blobs: Mapping[str, bytes] | None = None,
    inline: Mapping[str, object] | None = None,
) -> NewGraph:
    """The checkpoint with these channels; those that have a value here are new."""
    blobs, inline = blobs or {}, inline or {}
    body = {**graph.checkpoint, "channel_values": inline, "channel_versions": versions}
    return replace(
        graph,
        checkpoint=body,
        new_channels=tuple({*blobs, *inline, *graph.new_channels}),
        blobs=tuple(
            new_blob(channel, versions[channel], Typed("bytes", data))
            for channel, data in blobs.items()
        ),
    )


def new_writes(key: ThreadKey, checkpoint_id: str, **overrides: Any) -> NewGraphWrites:
    """One write of one task."""
    write = GraphWrite("task-1", "", 0, "ch", Typed("bytes", b"v"))
    writes = NewGraphWrites(key, "", checkpoint_id, (write,), overwrite=False)
    return replace(writes, **overrides)


def values_of(graph: GraphTuple) -> dict[str, bytes]:
    """The values that a checkpoint came with, by channel."""
    return {blob.channel: blob.value.data for blob in graph.blobs}


def written(graph: GraphTuple) -> list[tuple[str, int, bytes]]:
    """The writes that a checkpoint came with."""
    return [(write.task_id, write.idx, write.value.data) for write in graph.writes]


async def listed(store: GraphStore, query: GraphQuery) -> list[str]:
    """The ids of a list, over all of its pages."""
    ids: list[str] = []
    while True:
        items, cursor = await store.page(query)
        ids += [item.checkpoint_id for item in items]
        if cursor is None:
            return ids
        query = replace(query, cursor=cursor)


async def turn_rows(database: Database, tenant: str) -> str:
    """Every row of a tenant's turns, in all tables, as one text."""
    found = await database.fetch(in_schema(TURN_ROWS), tenant)
    rows: str = found[0]["rows"]
    return rows


async def graph_counts(database: Database, key: ThreadKey) -> tuple[int, int, int, int]:
    """Rows of a thread's graphs: checkpoints, blobs, writes, and of the registry."""
    found = await database.fetch(in_schema(GRAPH_COUNTS), key.tenant_id, key.thread_id)
    return tuple(found[0].values())
