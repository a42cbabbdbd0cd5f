"""The script that alembic runs to migrate, in the transaction that `migrate` opened."""

from alembic import context

from app.database.migrations import REVISION

context.configure(
    connection=context.config.attributes["connection"], version_table=REVISION.name
)
context.run_migrations()
