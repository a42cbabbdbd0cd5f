"""Recorded decisions and outcomes, written straight into a database."""

import io
from collections.abc import Sequence
from itertools import cycle, islice
from time import time

import numpy as np
import pyarrow.parquet as pq
from prometheus_client import Counter, Gauge
from sqlalchemy import Table, func, insert, select

from app.database.engine import Database
from app.outcomes.archive import Archive
from app.outcomes.decision import Terms, new_ids
from app.outcomes.sealed import SEAL
from app.outcomes.tables import DECISION_TERMS, DECISIONS, OUTCOMES, SEALED_FILES

LOAN = Terms(
    "predict",
    "loan",
    1,
    "expected_benefit",
    ("bad", "good"),
    ("refuse", "grant"),
    ((0.0, -5.0), (-1.0, 1.0)),
)  # two classes, two actions


def decided(
    database: Database,
    count: int = 1,
    *,
    terms: Terms | Sequence[Terms] = LOAN,
    at: float | Sequence[float] | None = None,
    ids: Sequence[str] | None = None,
    probabilities: Sequence[Sequence[float]] | None = None,
    choice: Sequence[int] | None = None,
    client: str | None = None,
    instance: str | None = None,
) -> list[str]:
    """Write decisions, and answer their ids. What is one value is that of all; probabilities are drawn by default, and
    the choices are those with the largest expected benefit.
    """
    if not count:
        return []
    every = list(islice(cycle([terms] if isinstance(terms, Terms) else terms), count))
    moments = (
        [time() if at is None else at] * count
        if at is None or isinstance(at, int | float)
        else list(at)
    )
    names = (
        list(ids) if ids is not None else [new_ids(1, moment)[0] for moment in moments]
    )
    drawn = np.random.default_rng(0)
    rows = []
    for i, (id_, moment, one) in enumerate(zip(names, moments, every, strict=True)):
        p = np.array(
            drawn.dirichlet(np.ones(len(one.classes)))
            if probabilities is None
            else probabilities[i]
        )
        benefits = p if one.benefits is None else p @ one.benefits
        chosen = int(benefits.argmax()) if choice is None else choice[i]
        rows.append(
            {
                "id": id_,
                "given": ids is not None,
                "at": moment,
                "model": one.model,
                "version": one.version,
                "terms": one.digest,
                "choice": chosen,
                "expected": None if one.benefits is None else float(benefits[chosen]),
                "probabilities": p.astype("<f8").tobytes(),
                "client": client,
                "instance": instance,
                "digest": i,
            }
        )
    contents = {one.digest: one.content for one in every}
    with database.writing() as connection:
        there = set(connection.execute(DECISION_TERMS.select()).scalars())
        new = [
            {"digest": d, "content": c, "used_at": time()}
            for d, c in contents.items()
            if d not in there
        ]
        if new:
            connection.execute(insert(DECISION_TERMS), new)
        connection.execute(insert(DECISIONS), rows)
    return names


def told(
    database: Database,
    ids: Sequence[str],
    truths: Sequence[int],
    *,
    terms: Terms = LOAN,
    day: int,
    received_at: float | Sequence[float] | None = None,
) -> None:
    """Write outcomes of decisions of one day; truths are indices into the classes of the terms."""
    received = np.broadcast_to(
        time() if received_at is None else received_at, len(ids)
    ).tolist()
    rows = [
        {
            "id": id_,
            "model": terms.model,
            "day": int(day),
            "truth": truth,
            "received_at": received[i],
            "revision": 1,
        }
        for i, (id_, truth) in enumerate(zip(ids, truths, strict=True))
    ]
    if rows:
        with database.writing() as connection:
            connection.execute(insert(OUTCOMES), rows)


def ids_of(archive: Archive) -> list[str]:
    """What is read of the loans."""
    return sorted(
        id_ for part in archive.cases("loan", with_ids=True) for id_ in part.ids or ()
    )


def in_files(archive: Archive) -> set[str]:
    """The ids in all files that readers read."""
    with archive.database.reading() as connection:
        files = (
            connection.execute(
                select(SEALED_FILES.c.file).where(SEALED_FILES.c.is_current)
            )
            .scalars()
            .all()
        )
    content = [
        pq.read_table(io.BytesIO(archive.storage.read(name, SEAL))) for name in files
    ]
    return {id_ for table in content for id_ in table["id"].to_pylist()}


def count(database: Database, table: Table) -> int:
    """How many rows a table has."""
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(table)).scalar_one()


def value_of(metric: Counter | Gauge) -> float:
    """The value of a metric that has one line."""
    (told,) = metric.collect()
    return told.samples[0].value
