"""Recorded decisions, their outcomes, and sealed days."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    _decisions()
    _sealed()
    _practice()


def _decisions() -> None:
    op.create_table(
        "decision_terms",
        sa.Column("digest", sa.String(32), primary_key=True),
        sa.Column("content", sa.Text, nullable=False),
        sa.Column("used_at", sa.Double, nullable=False),
    )
    op.create_table(
        "decisions",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("given", sa.Boolean, nullable=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("terms", sa.String(32), nullable=False),
        sa.Column("choice", sa.Integer, nullable=False),
        sa.Column("expected", sa.Double),
        sa.Column("probabilities", sa.LargeBinary, nullable=False),
        sa.Column("propensity", sa.Double),
        sa.Column("client", sa.String(64)),
        sa.Column("details", sa.Text),
        sa.Column("instance", sa.Text),
        sa.Column("digest", sa.BigInteger, nullable=False),
    )
    op.create_index("decisions_model_at", "decisions", ["model", "at"])
    op.create_table(
        "outcomes",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("truth", sa.Integer, nullable=False),
        sa.Column("label", sa.Text, nullable=False),
        sa.Column("action", sa.Integer),
        sa.Column("benefit", sa.Double),
        sa.Column("at", sa.Double),
        sa.Column("received_at", sa.Double, nullable=False),
        sa.Column("revision", sa.Integer, nullable=False),
    )
    op.create_index("outcomes_model_day", "outcomes", ["model", "day"])
    op.create_index("outcomes_model_received", "outcomes", ["model", "received_at"])


def _sealed() -> None:
    op.create_table(
        "sealed_days",
        sa.Column("model", sa.String(64), primary_key=True),
        sa.Column("day", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("rows", sa.Integer, nullable=False),
        sa.Column("known", sa.Integer, nullable=False),
        sa.Column("bytes", sa.BigInteger, nullable=False),
        sa.Column("sealed_at", sa.Double, nullable=False),
    )
    op.create_table(
        "sealed_drafts",
        sa.Column("file", sa.String(128), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )
    op.create_table(
        "sealed_ids",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("digest", sa.BigInteger, nullable=False),
    )
    op.create_index("sealed_ids_model_day", "sealed_ids", ["model", "day"])
    op.create_table(
        "erased_decisions",
        sa.Column("id_digest", sa.String(32), primary_key=True),
        sa.Column("at", sa.Double, nullable=False),
    )


def _practice() -> None:
    op.create_table(
        "recording",
        sa.Column("model", sa.String(64), primary_key=True),
        sa.Column("instances", sa.Boolean, nullable=False),
        sa.Column("changed_at", sa.Double, nullable=False),
    )
    op.create_table(
        "shadows",
        sa.Column("model", sa.String(64), primary_key=True),
        sa.Column("alias", sa.String(64), primary_key=True),
        sa.Column("challengers", sa.Text, nullable=False),
    )
    op.create_table(
        "shadow_decisions",
        sa.Column("id", sa.String(128), primary_key=True),
        sa.Column("challenger", sa.String(80), primary_key=True),
        sa.Column("model", sa.String(64), nullable=False),
        sa.Column("day", sa.Integer, nullable=False),
        sa.Column("choice", sa.Integer, nullable=False),
    )
    op.create_index("shadow_decisions_model_day", "shadow_decisions", ["model", "day"])
