"""No reader looks for outcomes by the time of their receipt."""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.drop_index("outcomes_model_received", "outcomes")
