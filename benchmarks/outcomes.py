"""What a report on recorded decisions costs, and how often its intervals hold.

    .venv/bin/python benchmarks/outcomes.py [--rows 10000000] [--days 10]
    .venv/bin/python benchmarks/outcomes.py --streams 1000

The first makes decisions as sealed days, written as a worker writes them, from arrays in place of rows of a database.
It prints seconds, peak memory of the process, and bytes per decision.

The second prints the tables of intervals in benchmarks/outcomes.md. What excludes 0 is a false alarm where the promise
is kept, else what the verdict finds.

The smallest work: `.venv/bin/python benchmarks/outcomes.py --rows 1000 --days 2 --streams 2`
"""

import argparse
import os
import resource
import tempfile
from pathlib import Path
from time import perf_counter, process_time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from scipy.special import ndtr, ndtri
from sqlalchemy import insert

from app.database.engine import Database
from app.database.migrations import migrate
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY, Terms
from app.outcomes.sealed import (
    GROUP,
    OUTCOME_SCHEMA,
    SealedWriter,
    decision_schema,
    new_name,
)
from app.outcomes.tables import SEALED_FILES
from app.report.report import Read, document, matured
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.evidence.intervals import MeanSums
from tests.payoff.evidence.worlds import WORLDS, coverage

FIRST = 20_000  # the first day
CLASSES = ("healthy", "ill", "very ill")
ACTIONS = ("wait", "inspect", "treat")
MODEL = "triage"
BATCH = 16 * GROUP
SIZES = (100, 300, 1_000, 5_000, 20_000)
MONTH, FEWER_DAYS = 30, (1, 2, 3, 5, 8, 15)
GAINS = {
    "even": (1.0, 0.0),
    "one in eleven": (10.0, 0.0),
    "one in eleven, an amount for each case": (10.0, 1.0),
}


def terms(rng: np.random.Generator, version: int) -> Terms:
    matrix = np.array(
        [[0.0, -1.0, -3.0], [-8.0, 1.0, 4.0], [-30.0, -9.0, 12.0]]
    ) + rng.normal(0, 0.1, (3, 3))
    rows = tuple(tuple(row) for row in matrix.round(2).tolist())
    return Terms("predict", MODEL, version, "expected_benefit", CLASSES, ACTIONS, rows)


def ids_of(rng: np.random.Generator, at: np.ndarray) -> list[str]:
    """UUIDv7 of increasing moments, faster than one by one."""
    milliseconds = (at * 1000).astype(np.int64).tolist()
    low, high = (
        rng.integers(0, 2**32, len(at)).tolist(),
        rng.integers(0, 2**32, len(at)).tolist(),
    )
    return sorted(
        f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{a & 0xFFF:03x}-{0x8000 | a >> 18:04x}-{b:08x}{a >> 16:04x}"
        for ms, a, b in zip(milliseconds, low, high, strict=True)
    )


def part_of_day(
    rng: np.random.Generator,
    day: int,
    count: int,
    kinds: list[Terms],
    part: int,
    parts: int,
) -> dict[str, pa.Table]:
    """Decisions with calibrated probabilities, and outcomes of seven in ten, as the tables of a sealed day."""
    at = day * DAY + np.sort((part + rng.random(count)) / parts * DAY)
    p = rng.dirichlet([2.0, 1.0, 0.5], count)
    kind = rng.integers(0, len(kinds), count)
    benefits = np.einsum(
        "nk,nka->na", p, np.array([one.benefits for one in kinds])[kind]
    )
    truth = (
        (rng.random(count)[:, None] > p.cumsum(axis=1))
        .sum(axis=1)
        .clip(max=2)
        .astype(np.int32)
    )
    received = at + rng.integers(1, 30, count) * 3600.0
    ids, digest = pa.array(ids_of(rng, at)), rng.integers(-(2**62), 2**62, count)
    known = rng.random(count) < 0.7
    contents = pa.array([one.content for one in kinds])
    decisions = {
        "id": ids,
        "given": pa.array(np.zeros(count, dtype=bool)),
        "at": pa.array(at),
        "terms": pa.DictionaryArray.from_arrays(
            pa.array(kind.astype(np.int32)), contents
        ),
        "choice": pa.array(benefits.argmax(axis=1).astype(np.int32)),
        "expected": pa.array(benefits.max(axis=1)),
        "probabilities": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(24), count, [None, pa.py_buffer(p.astype("<f8").tobytes())]
        ),
        "client": pa.array(["desk"] * count).dictionary_encode(),
        "digest": pa.array(digest),
    }
    outcomes = {
        "id": ids.filter(pa.array(known)),
        "truth": pa.array(truth[known]),
        "received_at": pa.array(received[known]),
        "revision": pa.array(np.ones(known.sum(), dtype=np.int32)),
    }
    return {
        "decisions": whole(decisions, decision_schema(24, ()), count),
        "outcomes": whole(outcomes, OUTCOME_SCHEMA, int(known.sum())),
    }


def whole(arrays: dict, schema: pa.Schema, count: int) -> pa.Table:
    """A table with null where there are no values."""
    return pa.table(
        [arrays.get(field.name, pa.nulls(count, field.type)) for field in schema],
        schema=schema,
    )


def fill(database: Database, archive: Archive, rows: int, days: int) -> None:
    rng = np.random.default_rng(1)
    kinds = [terms(rng, 1 + i // 3) for i in range(6)]
    for day in range(FIRST, FIRST + days):
        drafts = {
            "decisions": SealedWriter(decision_schema(24, ())),
            "outcomes": SealedWriter(OUTCOME_SCHEMA),
        }
        each = rows // days
        parts = -(-each // BATCH)
        for part in range(parts):
            tables = part_of_day(
                rng, day, min(BATCH, each - part * BATCH), kinds, part, parts
            )
            for kind, draft in drafts.items():
                draft.add(tables[kind])
        for kind, draft in drafts.items():
            name = new_name(MODEL, day, kind)
            archive.sealer.files.publish(name, draft.content())
            entry = {
                "file": name,
                "model": MODEL,
                "day": day,
                "kind": kind,
                "is_current": True,
            }
            with database.writing() as connection:
                connection.execute(
                    insert(SEALED_FILES).values(entry | {"at": float((day + 1) * DAY)})
                )


def report(archive: Archive) -> str:
    """The verdict of the report and its reason, without what is compared with the registry."""
    maturity = matured(archive.cases(MODEL, arrivals_only=True), (FIRST + 365) * DAY)
    found = Read(lambda _version: (np.array([0.6, 0.3, 0.1]), 0), None, maturity)
    for part in archive.cases(MODEL):
        found.add(part)
    told = document(found, [])
    return f"{told['verdict']}, {told['difference']}"


def time_report(folder: Path, rows: int, days: int) -> None:
    database = Database(f"sqlite:///{folder / 'payoff.db'}")
    migrate(database)
    archive = Archive(database, str(folder / "decisions"))
    pid = (
        os.fork()
    )  # so that the peak of memory is that of reading; before the store has threads
    if not pid:
        fill(database, archive, rows, days)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    size = sum(
        path.stat().st_size for path in (folder / "decisions").rglob("*.parquet")
    )
    print(f"{size / rows:.1f} bytes for each decision")
    began, used = perf_counter(), process_time()
    found = report(archive)
    seconds, used = perf_counter() - began, process_time() - used
    print(f"report: {seconds:.2f} s, {used:.2f} s of a processor: {found}")
    database.close()


def wrong_gains(loss, spread, moves, n, days, streams, seed=0):
    """The shares of null streams in which the interval of a gain by days, and by independent cases, excludes 0.

    One way risks `loss` where the other pays 1, at odds that are even on average and move with the days (probit).
    """
    rng, wrong = np.random.default_rng(seed), np.zeros(2)
    for _ in range(streams):
        move = moves * rng.normal(size=days)[np.arange(n) * days // n]
        lost = rng.random(n) < ndtr(
            ndtri(1 / (1 + loss)) * np.sqrt(1 + moves**2) + move
        )
        gains = np.exp(spread * rng.normal(size=n)) * np.where(lost, -loss, 1.0)
        if min(lost.sum(), n - lost.sum()) < MIN_ROWS_TO_COMPARE:
            continue
        by_days, together = MeanSums(), MeanSums()
        for day, own in enumerate(np.array_split(gains, days)):
            by_days.add(own, day)
            together.add(own)
        wrong += [
            not mean.low <= 0 <= mean.high for mean in (by_days.mean(), together.mean())
        ]
    return wrong / streams


def percent(count, streams):
    """With its standard error."""
    share = count / streams
    return f"{100 * share:.1f} ± {100 * np.sqrt(share * (1 - share) / streams):.1f} %"


def print_coverage(streams: int) -> None:
    print(
        f"{streams} streams each\n| world | days | cases | with interval | held | wrong of all | excludes 0 |"
    )
    print("|---|---|---|---|---|---|---|")
    cells = [(world, MONTH, n) for world in WORLDS for n in SIZES]
    cells += [
        (world, days, 1_000)
        for world in WORLDS
        if "days" in world
        for days in FEWER_DAYS
    ]
    for world, days, n in cells:
        given, held, found = coverage(world, n, streams, days)
        share = f"{100 * held / given:.1f} %" if given else "-"
        rest = f"{share} | {percent(given - held, streams)} | {percent(found, streams)}"
        print(
            f"| {world} | {days} | {n:,} | {100 * given / streams:.0f} % | {rest} |",
            flush=True,
        )
    print(
        "| gains | days move by | days | cases | wrong by days | wrong by cases |\n|---|---|---|---|---|---|"
    )
    for name, (loss, spread) in GAINS.items():
        for moves, days, n in (
            (0.0, 8, 1_000),
            (0.0, 30, 5_000),
            (0.25, 8, 1_000),
            (0.25, 30, 5_000),
        ):
            own = wrong_gains(loss, spread, moves, n, days, streams) * streams
            shares = " | ".join(percent(count, streams) for count in own)
            print(f"| {name} | {moves} | {days} | {n:,} | {shares} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--streams", type=int)
    chosen = parser.parse_args()
    if chosen.rows or not chosen.streams:
        with tempfile.TemporaryDirectory() as folder:
            time_report(Path(folder), chosen.rows or 10_000_000, chosen.days)
        print(
            f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"
        )
    if chosen.streams:
        print_coverage(chosen.streams)


if __name__ == "__main__":
    main()
