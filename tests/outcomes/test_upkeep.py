"""What workers do with recorded decisions every hour."""

from dataclasses import replace
from time import time

import pytest
from sqlalchemy import update

from app.opening import prepare_stores
from app.outcomes import sealing, upkeep
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY
from app.outcomes.sealing import Sealer
from app.outcomes.tables import (
    DECISION_TERMS,
    DECISIONS,
    OUTCOMES,
    SEALED_FILES,
)
from app.outcomes.upkeep import SETTLED_SECONDS, due, keep_up
from app.storage import Storage
from app.workers import make_worker
from tests.conftest import migrated, settings_for
from tests.jobs.waiting import eventually
from tests.outcomes.records import LOAN, count, decided, told

DATE = 20_000
MONDAY = DATE * DAY


def due_at(database, at):
    with database.reading() as connection:
        return due(connection, at)


def sqlite_copy(database, path):
    with database.reading() as connection:
        connection.exec_driver_sql("COMMIT")
        connection.exec_driver_sql(f"VACUUM INTO '{path}'")
        connection.exec_driver_sql("BEGIN")


def test_days_are_due_some_hours_after_their_end(database):
    decided(database, 4, at=[MONDAY - DAY, MONDAY, MONDAY + DAY - 1, MONDAY + DAY])
    end = MONDAY + DAY + SETTLED_SECONDS

    assert due_at(database, end - 1) == [("loan", DATE - 1)]
    assert due_at(database, end) == [("loan", DATE - 1), ("loan", DATE)]


def test_what_comes_later_waits_the_longer_the_more_files_the_day_has(
    database, archive, monkeypatch
):
    clock = MONDAY + 2 * DAY
    monkeypatch.setattr(sealing, "time", lambda: clock)
    ids = decided(database, 9, at=MONDAY)
    archive.sealer.seal("loan", DATE)
    for i, days in enumerate([1, 1, 2, 4, 8]):
        assert due_at(database, clock + 99 * DAY) == []
        told(database, ids[i : i + 1], [0], day=DATE)
        assert due_at(database, clock + days * DAY - 1) == []
        assert due_at(database, clock + days * DAY) == [("loan", DATE)]
        clock += days * DAY
        archive.sealer.seal("loan", DATE)

    decided(database, at=MONDAY + 7)
    assert due_at(database, clock + 16 * DAY - 1) == []
    assert due_at(database, clock + 16 * DAY) == [("loan", DATE)]
    assert count(database, OUTCOMES) == 0


def test_terms_that_no_row_needs_go_a_day_later(database, archive):
    decided(database, at=MONDAY)
    keep_up(archive, None)
    assert (
        count(database, DECISION_TERMS) == 1
    )  # a process may remember that they are there

    decided(database, terms=replace(LOAN, version=2))
    with database.writing() as connection:
        connection.execute(update(DECISION_TERMS).values(used_at=1.0))
    keep_up(archive, None)

    assert count(database, DECISION_TERMS) == 1  # the row of today needs them
    assert next(archive.cases("loan")).terms == [LOAN]


def test_a_day_that_cannot_be_sealed_holds_up_no_other(database, archive, monkeypatch):
    decided(database, 2, at=[MONDAY, MONDAY + DAY])
    seal = Sealer.seal

    def fail(sealer, model, day):
        if day == DATE:
            raise ValueError
        return seal(sealer, model, day)

    monkeypatch.setattr(Sealer, "seal", fail)

    keep_up(archive, None)

    assert (count(database, SEALED_FILES), count(database, DECISIONS)) == (1, 1)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    "copied", [None, "before", "after"], ids=["new", "older copy", "copy"]
)
def test_a_database_removes_no_file_that_it_did_not_write(
    database, archive, tmp_path, monkeypatch, copied
):
    """A new database, or a copy of some moment, beside the files of the one that was there."""
    decided(database, 5, at=MONDAY)
    if copied == "before":
        sqlite_copy(database, tmp_path / "other.db")
    keep_up(archive, None)
    if copied == "after":
        sqlite_copy(database, tmp_path / "other.db")
        ids = decided(database, 2, at=MONDAY + 1)
        monkeypatch.setattr(Storage, "remove", lambda *_: None)
        archive.sealer.seal("loan", DATE)
        archive.erase(ids[0])
    before = archive.storage.folders("loan")
    monkeypatch.setattr(upkeep, "time", lambda: time() + 9 * DAY)

    with migrated(f"sqlite:///{tmp_path / 'other.db'}") as other:
        keep_up(
            Archive(other, archive.storage.url), 7 * DAY if copied is None else None
        )
    assert set(archive.storage.folders("loan")) >= set(before)


def test_one_process_does_it_at_a_time(database, archive):
    decided(database, at=MONDAY)
    with upkeep.alone(database) as first:
        keep_up(archive, None)
        assert first
        assert count(database, SEALED_FILES) == (1 if database.is_sqlite else 0)
    keep_up(archive, None)
    assert count(database, SEALED_FILES) == 1


def test_nothing_is_sealed_into_a_folder_that_other_machines_lack(tmp_path, caplog):
    beside = {"datasets": "s3://bucket/datasets"}
    assert not settings_for(tmp_path, **beside).shares_decisions
    assert settings_for(
        tmp_path, **beside, decisions="s3://bucket/decisions"
    ).shares_decisions
    assert settings_for(tmp_path).shares_decisions
    assert settings_for(tmp_path, datasets=str(tmp_path / "datasets")).shares_decisions
    database = prepare_stores(settings_for(tmp_path)).database
    decided(database, at=MONDAY)

    keep_up(Archive(database, str(tmp_path / "decisions")), None, seals=False)

    assert (count(database, DECISIONS), count(database, SEALED_FILES)) == (1, 0)
    assert "PAYOFF_DECISIONS" in caplog.text


def test_a_worker_seals_and_deletes(tmp_path):
    settings = settings_for(tmp_path, keep_decisions_days=30)
    stores = prepare_stores(settings)
    now = time()
    decided(stores.database, 3, at=[now - 100 * DAY, now - 5 * DAY, now])

    make_worker(settings, stores)

    eventually(lambda: count(stores.database, SEALED_FILES) == 1)
    eventually(lambda: count(stores.database, DECISIONS) == 1)
    assert sum(map(len, stores.archive.cases("loan"))) == 2
