"""Numbers of versions belong to attempts, and which index files are behind is known."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "reservations",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("job", sa.String(24), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("sha256", sa.String(64)),
        sa.Column("given_up", sa.Boolean, nullable=False),
    )
    op.create_index("reservations_job", "reservations", ["job"])
    op.create_table(
        "mirrors",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("changed", sa.Integer, nullable=False),
        sa.Column("written", sa.Integer, nullable=False),
    )
