"""What rules would have earned over real HTTP: of a model's hold-out, and of probabilities of any other system."""

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

BENEFITS = [[0, -1], [-10, 5]]


def by_name(report):
    return {row["rule"]: row for row in report["rules"]}


def test_every_rule_is_compared_on_the_same_rows(service, ward):
    """Two classes: four rules, each with an interval around its benefit; the threshold is the best of the curve."""
    report = service.post(
        f"/models/{ward}/benefit", json={"benefits": BENEFITS, "points": 51}
    ).json()
    rules = by_name(report)

    names = [
        "expected_benefit",
        "most_probable",
        "threshold_posterior",
        "threshold_holdout",
        "same_for_all",
    ]
    assert list(rules) == names
    for row in rules.values():
        assert row["interval"][0] <= row["benefit"] <= row["interval"][1]
        assert row["mu"] == pytest.approx(row["benefit"] / report["upper_bound"])
        assert row["behind"] == pytest.approx(
            rules[report["best"]["rule"]]["benefit"] - row["benefit"]
        )
    for name, figures in (
        ("expected_benefit", "expected_benefit"),
        ("most_probable", "cost_blind"),
    ):
        assert rules[name]["benefit"] == pytest.approx(report[figures]["benefit"])
    assert len(report["curve"]) == 51
    points = report["calibration_curve"]
    assert sum(point["rows"] for point in points) == report["rows"]
    assert all(p["interval"][0] <= p["occurred"] <= p["interval"][1] for p in points)
    assert report["benefit"] >= max(point["benefit"] for point in report["curve"])
    assert report["posterior_threshold"] == pytest.approx(1 / 16)
    assert rules["threshold_holdout"]["benefit"] <= report["benefit"]
    assert rules["threshold_holdout"]["figures"]["threshold"] == report["threshold"]


def test_what_the_report_says_to_ask_for_is_what_a_prediction_does(service):
    """Each rule's `request` is accepted by /predict, and gives the report's figures."""
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 120)
    rows = (rng.normal(size=(120, 2)) + labels[:, None]).round(2).tolist()
    data = {
        "features": ["a", "b"],
        "rows": rows,
        "labels": [f"class {k}" for k in labels],
    }
    trained(
        service, {"model": "minorities", "learner": {"kind": "logistic"}, "data": data}
    )
    matrix = [[3, 1, 1], [-6, 4, 3], [-10, -1, 0]]
    report = service.post(
        "/models/minorities/benefit", json={"benefits": matrix}
    ).json()
    rules = by_name(report)

    assert list(rules) == ["expected_benefit", "most_probable", "same_for_all"]
    assert rules.pop("same_for_all")["request"] is None
    for row in rules.values():
        question = {
            "model": "minorities",
            "instances": rows[:5],
            "benefits": matrix,
            **row["request"],
        }
        answer = service.post("/predict", json=question).json()
        for name, value in row["figures"].items():
            assert answer[name] == pytest.approx(value)


def test_the_best_action_for_all_is_a_contender(service, ward):
    """What can be had without a model is in the table, and a warning says where no rule earns more."""
    report, hopeless = (
        service.post(f"/models/{ward}/benefit", json={"benefits": benefits}).json()
        for benefits in (BENEFITS, [[0, -1e-6], [-1, 5]])
    )
    means = np.array(list(report["priors"].values())) @ np.array(BENEFITS)

    constant = by_name(report)["same_for_all"]
    assert constant["benefit"] == pytest.approx(means.max())
    assert constant["figures"] == {"action": int(means.argmax())}
    assert ["does not pay" in str(each["warnings"]) for each in (report, hopeless)] == [
        False,
        True,
    ]


CLASSES = ["healthy", "ill"]
RULES = [
    {},
    {"rule": "most_probable", "benefits": None, "actions": None},
    {"rule": "threshold"},
    {"rule": "threshold", "threshold": 0.5},
    {
        "rule": "hierarchical",
        "benefits": None,
        "actions": None,
        "costs": {"majority": "healthy", "C_HD": 4, "C_DH": 1},
    },
]


def test_decisions_are_those_of_a_model_with_these_probabilities(service, ward):
    rows = two_class_rows(30)["rows"]
    for rule in RULES:
        asked = {"benefits": BENEFITS, "actions": ["wait", "treat"]} | rule
        by_model = service.post(
            "/predict", json={"model": ward, "instances": rows} | asked
        ).json()
        given = {
            "probabilities": by_model["probabilities"],
            "classes": by_model["classes"],
        }
        answer = service.post("/predict", json=given | asked)
        assert answer.status_code == 200, answer.text
        del by_model["model"]
        assert answer.json() == by_model


def test_the_report_judges_the_rows_that_were_sent(service):
    rng = np.random.default_rng(2)
    p = rng.random(400)
    ill = rng.random(400) < p
    P, B = np.column_stack([1 - p, p]), np.array(BENEFITS, dtype=float)
    asked = {
        "probabilities": P.tolist(),
        "classes": CLASSES,
        "labels": np.where(ill, "ill", "healthy").tolist(),
    }
    asked |= {"benefits": BENEFITS}
    priors = {"healthy": 0.99, "ill": 0.01}
    report, swapped, shifted = (
        service.post("/benefit", json=asked | more).json()
        for more in (
            {"actions": ["wait", "treat"]},
            {"classes": CLASSES[::-1]},
            {"priors": priors},
        )
    )
    chart = service.post(
        "/benefit", json=asked, headers={"Accept": "image/svg+xml"}
    ).text

    assert ("model" in report, report["rows"], report["actions"]) == (
        False,
        400,
        ["wait", "treat"],
    )
    assert report["expected_benefit"]["benefit"] == pytest.approx(
        B[ill.astype(int), (P @ B).argmax(axis=1)].mean()
    )
    told = [
        any("in the order of 'classes'" in warning for warning in one["warnings"])
        for one in (report, swapped)
    ]
    assert told == [False, True]
    assert shifted["priors"] == priors
    assert chart.startswith("<svg")
    assert "the probabilities sent" in chart
