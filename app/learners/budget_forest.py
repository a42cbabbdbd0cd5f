"""A forest whose trees prefer cheap features, grown until its mean cost reaches a budget."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from app.acquisition.forest import FlatForest, PathCosts
from app.acquisition.nodes import Nodes
from app.acquisition.prices import Prices, check_budget
from app.acquisition.tree_grower import Rows, Rule, TreeGrower, Walk
from app.decisions.folds import shuffled_groups
from app.learners.calibration_choice import best_calibration
from app.learners.compiled_kinds import BUDGET_FOREST
from app.learners.stepwise import Stepwise, check_fraction, prices_of
from app.progress import part, report

ALPHAS = (0.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Tried if `alpha` is None: the range of the paper's experiments (section 3) with fewer steps."""
EXPONENTS = (1.0, 0.0)
"""Of the price in the split rule, tried if `alpha` is None and prices differ.

With the paper's exponent 1 a feature must lower the impurity a hundred times as much as one at a hundredth of its
price, so on real price lists the dear tests are never asked for, whatever the budget: Cleveland heart disease with
Turney's prices (200 training rows, 10 splits, alpha 2, 20 trees, vote stopping) ends at error .27 and cost 3; exponent
0 at .21 and cost 202. From .05 to 1 nearly the same trees grow there, and .03 lies between on both counts.
"""
MAX_TREES = 40
"""The maximum number of trees if `n_estimators` is None, as in the paper."""
_ENOUGH = 1000  # validation rows: with 40 the number of trees chosen on heart was noise


class Point(NamedTuple):
    """A forest on the way: its `rule` and number of `trees`, mean `cost` and `error` per validation row."""

    rule: Rule
    trees: int
    cost: float
    error: float


class BudgetForest(Stepwise):
    """Feature-budgeted random forest (Nan, Wang, Saligrama 2015, algorithm 1, BudgetRF).

    `budget`: highest mean price per row of the features that the whole forest looks at, on validation rows; None is no
    limit. `alpha` >= 0: rows of a class that may be wrong at a leaf (threshold of the impurity); None tries `ALPHAS`.
    `cost_exponent` from 0 (prices decide only between equals) to 1 (the paper's rule); None is 1 where `alpha` is
    given, and else tries `EXPONENTS`, too. `n_estimators`: at most so many trees, fewer where the budget ends them;
    None takes the number, at most `MAX_TREES`, with the least validation error. `max_depth` of a tree; None is no
    limit. `feature_costs`: Prices, or one price >= 0 for each column, or None for 1 each. `validation_fraction` of each
    class is held out inside `fit` where anything is left to choose, several parts in turn where there are few rows.
    The other parameters are `Learner`'s; probabilities are the averaged leaf distributions, not calibrated before
    `learn_stops`.

    Weighted rows are drawn in proportion to their weight, so `alpha` keeps counting rows. The choice is the least
    validation error; then the least cost, the fewest trees, the largest exponent and the least alpha. Where the first
    tree is over budget already, the forest is empty: it answers with the class shares and costs nothing. With a budget
    and one validation part the forest that was found within the budget is kept; else the chosen one is grown again
    from all rows, and loses its last trees where it is above the budget on these. The budget counts a group's dearest
    order.

    Fitted, besides `Learner`'s: `model_` (FlatForest), `prices_`, `alpha_`, `cost_exponent_`, `n_estimators_`, `cost_`
    and `error_` of the chosen Point (NaN where nothing was held out; the cost of a forest that was grown again within a
    budget is that on all rows), `nothing_` the error of no trees, `tradeoff_`: all Points within the budget.
    O(trees x rows x features x depth).
    """

    parameters = BUDGET_FOREST.parameters
    calibration: str = "none"

    def __init__(
        self,
        *,
        budget: float | None = None,
        alpha: float | None = None,
        cost_exponent: float | None = None,
        n_estimators: int | None = None,
        max_depth: int | None = None,
        feature_costs: Prices | Sequence[float] | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.budget = budget
        self.alpha = alpha
        self.cost_exponent = cost_exponent
        self.n_estimators = n_estimators
        self.max_depth = max_depth
        self.feature_costs = feature_costs
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.random_state = random_state

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The class that most trees vote for, for each row (n, m); ties to the first class."""
        rows = self._validated(X)
        chosen: np.ndarray = self.classes_[self.model_.predict(rows)]
        return chosen

    @property
    def _resolution(self) -> float:
        return 1.0 / max(self.n_estimators_, 1)

    def _check(self) -> None:
        check_fraction(self.validation_fraction)
        self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def findings(self) -> dict[str, Any]:
        """What the fit chose, and the cost and error of every number of trees 1, 2, … on the way, rule by rule."""
        chosen = {
            name: getattr(self, f"{name}_") for name in ("alpha", "cost_exponent", "n_estimators", "cost", "error")
        }
        frontier = []
        for rule, points in groupby(self.tradeoff_, key=lambda point: point.rule):
            costs, errors = zip(*((round(point.cost, 6), round(point.error, 6)) for point in points), strict=True)
            frontier.append({"alpha": rule.alpha, "cost_exponent": rule.exponent, "cost": costs, "error": errors})
        return {**chosen, "frontier": frontier}

    def _again(self) -> BudgetForest:
        from sklearn.base import clone  # noqa: PLC0415 - see `estimator`

        rule = {"alpha": self.alpha_, "cost_exponent": self.cost_exponent_, "n_estimators": self.n_estimators_}
        again: BudgetForest = clone(self).set_params(**rule, budget=None)
        return again

    def _learn_calibration(self, P: np.ndarray, codes: np.ndarray) -> None:
        weights = np.ones(len(codes))
        self.calibration_ = self._automatic(np.bincount(codes))
        if self.calibration_ != "none":
            self.calibration_ = best_calibration(P, codes, weights, self._resolution)
        self._calibrate(P, codes, weights)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> FlatForest:
        from sklearn.utils import check_random_state  # noqa: PLC0415 - see `estimator`

        rows = Rows(X, codes, weights)
        random = check_random_state(self.random_state)
        folds = _folds(codes, self.validation_fraction, random)
        most = MAX_TREES if self.n_estimators is None else self.n_estimators
        seeds = random.randint(np.iinfo(np.int32).max, size=most)  # the first trees are the same for any number
        self.tradeoff_: list[Point] = []
        if self.budget is None and self.alpha is not None and self.n_estimators is not None:
            return self._chosen(self._grower(rows), Point(self._rules()[0], most, np.nan, np.nan), seeds)
        with part(0.0, 0.9, "growing trees"):
            growers = [(self._grower(rows.take(inside)), rows.take(outside)) for inside, outside in folds]
            point = self._choose(growers, seeds)
        with part(0.9, 1.0, "growing the chosen forest"):
            tested = self.budget is not None and len(growers) == 1
            forest = self._chosen(growers[0][0] if tested else self._grower(rows), point, seeds)
            return forest if tested or self.budget is None else self._within_budget(forest, rows)

    def _grower(self, rows: Rows) -> TreeGrower:
        return TreeGrower(rows, len(self.classes_), self.prices_, self._categorical(), max_depth=self.max_depth)

    def _choose(self, growers: list[tuple[TreeGrower, Rows]], seeds: np.ndarray) -> Point:
        """Walk the whole path of every rule up to the budget, and choose on the validation rows."""
        weights = np.array([outside.weights.sum() for _, outside in growers])
        wrong = [np.average(tree_grower.prior.argmax() != outside.codes, weights=outside.weights)
                 for tree_grower, outside in growers]  # fmt: skip
        self.nothing_ = float(np.average(wrong, weights=weights))
        paths = self._paths(growers, weights, seeds)
        self.tradeoff_ = [point for path in paths for point in path]
        ends = [point for path in paths for point in (path[-1:] if self.n_estimators is not None else path)]
        nothing = Point(self._rules()[0], 0, 0.0, self.nothing_)
        return min(ends, key=lambda point: (point.error, point.cost, point.trees), default=nothing)

    def _paths(
        self, growers: list[tuple[TreeGrower, Rows]], weights: np.ndarray, seeds: np.ndarray
    ) -> list[list[Point]]:
        """The Points of every rule within the budget, averaged over the growers by their weights."""
        rules, budget = self._rules(), check_budget(self.budget)
        paths: list[list[Point]] = [[] for _ in rules]
        walk = Walk([tree_grower for tree_grower, _ in growers], rules, seeds)
        for number, batches in walk:
            path = paths[number]
            if not path:
                costs = [tree_grower.costs(outside) for tree_grower, outside in growers]
            forests = [tree_grower.forest([trees]) for (tree_grower, _), trees in zip(growers, batches, strict=True)]
            for step in zip(*map(PathCosts.add, costs, forests), strict=True):
                cost, error = np.average(step, axis=0, weights=weights).tolist()
                report((number + (len(path) + 1) / len(seeds)) / len(rules))
                if cost > budget:
                    walk.leave(number)
                    break
                path.append(Point(rules[number], len(path) + 1, cost, error))
        return paths

    def _rules(self) -> list[Rule]:
        """The rules to try, the paper's exponent first and alphas rising."""
        alphas = ALPHAS if self.alpha is None else (float(self.alpha),)
        exponents: tuple[float, ...] = (1.0,) if self.cost_exponent is None else (float(self.cost_exponent),)
        if self.cost_exponent is None and self.alpha is None and np.ptp(self.prices_.cost) > 0:
            exponents = EXPONENTS
        return [Rule(alpha, exponent) for exponent in exponents for alpha in alphas]

    def _chosen(self, tree_grower: TreeGrower, point: Point, seeds: np.ndarray) -> FlatForest:
        (self.alpha_, self.cost_exponent_), self.n_estimators_, self.cost_, self.error_ = point
        return tree_grower.forest(_grown(Walk([tree_grower], [point.rule], seeds[: point.trees]), point.trees))

    def _within_budget(self, forest: FlatForest, rows: Rows) -> FlatForest:
        """The first trees of a forest grown again that keep to the budget on all rows; `cost_` is theirs there."""
        X, limit = forest.orders.apply(rows.X), check_budget(self.budget)
        costs = [cost for cost, _ in PathCosts(X, *rows[1:], self.prices_, len(self.classes_)).add(forest)]
        kept = sum(cost <= limit for cost in costs)
        self.cost_ = costs[kept - 1] if kept else 0.0
        if kept == forest.n_trees:
            return forest
        rule = Rule(self.alpha_, self.cost_exponent_)
        self.error_ = next((p.error for p in self.tradeoff_ if (p.rule, p.trees) == (rule, kept)), self.nothing_)
        self.n_estimators_ = kept
        return forest.first(kept)


def _grown(walk: Walk, total: int) -> Iterator[Nodes]:
    """The trees of one rule and grower, in batches; reports progress."""
    grown = 0
    for _, (trees,) in walk:
        grown += len(trees.roots)
        report(grown / total, "growing trees")
        yield trees


def _folds(codes: np.ndarray, fraction: float, random: np.random.RandomState) -> list[tuple[np.ndarray, np.ndarray]]:
    """Row numbers to grow from and to validate on: the same share of each class, no row held out twice.

    As many folds as hold out `_ENOUGH` rows together, or all that there are. With too few rows to hold one out,
    both are all rows.
    """
    groups, everything = shuffled_groups(codes, fraction, random), np.arange(len(codes))
    total = sum(size for _, size in groups)
    if not total:
        return [(everything, everything)]
    number = min(math.ceil(_ENOUGH / total), max(1, int(1 / fraction)))
    folds = []
    for f in range(number):
        held = [rows[f * size : (f + 1) * size] for rows, size in groups]
        outside = np.sort(np.concatenate(held))
        if len(outside):
            folds.append((np.setdiff1d(everything, outside), outside))
    return folds
