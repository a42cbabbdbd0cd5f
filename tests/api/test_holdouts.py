"""Hold-outs by time and by group over HTTP: the rows that figures come from, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conftest import csv_of, trained

N = 600
CUSTOMERS = 120
BENEFITS = [[0, -1], [-10, 5]]
TIME = {"part": 0.25, "by": "time", "column": "applied"}
GROUP = {"part": 0.25, "by": "group", "column": "customer"}


def loans(n: int = N) -> dict:
    """Rows of customers, five each, who differ in a feature and in their class, day by day."""
    rng = np.random.default_rng(0)
    customer = np.arange(n) % CUSTOMERS
    risk = rng.normal(size=CUSTOMERS)[customer]
    days = np.datetime64("2026-01-01") + np.arange(n) // 4
    late = rng.random(n) < 1 / (1 + np.exp(-2 * rng.normal(size=CUSTOMERS)[customer]))
    rows = [
        [round(float(value), 2), f"c{code}", str(day), "shop"]
        for value, code, day in zip(risk, customer, days, strict=True)
    ]
    return {
        "features": ["income", "customer", "applied", "branch"],
        "rows": rows,
        "labels": ["late" if is_late else "paid" for is_late in late],
    }


@pytest.fixture(scope="module")
def stored(service) -> str:
    """The id of an uploaded table, whose dates and customers are no features."""
    types = '{"customer": "ignore", "applied": "ignore"}'
    answer = service.post(
        "/datasets",
        files={"file": ("loans.csv", csv_of(loans()))},
        data={"label": "label", "types": types},
    )
    assert answer.status_code == 201, answer.text
    assert answer.json()["kept"] == ["customer", "applied"]
    return answer.json()["id"]


def order(data, holdout, **changes) -> dict:
    return {
        "model": "loans",
        "learner": {"kind": "logistic"},
        "data": data if isinstance(data, dict) else {"dataset": data},
        "holdout": holdout,
        "benefits": BENEFITS,
    } | changes


def evaluated(service, body) -> tuple[dict, dict]:
    """The evaluation of the card, and the report on the hold-out."""
    version = trained(service, body)["model"]["version"]
    card = service.get(f"/models/loans/versions/{version}").json()
    report = service.post(
        f"/models/loans:{version}/benefit", json={"benefits": BENEFITS}
    )
    return card["data"]["evaluation"], report.json()


def test_by_time_the_last_rows_are_held_out(service, stored):
    evaluation, report = evaluated(service, order(stored, TIME))
    words = "the last 25% by 'applied': 152 rows from 2026-04-23 on"
    assert evaluation == {
        "method": "hold-out", "folds": None, "rows": 152, "by": "time",
        "column": "applied", "groups": None, "in_words": words,
    }  # fmt: skip
    assert (report["rows"], report["rows_in_words"], report["groups"]) == (
        152,
        words,
        None,
    )


def test_by_group_no_customer_is_on_both_sides(service, stored):
    evaluation, report = evaluated(service, order(stored, GROUP))
    groups = evaluation["groups"]
    assert 20 <= groups <= 40
    assert evaluation["rows"] == 5 * groups
    assert evaluation["in_words"].startswith(f"{groups} of 120 groups by 'customer': ")
    assert (report["groups"], report["rows"]) == (groups, 5 * groups)
    doubts = " ".join(report["warnings"])
    assert "groups: too few for a reliable interval" in doubts  # there are 100 rows


def test_inline_columns_serve_as_features_and_beside_them(service):
    data = loans(300) | {"types": {"customer": "ignore"}}
    evaluation, report = evaluated(service, order(data, GROUP))
    assert (evaluation["method"], evaluation["folds"]) == ("cross-validation", 4)
    assert (report["rows"], report["groups"]) == (300, 120)
    assert (
        evaluation["in_words"]
        == "120 of 120 groups by 'customer' in 4 folds: all 300 rows"
    )
    evaluation, _ = evaluated(service, order(data, TIME))
    assert (
        evaluation["in_words"]
        == "the last 25% by 'applied': 76 rows from 2026-02-26 on"
    )


@pytest.mark.parametrize("holdout", [TIME, GROUP], ids=["time", "group"])
def test_learners_are_compared_on_such_rows(service, stored, holdout):
    body = {
        "dataset": stored,
        "learners": [{"kind": "logistic"}],
        "benefits": BENEFITS,
        "holdout": holdout,
    }
    answer = service.post("/compare", json=body, headers={"Prefer": "wait=60"}).json()
    assert answer["status"] == "succeeded", answer
    result = answer["result"]
    if holdout is TIME:
        assert (result["rows"], result["groups"]) == (152, None)
        assert result["rows_in_words"].startswith("the last 25% by 'applied': ")
    else:
        assert (result["rows"], result["groups"]) == (N, CUSTOMERS)
    assert not any("hold out by it" in warning for warning in result["warnings"])
    refused = service.post("/compare", json=body | {"folds": 3})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == "/folds"


@pytest.mark.parametrize(
    ("holdout", "loc", "reason"),
    [
        (TIME | {"column": "aplied"}, "/holdout/column", "did you mean 'applied'"),
        (
            TIME | {"column": "label"},
            "/holdout/column",
            "'label' cannot be used (it is the label)",
        ),
        (TIME | {"column": "customer"}, "/holdout/column", "'customer' holds words"),
        (GROUP | {"column": "branch"}, "/holdout/column", "the same value of 'branch'"),
        (GROUP | {"part": 0}, "/holdout/part", "greater than 0"),
        (GROUP | {"by": "size"}, "/holdout/by", "'time' or 'group'"),
        ({"by": "time"}, "/holdout/column", "required"),
        ("some", "/holdout", "number"),
        (0.95, "/holdout", "less than or equal to 0.9"),
    ],
)
def test_what_cannot_be_held_out_by_is_refused_at_once(service, holdout, loc, reason):
    answer = service.post("/train", json=order(loans(60), holdout))
    assert answer.status_code == 422
    flaw = answer.json()["errors"][0]
    assert flaw["loc"] == loc
    assert reason in flaw["msg"]


def test_missing_values_and_classes_without_training_rows_are_refused(service):
    data = loans(60)
    data["rows"][7][1] = None
    answer = service.post("/train", json=order(data, GROUP))
    assert "'customer' is missing in 1 row" in answer.json()["errors"][0]["msg"]
    data["labels"][-3:] = ["lost"] * 3
    job = service.post(
        "/train", json=order(data, TIME, benefits=None), headers={"Prefer": "wait=60"}
    ).json()
    assert job["status"] == "failed"
    assert "no row of 'lost', as all are held out" in job["error"]["detail"]
    assert job["error"]["errors"][0]["loc"] == "/holdout"


def test_random_folds_of_such_rows_are_doubted(service, stored):
    body = {"dataset": stored, "learners": [{"kind": "logistic"}], "folds": 2}
    answer = service.post(
        "/compare", json=body | {"benefits": BENEFITS}, headers={"Prefer": "wait=60"}
    ).json()
    warnings = " ".join(answer["result"]["warnings"])
    assert warnings.count("hold out by it") == 2


def test_a_random_split_of_rows_that_repeat_a_customer_is_doubted(service, stored):
    """With the figure that a better split gives, as that is cheap here."""
    job = trained(service, order(stored, 0.25))
    warnings = " ".join(job["warnings"])
    assert "with one value of 'customer'" in warnings
    assert '\'holdout\': {"by": "group", "column": "customer"}' in warnings
    assert "'applied' has dates" in warnings
    assert warnings.count("the benefit of a case is then") == 2
    by_group = trained(service, order(stored, GROUP))
    assert not any("customer" in warning for warning in by_group["warnings"])
