"""Outcomes are stored once, whoever sends them how often, and no correction happens by accident."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import sleep

import pytest
from sqlalchemy import delete, insert, select

from app.errors import Unavailable
from app.outcomes.archive import Archive
from app.outcomes.decision import DAY, Outcome
from app.outcomes.intake import receive
from app.outcomes.rows import SealedFile
from app.outcomes.tables import DECISIONS, OUTCOMES, SEALED_FILES
from tests.outcomes.records import decided

BAD, GOOD = Outcome(0), Outcome(1)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def archive(database):
    return Archive(database, "archive")


def sent(database, outcomes, *, correct=False, resolve=None, also=lambda _: None):
    def located():
        found = archive(database).locate(list(outcomes))
        return {id_: (found[id_], outcome) for id_, outcome in outcomes.items() if id_ in found}

    return receive(database, resolve or located, correct=correct, also=also)


def stored(database):
    table = OUTCOMES.c
    with database.reading() as connection:
        query = select(table.id, table.truth, table.action, table.benefit, table.at, table.revision)
        return {row.id: tuple(row)[1:] for row in connection.execute(query)}


def test_an_outcome_is_stored_once_and_may_gain_fields(database):
    a, b = decided(database, 2)

    first = sent(database, {a: BAD, b: GOOD})
    again = sent(database, {b: GOOD, a: BAD})
    more = sent(database, {a: Outcome(0, action=1, benefit=-3.5, at=7.0)})
    late = sent(database, {a: BAD})

    assert [(each.accepted, each.unchanged) for each in (first, again, more, late)] == [(2, 0), (0, 2), (1, 0), (0, 1)]
    assert stored(database) == {a: (0, 1, -3.5, 7.0, 2), b: (1, None, None, None, 1)}
    assert not any(each.conflicts or each.corrected for each in (first, again, more, late))


@pytest.mark.parametrize("other", [Outcome(1), Outcome(0, action=0), Outcome(0, benefit=2.0), Outcome(0, at=3.0)])
def test_a_contradiction_needs_correct(database, other):
    (id_,) = decided(database, 1)
    before = Outcome(0, action=1, benefit=1.0, at=2.0)
    sent(database, {id_: before})

    refused = sent(database, {id_: other})
    assert refused.conflicts == [(id_, before, other)]
    assert stored(database)[id_][-1] == 1

    corrected = sent(database, {id_: other}, correct=True)
    after = other  # a benefit that was told with another truth is no longer true
    assert (corrected.accepted, corrected.corrected, corrected.conflicts) == (1, [id_], [])
    assert stored(database)[id_] == (after.truth, after.action, after.benefit, after.at, 2)


def test_a_conflict_leaves_the_others_accepted_and_a_failure_leaves_nothing(database):
    a, b = decided(database, 2)
    sent(database, {a: BAD})

    received = sent(database, {a: GOOD, b: GOOD})
    assert (received.accepted, [id_ for id_, *_ in received.conflicts]) == (1, [a])

    (c,) = decided(database, 1)
    with pytest.raises(RuntimeError):
        sent(database, {a: GOOD, c: GOOD}, correct=True, also=lambda _: failing)
    assert {id_: row[0] for id_, row in stored(database).items()} == {a: 0, b: 1}


def failing(_connection):
    raise RuntimeError("the audit log cannot be written")


def test_senders_at_once_store_each_outcome_once(database):
    ids = decided(database, 300)
    batches = [dict.fromkeys(ids[start : start + 200], BAD) for start in (0, 50, 100)] * 2
    batches += [dict.fromkeys(reversed(ids), BAD)] * 2

    with ThreadPoolExecutor(8) as pool:
        received = list(pool.map(lambda batch: sent(database, batch), batches))

    assert sum(each.accepted for each in received) == 300
    assert sum(each.accepted + each.unchanged for each in received) == sum(map(len, batches))
    assert {row[0] for row in stored(database).values()} == {0}
    assert len(stored(database)) == 300


def sealed(database, id_, file, outcome):
    """What a sealed decision looks like from here."""
    found = archive(database).locate([id_])[id_]
    with database.writing() as connection:
        connection.execute(delete(DECISIONS).where(DECISIONS.c.id == id_))
        connection.execute(delete(SEALED_FILES))
        there = SealedFile(file, found.model, found.day, "outcomes", 1.0)
        connection.execute(insert(SEALED_FILES).values(is_current=True, **there._asdict()))
    return replace(found, files=[there], told=outcome, revision=0 if outcome is None else 4)


def test_an_outcome_in_a_sealed_day_counts_as_stored(database):
    (id_,) = decided(database, 1)
    there = sealed(database, id_, "f1", GOOD)

    same = sent(database, {}, resolve=lambda: {id_: (there, GOOD)})
    other = sent(database, {}, resolve=lambda: {id_: (there, BAD)})
    assert (same.unchanged, len(other.conflicts), stored(database)) == (1, 1, {})

    corrected = sent(database, {}, resolve=lambda: {id_: (there, BAD)}, correct=True)
    assert corrected.corrected == [id_]
    assert stored(database)[id_] == (0, None, None, None, 5)


def test_a_decision_that_is_sealed_meanwhile_is_located_again(database):
    """Else the outcome that went into the file would be contradicted unseen."""
    (id_,) = decided(database, 1)
    there = archive(database).locate([id_])[id_]
    first, second = sealed(database, id_, "f1", None), None
    second = replace(first, files=[first.files[0]._replace(file="f2")])
    found = iter([there, second, first])

    received = sent(database, {}, resolve=lambda: {id_: (next(found), GOOD)})

    assert received.accepted == 1
    assert next(found, None) is None


def test_a_decision_that_keeps_moving_is_refused_for_now(database):
    (id_,) = decided(database, 1)
    there = archive(database).locate([id_])[id_]
    sealed(database, id_, "f1", None)

    with pytest.raises(Unavailable):
        sent(database, {}, resolve=lambda: {id_: (there, GOOD)})
    assert stored(database) == {}


@pytest.mark.parametrize("is_sealed", [False, True], ids=["recent", "sealed"])
def test_no_outcome_stays_of_a_decision_that_is_erased_meanwhile(database, tmp_path, is_sealed):
    there = Archive(database, str(tmp_path / "decisions"))
    (id_,) = decided(database, 1, at=DAY * 20_000 + 1)
    if is_sealed:
        there.sealer.seal("loan", 20_000)
    found = there.locate([id_])[id_]
    erasures = []

    with ThreadPoolExecutor(1) as pool:

        def erase(_received):
            erasures.append(pool.submit(there.erase, id_))
            sleep(0.2)  # so that it waits for this transaction

        assert sent(database, {}, resolve=lambda: {id_: (found, BAD)}, also=erase).accepted == 1
        assert erasures[0].result()

    assert stored(database) == {}
    with pytest.raises(Unavailable):  # it was erased since it was located
        sent(database, {}, resolve=lambda: {id_: (found, BAD)})
    assert stored(database) == {}
