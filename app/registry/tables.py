"""The index's tables, alike on SQLite and PostgreSQL. Times are seconds since 1970 by the
database's clock.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

TABLES = MetaData()

state = Table(
    "registry_state",
    TABLES,
    Column(
        "id", Integer, CheckConstraint("id = 1"), primary_key=True, autoincrement=False
    ),
    Column("revision", Integer, nullable=False),
    Column(
        "documents", Integer, nullable=False, default=0
    ),  # the revision of the saved documents
)

models = Table(
    "models",
    TABLES,
    Column("name", String(64), primary_key=True),
    Column("next_version", Integer, nullable=False),  # stays when the model is deleted
    # true from the first version on until the model is deleted
    Column("listed", Boolean, nullable=False),
    # the greatest number of a deleted document
    Column("deleted_document", Integer, nullable=False, default=0),
)

versions = Table(
    "versions",
    TABLES,
    Column("name", ForeignKey(models.c.name), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("sha256", String(64), nullable=False),  # of card.json, byte by byte
    Column("bytes", BigInteger, nullable=False),  # of the files that the card lists
    Column("job", Text),
    Column("kind", Text, nullable=False),
    # the metrics of the card that are single values, as JSON, for lists
    Column("metrics", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("card", Text, nullable=False),
)

aliases = Table(
    "aliases",
    TABLES,
    Column("name", String(64), primary_key=True),
    Column("alias", String(64), primary_key=True),
    Column("version", Integer, nullable=False),
    # An alias cannot point at a version that does not exist.
    ForeignKeyConstraint(["name", "version"], [versions.c.name, versions.c.version]),
)

unpublished = Table(
    "unpublished_versions",
    TABLES,
    Column("name", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column(
        "job", Text
    ),  # that took the number, and whose end decides whether its folder stays
)

history = Table(
    "alias_history",
    TABLES,
    Column("name", ForeignKey(models.c.name), primary_key=True),
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("at", Double, nullable=False),
    Column("who", Text, nullable=False),
    Column("alias", String(64), nullable=False),
    Column("from_version", Integer),
    Column("to_version", Integer),
)

# No part of the index: it cannot be made again from the models.
saved_documents = Table(
    "saved_documents",
    TABLES,
    Column("model", String(64), primary_key=True),
    Column("kind", String(16), primary_key=True),  # matrix, guarantee or reasons
    Column("name", String(64), primary_key=True),
    Column("version", Integer, primary_key=True, autoincrement=False),
    # JSON; of a matrix: [matrix in words, actions in order or null]
    Column("content", Text, nullable=False),
    Column("created_at", Double, nullable=False),
    Column("who", Text, nullable=False),
)
