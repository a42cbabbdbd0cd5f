"""A chain of forests over HTTP: trained with prices, asked step by step, simulated, and drawn."""

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
