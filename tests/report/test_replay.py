"""What others would have earned on recorded decisions, and what that proves."""

from dataclasses import replace
from time import time

import numpy as np
import pytest

from app.outcomes.decision import DAY, UNKNOWN, Terms, day_of
from app.report.alternatives import Alternative, documents
from app.report.slices import slices
from tests.conftest import trained, two_class_rows
from tests.outcomes.records import decided, told
from tests.report.outcome_worlds import (
    day_of_cases,
    recorded_with_late_truths,
    terms_of,
)

MATRIX = ((0.0, -1.0), (-10.0, 5.0))
N, DAYS = 400, 8


def terms(model="replay-ward", **changes):
    fields = {
        "rule": "most_probable",
        "classes": ("healthy", "ill"),
        "actions": ("wait", "treat"),
        "benefits": MATRIX,
    }
    return Terms("predict", model, 1, **(fields | changes))


@pytest.fixture(scope="module")
def client(service):
    for model in ("replay-ward", "replay-seen"):
        trained(
            service,
            {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows()},
        )
    return service


def replayed(client, model="replay-ward", **order):
    answer = client.post(
        f"/models/{model}/replay", json=order, headers={"Prefer": "wait=60"}
    )
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
    ids = decided(
        database,
        N,
        terms=terms(),
        at=at,
        probabilities=P.tolist(),
        choice=done.tolist(),
    )
    for day in range(DAYS):
        some = range(day, N, DAYS)
        told(
            database,
            [ids[i] for i in some],
            y[some].tolist(),
            terms=terms(),
            day=20_000 + day,
        )
    return P, y, done


def test_rules_are_paired_with_what_was_done(client, ward):
    P, y, done = ward
    rules = [
        {"rule": "expected_benefit"},
        {"rule": "most_probable"},
        {"rule": "threshold", "threshold": 0.9},
    ]
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
    assert (
        best["difference"]["low"]
        < (values - before).mean()
        < best["difference"]["high"]
    )
    assert best["difference"]["differing"] == np.count_nonzero(values != before)
    assert (
        best["bounds"]["low"]
        == best["bounds"]["high"]
        == pytest.approx((values - before).mean())
    )
    assert (best["verdict"], same["verdict"], late["verdict"]) == (
        "better",
        "same",
        "worse",
    )
    assert str(same["difference"]["mean"]) == "0.0"
    assert late["mean"] == pytest.approx(
        money(P, y, (P[:, 1] > 0.9).astype(int)).mean()
    )


def test_a_matrix_decides_and_counts_in_place_of_the_recorded_one(client, ward):
    P, y, done = ward
    B = [[0.0, -3.0], [-1.0, 2.0]]
    words = {"ill": {"treat": 2, "wait": -1}, "healthy": {"treat": -3, "wait": 0}}
    (first,) = replayed(client, benefits=words, actions=["treat", "wait"], rules=[{}])[
        "alternatives"
    ]
    (again,) = replayed(client, benefits=B, actions=["wait", "treat"], rules=[{}])[
        "alternatives"
    ]

    assert (
        first["mean"]
        == again["mean"]
        == pytest.approx(money(P, y, (P @ np.array(B)).argmax(axis=1), B).mean())
    )
    assert first["done"]["mean"] == pytest.approx(money(P, y, done, B).mean())


def test_a_period_chooses_by_the_time_of_the_decision(client, ward):
    result = replayed(client, rules=[{}], since=DAY * 20_001, until=DAY * 20_002)
    assert result["decisions"] == len(range(1, N, DAYS))


def test_truths_of_new_days_are_left_out(client, database):
    """As the report leaves them out."""
    model = "replay-new"
    trained(
        client,
        {"model": model, "learner": {"kind": "logistic"}, "data": two_class_rows()},
    )
    known = recorded_with_late_truths(database, terms(model))

    result, report = (
        replayed(client, model, rules=[{}]),
        client.get(f"/models/{model}/outcomes").json(),
    )

    assert result["decisions"] == 2_000
    assert result["maturing"]["known_left_out"] > 0
    assert result["maturing"]["reason"] is None
    left = known - result["maturing"]["known_left_out"]
    assert result["known"] == result["alternatives"][0]["known"] == left
    assert (report["known"], report["maturing"]) == (
        result["known"],
        result["maturing"],
    )


def test_versions_decide_on_recorded_instances(client, database):
    rng = np.random.default_rng(7)
    data = two_class_rows(300, seed=9)
    answer = client.post(
        "/predict",
        json={"model": "replay-seen", "instances": data["rows"], "benefits": MATRIX, "actions": ["wait", "treat"],
              "record": {"instances": True}},
    ).json()  # fmt: skip
    outcomes = [
        {"id": id_, "truth": truth}
        for id_, truth in zip(answer["ids"], data["labels"], strict=True)
    ]
    assert (
        client.post("/outcomes", json={"outcomes": outcomes}).json()["accepted"] == 300
    )
    asked = replace(terms("replay-seen"), verb="acquire")
    partly = decided(database, 1, terms=asked, at=time(), instance='{"age": 60}')
    told(database, partly, [1], terms=asked, day=day_of(time()))
    shuffled = data | {"labels": rng.permutation(data["labels"]).tolist()}
    trained(
        client,
        {"model": "replay-seen", "learner": {"kind": "logistic"}, "data": shuffled},
    )

    result = replayed(
        client, "replay-seen", models=["replay-seen:1", "replay-seen:2"], rules=[{}]
    )

    own, first, second = result["alternatives"]
    assert [each["model"] for each in result["alternatives"]] == [
        None,
        "replay-seen:1",
        "replay-seen:2",
    ]
    assert (own["cases"], first["cases"], first["known"]) == (301, 300, 300)
    assert first["mean"] == first["done"]["mean"]
    assert (own["verdict"], first["verdict"], second["verdict"]) == (
        "same",
        "same",
        "worse",
    )
    (without,) = (
        each
        for each in replayed(client, models=["replay-seen:1"], rules=[{}])[
            "alternatives"
        ]
        if each["model"]
    )
    assert without["cases"] == 0
    assert "no instance of one was recorded" in without["error"]


def test_an_alternative_that_cannot_decide_says_why_and_the_others_are_compared(
    client, ward
):
    costs = {"majority": "healthy", "C_DD": 1, "C_HD": 2, "C_DH": 10}
    failed, other = replayed(
        client, rules=[{"rule": "beta_delta", "costs": costs}, {}]
    )["alternatives"]
    assert "decides among the classes" in failed["error"]
    assert failed["mean"] is None
    assert other["error"] is None


OWN = np.array([[0.0, -1.0], [-2.0, 1.0]])
TERMS = [terms_of(tuple(map(tuple, OWN.tolist())))]


def part(rng, n, *, told=None, known=1.0, truth=None):
    """Cases that were decided at random, with truths that both actions earn equally from."""
    if truth is None:
        truth = np.where(rng.random(n) < known, rng.random(n) < 0.25, UNKNOWN)
    done = rng.integers(0, 2, n)
    benefit = (
        np.full(n, np.nan) if told is None else told(OWN[np.maximum(truth, 0), done])
    )
    cases = day_of_cases(rng, n, terms=TERMS)
    (found,) = slices(
        replace(
            cases,
            truth=truth.astype(np.int32),
            choice=done.astype(np.int32),
            benefit=benefit,
        )
    )
    return found


def tallied(cases, *choices, **options):
    """The figures of alternatives that choose so in the same cases."""
    found = [Alternative(None, {}) for _ in choices]
    for each, choice in zip(found, choices, strict=True):
        each.add(cases, choice)
    return documents(found, **{"selective": False} | options)


@pytest.mark.parametrize(
    "told",
    [lambda earned: earned - 3, lambda earned: 0.5 * earned, lambda earned: earned + 7],
)
def test_benefits_that_were_told_are_on_neither_side_of_the_difference(told):
    rng = np.random.default_rng(1)
    cases = part(rng, 2_000, told=told)
    choice = rng.integers(0, 2, 2_000)
    (found,) = tallied(cases, choice)

    before, after = OWN[cases.truth, cases.choice], OWN[cases.truth, choice]
    assert found["done"]["mean"] == pytest.approx(before.mean())
    assert found["mean"] == pytest.approx(after.mean())
    assert found["difference"]["mean"] == pytest.approx((after - before).mean())
    assert found["difference"]["differing"] == np.count_nonzero(before != after)
    assert found["verdict"] == "undecided"


def test_the_one_of_many_alternatives_that_is_better_is_found():
    """And none of those that alone would seem so."""
    rng, n = np.random.default_rng(5), 500
    cases = part(rng, n)
    wise = np.where(rng.random(n) < 0.3, OWN.argmax(axis=1)[cases.truth], cases.choice)
    found = tallied(cases, *rng.integers(0, 2, (40, n)), wise, cases.choice)

    assert [one["verdict"] for one in found] == ["undecided"] * 40 + ["better", "same"]
    assert (
        sum(
            one["difference"]["low"] > 0 or one["difference"]["high"] < 0
            for one in found[:-1]
        )
        >= 4
    )
    assert found[-1]["adjusted_p_value"] == 1


@pytest.mark.parametrize(
    ("n", "share", "options", "reason"),
    [
        (60, 0.2, {}, "cases differ; 30"),
        (200, 0.9, {}, "fewer than 30 cases of a class"),
        (2_000, 0.9, {"late": "no day is old enough"}, "no day is old enough"),
        (2_000, 0.9, {"selective": True}, "more often after some actions"),
        (2_000, None, {}, "may be chance"),
        (2_000, 0.9, {}, None),
        (2_000, 0.0, {"late": "no day is old enough"}, None),
    ],
)
def test_what_is_undecided_says_why(n, share, options, reason):
    """An alternative that knows the truth in a share of the cases, or that decides at random."""
    rng = np.random.default_rng(5)
    best, rare = OWN.argmax(axis=1), (np.arange(n) < 20) if n == 200 else None
    cases = part(rng, n, known=0.5 if options.get("selective") else 1.0, truth=rare)
    choice = rng.integers(0, 2, n)
    if share is not None:
        knows = (rng.random(n) < share) & (cases.truth >= 0)
        choice = np.where(
            knows,
            best[np.maximum(cases.truth, 0)],
            np.where(cases.truth < 0, 1 - cases.choice, cases.choice),
        )
    (found,) = tallied(cases, choice, **options)

    assert (found["verdict"] == "undecided") == (reason is not None)
    assert reason is None if found["reason"] is None else reason in found["reason"]
    if share == 0.9 and "late" in options:
        assert "no day is old enough" in found["difference"]["basis"]


def test_a_gain_that_a_class_without_a_case_could_outweigh_is_no_verdict():
    cases = part(np.random.default_rng(6), 200, truth=np.zeros(200))
    (found,) = tallied(
        replace(cases, choice=np.ones(200, dtype=np.int32)), np.zeros(200, dtype=int)
    )
    assert found["difference"]["mean"] > 0
    assert found["verdict"] == "undecided"
    assert "fewer than 30 cases of a class" in found["reason"]
