"""How a budget forest is grown: the path of every rule, and the point on them that validation rows
choose.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from sklearn.utils import check_random_state

from payoff.acquisition.forest import FlatForest
from payoff.acquisition.nodes import Nodes
from payoff.acquisition.prices import limit_of
from payoff.acquisition.tree_grower import PathCosts, Rule, Sample, TreeGrower, batches
from payoff.learners.budget_forest import BudgetForest, Point
from payoff.learners.stepwise import validation_folds
from payoff.progress import part, report

ALPHAS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Tried if `alpha` is None: the range of the paper's experiments (section 3) with fewer steps."""
EXPONENTS = (1.0, 0.0)
"""Of the price in the split rule, tried if `alpha` is None and prices differ.

With the paper's exponent 1 a feature must lower the impurity a hundred times as much as one at a
hundredth of its price, so on real price lists the dear tests are never asked for, whatever the
budget: Cleveland heart disease with Turney's prices (200 training rows, 10 splits, alpha 2, 20
trees, vote stopping) ends at error .27 and cost 3; exponent 0 at .21 and cost 202. From .05 to 1
nearly the same trees grow there, and .03 lies between on both counts.
"""
MAX_TREES = 40
"""The maximum number of trees if `n_estimators` is None, as in the paper."""
_ENOUGH = 1000  # validation rows: with 40 the number of trees chosen on heart was noise


def grown(
    learner: BudgetForest, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> tuple[FlatForest, Point, list[Point]]:
    """Choose rule and number of trees on rows (n, m), class codes and weights (n,), and grow these.

    Returns the forest, the Point that it is, and all Points within the budget.
    """
    rows, rules, budget = Sample(X, codes, weights), _rules(learner), limit_of(learner.budget)
    random = check_random_state(learner.random_state)
    folds = validation_folds(codes, random, _ENOUGH)
    most = MAX_TREES if learner.n_estimators is None else learner.n_estimators
    seeds = random.randint(
        np.iinfo(np.int32).max, size=most
    )  # the first trees are the same for any number

    def grower(some: Sample) -> TreeGrower:
        categorical = learner.categorical()
        return TreeGrower(
            some, len(learner.classes_), learner.prices_, categorical, max_depth=learner.max_depth
        )

    if learner.budget is None and learner.alpha is not None and learner.n_estimators is not None:
        point = Point(rules[0], most, np.nan, np.nan)
        return _forest(grower(rows), point, seeds), point, []
    with part(0.0, 0.9, "growing trees"):
        growers = [(grower(rows.take(inside)), rows.take(outside)) for inside, outside in folds]
        weighed = np.array([outside.weights.sum() for _, outside in growers])
        wrong = [
            np.average(one.prior.argmax() != outside.codes, weights=outside.weights)
            for one, outside in growers
        ]
        nothing = Point(rules[0], 0, 0.0, float(np.average(wrong, weights=weighed)))
        paths = _paths(growers, weighed, rules, seeds, budget)
        ends = [
            point
            for path in paths
            for point in (path[-1:] if learner.n_estimators is not None else path)
        ]
        point = min(ends, key=lambda point: (point.error, point.cost, point.trees), default=nothing)
    tradeoff = [point for path in paths for point in path]
    with part(0.9, 1.0, "growing the chosen forest"):
        tested = learner.budget is not None and len(growers) == 1
        forest = _forest(growers[0][0] if tested else grower(rows), point, seeds)
    if tested or learner.budget is None:
        return forest, point, tradeoff
    # Of a forest grown again the first trees that keep to the budget on all rows, with their cost
    # there.
    costs = [
        cost
        for cost, _ in PathCosts(
            forest.orders.apply(X), *rows[1:], learner.prices_, forest.n_classes
        ).add(forest)
    ]
    kept = sum(cost <= budget for cost in costs)
    point = point._replace(cost=costs[kept - 1] if kept else 0.0)
    if kept < forest.n_trees:
        errors = (one.error for one in tradeoff if (one.rule, one.trees) == (point.rule, kept))
        forest, point = (
            forest.first(kept),
            point._replace(trees=kept, error=next(errors, nothing.error)),
        )
    return forest, point, tradeoff


def _paths(
    growers: list[tuple[TreeGrower, Sample]],
    weights: np.ndarray,
    rules: list[Rule],
    seeds: np.ndarray,
    budget: float,
) -> list[list[Point]]:
    """The Points of every rule within the budget, on the validation rows of the growers, averaged
    by their weights.
    """
    paths: list[list[Point]] = []
    for rule in rules:
        path: list[Point] = []
        for step in _steps(growers, rule, seeds):
            cost, error = np.average(step, axis=0, weights=weights).tolist()
            report((len(paths) + (len(path) + 1) / len(seeds)) / len(rules))
            if cost > budget:
                break
            path.append(Point(rule, len(path) + 1, cost, error))
        paths.append(path)
    return paths


def _steps(
    growers: list[tuple[TreeGrower, Sample]], rule: Rule, seeds: np.ndarray
) -> Iterator[Sequence[Sequence[float]]]:
    """After each tree, mean cost and error of the forest of each grower on its validation rows."""
    costs = [tree_grower.costs(outside) for tree_grower, outside in growers]
    for parts in batches([tree_grower for tree_grower, _ in growers], rule, seeds):
        forests = [
            tree_grower.forest([trees])
            for (tree_grower, _), trees in zip(growers, parts, strict=True)
        ]
        yield from zip(*map(PathCosts.add, costs, forests), strict=True)


def _rules(learner: BudgetForest) -> list[Rule]:
    """The rules to try, the paper's exponent first and alphas rising."""
    alphas = ALPHAS if learner.alpha is None else (float(learner.alpha),)
    exponents: tuple[float, ...] = (
        (1.0,) if learner.cost_exponent is None else (float(learner.cost_exponent),)
    )
    if learner.cost_exponent is None and learner.alpha is None and np.ptp(learner.prices_.cost) > 0:
        exponents = EXPONENTS
    return [Rule(alpha, exponent) for exponent in exponents for alpha in alphas]


def _forest(tree_grower: TreeGrower, point: Point, seeds: np.ndarray) -> FlatForest:
    """The trees of the point, in batches; reports progress."""
    grown: list[Nodes] = []
    for (trees,) in batches([tree_grower], point.rule, seeds[: point.trees]):
        grown.append(trees)
        report(sum(len(some.roots) for some in grown) / point.trees, "growing trees")
    return tree_grower.forest(grown)
