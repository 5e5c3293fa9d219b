"""Functions for staged writes, branches, forks, erasure and graph checkpoints."""

import re
from pathlib import Path

from alembic import context, op

from app.adapters.sql.engine import quoted

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

FUNCTIONS = Path(__file__).with_name("0002_functions")


def upgrade() -> None:
    schema = quoted(str(context.get_context().version_table_schema))
    for path in sorted(FUNCTIONS.glob("*.sql")):
        op.get_bind().exec_driver_sql(path.read_text().replace("@schema@", schema))


def downgrade() -> None:
    schema = quoted(str(context.get_context().version_table_schema))
    for path in sorted(FUNCTIONS.glob("*.sql"), reverse=True):
        for name in re.findall(r"CREATE FUNCTION @schema@\.(\w+)", path.read_text()):
            op.execute(f"DROP FUNCTION {schema}.{name}")
        for name in re.findall(r"CREATE INDEX (\w+)", path.read_text()):
            op.execute(f"DROP INDEX {schema}.{name}")
