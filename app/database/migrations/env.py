"""What alembic runs to migrate: everything happens on the connection, and in the transaction, that
`migrate` opened.
"""

from alembic import context

from app.database.migrations import REVISION

context.configure(connection=context.config.attributes["connection"], version_table=REVISION.name)
context.run_migrations()
