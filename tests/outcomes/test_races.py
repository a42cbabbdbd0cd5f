"""Several processes at the same decisions: outcomes are stored once, and what was erased stays so."""

import threading
from concurrent.futures import ThreadPoolExecutor
from time import sleep

import pytest
from sqlalchemy import select

from app.outcomes import sealing
from app.outcomes.decision import DAY, Outcome
from app.outcomes.intake import DecisionsMoved, store
from app.outcomes.rows import ROUNDS, Replaced
from app.outcomes.sealed import SealedFiles
from app.outcomes.tables import OUTCOMES, SEALED_FILES
from tests.outcomes.records import count, decided, ids_of, in_files, told

DATE = 20_000
MONDAY = DATE * DAY
BAD = Outcome(0)


@pytest.fixture
def sealer(archive):
    return archive.sealer


def sent(database, outcomes, meanwhile=lambda: None):
    """Store outcomes with their decisions as they were located, with several attempts."""
    for attempt in reversed(range(ROUNDS)):
        try:
            with database.writing() as connection:
                received = store(connection, outcomes, correct=False)
                meanwhile()
            break
        except DecisionsMoved:
            if not attempt:
                raise
    return received


def test_senders_at_once_store_each_outcome_once(database, archive):
    ids = decided(database, 300)
    located = archive.locate(ids)
    batches = [ids[start : start + 200] for start in (0, 50, 100)] * 2 + [ids[::-1]] * 2

    with ThreadPoolExecutor(8) as pool:
        received = list(
            pool.map(
                lambda some: sent(database, {id_: (located[id_], BAD) for id_ in some}),
                batches,
            )
        )

    assert sum(each.accepted for each in received) == count(database, OUTCOMES) == 300
    assert sum(each.accepted + each.unchanged for each in received) == sum(
        map(len, batches)
    )


@pytest.mark.parametrize("is_sealed", [False, True], ids=["recent", "sealed"])
def test_no_outcome_stays_of_a_decision_that_is_erased_meanwhile(
    database, archive, sealer, is_sealed
):
    (id_,) = decided(database, 1, at=MONDAY + 1)
    if is_sealed:
        sealer.seal("loan", DATE)
    located = {id_: (archive.locate([id_])[id_], BAD)}
    erasures = []

    with ThreadPoolExecutor(1) as pool:

        def erase():
            erasures.append(pool.submit(archive.erase, id_))
            sleep(0.2)  # so that it waits for this transaction

        assert sent(database, located, erase).accepted == 1
        assert erasures[0].result()

    assert count(database, OUTCOMES) == 0
    with pytest.raises(DecisionsMoved):  # it was erased since it was located
        sent(database, located)
    assert count(database, OUTCOMES) == 0


def test_a_case_stays_erased_where_two_replace_a_file_at_once(
    database, archive, sealer, monkeypatch
):
    """The one that comes too late knows an erasure that the other one did not: it is not forgotten."""
    ids = decided(database, 10, at=MONDAY)
    sealer.seal("loan", DATE)
    archive.erase(ids[0])
    publish, waiting, replaced = (
        sealer.files.publish,
        threading.Event(),
        threading.Event(),
    )

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

    rest = sorted(set(ids) - {ids[0], ids[2]})
    assert ids_of(archive) == rest
    sealer.purge("loan", DATE)
    assert in_files(archive) == set(rest)


def test_a_purge_that_was_stopped_for_long_removes_nothing(
    database, archive, sealer, monkeypatch
):
    """Its new file has been removed as abandoned when it goes on."""
    ids = decided(database, 10, at=MONDAY)
    sealer.seal("loan", DATE)
    archive.erase(ids[0])
    publish, now = SealedFiles.publish, sealing.time

    def stopped(files, *args):
        publish(files, *args)
        monkeypatch.setattr(sealing, "time", lambda: now() + 25 * 3600)
        with database.reading() as connection:
            unread = (
                connection.execute(
                    select(SEALED_FILES.c.file).where(~SEALED_FILES.c.is_current)
                )
                .scalars()
                .all()
            )
        sealer.remove(unread)

    with monkeypatch.context() as context:
        context.setattr(SealedFiles, "publish", stopped)
        with pytest.raises(Replaced):
            sealer.purge("loan", DATE)
    assert ids_of(archive) == sorted(ids[1:])


@pytest.mark.thorough
def test_readers_see_each_decision_once_while_days_are_sealed(
    database, archive, sealer, monkeypatch
):
    monkeypatch.setattr(sealing, "CLEAR", 5)
    ids = decided(database, 40, at=MONDAY)
    told(database, ids[::2], [0] * 20, day=DATE)
    seen, done = [], threading.Event()

    def read():
        while not done.is_set():
            seen.append(
                [
                    (id_, part.truth[i])
                    for part in archive.cases("loan", with_ids=True)
                    for i, id_ in enumerate(part.ids)
                ]
            )

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        for _ in range(6):
            sealer.seal("loan", DATE)
        done.set()
        reading.result()

    assert len(seen) > 2
    assert all(
        sorted(each) == sorted(zip(ids, [0, -1] * 20, strict=True)) for each in seen
    )
