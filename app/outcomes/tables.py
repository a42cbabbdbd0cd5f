"""The tables of recorded decisions, alike on SQLite and PostgreSQL.

Times are seconds since 1970, days are UTC.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

TABLES = MetaData()
MAX_ID = 128  # characters

DECISION_TERMS = Table(
    "decision_terms",
    TABLES,
    Column("digest", String(32), primary_key=True),
    Column("content", Text, nullable=False),  # `Terms` as JSON
    # The last use to within an hour: unused terms are deleted with their decisions.
    Column("used_at", Double, nullable=False),
)

DECISIONS = Table(
    "decisions",
    TABLES,
    Column("id", String(MAX_ID), primary_key=True),
    # Whether the id is the client's; else it is a UUIDv7 of the service.
    Column("given", Boolean, nullable=False),
    Column("at", Double, nullable=False),  # by the clock of the service that decided
    Column("model", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("terms", String(32), nullable=False),
    Column("choice", Integer, nullable=False),  # an index into the actions of the terms
    Column(
        "expected", Double
    ),  # benefit of the choice; absent where no benefits were stated
    # Float64, little-endian, by class; of quantities the numbers that `Terms` describes.
    Column("probabilities", LargeBinary, nullable=False),
    Column("propensity", Double),  # of the choice, where it was drawn at random
    Column("client", String(64)),  # the name of the API key
    Column("details", Text),  # JSON: further figures of this decision
    Column("instance", Text),  # JSON, as the client sent it; only on request
    Column(
        "digest", BigInteger, nullable=False
    ),  # of all columns but id, time and client
    Column("segments", Text),  # JSON: the values of few columns; only on request
    Index("decisions_model_at", "model", "at"),
)

OUTCOMES = Table(
    "outcomes",
    TABLES,
    Column("id", String(MAX_ID), primary_key=True),
    Column("model", String(64), nullable=False),  # of the decision, as is the day
    Column("day", Integer, nullable=False),
    Column(
        "truth", Integer, nullable=False
    ),  # an index into the classes of the decision's terms
    Column(
        "number", Double
    ),  # the truth where it is a number; the index is that of its band
    Column("action", Integer),  # really carried out: an index into the terms' actions
    Column("benefit", Double),  # really received
    Column("at", Double),  # when the truth was known, as the client reports
    Column("received_at", Double, nullable=False),
    Column("revision", Integer, nullable=False),  # 1, and one more with each correction
    Index("outcomes_model_day", "model", "day"),
)

SEALED_FILES = Table(
    "sealed_files",
    TABLES,
    Column("file", String(160), primary_key=True),  # relative to the store
    Column("model", String(64), nullable=False),
    Column("day", Integer, nullable=False),
    Column("kind", String(16), nullable=False),  # decisions or outcomes
    # Readers read current files; others are being written, or were replaced.
    Column("is_current", Boolean, nullable=False),
    Column(
        "at", Double, nullable=False
    ),  # when it was written, or ceased to be current
    Index("sealed_files_model_day", "model", "day"),
)

SEALED_IDS = Table(
    "sealed_ids",  # ids of clients; an id of the service contains its day
    TABLES,
    Column("id", String(MAX_ID), primary_key=True),
    Column("model", String(64), nullable=False),
    Column("day", Integer, nullable=False),
    Column("digest", BigInteger, nullable=False),
    Index("sealed_ids_model_day", "model", "day"),
)

ERASED = Table(
    "erased_decisions",  # so that no retry brings one back, and no reader reads one
    TABLES,
    Column("id_digest", String(32), primary_key=True),
    Column("at", Double, nullable=False),
    Column("model", String(64), nullable=False),
    Column("day", Integer, nullable=False),
    # Absent once no file has the id any more: an id may identify a person.
    Column("id", String(MAX_ID)),
    Index("erased_decisions_model_day", "model", "day"),
)

SHADOWS = Table(
    "shadows",  # the versions that decide in the background on the requests to an alias
    TABLES,
    Column("model", String(64), primary_key=True),
    Column("alias", String(64), primary_key=True),
    Column("challengers", Text, nullable=False),  # a JSON list of references
)

SHADOW_DECISIONS = Table(
    "shadow_decisions",
    TABLES,
    # Id, model and day are those of the decision that was answered.
    Column("id", String(MAX_ID), primary_key=True),
    Column("challenger", String(80), primary_key=True),  # name:version
    Column("model", String(64), nullable=False),
    Column("day", Integer, nullable=False),
    Column("choice", Integer, nullable=False),  # an index into the same actions
    Index("shadow_decisions_model_day", "model", "day"),
)

BY_ID = (DECISIONS, OUTCOMES, SHADOW_DECISIONS, SEALED_IDS)
"""Tables with rows of a decision, by its id."""
