"""GraphStore on PostgreSQL: LangGraph's checkpoints, beside the turns. Each method is one trip."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from app.adapters.sql import graphs_statements as sql
from app.adapters.sql.cursors import opened, sealed, storable
from app.adapters.sql.engine import Database
from app.adapters.sql.graphs_rows import (
    blob_of,
    delta_histories,
    graph_tuples,
    put_arguments,
    put_writes_arguments,
)
from app.adapters.sql.history import names, utc_now
from app.adapters.sql.rows import Row
from app.core.errors import (
    ChannelNotFound,
    CheckpointNotFound,
    ParentMoved,
    ThreadDeleted,
    ThreadExists,
    ThreadNotFound,
    VersionAmbiguous,
)
from app.core.graphs import (
    DeltaHistory,
    GraphBlob,
    GraphQuery,
    GraphTuple,
    NewGraph,
    NewGraphWrites,
)
from app.core.model import ThreadKey


class SqlGraphStore:
    """Implements GraphStore."""

    def __init__(self, database: Database, now: Callable[[], datetime] = utc_now) -> None:
        self._database = database
        self._now = now

    async def read(self, key: ThreadKey, ns: str, checkpoint_id: str | None) -> GraphTuple:
        """Read one checkpoint. See GraphStore.read."""
        found = await self._run(sql.READ, *names(key), ns, checkpoint_id, self._now())
        if not found:
            raise ThreadNotFound
        tuples = graph_tuples(found)
        if not tuples:
            raise CheckpointNotFound
        return tuples[0]

    async def page(self, query: GraphQuery) -> tuple[tuple[GraphTuple, ...], str | None]:
        """List checkpoints. See GraphStore.page."""
        after = None if query.cursor is None else opened(query.cursor, _place)
        listing = sql.listing(query, after)
        found = await self._run(
            listing.sql,
            query.tenant_id,
            query.owner_id,
            self._now(),
            query.limit,
            sql.PAGE_BYTES,
            *listing.arguments,
        )
        if not found[0]["held"]:
            raise CheckpointNotFound
        items = graph_tuples(found)
        if len(items) >= found[0]["found"]:
            return items, None
        last = items[-1]
        return items, sealed(last.checkpoint_id, last.thread_id, last.ns)

    async def put(self, graph: NewGraph) -> None:
        """Store a checkpoint. See GraphStore.put."""
        found = await self._run(
            sql.PUT, *names(graph.thread), graph.ns, *put_arguments(graph), self._now()
        )
        row = found[0]
        _refuse_missing(row)
        if row["outcome"] == "moved":
            raise ParentMoved(head=row["head"])
        if row["outcome"] == "ambiguous":
            raise VersionAmbiguous("Send the channel's blob with this put.", channel=row["channel"])

    async def put_writes(self, writes: NewGraphWrites) -> None:
        """Store writes. See GraphStore.put_writes."""
        if not writes.writes:
            return
        arguments = put_writes_arguments(writes)
        found = await self._run(
            sql.PUT_WRITES, *names(writes.thread), writes.ns, *arguments, self._now()
        )
        _refuse_missing(found[0])

    async def blob(
        self, key: ThreadKey, ns: str, blob: tuple[str, str], checkpoint_id: str | None
    ) -> GraphBlob:
        """Read one value. See GraphStore.blob."""
        found = await self._run(sql.BLOB, *names(key), ns, *blob, checkpoint_id, self._now())
        if not found:
            raise ThreadNotFound
        row = found[-1]
        if row["kind"] == "thread":
            raise ChannelNotFound
        if row["kind"] == "ambiguous":
            raise VersionAmbiguous("Name the checkpoint_id whose value is meant.")
        return blob_of(blob[0], row)

    async def forget(self, key: ThreadKey) -> None:
        """Delete a thread's graph checkpoints. See GraphStore.forget."""
        await self._run(sql.FORGET, *names(key), self._now())

    async def forget_runs(
        self, tenant_id: str, owner_id: str | None, run_ids: Sequence[str]
    ) -> None:
        """Delete what runs made. See GraphStore.forget_runs."""
        await self._run(sql.FORGET_RUNS, tenant_id, owner_id, list(run_ids), self._now())

    async def copy(self, source: ThreadKey, target: str) -> None:
        """Copy a thread's graph checkpoints. See GraphStore.copy."""
        found = await self._run(
            sql.COPY, source.tenant_id, source.thread_id, target, source.owner_id, self._now()
        )
        _refuse_missing(found[0])
        if found[0]["outcome"] == "taken":
            raise ThreadExists("The target has checkpoints that the source has not.")

    async def prune(
        self, tenant_id: str, owner_id: str | None, thread_ids: Sequence[str], *, delete: bool
    ) -> None:
        """Prune threads. See GraphStore.prune."""
        await self._run(sql.PRUNE, tenant_id, list(thread_ids), owner_id, delete, self._now())

    async def delta_history(
        self, key: ThreadKey, ns: str, checkpoint_id: str | None, channels: Sequence[str]
    ) -> Mapping[str, DeltaHistory]:
        """Read what channels are rebuilt from. See GraphStore.delta_history."""
        found = await self._run(
            sql.DELTA, *names(key), ns, checkpoint_id, list(channels), self._now()
        )
        if not found:
            raise ThreadNotFound
        if len(found) == 1:
            raise CheckpointNotFound
        return delta_histories(found, channels)

    async def _run(self, statement: str, *arguments: object) -> list[Row]:
        text = statement.replace("{schema}", self._database.schema)
        found: list[Row] = await self._database.fetch(text, *arguments)
        return found


def _refuse_missing(row: Row) -> None:
    """Errors: ThreadNotFound, ThreadDeleted."""
    if row["outcome"] in {"unknown", "foreign"}:
        raise ThreadNotFound
    if row["outcome"] == "deleted":
        raise ThreadDeleted


def _place(checkpoint_id: str, thread_id: str, ns: str) -> tuple[str, str, str]:
    return storable(checkpoint_id), storable(thread_id), storable(ns)
