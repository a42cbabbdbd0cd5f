"""Clients take turns in the queue of jobs."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"

_TURNS_OF_WAITING_JOBS = """
UPDATE jobs SET turn = ranked.turn FROM (
    SELECT seq, row_number() OVER (PARTITION BY client ORDER BY seq) AS turn FROM jobs WHERE status = 'queued'
) AS ranked WHERE jobs.seq = ranked.seq
"""


def upgrade() -> None:
    op.add_column("jobs", sa.Column("turn", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("jobs_status_turn", "jobs", ["status", "turn", "seq"])
    op.create_index("jobs_client_status_turn", "jobs", ["client", "status", "turn"])
    op.execute(_TURNS_OF_WAITING_JOBS)
