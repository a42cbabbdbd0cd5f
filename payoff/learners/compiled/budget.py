"""How a budget forest is grown: the path of each rule, and the choice of a point on it."""

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
"""The alphas to try: the range of the paper's experiments (section 3) with fewer steps."""
EXPONENTS = (1.0, 0.0)
"""Exponents of the price in the split rule, tried if `alpha` is None and prices differ.

With the paper's exponent 1 a feature must lower the impurity a hundred times as much as one at a
hundredth of its price, so on real price lists the dear tests are never asked for, whatever the
budget: Cleveland heart disease with Turney's prices (200 training rows, 10 splits, alpha 2, 20
trees, vote stopping) ends at error .27 and cost 3; exponent 0 at .21 and cost 202. From .05 to 1
nearly the same trees grow there, and .03 lies between on both counts.
"""
MAX_TREES = 40
"""The maximum number of trees if `n_estimators` is None, as in the paper."""
_ENOUGH = 1000  # validation rows: with 40 the number of trees chosen on heart was noise


def grow(
    learner: BudgetForest, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> tuple[FlatForest, Point, list[Point]]:
    """Choose rule and number of trees on rows (n, m), class codes and weights (n,), and grow these.

    Returns the forest, the Point that it is, and all Points within the budget.
    """
    rows = Sample(X, codes, weights)
    rules = _rules(learner)
    budget = limit_of(learner.budget)
    random = check_random_state(learner.random_state)
    folds = validation_folds(codes, random, _ENOUGH, learner.blocks)
    n_trees = MAX_TREES if learner.n_estimators is None else learner.n_estimators
    # The first trees are the same for any number of trees.
    seeds = random.randint(np.iinfo(np.int32).max, size=n_trees)

    def grower(sample: Sample) -> TreeGrower:
        return TreeGrower(
            sample,
            len(learner.classes_),
            learner.prices_,
            learner.categorical(),
            max_depth=learner.max_depth,
        )

    if (
        learner.budget is None
        and learner.alpha is not None
        and learner.n_estimators is not None
    ):
        point = Point(rules[0], n_trees, np.nan, np.nan)
        return _forest(grower(rows), point, seeds), point, []
    with part(0.0, 0.9, "growing trees"):
        growers = [
            (grower(rows.take(inside)), rows.take(outside)) for inside, outside in folds
        ]
        sums = np.array([outside.weights.sum() for _, outside in growers])
        empty = _empty(growers, sums, rules[0])
        paths = _paths(growers, sums, rules, seeds, budget)
        tradeoff = [point for path in paths for point in path]
        points = tradeoff
        if learner.n_estimators is not None:
            points = [path[-1] for path in paths if path]
        point = min(
            points,
            key=lambda point: (point.error, point.cost, point.trees),
            default=empty,
        )
    with part(0.9, 1.0, "growing the chosen forest"):
        tested = learner.budget is not None and len(growers) == 1
        forest = _forest(growers[0][0] if tested else grower(rows), point, seeds)
    if tested or learner.budget is None:
        return forest, point, tradeoff
    # The forest was grown again: its first trees that keep to the budget on all rows remain.
    X = forest.orders.apply(X)
    path_costs = PathCosts(X, *rows[1:], learner.prices_, forest.n_classes)
    costs = [cost for cost, _ in path_costs.add(forest)]
    kept = sum(cost <= budget for cost in costs)
    point = point._replace(cost=costs[kept - 1] if kept else 0.0)
    if kept < forest.n_trees:
        errors = {(point.rule, point.trees): point.error for point in tradeoff}
        point = point._replace(
            trees=kept, error=errors.get((point.rule, kept), empty.error)
        )
        forest = forest.first(kept)
    return forest, point, tradeoff


def _empty(
    growers: list[tuple[TreeGrower, Sample]], sums: np.ndarray, rule: Rule
) -> Point:
    """The Point of the forest without trees, which costs nothing."""
    errors = [
        np.average(grower.prior.argmax() != outside.codes, weights=outside.weights)
        for grower, outside in growers
    ]
    return Point(rule, 0, 0.0, float(np.average(errors, weights=sums)))


def _paths(
    growers: list[tuple[TreeGrower, Sample]],
    weights: np.ndarray,
    rules: list[Rule],
    seeds: np.ndarray,
    budget: float,
) -> list[list[Point]]:
    """The Points of every rule within the budget, on the validation rows of the growers.

    `weights` (growers,) are those of the growers in the mean.
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
    costs = [grower.costs(outside) for grower, outside in growers]
    for parts in batches([grower for grower, _ in growers], rule, seeds):
        forests = [
            grower.forest([trees])
            for (grower, _), trees in zip(growers, parts, strict=True)
        ]
        yield from zip(*map(PathCosts.add, costs, forests), strict=True)


def _rules(learner: BudgetForest) -> list[Rule]:
    """The rules to try, the paper's exponent first and alphas rising."""
    alphas = ALPHAS if learner.alpha is None else (float(learner.alpha),)
    exponents: tuple[float, ...] = (1.0,)
    if learner.cost_exponent is not None:
        exponents = (float(learner.cost_exponent),)
    elif learner.alpha is None and np.ptp(learner.prices_.cost) > 0:
        exponents = EXPONENTS
    return [Rule(alpha, exponent) for exponent in exponents for alpha in alphas]


def _forest(grower: TreeGrower, point: Point, seeds: np.ndarray) -> FlatForest:
    """The trees of the point, in batches; reports progress."""
    grown: list[Nodes] = []
    for (trees,) in batches([grower], point.rule, seeds[: point.trees]):
        grown.append(trees)
        report(sum(len(nodes.roots) for nodes in grown) / point.trees, "growing trees")
    return grower.forest(grown)
