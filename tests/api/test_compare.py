"""Comparisons of learners and rules over real HTTP."""

import pytest

from tests.conftest import two_class_rows, uploaded

BENEFITS = [[0, -1], [-10, 5]]
LEARNERS = [
    {"kind": "logistic"},
    {"kind": "logistic", "C": 0.01},
    {"kind": "benefit_logistic", "calibration": "none"},
]
SVG = {"Accept": "image/svg+xml"}


@pytest.fixture(scope="module")
def dataset(service):
    return uploaded(service, two_class_rows(150))


@pytest.fixture(scope="module")
def compared(service, dataset):
    response = service.post(
        "/compare", json=order(dataset), headers={"Prefer": "wait=60"}
    )
    assert response.status_code == 200, response.text
    return response.json()


def order(dataset, **changes):
    return {
        "dataset": dataset,
        "learners": LEARNERS,
        "benefits": BENEFITS,
        "folds": 3,
        "seed": 1,
        **changes,
    }


def test_the_table_has_every_learner_with_every_rule(compared):
    result = compared["result"]
    rules = [
        "expected_benefit",
        "most_probable",
        "threshold_posterior",
        "threshold_holdout",
    ]
    names = ["logistic", "logistic(C=0.01)", "benefit_logistic(calibration=none)"]

    assert [(row["learner"], row["rule"]) for row in result["table"]] == [
        *((n, r) for n in names for r in rules),
        (None, "same_for_all"),
    ]
    assert [learner["name"] for learner in result["learners"]] == names
    assert result["rows"] == 150
    assert all(
        learner["converged"] == [True] * 3 and learner["error"] is None
        for learner in result["learners"]
    )
    for row in result["table"]:
        assert row["interval"][0] <= row["benefit"] <= row["interval"][1]
        assert row["mu"] == pytest.approx(row["benefit"] / result["upper_bound"])
        assert row["behind"] >= -1e-12


def test_the_chart_of_a_comparison(service, compared):
    """The table as SVG; what browsers send for pictures asks for it, too."""
    chart = service.get(f"/compare/{compared['id']}", headers=SVG)
    image = service.get(
        f"/compare/{compared['id']}",
        headers={"Accept": "image/avif,image/svg+xml,image/*,*/*;q=0.8"},
    )

    assert chart.headers["content-type"].startswith("image/svg+xml")
    assert image.text == chart.text
    for row in compared["result"]["table"]:
        assert (row["learner"] or "no model") in chart.text
    impossible = order(
        compared["requested"]["dataset"],
        benefits=[[0, 1], [1, 0]],
        learners=[LEARNERS[2]],
    )
    failed = service.post(
        "/compare", json=impossible, headers={"Prefer": "wait=60"}
    ).json()
    assert (
        failed["status"],
        service.get(f"/compare/{failed['id']}", headers=SVG).status_code,
    ) == (
        "failed",
        409,
    )


def test_a_majority_is_one_class_however_it_is_written(service):
    data = two_class_rows(60)
    data["labels"] = [int(label == "ill") for label in data["labels"]]
    dataset = uploaded(service, data)
    twice = [{"kind": "kernel_logistic", "majority": majority} for majority in (1, "1")]

    refused = service.post("/compare", json=order(dataset, learners=twice))
    assert (
        refused.status_code,
        [flaw["loc"] for flaw in refused.json()["errors"]],
    ) == (
        422,
        ["/learners/1"],
    )
    accepted = service.post(
        "/compare",
        json=order(dataset, learners=twice[1:]),
        headers={"Prefer": "wait=60"},
    ).json()
    assert accepted["result"]["learners"][0]["parameters"]["majority"] == 1
