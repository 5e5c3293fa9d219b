"""The three tables and the registry as SQLAlchemy Core sees them, in whichever schema.

Tenant and thread lead every key and every query names both by parameter, so the tables distribute
by thread. Text that is compared is in collation C: ids sort byte by byte, on every machine alike.
"""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    DateTime,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    or_,
    text,
)
from sqlalchemy.dialects.postgresql import JSON, JSONB

from app.core.model import ThreadKey

TURNS = "~turns"
"""The namespace of turns; LangGraph's own never begin with `~`."""

SUMMARY_CHANNEL = "~summary"

GRAPH_SPACES = r"ns < '~' OR ns >= E'\x7f'"
"""Every namespace that does not begin with `~`, as two ranges of an index."""

_CONVENTION = {"pk": "%(table_name)s_pkey"}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables of one schema."""

    metadata: MetaData
    threads: Table
    checkpoints: Table
    blobs: Table
    writes: Table


def tables(schema: str) -> Tables:
    """Describe the tables of one schema. Source: migration 0001, kept equal by a test."""
    metadata = MetaData(schema=schema, naming_convention=_CONVENTION)
    return Tables(
        metadata=metadata,
        threads=_threads(metadata),
        checkpoints=_checkpoints(metadata),
        blobs=_blobs(metadata),
        writes=_writes(metadata),
    )


def of_thread(table: Table, key: ThreadKey) -> tuple[ColumnElement[bool], ...]:
    """Match one thread's rows, whoever owns them."""
    return table.c.tenant_id == key.tenant_id, table.c.thread_id == key.thread_id


def alive(threads: Table, now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Match threads that are neither deleted nor expired, purged or not."""
    expires_at = threads.c.expires_at
    return threads.c.deleted_at.is_(None), or_(expires_at.is_(None), expires_at > now)


def visible(threads: Table, key: ThreadKey, now: datetime) -> tuple[ColumnElement[bool], ...]:
    """Match the registry row of one thread, if this caller may see it."""
    owner = () if key.owner_id is None else (threads.c.owner_id == key.owner_id,)
    return (*of_thread(threads, key), *owner, *alive(threads, now))


def _key(name: str, *, default: str | None = None) -> Column[str]:
    server_default = None if default is None else text(f"'{default}'")
    return Column(name, Text(collation="C"), nullable=False, server_default=server_default)


def _count(name: str, kind: type[Integer] = Integer) -> Column[int]:
    return Column(name, kind, nullable=False, server_default=text("0"))


def _time(name: str, *, nullable: bool = False) -> Column[object]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _threads(metadata: MetaData) -> Table:
    """One row a thread.

    A deleted one keeps its row as a tombstone (deleted_at) until expires_at, its end.
    fillfactor: 89 % of the updates then touch no index, as long as none is on what a save sets.
    """
    return Table(
        "threads",
        metadata,
        _key("tenant_id"),
        _key("thread_id"),
        _key("owner_id", default=""),
        Column("head", Text(collation="C")),
        _count("position"),
        _count("turns"),
        _count("tokens", BigInteger),
        _count("bytes", BigInteger),
        Column("title", Text),
        Column("metadata", JSONB, nullable=False, server_default=text("'{}'")),
        _time("created_at"),
        _time("updated_at"),
        _time("expires_at", nullable=True),
        _time("deleted_at", nullable=True),
        Column("forked_from", Text(collation="C")),
        Column("summaries", JSONB, nullable=False, server_default=text("'[]'")),
        _count("summary_epoch", BigInteger),
        Column("lease_token", Text),
        _time("lease_until", nullable=True),
        PrimaryKeyConstraint("tenant_id", "thread_id"),
        Index(
            "threads_by_owner",
            "tenant_id",
            "owner_id",
            text("created_at DESC"),
            text("thread_id DESC"),
        ),
        Index("threads_by_age", "tenant_id", text("created_at DESC"), text("thread_id DESC")),
        Index("threads_expiry", "expires_at", postgresql_where=text("expires_at IS NOT NULL")),
        postgresql_with={"fillfactor": "70"},
    )


def _checkpoints(metadata: MetaData) -> Table:
    """One row a turn or graph snapshot.

    tokens: of the branch, cumulative at the turn's end. step: turns before it on its branch.
    """
    return Table(
        "checkpoints",
        metadata,
        _key("tenant_id"),
        _key("thread_id"),
        _key("ns", default=""),
        _key("checkpoint_id"),
        Column("parent_id", Text(collation="C")),
        Column("identity", LargeBinary),
        Column("digest", LargeBinary),
        _count("step"),
        _count("tokens", BigInteger),
        _time("created_at"),
        Column("checkpoint", JSON, nullable=False),
        Column("metadata", JSONB),
        PrimaryKeyConstraint("tenant_id", "thread_id", "ns", "checkpoint_id"),
        Index(
            "checkpoints_identity",
            "tenant_id",
            "thread_id",
            "identity",
            unique=True,
            postgresql_where=text("identity IS NOT NULL"),
        ),
        Index(
            "checkpoints_graph_metadata",
            "metadata",
            postgresql_using="gin",
            postgresql_ops={"metadata": "jsonb_path_ops"},
            postgresql_where=text(GRAPH_SPACES),
        ),
        Index(
            "checkpoints_graph_ids",
            "tenant_id",
            "checkpoint_id",
            postgresql_where=text(GRAPH_SPACES),
        ),
    )


def _blobs(metadata: MetaData) -> Table:
    """Large and binary values, each fetched alone; immutable under their version."""
    return Table(
        "checkpoint_blobs",
        metadata,
        _key("tenant_id"),
        _key("thread_id"),
        _key("ns", default=""),
        _key("channel"),
        _key("version"),
        Column("type", Text, nullable=False),
        Column("data", LargeBinary),
        _time("created_at"),
        PrimaryKeyConstraint("tenant_id", "thread_id", "ns", "channel", "version"),
    )


def _writes(metadata: MetaData) -> Table:
    """Staged values of turns in flight. checkpoint_id: the parent as sent, "" for none."""
    return Table(
        "checkpoint_writes",
        metadata,
        _key("tenant_id"),
        _key("thread_id"),
        _key("ns", default=""),
        _key("checkpoint_id"),
        _key("key", default=""),
        _key("task_id"),
        Column("idx", Integer, nullable=False),
        _key("task_path", default=""),
        _key("channel"),
        Column("type", Text, nullable=False),
        Column("data", LargeBinary),
        _time("created_at"),
        PrimaryKeyConstraint(
            "tenant_id", "thread_id", "ns", "checkpoint_id", "key", "task_id", "idx"
        ),
    )
