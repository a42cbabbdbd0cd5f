"""`POST /acquire` and `/acquire/simulate` over real HTTP: a case fed step by step, and every way to get it wrong."""

import httpx
import numpy as np
import pytest

from tests.conftest import trained, two_class_rows, uploaded

DATA = two_class_rows(240)
COSTS = [
    {"feature": "age", "cost": 0},
    {"feature": "pulse", "cost": 4, "group": "visit", "discounted_cost": 1},
    {"feature": "pain", "cost": 5, "group": "visit", "discounted_cost": 2},
]
BENEFITS = [[0, -10], [-40, 10]]


@pytest.fixture(scope="module")
def clinic(service: httpx.Client) -> str:
    """A forest that asks for age, pulse and pain at the prices of COSTS."""
    learner = {"kind": "random_forest", "n_estimators": 12}
    order = {
        "model": "clinic",
        "learner": learner,
        "data": DATA,
        "feature_costs": COSTS,
        "benefits": BENEFITS,
    }
    trained(service, order)
    return "clinic"


def ask(service: httpx.Client, **question: object) -> httpx.Response:
    return service.post("/acquire", json={"model": "clinic", **question})


def test_many_cases_at_once(service, clinic):
    """`results` are in the order of `instances`, each as it is answered alone."""
    cases = [{}, {"age": 70}, {"pain": "strong", "pulse": 95}, {"age": None}]
    together = ask(service, instances=cases, budget=6).json()
    assert together["warnings"] == []
    for case, result in zip(cases, together["results"], strict=True):
        alone = ask(service, known=case, budget=6).json()
        assert {name: alone[name] for name in result} == result
    together = ask(service, instances=cases, benefits=BENEFITS).json()["results"]
    alone = [ask(service, known=case, benefits=BENEFITS).json() for case in cases]
    assert [one["decision"] for one in together] == [one["decision"] for one in alone]
    assert ask(service, instances=[]).json()["results"] == []


def test_simulation_from_rows_and_from_a_data_set(service, clinic):
    """The same rows sent along or as a data set give the same figures, budgets as asked and one without. Codes of the
    data set are not those of the model; a word that training never saw counts as missing.
    """
    new = two_class_rows(40, seed=9)
    for row in new["rows"][::3]:
        row[2] = "burning"
    question = {"model": clinic, "budgets": [0, 5], "benefits": BENEFITS}
    sent = service.post(
        "/acquire/simulate",
        json={**question, "rows": new["rows"], "labels": new["labels"]},
    ).json()
    stored = service.post(
        "/acquire/simulate", json={**question, "dataset": uploaded(service, new)}
    ).json()
    assert [sent[name] for name in ("rows", "budgets", "everything")] == [
        40,
        stored["budgets"],
        stored["everything"],
    ]
    assert [run["budget"] for run in sent["budgets"]] == [0, 5, None]
    assert sent["budgets"][0]["plain"]["cost"] == 0
    assert np.isfinite(
        [run["worth_stopping"]["net_benefit"] for run in sent["budgets"]]
    ).all()


def test_data_of_other_features_cannot_be_simulated(service, clinic):
    narrow = uploaded(
        service,
        {
            "features": ["age"],
            "rows": [[1], [2], [3], [4]],
            "labels": ["a", "b", "a", "b"],
        },
    )
    response = service.post(
        "/acquire/simulate", json={"model": clinic, "dataset": narrow}
    )
    assert (response.status_code, len(response.json()["errors"])) == (
        422,
        3,
    )  # two features and the classes
