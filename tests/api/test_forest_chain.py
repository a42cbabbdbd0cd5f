"""A chain of forests over HTTP: trained with prices, asked step by step, simulated, and drawn."""

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

DATA = two_class_rows(240)
COSTS = [
    {"feature": "age", "cost": 0.5},
    {"feature": "pulse", "cost": 4, "group": "visit", "discounted_cost": 1},
    {"feature": "pain", "cost": 5, "group": "visit", "discounted_cost": 2},
]
BENEFITS = [[0, -10], [-40, 10]]


@pytest.fixture(scope="module")
def chain(service):
    learner = {"kind": "forest_chain", "n_estimators": 8, "least": 0}
    order = {"model": "chain", "learner": learner, "data": DATA, "feature_costs": COSTS, "benefits": BENEFITS}
    trained(service, order)
    return "chain"


@pytest.mark.thorough
def test_the_card_has_the_order_as_a_staircase(service, chain):
    """Feature, price, error and share of each step."""
    card = service.get("/models/chain/versions/1").json()
    steps = card["fitted"]["chain"]
    prices = {entry["feature"]: {entry["cost"], entry.get("discounted_cost")} for entry in COSTS}
    assert all(step["price"] in prices[step["asks"]] for step in steps[:-1])
    assert sum(step["stops"] for step in steps) == pytest.approx(1)
    assert card["metrics"]["acquisition"]["budgets"][-1]["worth_stopping"]["questions"] <= len(steps) - 1


@pytest.mark.parametrize("size", [0.2, 1, 5])
def test_step_by_step_is_the_simulation(service, chain, size):
    """The mean cost, number of questions and net benefit of rows asked over HTTP are those of the simulation."""
    fresh = two_class_rows(15, seed=3)
    benefits = (np.array(BENEFITS) * size).tolist()
    classes = service.get("/models/chain/versions/1").json()["classes"]
    spent, questions, earned = [], [], []
    for row, label in zip(fresh["rows"], fresh["labels"], strict=True):
        complete, known = dict(zip(fresh["features"], row, strict=True)), {}
        while True:
            asked = {"model": chain, "known": known, "benefits": benefits}
            now = service.post("/acquire", json=asked).json()
            if now["status"] == "decided":
                break
            known[now["next"]["feature"]] = complete[now["next"]["feature"]]
        spent.append(now["spent"])
        questions.append(len(known))
        earned.append(benefits[classes.index(label)][classes.index(now["decision"])])
    body = {"model": chain, "rows": fresh["rows"], "labels": fresh["labels"], "benefits": benefits, "budgets": []}
    told = service.post("/acquire/simulate", json=body).json()["budgets"][-1]["worth_stopping"]
    assert told["cost"] == pytest.approx(np.mean(spent))
    assert told["questions"] == pytest.approx(np.mean(questions))
    assert told["net_benefit"] == pytest.approx(np.mean(earned) - np.mean(spent))


def test_a_target_shows_no_benefits_over_http(service, chain):
    """In JSON null or absent, in a table no column."""
    body = {"model": chain, "known": {}, "target": {"cost": 2}}
    one = service.post("/acquire", json=body).json()
    assert one["decision"] in one["probabilities"]
    assert not {"expected_benefits", "expected_gain"} & one.keys()
    rows = service.post(
        "/acquire", params={"model": chain, "target": '{"cost": 2}'}, content=b"age\n50\n",
        headers={"Content-Type": "text/csv", "Accept": "text/csv"},
    )  # fmt: skip
    columns = rows.text.replace('"', "").splitlines()[0].split(",")
    assert "decision" in columns
    assert not [name for name in columns if name == "expected_gain" or name.startswith("benefit:")]
    fresh = two_class_rows(15, seed=3)
    simulation = {"model": chain, "rows": fresh["rows"], "labels": fresh["labels"], "budgets": [3]}
    way = service.post("/acquire/simulate", json=simulation | {"target": {"cost": 2}}).json()["budgets"][0]
    assert (way["worth_stopping"]["benefit"], way["worth_stopping"]["net_benefit"]) == (None, None)


def test_a_feature_that_cannot_be_had_is_passed_over(service, chain):
    """It costs nothing, is not asked for again, and the answer is the same for null and `unavailable`."""
    first = service.post("/acquire", json={"model": chain, "known": {}}).json()["next"]["feature"]
    null = service.post("/acquire", json={"model": chain, "known": {first: None}}).json()
    named = service.post("/acquire", json={"model": chain, "known": {}, "unavailable": [first]}).json()
    assert null == named
    assert (null["spent"], null["status"]) == (0, "acquire")
    assert first not in {wanted["feature"] for wanted in null["frontier"]}


def test_predict_knows_everything(service, chain):
    """The probabilities of `/predict` are those of the last state."""
    row = DATA["rows"][0]
    known = dict(zip(DATA["features"], row, strict=True))
    last = service.post("/acquire", json={"model": chain, "known": known}).json()
    told = service.post("/predict", json={"model": chain, "instances": [row], "benefits": BENEFITS}).json()
    assert list(last["probabilities"].values()) == pytest.approx(told["probabilities"][0])
    assert last["reason"] == "resolved"
