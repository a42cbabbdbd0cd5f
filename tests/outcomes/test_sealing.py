"""Sealing whole days: nothing is lost or doubled, whatever dies at whatever moment."""

from __future__ import annotations

import io
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow.parquet as pq
import pytest
from sqlalchemy import select, update

from app.database import Database
from app.migrations import migrate
from app.outcomes import rows, sealed, sealing
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY, Outcome, Terms
from app.outcomes.rows import Replaced
from app.outcomes.sealed import SealedFiles
from app.outcomes.tables import DECISIONS, ERASED, OUTCOMES, SEALED_FILES, SEALED_IDS, SHADOW_DECISIONS
from app.outcomes.upkeep import keep_up
from app.storage import Storage
from tests.outcomes.records import LOAN, count, decided, told

DATE = 20_000
MONDAY = DATE * DAY
CASH = Terms("predict", "loan", 2, "expected_benefit", ("bad", "late", "good"), ("refuse", "grant"))


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Groups, parts and batches of a few rows."""
    monkeypatch.setattr(sealed, "GROUP", 8)
    monkeypatch.setattr(rows, "BATCH", 16)


@pytest.fixture
def sealer(archive):
    return archive.sealer


def everything(archive, **asked):
    """All that is read of the model: a row for each decision, sorted by id."""
    found = []
    for part in archive.cases("loan", with_ids=True, with_instances=True, **asked):
        columns = [part.ids, part.at, part.choice, part.expected, part.truth, part.action, part.benefit]
        columns += [part.outcome_at, part.received_at, part.propensity, part.instances]
        for i, row in enumerate(zip(*columns, strict=True)):
            p = part.probabilities[i]
            shadows = {name: int(chosen[i]) for name, chosen in part.shadows.items() if chosen[i] >= 0}
            plain = (value.item() if isinstance(value, np.generic) else value for value in row)
            found.append((*plain, part.terms[part.term[i]], part.keys[part.key[i]], tuple(p[~np.isnan(p)]), shadows))
    return sorted(map(repr, found))


def monday(database, n=40, **options):
    """The ids of a day's decisions of two versions, half of them with outcomes; a third has ids of the caller."""
    moments = (MONDAY + np.linspace(0, DAY - 1, n)).tolist()
    third = n // 3
    ids = decided(
        database,
        third,
        terms=[LOAN, CASH],
        at=moments[:third],
        ids=[f"Case-{(7 * i) % third}" for i in range(third)],
        client="desk",
        details='{"a": 1}',
        **options,
    )
    ids += decided(database, n - third, terms=[CASH, LOAN, LOAN], at=moments[third:], instance="[1]", propensity=0.9)
    told(database, ids[::2], [0, 1] * (len(ids[::2]) // 2) + [1] * (len(ids[::2]) % 2), day=DATE, received_at=5.0)
    told(database, ids[1::4], [1] * len(ids[1::4]), day=DATE, at=7.5, benefits=[3.5] * len(ids[1::4]), received_at=6.0)
    return ids


def test_a_sealed_day_reads_like_before(database, archive, sealer):
    ids = monday(database, shadows={"loan:2": [1] * 13})
    tuesday = decided(database, 3, at=MONDAY + DAY, seed=5)
    asked = ({}, {"since": MONDAY + 3600, "until": MONDAY + 70_000}, {"versions": [2]}, {"versions": []})
    before = [everything(archive, **one) for one in asked]
    assert len(before[0]) == len(ids) + 3

    assert sealer.seal("loan", DATE)

    assert [everything(archive, **one) for one in asked] == before
    assert count(database, DECISIONS) == len(tuesday)
    assert [count(database, table) for table in (OUTCOMES, SEALED_IDS, SHADOW_DECISIONS, SEALED_FILES)] == [0, 13, 0, 2]


@pytest.mark.thorough
def test_what_comes_later_becomes_further_files(database, archive, sealer):
    ids = monday(database)
    sealer.seal("loan", DATE)
    late = decided(database, 9, terms=CASH, at=MONDAY + 100, shadows={"loan:3": [0] * 9}, seed=3)
    wide = Terms("predict", "loan", 4, "map", ("a", "b", "c", "d"), ("a", "b", "c", "d"))
    late += decided(database, 1, terms=wide, at=MONDAY + 5, ids=["zz"])
    told(database, [*late[:3], *ids[3:10:4]], [1, 1, 1, 0, 0], day=DATE, received_at=9.0)
    told(database, [late[4]], [0], day=DATE, received_at=10.0)
    before = everything(archive)
    assert len(before) == len(ids) + len(late)

    assert sealer.seal("loan", DATE)

    assert everything(archive) == before
    assert (count(database, DECISIONS), count(database, OUTCOMES), count(database, SEALED_IDS)) == (0, 0, 14)
    assert len(archive.storage.folders("loan")) == count(database, SEALED_FILES) == 4


def test_sealed_decisions_are_located(database, archive, sealer):
    ids = monday(database)
    other = decided(database, 2, terms=Terms("predict", "other", 1, "map", ("a", "b"), ("a", "b")), at=MONDAY)
    before = archive.locate([*ids, *other, "none"])
    sealer.seal("loan", DATE)
    sealer.seal("other", DATE)

    found = archive.locate([*ids, *other, "none", "01890a5d-ac96-774b-bcce-b302099a8057"])

    assert set(found) == set(before)
    assert {id_: one.variance for id_, one in found.items()} == {id_: one.variance for id_, one in before.items()}
    for id_, one in found.items():
        assert (one.model, one.day, one.terms) == (before[id_].model, DATE, before[id_].terms)
        assert len(one.files) == (2 if one.model == "loan" else 1)
    assert found[ids[3]].told is None
    assert (found[ids[1]].told, found[ids[1]].revision) == (Outcome(1, None, 3.5, 7.5), 1)


class Killed(BaseException):
    """The process ends here."""


def killing(patch, step, turn, when):
    """End the process before or after the `turn`-th call of a method of files, or commit of a transaction."""
    calls = iter(range(10_000))
    if step == "commit":
        writing = Database.writing

        @contextmanager
        def dying(*arguments, **options):
            is_now = next(calls) == turn
            with writing(*arguments, **options) as connection:
                yield connection
                if is_now and when == "before":
                    raise Killed
            if is_now:
                raise Killed

        patch.setattr(Database, "writing", dying)
        return
    owner = Storage if step == "remove" else SealedFiles
    method = getattr(owner, step)

    def call(*arguments):
        is_now = next(calls) == turn
        if is_now and when == "before":
            raise Killed
        method(*arguments)
        if is_now:
            raise Killed

    patch.setattr(owner, step, call)


STEPS = [("publish", turn) for turn in range(2)] + [("commit", turn) for turn in range(7)]


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
def test_nothing_is_lost_or_doubled_when_a_sealer_is_killed(database, archive, sealer, monkeypatch, when):
    """At each step in turn; the first time there is no file yet, later there are."""
    monkeypatch.setattr(sealing, "CLEAR", 9)
    monday(database)
    for i, (step, turn) in enumerate(STEPS):
        name = f"{step}-{turn}"
        late = decided(database, 20, terms=CASH, at=MONDAY + 100 + i, seed=i, ids=[f"{name}-{k}" for k in range(20)])
        told(database, late[:10], [1] * 10, day=DATE, received_at=20.0 + i)
        before = everything(archive)

        with monkeypatch.context() as patch:
            killing(patch, step, turn, when)
            with pytest.raises(Killed):
                sealer.seal("loan", DATE)

        assert everything(archive) == before, name
        assert sealer.seal("loan", DATE) or not count(database, DECISIONS), name
        assert everything(archive) == before, name
        assert (count(database, DECISIONS), count(database, OUTCOMES)) == (0, 0), name
        assert count(database, SEALED_IDS) == 13 + 20 * (i + 1), name


@pytest.mark.thorough
@pytest.mark.parametrize("when", ["before", "after"])
def test_what_was_erased_is_nowhere_though_upkeep_is_killed(database, archive, sealer, monkeypatch, when):
    ids = monday(database)
    sealer.seal("loan", DATE)
    steps, rest = [*STEPS, ("remove", 0), ("remove", 1)], set(ids)
    for (step, turn), id_ in zip(steps, ids[::2], strict=False):
        archive.erase(id_)
        before = everything(archive)
        rest.remove(id_)
        assert len(before) == len(rest)
        with monkeypatch.context() as patch:
            killing(patch, step, turn, when)
            with pytest.raises(Killed):
                sealer.purge("loan", DATE)
        assert everything(archive) == before, (step, turn)

        keep_up(archive, None)

        assert everything(archive) == before, (step, turn)
        assert in_files(archive) == rest, (step, turn)
        with database.reading() as connection:
            assert connection.execute(select(ERASED.c.id).where(ERASED.c.id.is_not(None))).first() is None


def test_a_case_stays_erased_where_two_replace_a_file_at_once(database, archive, sealer, monkeypatch):
    """The one that comes too late knows an erasure that the other one did not: it is not forgotten."""
    ids = decided(database, 10, at=MONDAY)
    sealer.seal("loan", DATE)
    archive.erase(ids[0])
    publish, waiting, replaced = sealer.files.publish, threading.Event(), threading.Event()

    def late(*arguments):
        publish(*arguments)
        waiting.set()
        replaced.wait()

    with ThreadPoolExecutor(1) as pool:

        def early(*arguments):
            archive.erase(ids[2])
            monkeypatch.setattr(sealer.files, "publish", late)
            nonlocal second
            second = pool.submit(sealer.purge, "loan", DATE)
            waiting.wait()
            monkeypatch.setattr(sealer.files, "publish", publish)
            publish(*arguments)

        second = None
        monkeypatch.setattr(sealer.files, "publish", early)
        sealer.purge("loan", DATE)
        replaced.set()
        with pytest.raises(Replaced):
            second.result()

    rest = set(ids) - {ids[0], ids[2]}
    assert {id_ for part in archive.cases("loan", with_ids=True) for id_ in part.ids} == rest
    sealer.purge("loan", DATE)
    assert in_files(archive) == rest


def in_files(archive):
    """The ids in all files that readers read."""
    with archive.database.reading() as connection:
        files = connection.execute(select(SEALED_FILES.c.file).where(SEALED_FILES.c.is_current)).scalars().all()
    content = [pq.read_table(io.BytesIO(archive.storage.read(name, sealed.SEAL))) for name in files]
    return {id_ for table in content for id_ in table["id"].to_pylist()}


def test_what_comes_while_a_day_is_sealed_stays(database, archive, sealer, monkeypatch):
    """Outcomes, corrections, decisions and erasures between the reading of a day and its removal."""
    ids = monday(database)
    publish = SealedFiles.publish

    def meanwhile(files, *arguments):
        monkeypatch.setattr(SealedFiles, "publish", publish)
        with database.writing() as connection:
            connection.execute(
                update(OUTCOMES).where(OUTCOMES.c.id == ids[0]).values(truth=1, revision=2, received_at=30.0)
            )
        told(database, [ids[3]], [1], day=DATE, received_at=31.0)
        decided(database, 1, at=MONDAY + 1, ids=["late"])
        meanwhile.expected = everything(archive)
        return publish(files, *arguments)

    monkeypatch.setattr(SealedFiles, "publish", meanwhile)

    assert sealer.seal("loan", DATE)

    assert everything(archive) == meanwhile.expected
    assert archive.locate([ids[3]])[ids[3]].told is None
    with database.reading() as connection:
        left = connection.execute(select(OUTCOMES.c.id, OUTCOMES.c.truth, OUTCOMES.c.revision)).all()
    assert {(ids[0], 1, 2), (ids[3], 1, 1)} <= {tuple(row) for row in left}


def test_what_was_erased_while_a_day_is_sealed_does_not_come_back(database, archive, sealer, monkeypatch):
    ids = monday(database)
    publish = SealedFiles.publish

    def meanwhile(files, *arguments):
        monkeypatch.setattr(SealedFiles, "publish", publish)
        assert archive.erase(ids[5])
        return publish(files, *arguments)

    monkeypatch.setattr(SealedFiles, "publish", meanwhile)

    assert not sealer.seal("loan", DATE)
    assert archive.storage.folders("loan") == []
    assert sealer.seal("loan", DATE)

    assert len(everything(archive)) == len(ids) - 1
    assert archive.locate([ids[5]]) == {}


def test_of_two_that_seal_one_day_one_does(database, archive, sealer, monkeypatch):
    monday(database)
    before = everything(archive)
    publish = SealedFiles.publish

    def meanwhile(files, *arguments):
        monkeypatch.setattr(SealedFiles, "publish", publish)
        assert sealer.seal("loan", DATE)
        return publish(files, *arguments)

    monkeypatch.setattr(SealedFiles, "publish", meanwhile)

    assert not sealer.seal("loan", DATE)

    assert everything(archive) == before
    assert len(archive.storage.folders("loan")) == 2


@pytest.mark.thorough
def test_readers_see_each_decision_once_while_days_are_sealed(database, archive, sealer, monkeypatch):
    monkeypatch.setattr(sealing, "CLEAR", 5)
    monday(database)
    before = everything(archive)
    seen, problems, done = [], [], threading.Event()

    def read():
        while not done.is_set():
            try:
                seen.append(everything(archive) == before)
            except Exception as error:  # noqa: BLE001 - whatever it is
                problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(6):
        sealer.seal("loan", DATE)
    done.set()
    reader.join()

    assert problems == []
    assert len(seen) > 2
    assert all(seen)


@pytest.mark.parametrize("is_sealed", [False, True], ids=["recent", "sealed"])
def test_an_erased_decision_is_nowhere(database, archive, sealer, is_sealed):
    ids = monday(database, shadows={"loan:2": [1] * 13})
    chosen = [ids[0], ids[-2]]
    if is_sealed:
        sealer.seal("loan", DATE)
        told(database, [ids[3]], [0], day=DATE, received_at=50.0)
        chosen.append(ids[3])
    written = []

    assert all(archive.erase(id_, also=written.append) for id_ in chosen)

    rest = [id_ for part in archive.cases("loan", with_ids=True) for id_ in part.ids]
    assert sorted(rest) == sorted(set(ids) - set(chosen))
    assert archive.locate(chosen) == {}
    assert not any(archive.erase(id_) for id_ in [*chosen, "none"])
    assert len(written) == len(chosen)
    assert count(database, ERASED) == len(chosen)
    with database.reading() as connection:
        for table in (DECISIONS, OUTCOMES, SEALED_IDS, SHADOW_DECISIONS):
            assert not set(connection.execute(select(table.c.id)).scalars()) & set(chosen)
    sealer.seal("loan", DATE)
    assert archive.locate(chosen) == {}
    sealer.purge("loan", DATE)
    assert in_files(archive) == set(rest)
    assert archive.locate(chosen) == {}
    with database.reading() as connection:
        assert set(connection.execute(select(ERASED.c.id)).scalars()) == {None}


def test_a_purge_that_was_stopped_for_long_removes_nothing(database, archive, sealer, monkeypatch):
    """Its new file has been removed as abandoned when it goes on."""
    ids = decided(database, 10, at=MONDAY)
    assert sealer.seal("loan", DATE)
    assert archive.erase(ids[0])
    publish, now = SealedFiles.publish, sealing.time

    def stopped(files, *args):
        publish(files, *args)
        monkeypatch.setattr(sealing, "time", lambda: now() + 25 * 3600)
        with database.reading() as connection:
            unread = connection.execute(select(SEALED_FILES.c.file).where(~SEALED_FILES.c.is_current)).scalars().all()
        sealer.remove(unread)

    with monkeypatch.context() as context:
        context.setattr(SealedFiles, "publish", stopped)
        with pytest.raises(Replaced):
            sealer.purge("loan", DATE)
    assert sorted(i for part in archive.cases("loan", with_ids=True) for i in part.ids) == sorted(ids[1:])


def test_the_last_decision_of_a_day_is_erased_with_its_file(database, archive, sealer):
    (one,) = decided(database, 1, at=MONDAY)
    sealer.seal("loan", DATE)

    assert archive.erase(one)
    assert list(archive.cases("loan")) == []

    sealer.purge("loan", DATE)

    assert (list(archive.cases("loan")), archive.storage.folders("loan")) == ([], [])
    assert count(database, SEALED_FILES) == 0


def test_days_are_kept_in_any_store(tmp_path, storage_url):
    database = Database(f"sqlite:///{tmp_path / 'payoff.db'}")
    migrate(database)
    archive = Archive(database, storage_url)
    sealer = archive.sealer
    ids = monday(database)
    before = everything(archive)

    assert sealer.seal("loan", DATE)
    assert everything(archive) == before
    assert archive.erase(ids[0])
    assert len(everything(archive)) == len(before) - 1
    sealer.purge("loan", DATE)
    assert set(archive.locate(ids)) == set(ids[1:])
    assert in_files(archive) == set(ids[1:])
    assert len(archive.storage.folders("loan")) == 2
    database.close()
