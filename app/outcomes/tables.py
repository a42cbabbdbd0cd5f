"""The tables of recorded decisions, alike on SQLite and PostgreSQL. Times are seconds since 1970,
days are UTC.
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
    Column(
        "used_at", Double, nullable=False
    ),  # to within an hour: unused ones are deleted with their decisions
)

DECISIONS = Table(
    "decisions",
    TABLES,
    Column("id", String(MAX_ID), primary_key=True),
    Column("given", Boolean, nullable=False),  # the id is the caller's; else it is a UUIDv7 of ours
    Column("at", Double, nullable=False),  # by the clock of the service that decided
    Column("model", String(64), nullable=False),
    Column("version", Integer, nullable=False),
    Column("terms", String(32), nullable=False),
    Column("choice", Integer, nullable=False),  # an index into the actions of the terms
    Column("expected", Double),  # benefit of the choice; absent where no benefits were stated
    Column(
        "probabilities", LargeBinary, nullable=False
    ),  # float64, little-endian, by class; or what `Terms` says
    Column("propensity", Double),  # of the choice, where it was drawn
    Column("client", String(64)),  # the key's name
    Column("details", Text),  # JSON: what else belongs to this decision
    Column("instance", Text),  # JSON, as it was sent; only on request
    Column("digest", BigInteger, nullable=False),  # of all but id, time and client
    Index("decisions_model_at", "model", "at"),
)

OUTCOMES = Table(
    "outcomes",
    TABLES,
    Column("id", String(MAX_ID), primary_key=True),
    Column("model", String(64), nullable=False),  # of the decision, as is the day
    Column("day", Integer, nullable=False),
    Column("truth", Integer, nullable=False),  # an index into the classes of the decision's terms
    Column("number", Double),  # that is the truth; the index is of its band
    Column("action", Integer),  # really taken: an index into the terms' actions
    Column("benefit", Double),  # really received
    Column("at", Double),  # when the truth was, as the client says
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
    Column(
        "is_current", Boolean, nullable=False
    ),  # readers read it; else it is being written, or was replaced
    Column("at", Double, nullable=False),  # when it was written, or ceased to be current
    Index("sealed_files_model_day", "model", "day"),
)

SEALED_IDS = Table(
    "sealed_ids",  # of callers; an id of ours has its day within
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
    Column("id", String(MAX_ID)),  # until no file has it any more: an id may tell of a person
    Index("erased_decisions_model_day", "model", "day"),
)

SHADOWS = Table(
    "shadows",  # who decides in the background where an alias is asked
    TABLES,
    Column("model", String(64), primary_key=True),
    Column("alias", String(64), primary_key=True),
    Column("challengers", Text, nullable=False),  # a JSON list of references
)

SHADOW_DECISIONS = Table(
    "shadow_decisions",
    TABLES,
    Column("id", String(MAX_ID), primary_key=True),  # of the decision that was answered
    Column("challenger", String(80), primary_key=True),  # name:version
    Column("model", String(64), nullable=False),  # of the decision that was answered, as is the day
    Column("day", Integer, nullable=False),
    Column("choice", Integer, nullable=False),  # an index into the same actions
    Index("shadow_decisions_model_day", "model", "day"),
)

BY_ID = (DECISIONS, OUTCOMES, SHADOW_DECISIONS, SEALED_IDS)
"""Tables with rows of a decision, by its id."""
