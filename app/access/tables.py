"""The tables of keys and of changes, alike on SQLite and PostgreSQL.

Times are seconds since 1970, by the database's clock.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

TABLES = MetaData()

API_KEYS = Table(
    "api_keys",
    TABLES,
    # The part of a key before the dot is no secret. The digest is SHA-256 of the part behind it.
    Column("id", String(32), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("name", String(64), nullable=False),
    Column("scopes", Text, nullable=False),  # separated by blanks, as the patterns are
    Column("models", Text, nullable=False),
    Column("rate", String(32)),
    Column("jobs", Integer),
    Column("created_at", Double, nullable=False),
    Column("expires_at", Double),
    Column("revoked_at", Double),  # keys are never deleted, nor changed but for this
)

AUDIT_LOG = Table(
    "audit_log",
    TABLES,
    Column(
        "seq",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    Column("at", Double, nullable=False),
    Column("who", String(64), nullable=False),
    Column("client", String(64)),
    Column("action", String(32), nullable=False),
    Column("subject", String(160), nullable=False),
    Column("details", Text, nullable=False),  # a JSON object
    Index("audit_log_subject", "subject"),  # finds the entry of the job that publishes
    sqlite_autoincrement=True,  # no number is used twice, so pages stay stable
)
