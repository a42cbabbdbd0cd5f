"""What others would have earned on recorded decisions."""

from __future__ import annotations

from dataclasses import replace
from time import time

import numpy as np
import pytest

from app.outcomes.decision import DAY, Terms, day_of
from tests.conftest import database_of, trained, two_class_rows
from tests.messages import says
from tests.outcomes.records import decided, told

MATRIX = ((0.0, -1.0), (-10.0, 5.0))
N, DAYS = 400, 8


def terms(model="replay-ward", **changes):
    fields = {"rule": "most_probable", "classes": ("healthy", "ill"), "actions": ("wait", "treat"), "benefits": MATRIX}
    return Terms("predict", model, 1, **(fields | changes))


@pytest.fixture(scope="module")
def client(service):
    for model in ("replay-ward", "replay-chosen", "replay-seen"):
        trained(service, {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows()})
    return service


@pytest.fixture(scope="module")
def database(service):
    with database_of(service) as database:
        yield database


def replayed(client, model="replay-ward", **order):
    answer = client.post(f"/models/{model}/replay", json=order, headers={"Prefer": "wait=60"})
    assert answer.status_code == 200, answer.text
    assert answer.json()["status"] == "succeeded", answer.json()["error"]
    return answer.json()["result"]


def money(P, y, choice, B=MATRIX):
    return np.array(B)[y, choice]


@pytest.fixture(scope="module")
def ward(client, database):
    """Decisions for the most probable class, of which the truth is known, drawn from the probabilities."""
    rng = np.random.default_rng(5)
    p = rng.beta(1, 2, N)
    y = (rng.random(N) < p).astype(int)
    P, done = np.column_stack((1 - p, p)), (p > 0.5).astype(int)
    at = [DAY * (20_000 + i % DAYS) + i for i in range(N)]
    ids = decided(database, N, terms=terms(), at=at, probabilities=P.tolist(), choice=done.tolist())
    for day in range(DAYS):
        some = range(day, N, DAYS)
        told(database, [ids[i] for i in some], y[some].tolist(), terms=terms(), day=20_000 + day)
    return P, y, done


def test_rules_are_paired_with_what_was_done(client, ward):
    P, y, done = ward
    rules = [{"rule": "expected_benefit"}, {"rule": "most_probable"}, {"rule": "threshold", "threshold": 0.9}]
    result = replayed(client, rules=rules)

    assert (result["decisions"], result["known"], result["left_out"]) == (N, N, {})
    best, same, late = result["alternatives"]
    choice = (P @ np.array(MATRIX)).argmax(axis=1)
    values, before = money(P, y, choice), money(P, y, done)
    assert best["mean"] == pytest.approx(values.mean())
    assert best["total"] == pytest.approx(values.sum())
    assert best["done"] == {
        "basis": best["basis"],
        "cases": N,
        "mean": pytest.approx(before.mean()),
        "total": pytest.approx(before.sum()),
    }
    assert best["difference"]["mean"] == pytest.approx((values - before).mean())
    assert best["difference"]["low"] < (values - before).mean() < best["difference"]["high"]
    assert best["difference"]["differing"] == np.count_nonzero(values != before)
    assert best["bounds"]["low"] == best["bounds"]["high"] == pytest.approx((values - before).mean())
    assert (best["verdict"], same["verdict"], late["verdict"]) == ("better", "same", "worse")
    assert str(same["difference"]["mean"]) == "0.0"
    assert late["mean"] == pytest.approx(money(P, y, (P[:, 1] > 0.9).astype(int)).mean())


def test_a_matrix_decides_and_counts_in_place_of_the_recorded_one(client, ward):
    P, y, done = ward
    B = [[0.0, -3.0], [-1.0, 2.0]]
    words = {"ill": {"treat": 2, "wait": -1}, "healthy": {"treat": -3, "wait": 0}}
    (first,) = replayed(client, benefits=words, actions=["treat", "wait"], rules=[{}])["alternatives"]
    (again,) = replayed(client, benefits=B, actions=["wait", "treat"], rules=[{}])["alternatives"]

    assert first["mean"] == again["mean"] == pytest.approx(money(P, y, (P @ np.array(B)).argmax(axis=1), B).mean())
    assert first["done"]["mean"] == pytest.approx(money(P, y, done, B).mean())


def test_a_period_chooses_by_the_time_of_the_decision(client, ward):
    result = replayed(client, rules=[{}], since=DAY * 20_001, until=DAY * 20_002)
    assert result["decisions"] == len(range(1, N, DAYS))


def test_selective_outcomes_are_marked_and_bounded(client, database):
    """A refused loan is never repaid: nothing is known of those who were not treated."""
    rng = np.random.default_rng(6)
    p = rng.random(N)
    done = (p > 0.5).astype(int)
    ids = decided(
        database, N, terms=terms("replay-chosen"), at=DAY * 20_000,
        probabilities=np.column_stack((1 - p, p)).tolist(), choice=done.tolist(),
    )  # fmt: skip
    known = np.flatnonzero(done == 1)
    y = (rng.random(N) < p).astype(int)
    told(database, [ids[i] for i in known], y[known].tolist(), terms=terms("replay-chosen"), day=20_000)

    result = replayed(client, "replay-chosen", rules=[{}])

    assert result["selective"]["is"]
    assert "more often after some actions" in result["warnings"][0]
    (found,) = result["alternatives"]
    assert found["bounds"]["low"] < 0 < found["bounds"]["high"]
    assert found["verdict"] in ("undecided", "same")
    checked = list(unqualified(result))
    assert checked == []


def test_nothing_is_concluded_while_truths_are_to_come(client, database):
    """The ill are known at once, the healthy after a month: treating all would seem to be best."""
    rng, now = np.random.default_rng(8), time()
    model = "replay-waiting"
    trained(client, {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows()})
    for day in range(day_of(now) - 30, day_of(now)):
        at = DAY * day + 3_600.0
        y = (rng.random(40) < 0.2).astype(int)
        lag = np.where(y == 1, 600.0, rng.exponential(30 * DAY, 40))
        P = [[0.8, 0.2]] * 40
        ids = decided(database, 40, terms=terms(model), at=at, probabilities=P, choice=[0] * 40)
        known = np.flatnonzero(at + lag < now)
        some = [ids[i] for i in known]
        told(database, some, y[known].tolist(), terms=terms(model), day=day, received_at=at + lag[known])

    result = replayed(client, model, rules=[{"rule": "expected_benefit"}])

    (found,) = result["alternatives"]
    assert found["verdict"] == "undecided"
    assert found["reason"] == result["maturing"]["reason"]
    assert result["maturing"]["reason"] in found["difference"]["basis"]
    assert any(result["maturing"]["reason"] in warning for warning in result["warnings"])


def test_truths_of_new_days_are_left_out(client, database):
    """Of the last three days the ill alone are known yet."""
    rng, now = np.random.default_rng(9), time()
    model, today = "replay-new", day_of(time())
    trained(client, {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows()})
    known = 0
    for day in range(today - 40, today):
        at = DAY * day + 3_600.0
        y = (rng.random(60) < 0.3).astype(int)
        ids = decided(database, 60, terms=terms(model), at=at, probabilities=[[0.7, 0.3]] * 60, choice=[0] * 60)
        for truth, lag in ((1, 600.0), (0, 3 * DAY)):
            if at + lag < now:
                some = np.flatnonzero(y == truth)
                told(
                    database,
                    [ids[i] for i in some],
                    [truth] * len(some),
                    terms=terms(model),
                    day=day,
                    received_at=at + lag,
                )
                known += len(some)

    result = replayed(client, model, rules=[{}])

    assert result["decisions"] == 40 * 60
    left_out = result["maturing"]["known_left_out"]
    assert left_out > 0
    assert result["maturing"]["reason"] is None
    assert result["known"] == result["alternatives"][0]["known"] == known - left_out
    report = client.get(f"/models/{model}/outcomes").json()
    assert (report["known"], report["maturing"]) == (result["known"], result["maturing"])


def unqualified(value, path=""):
    """Objects with amounts that do not say of which cases, or that say it as if these were all."""
    if isinstance(value, list):
        for i, inner in enumerate(value):
            yield from unqualified(inner, f"{path}/{i}")
    elif isinstance(value, dict):
        if {"mean", "total", "low", "high"} & value.keys() and not (
            "not an estimate for all decisions" in value["basis"] or value["basis"].startswith("all decisions")
        ):
            yield path
        for name, inner in value.items():
            yield from unqualified(inner, f"{path}/{name}")


def test_versions_decide_on_recorded_instances(client, database):
    rng = np.random.default_rng(7)
    data = two_class_rows(300, seed=9)
    answer = client.post(
        "/predict",
        json={"model": "replay-seen", "instances": data["rows"], "benefits": MATRIX, "actions": ["wait", "treat"],
              "record": {"instances": True}},
    ).json()  # fmt: skip
    outcomes = [{"id": id_, "truth": truth} for id_, truth in zip(answer["ids"], data["labels"], strict=True)]
    assert client.post("/outcomes", json={"outcomes": outcomes}).json()["accepted"] == 300
    asked = replace(terms("replay-seen"), verb="acquire")
    partly = decided(database, 1, terms=asked, at=time(), instance='{"age": 60}')
    told(database, partly, [1], terms=asked, day=day_of(time()))
    shuffled = data | {"labels": rng.permutation(data["labels"]).tolist()}
    trained(client, {"model": "replay-seen", "learner": {"kind": "logistic"}, "data": shuffled})

    result = replayed(client, "replay-seen", models=["replay-seen:1", "replay-seen:2"], rules=[{}])

    own, first, second = result["alternatives"]
    assert [each["model"] for each in result["alternatives"]] == [None, "replay-seen:1", "replay-seen:2"]
    assert (own["cases"], first["cases"], first["known"]) == (301, 300, 300)
    assert first["mean"] == first["done"]["mean"]
    assert (own["verdict"], first["verdict"], second["verdict"]) == ("same", "same", "worse")
    (without,) = (
        each for each in replayed(client, models=["replay-seen:1"], rules=[{}])["alternatives"] if each["model"]
    )
    assert without["cases"] == 0
    assert "no instance of one was recorded" in without["error"]


@pytest.mark.parametrize(
    ("order", "error"),
    [
        ({"since": 0}, says("", "send 'models', 'rules' or 'benefits'")),
        ({"models": ["nobody"]}, says("/models/0", "nobody")),
        ({"rules": [{"rule": "beta_delta"}]}, says("/rules/0/costs", "beta_delta")),
        ({"rules": [{"threshold": 0.5}]}, says("/rules/0/threshold", "belong", "threshold")),
        ({"rules": [{"priors": {"ill": 1}}]}, says("/rules/0/priors", "healthy")),
        ({"benefits": [[0, 1]]}, says("/benefits", "2")),
        ({"rules": []}, says("/rules", "at least 1")),
        ({"since": "soon"}, says("/since", "ISO 8601")),
    ],
)
def test_what_cannot_be_replayed_is_refused(client, order, error):
    answer = client.post("/models/replay-ward/replay", json=order)
    assert answer.status_code in (404, 422), answer.text
    assert answer.json()["errors"][0] == error


def test_an_alternative_that_cannot_decide_says_why_and_the_others_are_compared(client, ward):
    costs = {"majority": "healthy", "C_DD": 1, "C_HD": 2, "C_DH": 10}
    failed, other = replayed(client, rules=[{"rule": "beta_delta", "costs": costs}, {}])["alternatives"]
    assert "decides among the classes" in failed["error"]
    assert failed["mean"] is None
    assert other["error"] is None
