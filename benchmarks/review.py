"""What a review desk waits for, over HTTP, where many decisions are recorded.

    .venv/bin/python benchmarks/review.py [--rows 10000000] [--days 100] [--today 100000] [--home /tmp/desk]

Days are files, written as a worker writes them, from arrays in place of rows of a database; today's decisions are rows
of SQLite. A folder `--home` that exists is used again. Cold is the first request of a new service whose files and
database the system has to read from the disk.

The smallest work: `.venv/bin/python benchmarks/review.py --rows 2000 --days 2 --today 500`
"""

import argparse
import os
import resource
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from logging import CRITICAL
from pathlib import Path
from time import perf_counter, process_time
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import httpx
import numpy as np
import structlog
from outcomes import FIRST, MODEL, fill, part_of_day, terms
from sqlalchemy import insert

from app.database.engine import Database
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY
from app.outcomes.tables import DECISION_TERMS, DECISIONS
from app.registry.tables import models
from tests.conftest import serving, settings_for

AT_ONCE = 10_000
IDS = 200
PAGES = {
    "referred": {"action": "inspect", "open": True},
    "any action": {"open": True},
    "referred, by time": {"action": "inspect", "open": True, "order": "time"},
    "referred, sealed days": {"action": "inspect", "open": True},
}


def record_today(database: Database, day: int, count: int) -> None:
    """The decisions of a day as rows of the database."""
    rng = np.random.default_rng(2)
    kinds = [terms(rng, 2) for _ in range(3)]
    digests = {kind.content: kind.digest for kind in kinds}
    contents = [
        {"digest": kind.digest, "content": kind.content, "used_at": 0.0}
        for kind in kinds
    ]
    with database.writing() as connection:
        connection.execute(
            insert(models).values(name=MODEL, next_version=3, listed=True)
        )
        connection.execute(insert(DECISION_TERMS), contents)
    parts = -(-count // AT_ONCE)
    for part in range(parts):
        size = min(AT_ONCE, count - part * AT_ONCE)
        table = part_of_day(rng, day, size, kinds, part, parts)["decisions"]
        rows = [
            row | {"model": MODEL, "version": 2, "terms": digests[row["terms"]]}
            for row in table.to_pylist()
        ]
        with database.writing() as connection:
            connection.execute(insert(DECISIONS), rows)


def make(folder: Path, rows: int, days: int, today: int) -> None:
    """A service's folder with decisions."""
    settings = settings_for(folder, workers=0)
    with serving(settings):
        pass
    database = Database(f"sqlite:///{folder / 'home' / 'payoff.db'}")
    fill(database, Archive(database, settings.decisions_url), rows, days)
    record_today(database, FIRST + days, today)
    database.close()


class Timed(NamedTuple):
    """A request: milliseconds on the clock, and of the processor for client and service."""

    clock: float
    processor: float
    answer: dict

    @classmethod
    def of(cls, client: httpx.Client, path: str, **query: object) -> "Timed":
        began, used = perf_counter(), process_time()
        answer = client.get(path, params=query)
        clock, processor = perf_counter() - began, process_time() - used
        answer.raise_for_status()
        return cls(1000 * clock, 1000 * processor, answer.json())


def line(name: str, cold: Timed, warm: list[Timed], digits: int, *more: str) -> None:
    """Prints a line of a table."""
    clocks = [request.clock for request in warm]
    processor = np.median([request.processor for request in warm])
    figures = (cold.clock, np.median(clocks), np.quantile(clocks, 0.99), processor)
    cells = [name, *(f"{figure:.{digits}f} ms" for figure in figures), *more]
    print(f"| {' | '.join(cells)} |", flush=True)


def measure(folder: Path, days: int) -> None:
    """Prints both tables."""
    rng = np.random.default_rng(3)
    end = f"{np.datetime64(FIRST + days, 'D')}T00:00:00Z"
    head = "cold | warm: median | 99 % | of that the processor"
    print(f"| first page | {head} | decisions scanned |\n|---|---|---|---|---|---|")
    for name, query in PAGES.items():
        until = {"until": end} if "sealed" in name else {}
        with cold_service(folder) as client:
            cold, *warm = (
                Timed.of(client, f"/models/{MODEL}/decisions", **query, **until)
                for _ in range(10)
            )
        line(name, cold, warm, 0, f"{cold.answer['scanned']:,}")
    print(f"| one decision | {head} |\n|---|---|---|---|---|")
    today = FIRST + days
    for name, first, last in (("sealed", FIRST, today), ("of today", today, today + 1)):
        ids = sample(folder, rng, first, last)
        with cold_service(folder) as client:
            cold, *warm = (Timed.of(client, f"/decisions/{id_}") for id_ in ids)
        line(name, cold, warm, 1)


@contextmanager
def cold_service(folder: Path) -> Iterator[httpx.Client]:
    """A new service, whose files the system was asked to drop from memory."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with serving(settings_for(folder, workers=0)) as client:
        client.get("/health/ready")
        yield client


def sample(folder: Path, rng: np.random.Generator, first: int, last: int) -> list[str]:
    """Ids of days from `first` until before `last`."""
    settings = settings_for(folder)
    database = Database(f"sqlite:///{folder / 'home' / 'payoff.db'}")
    archive = Archive(database, settings.decisions_url)
    ids = []
    for day in rng.choice(
        np.arange(first, last), min(5, last - first), replace=False
    ).tolist():
        query = {
            "since": day * DAY,
            "until": (day + 1) * DAY,
            "with_ids": True,
            "arrivals_only": True,
        }
        ids += [id_ for cases in archive.cases(MODEL, **query) for id_ in cases.ids]
    database.close()
    return rng.choice(ids, IDS).tolist()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--today", type=int, default=100_000)
    parser.add_argument("--home", type=Path)
    chosen = parser.parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(CRITICAL))
    with tempfile.TemporaryDirectory() as temporary:
        folder = chosen.home or Path(temporary) / "desk"
        if not folder.exists():
            make(folder, chosen.rows, chosen.days, chosen.today)
        measure(folder, chosen.days)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak memory: {peak:.0f} MB")


if __name__ == "__main__":
    main()
