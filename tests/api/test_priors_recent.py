"""Priors from the last outcomes of a model."""

from __future__ import annotations

from dataclasses import replace
from time import time

import numpy as np
import pytest

from app.database import Database
from app.errors import NotReady
from app.migrations import migrate
from app.outcomes import rows
from app.outcomes.archive import Archive
from app.outcomes.identity import DAY, day_of
from app.outcomes.sealing import Sealer
from app.outcomes.terms import Terms
from app.usecases import recent_outcomes as recent
from app.usecases.priors import smoothed
from app.usecases.recent_outcomes import RecentOutcomes
from tests.api.test_calibrate import calibrated, order
from tests.conftest import database_of, serving, settings_for
from tests.jobs.waiting import eventually
from tests.messages import says
from tests.outcomes.records import LOAN, decided, told

NOW = 1_767_225_600.0
BENEFITS = {"clean": {"keep": 0, "drop": -5}, "spam": {"keep": -1, "drop": 1}}


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(recent, "_LOOK_SECONDS", 0.05)
        folder = tmp_path_factory.mktemp("recent")
        with serving(settings_for(folder)) as client:
            client.folder = folder
            for model in ("mails", "letters", "faxes"):
                calibrated(client, order(model=model))
            yield client


def predicted(client, model, **body):
    return client.post("/predict", json={"model": model, "instances": [[0.5], [-1.0]], "benefits": BENEFITS} | body)


def recorded(client, model, truths, scores=None):
    """Decide, and tell the truth where it is not None."""
    instances = [[0.5]] * len(truths) if scores is None else [[score] for score in scores]
    answer = predicted(client, model, instances=instances, record=True)
    assert answer.status_code == 200, answer.text
    outcomes = [
        {"id": id_, "truth": truth}
        for id_, truth in zip(answer.json()["ids"], truths, strict=True)
        if truth is not None
    ]
    assert client.post("/outcomes", json={"outcomes": outcomes}).json()["accepted"] == len(outcomes)


def shares(client, model, wanted):
    answer = predicted(client, model, priors=wanted).json()
    assert answer["warnings"] == []
    return answer["recent_priors"]


def test_the_shares_of_the_last_outcomes_are_used(client):
    refused = predicted(client, "mails", priors="recent")
    assert refused.status_code == 409
    assert refused.json()["errors"] == [says("/priors", "0 outcomes of mails", "50")]

    recorded(client, "mails", ["spam"] * 100)
    recorded(client, "mails", ["clean"] * 60 + ["spam"] * 20)
    assert eventually(lambda: "recent_priors" in predicted(client, "mails", priors="recent").json())
    assert eventually(lambda: shares(client, "mails", "recent")["outcomes"] == 180)

    answer = predicted(client, "mails", priors="recent").json()
    of_all = dict(zip(["spam", "clean"], smoothed(np.array([120, 60]), np.array([True, True])), strict=True))
    assert answer["recent_priors"] == {"outcomes": 180, "shares": pytest.approx(of_all)}
    stated = predicted(client, "mails", priors=answer["recent_priors"]["shares"]).json()
    np.testing.assert_allclose(stated["probabilities"], answer["probabilities"])
    assert shares(client, "mails", {"recent": 80})["shares"]["clean"] == pytest.approx(60.5 / 81)
    assert shares(client, "mails", {"recent": 80})["outcomes"] == 80


def test_selective_outcomes_are_refused(client):
    """Mails that were dropped are read by nobody."""
    scores = [-6.0] * 100 + [6.0] * 100
    recorded(client, "letters", [None] * 90 + ["spam"] * 10 + ["clean"] * 100, scores)

    refused = predicted(client, "letters", priors="recent")
    assert refused.status_code == 409
    assert refused.json()["errors"] == [says("/priors", "letters", "more often after some actions", "estimate")]
    assert predicted(client, "letters", priors={"clean": 0.5, "spam": 0.5}).status_code == 200


def test_such_a_decision_can_be_recorded(client):
    recorded(client, "faxes", ["spam", "clean"] * 30)
    answer = predicted(client, "faxes", priors="recent", record=True)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["ids"]) == 2
    assert answer.json()["recent_priors"]["outcomes"] == 60


@pytest.fixture
def database(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'recent.db'}")
    migrate(database)
    yield database
    database.close()


@pytest.fixture
def tail_of(database, tmp_path, monkeypatch):
    """What is found of the model `loan` at once."""
    monkeypatch.setattr(recent, "_LOOK_SECONDS", 0.01)
    found = RecentOutcomes(database, Archive(database, str(tmp_path / "decisions")))
    yield lambda: found.of("loan")
    found.stop()


def days_ago(count):
    return DAY * (day_of(time()) - count)


def test_the_order_is_that_of_the_decisions(database, tail_of):
    """One that comes late is the last no more than its decision is."""
    for i, ago in enumerate([4, 3, 2, 1]):
        ids = decided(database, 2, at=days_ago(ago) + 60.0)
        told(database, ids, [i % 2] * 2, day=day_of(days_ago(ago)), received_at=days_ago(0) - i)

    words = [LOAN.classes[i % 2] for i in (3, 2, 1, 0) for _ in range(2)]
    assert tail_of().labels == words


@pytest.mark.parametrize("stated", [False, True])
def test_days_whose_truths_are_still_to_come_do_not_count(database, tail_of, stated):
    """Bad loans are known within the hour, good ones after three days: those of the last days seem to be bad."""
    rng, now = np.random.default_rng(1), time()
    for ago in range(40, 0, -1):
        at = days_ago(ago) + 60.0
        truths = (rng.random(50) < 0.5).astype(int)
        ids = decided(database, 50, at=at)
        for truth, lag in ((0, 3 * DAY), (1, 3_600.0)):
            some = [id_ for id_, own in zip(ids, truths.tolist(), strict=True) if own == truth]
            if at + lag < now:
                times = {"at": at + lag, "received_at": now} if stated else {"received_at": at + lag}
                told(database, some, [truth] * len(some), day=day_of(at), **times)

    tail = tail_of()

    assert (tail.reason, tail.selective) == (None, False)
    assert len(tail.labels) < 38 * 50
    assert 0.35 < np.mean([label == LOAN.classes[1] for label in tail.labels[:200]]) < 0.65


def test_where_no_day_is_old_enough_recent_priors_are_refused(client):
    """The same, with good mails that take months; the service answers what to do."""
    mails = Terms("predict", "parcels", 1, "most_probable", ("spam", "clean"), ("keep", "drop"))
    calibrated(client, order(model="parcels"))
    rng = np.random.default_rng(2)
    with database_of(client) as database:
        for ago in range(30, 0, -1):
            at = days_ago(ago) + 60.0
            ids = decided(database, 40, terms=mails, at=at, choice=[0] * 40)
            truths = (rng.random(40) < 0.5).astype(int)
            lag = np.where(truths == 0, 600.0, rng.exponential(60 * DAY, 40))
            known = np.flatnonzero(at + lag < time())
            some = [ids[i] for i in known]
            told(database, some, truths[known].tolist(), terms=mails, day=day_of(at), received_at=at + lag[known])

    refused = predicted(client, "parcels", priors="recent")
    assert refused.status_code == 409
    assert refused.json()["errors"] == [says("/priors", "parcels", "no day", "estimate")]


def test_sealed_days_are_read_again_where_anything_changed(database, tmp_path, monkeypatch):
    archive = Archive(database, str(tmp_path / "decisions"))
    days = [day_of(days_ago(ago)) for ago in (3, 2)]
    ids = {day: decided(database, 3, at=DAY * day + 1) for day in days}
    for day, some in ids.items():
        told(database, some, [0, 1, 1], day=day, received_at=DAY * day + 2)
        assert Sealer(database, archive.files).seal("loan", day)
    read = []

    def cases(model, since, **named):
        read.append(day_of(since))
        return Archive.cases(archive, model, since=since, **named)

    monkeypatch.setattr(archive, "cases", cases)
    monkeypatch.setattr(recent, "_LOOK_SECONDS", 0.01)
    found = RecentOutcomes(database, archive)
    try:
        first = found.of("loan")
        assert sorted(first.labels) == sorted([LOAN.classes[0], LOAN.classes[1], LOAN.classes[1]] * 2)
        told(database, ids[days[0]][1:2], [0], day=days[0], received_at=time(), revision=2)
        fresh = decided(database, 1, at=days_ago(1) + 1)
        told(database, fresh, [1], day=day_of(days_ago(1)), received_at=time())
        assert eventually(lambda: len(found.of("loan").labels) == 7)
        assert found.of("loan").labels[0] == LOAN.classes[1]
        assert found.of("loan").labels.count(LOAN.classes[0]) == 3
        assert set(read) == {*days, day_of(days_ago(1))}
        assert (read.count(days[0]), read.count(days[1])) == (2, 1)
    finally:
        found.stop()


def test_of_a_day_with_many_decisions_an_even_sample_counts(database, tail_of, monkeypatch):
    monkeypatch.setattr(recent, "_OF_DAY", 50)
    at = days_ago(1)
    ids = decided(database, 1_000, at=[at + i for i in range(1_000)])
    told(database, ids, [int(i < 300) for i in range(1_000)], day=day_of(at), received_at=at + DAY)

    assert len(tail_of().labels) == 50
    assert tail_of().labels.count(LOAN.classes[1]) == 15


def test_of_many_cases_those_of_the_sample_are_in_memory_with_their_terms(database, tmp_path, monkeypatch):
    """Each case may have a matrix of its own."""
    monkeypatch.setattr(recent, "_OF_DAY", 20)
    monkeypatch.setattr(rows, "BATCH", 30)
    day, most = day_of(days_ago(1)), []
    every = [replace(LOAN, version=i + 1) for i in range(300)]
    decided(database, 300, terms=every, at=[DAY * day + i for i in range(300)])
    thinned = recent._thinned
    monkeypatch.setattr(
        recent, "_thinned", lambda parts, step: most.append(sum(map(len, parts))) or thinned(parts, step)
    )

    parts = RecentOutcomes(database, Archive(database, str(tmp_path / "decisions")))._read("loan", day)

    assert max(most) <= 2 * 20 + 30
    assert 20 <= sum(map(len, parts)) <= 20 + len(parts)
    assert [len(part.terms) for part in parts] == [len(part) for part in parts]
    moments = np.concatenate([part.at for part in parts]) - DAY * day
    versions = [part.terms[term].version for part in parts for term in part.term]
    assert versions == (moments + 1).tolist()
    assert max(np.diff(moments)) <= 30


def test_no_request_waits_for_long(database, monkeypatch):
    monkeypatch.setattr(recent, "_WAIT_SECONDS", 0.1)
    monkeypatch.setattr(RecentOutcomes, "_look", lambda _: None)
    found = RecentOutcomes(database, Archive(database, "memory://recent"))
    with pytest.raises(NotReady):
        found.of("loan")
    found.stop()
