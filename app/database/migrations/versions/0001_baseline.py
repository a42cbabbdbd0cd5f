"""The tables of 0.1.0, as the modules that use them declare them.

The first change after that release writes them out here as they were, and adds a step of its own.
"""

from alembic import op

from app.access.tables import TABLES as ACCESS
from app.jobs.tables import TABLES as JOBS
from app.outcomes.tables import TABLES as OUTCOMES
from app.registry.tables import TABLES as REGISTRY

revision = "0001"
down_revision = None


def upgrade() -> None:
    for tables in (JOBS, REGISTRY, ACCESS, OUTCOMES):
        tables.create_all(op.get_bind(), checkfirst=False)
    state = REGISTRY.tables["registry_state"]
    op.execute(state.insert().values(id=1, revision=0))
