"""The tables of the first release.

They are made only where they are absent: databases from before revisions were counted have them already.
"""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

_state = sa.table("registry_state", sa.column("id", sa.Integer), sa.column("revision", sa.Integer))


def upgrade() -> None:
    _jobs()
    _registry()
    if op.get_bind().execute(sa.select(_state.c.id)).first() is None:
        op.execute(_state.insert().values(id=1, revision=0))


def _jobs() -> None:
    op.create_table(
        "jobs",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("id", sa.String(24), nullable=False, unique=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("spec", sa.Text, nullable=False),
        sa.Column("status", sa.String(9), nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("deaths", sa.Integer, nullable=False),
        sa.Column("progress", sa.Double, nullable=False),
        sa.Column("stage", sa.Text, nullable=False),
        sa.Column("notes", sa.Text, nullable=False),
        sa.Column("result", sa.Text),
        sa.Column("error", sa.Text),
        sa.Column("model", sa.String(64)),
        sa.Column("dataset", sa.String(64)),
        sa.Column("cancel_requested", sa.Boolean, nullable=False),
        sa.Column("worker", sa.Text),
        sa.Column("lease_until", sa.Double),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("started_at", sa.Double),
        sa.Column("finished_at", sa.Double),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
    op.create_index("jobs_status_seq", "jobs", ["status", "seq"], if_not_exists=True)
    op.create_table(
        "workers",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("seen_at", sa.Double, nullable=False),
        if_not_exists=True,
    )


def _registry() -> None:
    op.create_table(
        "registry_state",
        sa.Column("id", sa.Integer, sa.CheckConstraint("id = 1"), primary_key=True, autoincrement=False),
        sa.Column("revision", sa.Integer, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "models",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("next_version", sa.Integer, nullable=False),
        sa.Column("listed", sa.Boolean, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "versions",
        sa.Column("name", sa.String(64), sa.ForeignKey("models.name"), primary_key=True),
        sa.Column("version", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("job", sa.Text),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("metrics", sa.Text, nullable=False),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("card", sa.Text, nullable=False),
        if_not_exists=True,
    )
    op.create_table(
        "aliases",
        sa.Column("name", sa.String(64), primary_key=True),
        sa.Column("alias", sa.String(64), primary_key=True),
        sa.Column("version", sa.Integer, nullable=False),
        sa.ForeignKeyConstraint(["name", "version"], ["versions.name", "versions.version"]),
        if_not_exists=True,
    )
    op.create_table(
        "alias_history",
        sa.Column("name", sa.String(64), sa.ForeignKey("models.name"), primary_key=True),
        sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("at", sa.Double, nullable=False),
        sa.Column("who", sa.Text, nullable=False),
        sa.Column("alias", sa.String(64), nullable=False),
        sa.Column("from_version", sa.Integer),
        sa.Column("to_version", sa.Integer),
        if_not_exists=True,
    )
