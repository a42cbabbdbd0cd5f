"""Make many recorded decisions as sealed days, and time what a report reads and computes.

    .venv/bin/python benchmarks/outcome_report.py [--rows 10000000] [--days 10] [--seal 100000] [--keep FOLDER]

Prints seconds, peak memory of the process, and bytes per decision. Days are written as a worker writes them, from
arrays in place of rows of a database. `--seal` times the sealing of so many rows of a database as well.

The smallest work: `.venv/bin/python benchmarks/outcome_report.py --rows 1000 --days 2`
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import sys
import tempfile
import threading
from pathlib import Path
from time import perf_counter, process_time, sleep

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pyarrow as pa
from sqlalchemy import insert, text

from app.database import Database
from app.migrations import migrate
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY, Terms
from app.outcomes.sealed import GROUP, OUTCOME_SCHEMA, Draft, decision_schema, new_name
from app.outcomes.tables import DECISION_TERMS, DECISIONS, OUTCOMES, SEALED_FILES
from app.usecases.outcome_report.report import Read, document, matured

FIRST = 20_000  # the first day
CLASSES = ("healthy", "ill", "very ill")
ACTIONS = ("wait", "inspect", "treat")
MODEL = "triage"
BATCH = 16 * GROUP


def terms(rng: np.random.Generator, version: int) -> Terms:
    matrix = np.array([[0.0, -1.0, -3.0], [-8.0, 1.0, 4.0], [-30.0, -9.0, 12.0]]) + rng.normal(0, 0.1, (3, 3))
    rows = tuple(tuple(row) for row in matrix.round(2).tolist())
    return Terms("predict", MODEL, version, "expected_benefit", CLASSES, ACTIONS, rows)


def ids_of(rng: np.random.Generator, at: np.ndarray) -> list[str]:
    """UUIDv7 of increasing moments, faster than one by one."""
    milliseconds = (at * 1000).astype(np.int64).tolist()
    low, high = rng.integers(0, 2**32, len(at)).tolist(), rng.integers(0, 2**32, len(at)).tolist()
    return sorted(
        f"{ms >> 16:08x}-{ms & 0xFFFF:04x}-7{a & 0xFFF:03x}-{0x8000 | a >> 18:04x}-{b:08x}{a >> 16:04x}"
        for ms, a, b in zip(milliseconds, low, high, strict=True)
    )


def columns(rng: np.random.Generator, day: int, count: int, kinds: list[Terms], part: int, parts: int) -> dict:
    """A part of a day as arrays: calibrated probabilities, outcomes of seven in ten."""
    at = day * DAY + np.sort((part + rng.random(count)) / parts * DAY)
    p = rng.dirichlet([2.0, 1.0, 0.5], count)
    kind = rng.integers(0, len(kinds), count)
    benefits = np.einsum("nk,nka->na", p, np.array([one.matrix for one in kinds])[kind])
    choice = benefits.argmax(axis=1)
    truth = (rng.random(count)[:, None] > p.cumsum(axis=1)).sum(axis=1).clip(max=2)
    received = at + rng.integers(1, 30, count) * 3600.0
    return {
        "id": ids_of(rng, at),
        "at": at,
        "kind": kind,
        "choice": choice,
        "expected": benefits.max(axis=1),
        "probabilities": p,
        "digest": rng.integers(-(2**62), 2**62, count),
        "truth": truth,
        "received_at": received,
        "known": rng.random(count) < 0.7,
    }


def decision_table(made: dict, kinds: list[Terms]) -> pa.Table:
    """The decisions of the part, as the table of a sealed day."""
    count = len(made["id"])
    contents = pa.array([one.content for one in kinds])
    arrays = {
        "id": pa.array(made["id"]),
        "given": pa.array(np.zeros(count, dtype=bool)),
        "at": pa.array(made["at"]),
        "terms": pa.DictionaryArray.from_arrays(pa.array(made["kind"].astype(np.int32)), contents),
        "choice": pa.array(made["choice"].astype(np.int32)),
        "expected": pa.array(made["expected"]),
        "probabilities": pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(24), count, [None, pa.py_buffer(made["probabilities"].astype("<f8").tobytes())]
        ),
        "client": pa.array(["desk"] * count).dictionary_encode(),
        "digest": pa.array(made["digest"]),
    }
    return whole(arrays, decision_schema(24, ()), count)


def outcome_table(made: dict) -> pa.Table:
    """The outcomes of the part."""
    known = made["known"]
    arrays = {
        "id": pa.array(made["id"]).filter(pa.array(known)),
        "truth": pa.array(made["truth"][known].astype(np.int32)),
        "received_at": pa.array(made["received_at"][known]),
        "revision": pa.array(np.ones(known.sum(), dtype=np.int32)),
    }
    return whole(arrays, OUTCOME_SCHEMA, int(known.sum()))


def whole(arrays: dict, schema: pa.Schema, count: int) -> pa.Table:
    """A table with null where there are no values."""
    return pa.table([arrays.get(field.name, pa.nulls(count, field.type)) for field in schema], schema=schema)


def fill(database: Database, archive: Archive, rows: int, days: int) -> None:
    rng = np.random.default_rng(1)
    kinds = [terms(rng, 1 + i // 3) for i in range(6)]
    for day in range(FIRST, FIRST + days):
        drafts = {"decisions": Draft(decision_schema(24, ())), "outcomes": Draft(OUTCOME_SCHEMA)}
        each = rows // days
        parts = -(-each // BATCH)
        for part in range(parts):
            made = columns(rng, day, min(BATCH, each - part * BATCH), kinds, part, parts)
            drafts["decisions"].add(decision_table(made, kinds))
            drafts["outcomes"].add(outcome_table(made))
        for kind, draft in drafts.items():
            name = new_name(MODEL, day, kind)
            archive.sealer.files.publish(name, draft.content())
            entry = {"file": name, "model": MODEL, "day": day, "kind": kind, "is_current": True}
            with database.writing() as connection:
                connection.execute(insert(SEALED_FILES).values(entry | {"at": float((day + 1) * DAY)}))


def read(archive: Archive) -> tuple[int, float, float]:
    """Cases, their expected benefit, and that of those with an outcome minus what they earned."""
    count, expected, difference = 0, 0.0, 0.0
    for part in archive.cases(MODEL):
        count += len(part)
        expected += float(part.expected.sum())
        known = part.truth >= 0
        matrices = np.array([one.matrix for one in part.terms])
        earned = matrices[part.term[known], part.truth[known], part.choice[known]]
        difference += float(part.expected[known].sum() - earned.sum())
    return count, expected, difference


def report(archive: Archive, by: str | None) -> str:
    """The verdict of the report and its reason, without what is compared with the registry."""
    maturity = matured(archive.cases(MODEL, arrivals_only=True), (FIRST + 365) * DAY)
    found = Read(lambda _version: (np.array([0.6, 0.3, 0.1]), 0), by, maturity)
    for part in archive.cases(MODEL):
        found.add(part)
    told = document(found, [])
    return f"{told['verdict']}, {told['difference']}"


def insert_rows(database: Database, count: int, day: int) -> None:
    """Decisions and outcomes in the tables, as they are before they are sealed."""
    rng = np.random.default_rng(2)
    kinds = [terms(rng, 1)]
    made = columns(rng, day, count, kinds, 0, 1)
    with database.writing() as connection:
        values = {"digest": kinds[0].digest, "content": kinds[0].content, "used_at": 0.0}
        connection.execute(insert(DECISION_TERMS).values(values))
        for first in range(0, count, 20_000):
            some = range(first, min(first + 20_000, count))
            decisions = [
                {
                    "id": made["id"][i],
                    "given": False,
                    "at": float(made["at"][i]),
                    "model": "fresh",
                    "version": 1,
                    "terms": kinds[0].digest,
                    "choice": int(made["choice"][i]),
                    "expected": float(made["expected"][i]),
                    "probabilities": made["probabilities"][i].tobytes(),
                    "digest": int(made["digest"][i]),
                }
                for i in some
            ]
            connection.execute(insert(DECISIONS), decisions)
            outcomes = [
                {
                    "id": made["id"][i],
                    "model": "fresh",
                    "day": day,
                    "truth": int(made["truth"][i]),
                    "received_at": float(made["received_at"][i]),
                    "revision": 1,
                }
                for i in some
                if made["known"][i]
            ]
            connection.execute(insert(OUTCOMES), outcomes)


def longest_wait(database: Database, done: threading.Event, waits: list[float]) -> None:
    """How long another writer waits, over and over."""
    while not done.is_set():
        began = perf_counter()
        with database.writing() as connection:
            connection.execute(text("UPDATE decision_terms SET used_at = 1"))
        waits.append(perf_counter() - began)
        sleep(0.005)


def time_sealing(folder: Path, count: int) -> None:
    database = Database(os.environ.get("PAYOFF_DATABASE") or f"sqlite:///{folder / 'seal.db'}")
    migrate(database)
    archive = Archive(database, str(folder / "sealing"))
    insert_rows(database, count, FIRST)
    if database.is_sqlite:
        print(f"bytes of a row of SQLite: {(folder / 'seal.db').stat().st_size / count:.0f}")
    done, waits = threading.Event(), []
    other = threading.Thread(target=longest_wait, args=(database, done, waits))
    began = perf_counter()
    print(f"reading {count:,} rows of SQL: {count_of(archive):,} in {perf_counter() - began:.2f} s")
    other.start()
    began = perf_counter()
    archive.sealer.seal("fresh", FIRST)
    seconds = perf_counter() - began
    done.set()
    other.join()
    p99 = sorted(waits)[int(0.99 * len(waits))]
    print(f"sealing: {seconds:.2f} s; another writer waited {max(waits):.3f} s at most, p99 {p99:.3f} s")
    began = perf_counter()
    id_ = next(part.ids[0] for part in archive.cases("fresh", with_ids=True))
    print(f"first id: {perf_counter() - began:.2f} s")
    began = perf_counter()
    assert archive.locate([id_])
    print(f"locating one decision of the sealed day: {(perf_counter() - began) * 1e3:.0f} ms")
    began = perf_counter()
    archive.erase(id_)
    print(f"erasing one decision of the sealed day: {(perf_counter() - began) * 1e3:.0f} ms")
    began = perf_counter()
    archive.sealer.purge("fresh", FIRST)
    print(f"writing its files without it: {perf_counter() - began:.2f} s")
    database.close()


def count_of(archive: Archive) -> int:
    return sum(map(len, archive.cases("fresh")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--days", type=int, default=10)
    parser.add_argument("--seal", type=int, default=0)
    parser.add_argument("--keep", type=Path)
    chosen = parser.parse_args()
    folder = chosen.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if chosen.rows:
            run(folder, chosen.rows, chosen.days)
        if chosen.seal:
            time_sealing(folder, chosen.seal)
        print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    finally:
        if not chosen.keep:
            shutil.rmtree(folder)


def run(folder: Path, rows: int, days: int) -> None:
    database = Database(f"sqlite:///{folder / 'payoff.db'}")
    migrate(database)
    archive = Archive(database, str(folder / "decisions"))
    if not archive.storage.folders():
        began = perf_counter()
        pid = os.fork()  # so that the peak of memory is that of reading
        if not pid:
            fill(database, archive, rows, days)
            os._exit(0)
        assert os.waitpid(pid, 0)[1] == 0
        print(f"made {rows:,} decisions in {perf_counter() - began:.1f} s")
    size = sum(path.stat().st_size for path in (folder / "decisions").rglob("*.parquet"))
    began = perf_counter()
    count, expected, difference = read(archive)
    seconds = perf_counter() - began
    print(f"read {count:,} decisions in {seconds:.2f} s, {size / count:.1f} bytes each")
    print(f"mean expected benefit {expected / count:.4f}, minus realised {difference / count:.5f}")
    for by in (None, "day"):
        began, used = perf_counter(), process_time()
        found = report(archive, by)
        seconds, used = perf_counter() - began, process_time() - used
        print(f"report by {by}: {seconds:.2f} s, {used:.2f} s of a processor: {found}")
    database.close()


if __name__ == "__main__":
    sys.exit(main())
