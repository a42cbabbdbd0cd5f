"""The tables behind the queue, the same on SQLite and PostgreSQL."""

import dataclasses
import json
from collections.abc import Collection
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Dialect,
    Double,
    Index,
    Integer,
    MetaData,
    RowMapping,
    String,
    Table,
    Text,
    TypeDecorator,
    case,
    literal,
)

from app.jobs.job import Job, Status


class Json(TypeDecorator[Any]):
    """JSON in a text column.

    Plain ASCII text holds whatever a client can send, also the NUL that PostgreSQL's JSON types
    refuse. NaN and Infinity are refused with ValueError.
    """

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, _dialect: Dialect) -> str | None:
        return None if value is None else json.dumps(value, allow_nan=False)

    def process_result_value(self, value: str | None, _dialect: Dialect) -> Any:
        return None if value is None else json.loads(value)


TABLES = MetaData()

JOBS = Table(
    "jobs",
    TABLES,
    Column(
        "seq",
        BigInteger().with_variant(Integer, "sqlite"),
        primary_key=True,
        autoincrement=True,
    ),
    Column("id", String(24), nullable=False, unique=True),
    Column("kind", String(64), nullable=False),
    Column("spec", Json, nullable=False),
    Column("status", String(9), nullable=False),
    Column("attempt", Integer, nullable=False, default=0),
    Column("deaths", Integer, nullable=False, default=0),
    Column("outages", Integer, nullable=False, default=0),
    Column("progress", Double, nullable=False, default=0.0),
    Column("stage", Json, nullable=False, default=""),
    Column("notes", Json, nullable=False, default=dict),
    Column("result", Json),
    Column("error", Json),
    Column("model", String(64)),
    Column("dataset", String(64)),
    Column("client", String(64)),  # id of the key that submitted the job
    Column("cancel_requested", Boolean, nullable=False, default=False),
    Column("worker", Text),
    Column("lease_until", Double),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("finished_at", Double),
    # the order of claims, see turns.py
    Column("turn", BigInteger, nullable=False, server_default="0"),
    Index("jobs_status_seq", "status", "seq"),
    Index(
        "jobs_status_turn", "status", "turn", "seq"
    ),  # claims take the first queued job
    Index("jobs_client_status_turn", "client", "status", "turn"),  # a client's last job
    sqlite_autoincrement=True,  # a number is never given twice, so pages stay stable
)

JOB_COLUMNS = tuple(JOBS.c[field.name] for field in dataclasses.fields(Job))


def listed_columns(
    results_of: Collection[str] | None = None,
) -> list[ColumnElement[Any]]:
    """The columns of a job with an empty spec, and without its result where its kind is not in
    `results_of`.
    """
    result = (
        JOBS.c.result
        if results_of is None
        else case((JOBS.c.kind.in_(results_of), JOBS.c.result)).label("result")
    )
    light = {"spec": literal({}, Json).label("spec"), "result": result}
    return [light.get(column.name, column) for column in JOB_COLUMNS]


def job_of(row: RowMapping) -> Job:
    return Job(**{**row, "status": Status(row["status"])})
