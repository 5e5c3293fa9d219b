"""${message}

A migration must work with the previous release still running: add first, remove one release later.
Name the schema in every statement. Never edit a released migration. A changed SQL function gets a
new name.
"""

import sqlalchemy as sa
from alembic import context, op
${imports if imports else ""}
revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = ${repr(branch_labels)}
depends_on = ${repr(depends_on)}


def upgrade() -> None:
    schema = context.get_context().version_table_schema
    ${upgrades if upgrades else "pass"}


def downgrade() -> None:
    schema = context.get_context().version_table_schema
    ${downgrades if downgrades else "pass"}
