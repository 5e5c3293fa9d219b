"""The three tables, the registry and the functions that load and save.

A migration must work with the previous release still running: add first, remove one release later.
Name the schema in every statement. Never edit a released migration. A changed SQL function gets a
new name.
"""

from pathlib import Path

import sqlalchemy as sa
from alembic import context, op
from sqlalchemy.dialects.postgresql import JSON, JSONB

from app.adapters.sql.engine import quoted

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

FUNCTIONS = Path(__file__).with_name("0001_functions")


def upgrade() -> None:
    schema = context.get_context().version_table_schema
    create_threads(schema)
    create_checkpoints(schema)
    create_blobs(schema)
    create_writes(schema)
    set_storage(schema)
    for path in sorted(FUNCTIONS.glob("*.sql")):
        op.get_bind().exec_driver_sql(path.read_text().replace("@schema@", quoted(str(schema))))


def downgrade() -> None:
    schema = context.get_context().version_table_schema
    for name in ("save_turn_v1", "load_recent_v1", "on_branch_v1", "open_thread_v1"):
        op.execute(f"DROP FUNCTION {quoted(str(schema))}.{name}")
    for name in ("checkpoint_writes", "checkpoint_blobs", "checkpoints", "threads"):
        op.drop_table(name, schema=schema)


def key(name: str, default: str | None = None) -> sa.Column[str]:
    server_default = None if default is None else sa.text(f"'{default}'")
    return sa.Column(name, sa.Text(collation="C"), nullable=False, server_default=server_default)


def count(name: str, kind: type[sa.Integer] = sa.Integer) -> sa.Column[int]:
    return sa.Column(name, kind, nullable=False, server_default=sa.text("0"))


def time(name: str, *, nullable: bool = False) -> sa.Column[object]:
    return sa.Column(name, sa.DateTime(timezone=True), nullable=nullable)


def create_threads(schema: str | None) -> None:
    op.create_table(
        "threads",
        key("tenant_id"),
        key("thread_id"),
        key("owner_id", ""),
        sa.Column("head", sa.Text(collation="C")),
        count("position"),
        count("turns"),
        count("tokens", sa.BigInteger),
        count("bytes", sa.BigInteger),
        sa.Column("title", sa.Text),
        sa.Column("metadata", JSONB, nullable=False, server_default=sa.text("'{}'")),
        time("created_at"),
        time("updated_at"),
        time("expires_at", nullable=True),
        time("deleted_at", nullable=True),
        sa.Column("forked_from", sa.Text(collation="C")),
        sa.Column("summaries", JSONB, nullable=False, server_default=sa.text("'[]'")),
        count("summary_epoch", sa.BigInteger),
        sa.Column("lease_token", sa.Text),
        time("lease_until", nullable=True),
        sa.PrimaryKeyConstraint("tenant_id", "thread_id", name="threads_pkey"),
        schema=schema,
        postgresql_with={"fillfactor": "70"},
    )
    newest = [sa.text("created_at DESC"), sa.text("thread_id DESC")]
    op.create_index(
        "threads_by_owner", "threads", ["tenant_id", "owner_id", *newest], schema=schema
    )
    op.create_index("threads_by_age", "threads", ["tenant_id", *newest], schema=schema)
    op.create_index(
        "threads_expiry",
        "threads",
        ["expires_at"],
        schema=schema,
        postgresql_where=sa.text("expires_at IS NOT NULL"),
    )


def create_checkpoints(schema: str | None) -> None:
    op.create_table(
        "checkpoints",
        key("tenant_id"),
        key("thread_id"),
        key("ns", ""),
        key("checkpoint_id"),
        sa.Column("parent_id", sa.Text(collation="C")),
        sa.Column("identity", sa.LargeBinary),
        sa.Column("digest", sa.LargeBinary),
        count("step"),
        count("tokens", sa.BigInteger),
        time("created_at"),
        sa.Column("checkpoint", JSON, nullable=False),
        sa.Column("metadata", JSONB),
        sa.PrimaryKeyConstraint(
            "tenant_id", "thread_id", "ns", "checkpoint_id", name="checkpoints_pkey"
        ),
        schema=schema,
    )
    op.create_index(
        "checkpoints_identity",
        "checkpoints",
        ["tenant_id", "thread_id", "identity"],
        unique=True,
        schema=schema,
        postgresql_where=sa.text("identity IS NOT NULL"),
    )


def create_blobs(schema: str | None) -> None:
    op.create_table(
        "checkpoint_blobs",
        key("tenant_id"),
        key("thread_id"),
        key("ns", ""),
        key("channel"),
        key("version"),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary),
        time("created_at"),
        sa.PrimaryKeyConstraint(
            "tenant_id", "thread_id", "ns", "channel", "version", name="checkpoint_blobs_pkey"
        ),
        schema=schema,
    )


def create_writes(schema: str | None) -> None:
    identity = ["tenant_id", "thread_id", "ns", "checkpoint_id", "key", "task_id", "idx"]
    op.create_table(
        "checkpoint_writes",
        key("tenant_id"),
        key("thread_id"),
        key("ns", ""),
        key("checkpoint_id"),
        key("key", ""),
        key("task_id"),
        sa.Column("idx", sa.Integer, nullable=False),
        key("task_path", ""),
        key("channel"),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary),
        time("created_at"),
        sa.PrimaryKeyConstraint(*identity, name="checkpoint_writes_pkey"),
        schema=schema,
    )


def set_storage(schema: str | None) -> None:
    """Keep payloads in the row, compressed; lz4, where the server has it, reads much faster."""
    prefix = quoted(str(schema))
    op.execute(f"ALTER TABLE {prefix}.checkpoints ALTER COLUMN checkpoint SET STORAGE MAIN")
    offers_lz4 = sa.text(
        "SELECT enumvals @> '{lz4}' FROM pg_settings WHERE name = 'default_toast_compression'"
    )
    if op.get_bind().scalar(offers_lz4):
        for table, column in (
            ("checkpoints", "checkpoint"),
            ("checkpoint_blobs", "data"),
            ("checkpoint_writes", "data"),
        ):
            op.execute(f"ALTER TABLE {prefix}.{table} ALTER COLUMN {column} SET COMPRESSION lz4")
