"""Benefit matrices that are saved for a model."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.create_table(
        "saved_matrices",
        sa.Column("model", sa.String(64), primary_key=True),
        sa.Column("matrix", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("content", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_index("saved_matrices_revision", "saved_matrices", ["revision"])
