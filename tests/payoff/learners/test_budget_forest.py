"""The budgeted forest: budget, choice on validation rows, weights, gaps, categories, seeds and threads."""

import numpy as np
import pytest

from payoff.learners.budget_forest import BudgetForest
from payoff.learners.compiled.budget import ALPHAS, EXPONENTS, MAX_TREES
from tests.reference.stepwise import simulate


def rows(n=400, seed=0):
    """Six features, of which 0 and 1 decide; 4 is a dear copy of 0 without noise, 5 is noise."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 6)).round(2)
    y = (X[:, 0] + X[:, 1] + 0.3 * random.normal(size=n) > 0).astype(int) + (
        X[:, 2] > 1
    )
    X[:, 4] = X[:, 0]
    return X, y


def test_the_budget_is_kept_on_validation_rows_and_bought_with_error():
    """Every chosen forest is within the budget; more budget does not raise the validation error."""
    X, y = rows()
    errors = []
    for budget in (0.5, 1.5, 2.5, 5.0):
        model = BudgetForest(budget=budget, random_state=0).fit(X, y)
        assert model.cost_ <= budget
        assert all(point.cost <= budget for point in model.tradeoff_)
        errors.append(model.error_)
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < errors[0] / 2


@pytest.mark.parametrize(("budget", "dropped"), [(3.0, 0), (3.2, 0), (3.7, 1)])
def test_a_forest_grown_again_keeps_to_the_budget(budget, dropped):
    """With few rows the forest is grown again from all of them: what it costs on these is told, and within."""
    X, y = rows()
    model = BudgetForest(budget=budget, alpha=4, n_estimators=30, random_state=0).fit(
        X, y
    )
    assert model.n_estimators_ == model.model_.n_trees > 0
    assert len(model.tradeoff_) - model.n_estimators_ == dropped
    assert model.cost_ <= budget
    paid = simulate(model.model_, X, model.prices_, stop_when_settled=False).cost.mean()
    assert model.cost_ == pytest.approx(paid)
    assert model.error_ == next(
        point.error for point in model.tradeoff_ if point.trees == model.n_estimators_
    )


def test_the_papers_loop_takes_the_last_forest_within_the_budget():
    """With `alpha` and `n_estimators` given, trees are added until the next one would be over the budget."""
    X, y = rows()
    model = BudgetForest(budget=3.2, alpha=8, n_estimators=30, random_state=0).fit(X, y)
    path = BudgetForest(alpha=8, random_state=0, n_estimators=None).fit(X, y).tradeoff_
    within = [point for point in path if point.cost <= 3.2]
    assert 0 < len(within) < 30
    assert model.n_estimators_ == len(within)
    assert [point.trees for point in model.tradeoff_] == list(range(1, len(within) + 1))


def test_alpha_and_the_number_of_trees_are_chosen_and_the_whole_path_is_kept():
    """The least validation error over all alphas and all numbers of trees; then the least cost."""
    X, y = rows()
    model = BudgetForest(random_state=0).fit(X, y)
    assert [(point.rule.alpha, point.trees) for point in model.tradeoff_] == [
        (alpha, trees) for alpha in ALPHAS for trees in range(1, MAX_TREES + 1)
    ]
    best = min(
        model.tradeoff_, key=lambda point: (point.error, point.cost, point.trees)
    )
    assert (
        (model.alpha_, model.cost_exponent_),
        model.n_estimators_,
        model.cost_,
        model.error_,
    ) == best
    assert model.model_.n_trees == best.trees
    for alpha in ALPHAS:
        costs = [point.cost for point in model.tradeoff_ if point.rule.alpha == alpha]
        assert costs == sorted(costs)


def test_what_is_dear_is_avoided_and_bought_where_the_budget_allows():
    """Of two equal features the dear one is not asked for. The paper's rule shuns all at a hundred times the price; the
    exponent is chosen where it is left open.
    """
    X, y = rows()
    thrifty = {"alpha": 0, "n_estimators": 10, "random_state": 0}
    for dear, cheap in ((4, 0), (0, 4)):
        costs = np.where(np.arange(6) == dear, 50, 1)
        used = set(
            BudgetForest(feature_costs=costs, **thrifty)
            .fit(X, y)
            .model_.columns.tolist()
        )
        assert cheap in used
        assert dear not in used
    costs = np.array([100.0, 1, 1, 1, 100, 1])
    poor = BudgetForest(feature_costs=costs, **thrifty).fit(X, y)
    assert poor.cost_exponent_ == 1
    assert not {0, 4} & set(poor.model_.columns.tolist())
    rich = BudgetForest(budget=150, feature_costs=costs, random_state=0).fit(X, y)
    assert rich.cost_exponent_ < 1
    assert rich.cost_ <= 150
    assert {point.rule.exponent for point in rich.tradeoff_} == set(EXPONENTS)
    new, labels = rows(seed=1)
    assert (rich.predict(new) == labels).mean() > (
        poor.predict(new) == labels
    ).mean() + 0.1


def test_too_few_rows_to_hold_any_out():
    """One row of each class: what is grown from is validated on."""
    model = BudgetForest(random_state=0).fit(np.array([[0.0], [1.0]]), [0, 1])
    assert model.model_.n_trees >= 1
    assert len(model.tradeoff_) == len(ALPHAS) * MAX_TREES
