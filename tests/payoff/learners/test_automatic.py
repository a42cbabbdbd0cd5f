"""The learner that blends learners: it publishes the blend with the least loss on rows it did not see."""

import json
import pickle

import numpy as np
import pytest

from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import decide, row_benefits
from payoff.decisions.calibration_fits import fit_sigmoid
from payoff.decisions.folds import stratified_folds
from payoff.errors import Invalid
from payoff.learners import automatic
from payoff.learners.automatic import Automatic
from payoff.learners.candidates import UnitCosts
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.forest_chain import ForestChain
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.logistic import Logistic
from payoff.learners.priced import best_of, doubts_of_asking
from payoff.learners.random_forest import FreeForest, RandomForest
from payoff.learners.ridge import Ridge
from payoff.learners.stepwise import while_worth
from tests.conftest import trained, two_class_rows


@pytest.fixture(autouse=True)
def two_candidates(monkeypatch):
    """The quick ones: what is tested is the choice."""
    monkeypatch.setattr(automatic, "CANDIDATES", {CostNaiveBayes: 1e-6, Logistic: 2e-6})


def linear(n=600, seed=0):
    """Rows in which a sum of many features decides: made for logistic regression, not for naive Bayes."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 1))
    X = Z + 0.3 * rng.normal(size=(n, 6))
    X[:, 0] = rng.normal(size=n) - X[:, 1:].sum(axis=1)
    return X, (X.sum(axis=1) + 0.2 * rng.normal(size=n) > 0).astype(int)


def test_a_blend_of_one_is_that_learner():
    X, y = linear()
    model = Automatic(random_state=0).fit(X, y)
    assert model.chosen_ == "logistic"
    assert model.findings([])["calibration"] == "sigmoid"
    np.testing.assert_array_equal(
        model.posterior(X), Logistic(random_state=0).fit(X, y).posterior(X)
    )
    bayes, logistic = model.tried_
    assert (bayes.kind, logistic.kind) == ("cost_naive_bayes", "logistic")
    assert logistic.score > bayes.score + 3 * bayes.standard_error
    assert (bayes.weight, logistic.weight) == (0.0, 1.0)
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(model)).posterior(X), model.posterior(X)
    )


def mixed(n=600, seed=0):
    """Rows whose classes follow a line and steps: neither candidate has both."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = X[:, 0] + X[:, 1] + 2.5 * (np.abs(X[:, 2]) < 0.5) - 1
    return X, (score + rng.logistic(size=n) > 0).astype(int)


def test_a_blend_is_the_calibrated_mean_of_its_members_fitted_on_all_rows():
    """The weights, the folds and the calibration by hand."""
    X, y = mixed()
    model = Automatic(random_state=3).fit(X, y)
    assert model.chosen_ == "cost_naive_bayes + logistic"
    members = [kind(random_state=3) for kind in (CostNaiveBayes, Logistic)]
    unseen = [member.cross_fit(X, y) for member in members]
    losses = {
        (a, b): -np.log(
            ((a * unseen[0] + b * unseen[1]) / (a + b))[np.arange(600), y]
        ).mean()
        for a, b in ((0, 1), (1, 0), (1, 1), (1, 2), (2, 1))
    }
    best = np.array(min(losses, key=losses.get))
    weights = best / best.sum()
    np.testing.assert_allclose([one.weight for one in model.tried_], weights)
    curve = fit_sigmoid(
        weights[0] * unseen[0] + weights[1] * unseen[1], y, np.ones(600)
    )
    mean = sum(w * m.posterior(X) for w, m in zip(weights, members, strict=True))
    np.testing.assert_allclose(model.posterior(X), curve.apply(mean), atol=1e-12)
    assert model.findings([])["calibration"] == "sigmoid"
    assert model.ranks()
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.plain_posterior(X), model.posterior(X))
    np.testing.assert_allclose(
        restored.refit(X, y).posterior(X), model.posterior(X), atol=1e-12
    )


def test_each_row_is_answered_by_a_model_that_did_not_see_it():
    X, y = linear(100)
    model = Logistic(random_state=0)
    P = model.cross_fit(X, y)
    seed = np.random.RandomState(0).randint(2**31 - 1)
    fold = stratified_folds(y, 5, seed)
    inside = fold != 2
    raw = Logistic(calibration="none", numeric_transform="clip").fit(
        X[inside], y[inside]
    )
    expected = model.calibrator_.apply(raw.posterior(X[~inside]))
    np.testing.assert_allclose(P[~inside], expected, atol=1e-9)
    np.testing.assert_array_equal(
        model.posterior(X), Logistic(random_state=0).fit(X, y).posterior(X)
    )


def test_with_a_few_rows_nothing_is_calibrated_but_the_candidates_are_compared():
    X, y = linear(60)
    y[:] = 0
    y[:6] = 1
    model = Automatic(random_state=0).fit(X, y)
    assert model.findings([])["calibration"] == "none"
    assert all(one.score is not None for one in model.tried_)


def test_the_only_row_of_a_class_is_trained_on_and_compares_nothing():
    X, y = linear(60)
    y[0] = 2
    model = Automatic(random_state=0).fit(X, y)
    assert model.posterior(X).shape == (60, 3)
    alone = Automatic(random_state=0).fit(X[:3], np.arange(3))
    assert alone.chosen_ == "logistic"
    assert {one.reason for one in alone.tried_} == {"no class has two rows"}


def test_what_decisions_earn_is_reported_and_chooses_nothing():
    X, y = linear(300)
    B = np.array([[1.0, -2.0, 0.0], [-5.0, 3.0, 0.5]])
    model = Automatic(benefits=B, random_state=0).fit(X, y)
    P = Logistic(random_state=0).cross_fit(X, y)
    earned = row_benefits(y, decide(P, B).choice, B)
    assert model.tried_[1].benefit == pytest.approx(earned.mean())
    losses = -np.log(P[np.arange(300), y])
    assert model.tried_[1].score == pytest.approx(-losses.mean())
    assert model.tried_[1].standard_error == pytest.approx(losses.std() / np.sqrt(300))
    assert model.chosen_ == Automatic(random_state=0).fit(X, y).chosen_


def test_when_the_time_is_over_the_rest_is_not_tried():
    """The first candidate is always tried; the findings say which were not."""
    X, y = linear(100)
    model = Automatic(max_seconds=1e-9, random_state=0).fit(X, y)
    found = model.findings([])
    assert found["chosen"] == "cost_naive_bayes"
    assert [one["score"] is None for one in found["candidates"]] == [False, True]


def test_within_a_standard_error_the_smaller_log_loss_wins():
    """Benefits of few rows are noisy: candidates that earn almost the same are told apart by their log loss."""
    rng = np.random.default_rng(0)
    values = {"a": rng.normal(size=50), "b": np.empty(0)}
    values["b"] = values["a"] - 0.01 + 0.5 * rng.normal(size=50)
    values["b"] += values["a"].mean() - 0.01 - values["b"].mean()
    losses = {"a": np.full(50, 0.7), "b": np.full(50, 0.5)}
    assert best_of(values, losses, np.ones(50)) == "b"
    values["b"] -= 1.0
    assert best_of(values, losses, np.ones(50)) == "a"


REFUSALS = [
    Invalid.at("/columns/1", "too large"),
    np.linalg.LinAlgError("singular"),
    FloatingPointError("overflow"),
]


def breaks(monkeypatch, kind, error):
    """The candidate breaks down."""

    def fit(*_):
        raise error

    monkeypatch.setattr(kind, "cross_fit", fit)


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
def test_a_candidate_that_breaks_down_is_left_out(monkeypatch, error):
    """The findings have the reason and are JSON."""
    breaks(monkeypatch, Logistic, error)
    X, y = linear()
    model = Automatic(random_state=0).fit(X, y)
    assert model.chosen_ == "cost_naive_bayes"
    np.testing.assert_array_equal(
        model.posterior(X), CostNaiveBayes(random_state=0).fit(X, y).posterior(X)
    )
    bayes, logistic = json.loads(json.dumps(model.findings([]), allow_nan=False))[
        "candidates"
    ]
    assert (logistic["kind"], logistic["score"], logistic["standard_error"]) == (
        "logistic",
        None,
        None,
    )
    assert logistic["reason"] == str(error)
    assert bayes["score"] is not None
    assert bayes["reason"] is None


def test_where_no_candidate_is_left_the_first_error_is_raised(monkeypatch):
    for kind, error in zip(automatic.CANDIDATES, REFUSALS, strict=False):
        breaks(monkeypatch, kind, error)
    with pytest.raises(Invalid) as raised:
        Automatic(random_state=0).fit(*linear())
    assert raised.value is REFUSALS[0]


def test_other_errors_are_not_hidden(monkeypatch):
    """A defect of a candidate is no property of the rows."""
    breaks(monkeypatch, Logistic, AssertionError("defect"))
    with pytest.raises(AssertionError, match="defect"):
        Automatic(random_state=0).fit(*linear())


def gate(n=300, seed=0):
    """Feature 0 is free and says which of five dear features is the class."""
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2, (n, 5))
    door = np.arange(n) % 5
    return np.column_stack((door, bits)).astype(float), bits[np.arange(n), door]


PRICES = [0.0, 10, 10, 10, 10, 10]
STAKES = np.array([[0.0, -100], [-100, 0]])
PRICED = (
    ForestChain(n_estimators=8),
    RandomForest(
        n_estimators=8, max_features=None, min_samples_leaf=1, calibration="sigmoid"
    ),
    FreeForest(n_estimators=4),
)


@pytest.fixture
def priced_candidates(monkeypatch):
    """Small forests."""
    small = {learner.name: (learner, 1e-6) for learner in PRICED}
    monkeypatch.setattr(automatic, "PRICED_CANDIDATES", small)


@pytest.mark.usefixtures("priced_candidates")
def test_with_prices_the_best_learner_that_asks_is_taken():
    """A chain asks every case for all five dear features, a forest each case for its own."""
    X, y = gate()
    model = Automatic(
        feature_costs=PRICES, benefits=STAKES, categorical_features=[0], random_state=0
    ).fit(X, y)

    assert [one.kind for one in model.tried_] == [
        "forest_chain",
        "random_forest",
        "nothing",
    ]
    assert model.chosen_ == "random_forest"
    assert model.doubts_ == []
    assert model.acquires
    assert model.asker.experience_ is not None
    assert json.loads(json.dumps(model.findings("abcdef")))["chosen"] == "random_forest"
    new, truth = gate(seed=1)
    P, paid = while_worth(model.asker, new, Prices.of(PRICES), STAKES)
    assert paid.mean() < 40
    gains = row_benefits(truth, decide(P, STAKES).choice, STAKES) - paid
    assert gains.mean() > model.tried_[0].score + 5


@pytest.mark.usefixtures("priced_candidates")
def test_the_score_with_prices_is_what_unseen_rows_earn_less_what_they_pay():
    X, y = gate(90)
    matrices = np.stack([STAKES * size for size in np.linspace(0.5, 1.5, 90)])
    model = Automatic(feature_costs=PRICES, benefits=matrices, random_state=0).fit(X, y)

    fold = stratified_folds(y, 3, 0)
    gains = np.empty(90)
    for number in range(3):
        inside, outside = fold != number, fold == number
        forest = RandomForest(**PRICED[1].get_params() | {"random_state": 0})
        forest.fit(X[inside], y[inside])
        forest.learn_stops(X[inside], y[inside], Prices.of(PRICES))
        P, paid = while_worth(
            forest, X[outside], Prices.of(PRICES), matrices.mean(axis=0)
        )
        own = matrices[outside]
        gains[outside] = row_benefits(y[outside], decide(P, own).choice, own) - paid
    assert model.tried_[1].score == pytest.approx(gains.mean())


@pytest.mark.usefixtures("priced_candidates")
def test_without_benefits_the_cheapest_of_the_best_is_taken():
    """All learners that ask know the class; a copy of the dear feature is free."""
    y = np.arange(120) % 2
    X = np.column_stack((y, y)).astype(float)
    model = Automatic(feature_costs=[0.0, 10.0], random_state=0).fit(X, y)
    _, paid = while_worth(model.asker, X, Prices.of([0.0, 10.0]), None)
    assert paid.max() == 0


@pytest.mark.usefixtures("priced_candidates")
def test_it_says_where_asking_is_not_clearly_worth_the_prices():
    X, y = gate(90)
    prices = [0.0, 500, 500, 500, 500, 500]
    model = Automatic(feature_costs=prices, benefits=STAKES, random_state=0).fit(X, y)
    (doubt,) = model.doubts_
    assert doubt.startswith("asking for features is not clearly worth their prices")
    ones = np.ones(4)
    nothing = np.full(4, -2.0)
    near = {"chain": np.array([-3.0, -1, -2, -1.5]), "nothing": nothing}
    for chosen in near:
        (doubt,) = doubts_of_asking(near, chosen, ones)
        assert "of chain is 0.125 above that of asking for nothing" in doubt
        assert doubt.endswith("give or take 0.37")
    assert not doubts_of_asking(near | {"tree": nothing + 1}, "tree", ones)


@pytest.mark.usefixtures("priced_candidates")
def test_a_large_table_is_compared_by_some_of_its_rows(monkeypatch):
    monkeypatch.setattr(automatic, "PRICED_NUMBERS", 240)
    sizes = []
    fit = FreeForest.fit
    monkeypatch.setattr(
        FreeForest, "fit", lambda self, X, *y: sizes.append(len(X)) or fit(self, X, *y)
    )
    Automatic(feature_costs=PRICES, random_state=0).fit(*gate())
    assert max(sizes[:3]) < 40


def test_with_prices_over_http_it_asks(service):
    """The card has the comparison; the first candidate is always tried."""
    order = {
        "model": "priced",
        "learner": {"kind": "auto", "max_seconds": 1e-9},
        "holdout": 0,
    }
    trained(
        service,
        {
            **order,
            "data": two_class_rows(60),
            "feature_costs": {"age": 1, "pulse": 2, "pain": 3},
        },
    )
    card = service.get("/models/priced/versions/1").json()
    assert card["learner"]["kind"] == "auto"
    assert card["fitted"]["chosen"] == "forest_chain"
    assert card["fitted"]["chain"]
    kinds = [one["kind"] for one in card["fitted"]["candidates"]]
    assert kinds == ["forest_chain", "random_forest", "budget_forest", "nothing"]
    asked = service.post(
        "/acquire", json={"model": "priced", "known": {"age": 70.0}}
    ).json()
    assert asked["status"] in {"acquire", "decided"}


def test_of_numbers_a_line_is_followed_by_linear_regression_alone():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 4))
    y = 10 * X.sum(axis=1) + rng.normal(size=90)
    model = Automatic(task="regression", random_state=0).fit(X, y)
    assert model.chosen_ == "linear"
    alone = Ridge(random_state=0)
    unseen = alone.cross_fit(X, y)[:, 0]
    np.testing.assert_array_equal(model.values(X), alone.values(X))
    assert model.tried_[0].score == pytest.approx(-np.square(y - unseen).mean())
    assert [one.kind for one in model.tried_] == [
        "linear",
        "random_forest",
        "gradient_boosting",
    ]


def numbers(n=200, seed=0):
    """A line and steps, with noise that is skewed."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    noise = rng.exponential(2, n)
    return X, 2 * X[:, 0] + 6 * (X[:, 1] > 0) + noise


@pytest.fixture
def quick_regressors(monkeypatch):
    monkeypatch.setattr(automatic, "REGRESSORS", {Ridge: 1e-6, GradientBoosting: 1e-6})


@pytest.mark.usefixtures("quick_regressors")
def test_a_blend_of_numbers_is_the_mean_of_its_members_with_their_residuals_around_it():
    X, y = numbers()
    model = Automatic(task="regression", random_state=0).fit(X, y)
    assert model.chosen_ == "linear + gradient_boosting"
    weights = [one.weight for one in model.tried_]
    members = [
        kind(task="regression", random_state=0) for kind in (Ridge, GradientBoosting)
    ]
    unseen = sum(w * m.cross_fit(X, y) for w, m in zip(weights, members, strict=True))
    mean = sum(w * m.values(X) for w, m in zip(weights, members, strict=True))
    np.testing.assert_allclose(model.values(X), np.maximum(mean, model.model_.floor))
    spread = model.model_.spread
    sizes = 1.0 if spread is None else np.maximum(spread.values(X), model.model_.least)
    assert model.model_.scaled.mean() == pytest.approx(
        ((y - unseen[:, 0]) / sizes).mean(), abs=0.3
    )
    new, truth = numbers(1000, seed=1)
    low, high = model.distribution(new).quantiles(np.array([0.05, 0.95])).T
    assert 0.85 < ((truth >= low) & (truth <= high)).mean() < 0.95
    restored = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(restored.values(X), model.values(X))
    np.testing.assert_allclose(restored.refit(X, y).values(X), model.values(X))
    assert model.ranks()
    assert json.loads(json.dumps(model.findings([])))["chosen"] == model.chosen_


@pytest.mark.usefixtures("quick_regressors")
def test_with_unit_costs_the_score_is_what_quantities_of_unseen_rows_cost():
    X, y = numbers()
    costs = UnitCosts(over=1.0, under=9.0)
    model = Automatic(task="regression", unit_costs=costs, random_state=0).fit(X, y)
    errors = y - Ridge(random_state=0).cross_fit(X, y)[:, 0]
    quantile = np.sort(errors)[int(0.9 * len(y)) - 1]
    short = errors - quantile
    expected = np.where(short > 0, 9 * short, -short).mean()
    assert model.tried_[0].score == pytest.approx(-expected)
    with pytest.raises(Invalid, match="numbers"):
        Automatic(unit_costs=costs).fit(X, y > 5)


def test_labels_that_are_numbers_are_regressed_over_http(service):
    """With prices by the learner that asks for features."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2)).round(2)
    numbers = {
        "features": ["a", "b"],
        "rows": X.tolist(),
        "labels": (X.sum(axis=1) * 1.5).tolist(),
    }
    order = {
        "model": "numbers",
        "learner": {"kind": "auto", "unit_costs": {"over": 1, "under": 4}},
        "data": numbers,
        "holdout": 0,
    }
    for more, kind in (
        ({}, "auto"),
        ({"feature_costs": {"a": 1, "b": 2}}, "cost_tree"),
    ):
        job = trained(service, order | more)
        card = service.get(f"/models/numbers/versions/{job['model']['version']}").json()
        assert (card["learner"]["kind"], card["classes"]) == (kind, None)
    asked = {"model": "numbers:1", "instances": X[:3].tolist(), "coverage": 0.9}
    answer = service.post("/predict", json=asked)
    assert answer.status_code == 200, answer.text
    assert len(answer.json()["values"]) == len(answer.json()["intervals"]) == 3
