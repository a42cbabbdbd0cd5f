"""With prices `auto` chooses among the learners that ask for one feature after the other, by net benefit."""

import json
from dataclasses import replace

import numpy as np
import pytest

from app.acquisition.session import Prices
from app.decisions.benefit import Prepared
from app.decisions.folds import UNJUDGED, stratified_folds
from app.errors import Invalid
from app.learners import automatic
from app.learners.automatic import Automatic
from app.learners.budget_forest import BudgetForest
from app.learners.forest_chain import ForestChain
from app.learners.random_forest import RandomForest
from app.usecases.acquisition_model import AcquisitionModel
from app.usecases.simulate import report
from tests.conftest import trained, two_class_rows

SMALL = {
    "forest_chain": {"n_estimators": 8},
    "budget_forest": {"alpha": 1, "cost_exponent": 1, "n_estimators": 8},
    "random_forest": {"n_estimators": 8, "max_features": None, "calibration": "none"},
}
B = np.array([[0.0, -40.0], [-60.0, 0.0]])


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Few trees: what is tested is the choice."""
    quick = {name: replace(automatic.PRICED[name], parameters=own) for name, own in SMALL.items()}
    monkeypatch.setattr(automatic, "PRICED", quick)


def sums(n=240, seed=0):
    """The sum of three of five features decides, whatever they are: every case needs the same three."""
    X = np.random.default_rng(seed).normal(size=(n, 5))
    return X, (X[:, :3].sum(axis=1) > 0).astype(int)


def switched(n=400, seed=0):
    """The sign of the first feature says which of four others is the label: every case needs its own."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5))
    X[:, 0] = random.integers(1, 5, size=n)
    return X, (X[np.arange(n), X[:, 0].astype(int)] > 0).astype(int)


def scores(model):
    return {one.kind: one.score for one in model.tried_}


@pytest.mark.thorough
def test_a_chain_wins_where_every_case_needs_the_same_features():
    X, y = sums()
    model = Automatic(benefits=B, feature_costs=[1, 1, 1, 1, 1], random_state=0).fit(X, y)
    found = scores(model)
    assert list(found) == list(SMALL)
    assert model.chosen_ == "forest_chain"
    assert found["forest_chain"] > max(found["budget_forest"], found["random_forest"]) + 0.5
    alone = ForestChain(feature_costs=[1, 1, 1, 1, 1], random_state=0, **SMALL["forest_chain"]).fit(X, y)
    np.testing.assert_array_equal(model.posterior(X), alone.posterior(X))


@pytest.mark.thorough
def test_a_forest_wins_where_cases_need_different_features():
    """A chain pays for all four, or gives up."""
    X, y = switched()
    model = Automatic(benefits=B, feature_costs=[0.1, 9, 9, 9, 9], random_state=0).fit(X, y)
    found = scores(model)
    assert model.chosen_ in {"budget_forest", "random_forest"}
    assert found[model.chosen_] > found["forest_chain"] + 3


@pytest.mark.thorough
def test_the_score_is_the_net_benefit_of_rows_that_neither_the_model_nor_its_stop_has_seen():
    """As the simulation of `/acquire` finds it on three folds, of every candidate."""
    X, y = sums(150, 1)
    X[::7, 1] = np.nan
    prices = Prices.of([1, 4, 2, 0, 3])
    tried = scores(Automatic(benefits=B, feature_costs=prices, random_state=0).fit(X, y))
    fold = stratified_folds(y, 3, 0)
    makers = {"forest_chain": ForestChain, "budget_forest": BudgetForest, "random_forest": RandomForest}
    for kind, made in makers.items():
        priced = {} if kind == "random_forest" else {"feature_costs": prices}
        earned = []
        for number in range(3):
            inside, outside = fold != number, fold == number
            model = made(random_state=0, **SMALL[kind], **priced).fit(X[inside], y[inside])
            if kind != "forest_chain":
                model.learn_stops(X[inside], y[inside], prices)
            ready = AcquisitionModel.of(model, list("abcde"), [0, 1], prices)
            told = report(ready, X[outside], y[outside], prices, Prepared(B, [0, 1]), budgets=[])
            earned.append(told["budgets"][-1]["worth_stopping"]["net_benefit"] * outside.sum())
        assert tried[kind] == pytest.approx(sum(earned) / len(X), rel=1e-4), kind


def test_where_nothing_pays_the_first_is_taken_and_asks_for_nothing():
    """All earn the same, so the order of the candidates decides."""
    random = np.random.default_rng(0)
    X, y = random.normal(size=(150, 3)), np.repeat([0, 1], 75)
    model = Automatic(benefits=B, feature_costs=[50, 60, 70], random_state=0).fit(X, y)
    assert model.chosen_ == "forest_chain"
    assert scores(model) == pytest.approx(dict.fromkeys(SMALL, -20.0))  # each second row loses 40
    ready = AcquisitionModel.of(model, list("abc"), [0, 1], Prices.of([50, 60, 70]))
    told = report(ready, X, y, ready.priced(None), Prepared(B, [0, 1]), budgets=[])
    assert told["budgets"][-1]["worth_stopping"]["cost"] == 0


@pytest.mark.thorough
def test_without_benefits_the_unit_of_the_prices_does_not_matter():
    """The score is the share right, less prices in units of a right class, over a range that goes by the prices."""
    X, y = sums(150, 2)
    runs = [Automatic(feature_costs=np.array([1, 2, 3, 4, 5]) * unit, random_state=0).fit(X, y) for unit in (1, 64)]
    assert scores(runs[0]) == pytest.approx(scores(runs[1]))
    assert all(0 < score < 1 for score in scores(runs[0]).values())


def test_a_candidate_that_refuses_the_rows_is_left_out_with_its_reason(monkeypatch):
    """The others are judged all the same, and the card has the parameters of all."""

    def refuse(*_):
        raise Invalid.at("", "not such rows")

    monkeypatch.setattr(ForestChain, "fit", refuse)
    model = Automatic(benefits=B, feature_costs=np.ones(5), random_state=0).fit(*sums(90))
    assert model.chosen_ != "forest_chain"
    listed = json.loads(json.dumps(model.findings()["candidates"], allow_nan=False))
    assert [one["parameters"] for one in listed] == list(SMALL.values())
    chain, *others = listed
    assert (chain["kind"], chain["score"], chain["reason"]) == ("forest_chain", None, "not such rows")
    assert [one["reason"] for one in others] == [None, None]


def test_a_class_with_one_row_is_no_obstacle():
    """It is in no fold, and nothing can be learned about when to stop."""
    X, y = sums(60)
    y[0] = 2
    model = Automatic(benefits=np.eye(3), feature_costs=np.ones(5), random_state=0).fit(X, y)
    assert model.posterior(X).shape == (60, 3)
    assert all(np.isfinite(score) for score in scores(model).values())


@pytest.mark.parametrize(("rows", "judged"), [(9000, 9000), (9001, 3001), (20_000, 3334)])
def test_a_large_table_is_judged_by_some_rows(rows, judged):
    y = np.arange(rows) % 2
    fold = Automatic(feature_costs=[1.0]).folds(y)
    assert (fold != UNJUDGED).sum() == judged
    assert set(np.unique(fold)) == ({0, 1, 2} if rows == 9000 else {UNJUDGED, 0})


def test_over_http_it_answers_every_route(service):
    """The card has the comparison, and the model is asked and predicts like the learner that it chose."""
    data, costs = two_class_rows(120), {"age": 1, "pulse": 2, "pain": 3}
    order = {"model": "chooser", "learner": {"kind": "auto", "max_seconds": 1e-9}, "refit": False}
    job = trained(service, {**order, "data": data, "feature_costs": costs, "benefits": B.tolist()})
    assert "worth_stopping" in job["metrics"]["acquisition"]["budgets"][-1]
    assert any("budget_forest, random_forest were not tried" in one for one in job["warnings"])
    fitted = service.get("/models/chooser/versions/1").json()["fitted"]
    assert [(one["kind"], one["score"] is None) for one in fitted["candidates"]] == [
        ("forest_chain", False), ("budget_forest", True), ("random_forest", True),
    ]  # fmt: skip
    assert fitted["chosen"] == "forest_chain"
    assert {step["asks"] for step in fitted["chain"]} <= {*costs, None}
    question = {"model": "chooser", "benefits": B.tolist()}
    asked = service.post("/acquire", json={**question, "known": {"age": 70.0}}).json()
    assert asked["status"] in {"acquire", "stop"}
    rows = {**question, "rows": data["rows"], "labels": data["labels"]}
    assert service.post("/acquire/simulate", json=rows).json()["budgets"][-1]["worth_stopping"]["net_benefit"] < 0
    told = service.post("/predict", json={**question, "instances": data["rows"][:1]}).json()
    everything = dict(zip(data["features"], data["rows"][0], strict=True))
    complete = service.post("/acquire", json={**question, "known": everything}).json()
    assert list(complete["probabilities"].values()) == pytest.approx(told["probabilities"][0])
