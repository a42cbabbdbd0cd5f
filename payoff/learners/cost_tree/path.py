"""From rows to trees along a path of trade-offs, each with its cost and error on rows held out."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.utils import check_random_state

from payoff.acquisition.prices import limit_of
from payoff.acquisition.tree_of_classifiers import TreeOfClassifiers
from payoff.decisions.benefit import decide, row_benefits
from payoff.learners.cost_tree.columns import Boosted, Plain, outputs
from payoff.learners.cost_tree.estimator import CostTree, Point
from payoff.learners.cost_tree.hard import HardTree, LeafRows
from payoff.learners.cost_tree.optimise import grow, improve
from payoff.learners.cost_tree.soft import Charges, Objective, SoftTree, loss_of
from payoff.learners.stepwise import validation_folds
from payoff.progress import part, report

STEEPNESS = 5.0
"""In training a row goes up with probability `sigmoid(steepness (score - threshold))`.

Class scores are log odds of a few units: with 1 even distant rows go both ways, and the exits fit a
mixture that does not occur in prediction. If one feature decides which other two count, accuracy
was .77 with 1, .90 with 3, .93 with 6; on Covertype (class 2, lambda .001) the error .139 with 1,
.129 with 4.
"""
STEPS = 20
"""Trade-offs on a path."""
EXITS = (1.0, 0.1, 0.01, 0.001)
"""Trade-offs of exits, as parts of the tree's trade-off.

A feature that decides is asked of all rows, a feature of an exit of the rows that leave there: so
cheap features may decide which dear one to ask for.
"""
EQUAL = 1e-6
"""Errors that differ by less, as a part of the prior's error, are equal.

So of exact trees the cheapest is chosen.
"""
RANGE = (1e-3, 2.0)
"""The least and the largest trade-off of a path.

They are parts of the trade-off at which a single node would use no feature with a price.
"""
_CYCLES = 10  # the maximum number of cycles that improve a tree
_WEAK_DEPTH = 2  # the depth of a boosted tree
BLOCK = 2000  # rows whose trajectories are in memory together
SPREAD = 10.0
"""The standard deviation of a standardised target.

Traversal is `sigmoid(score - threshold)`, so that with 1 even distant rows go both ways in training
and the exits fit a mixture that does not occur in prediction: on a piecewise linear target of ten
features the unexplained share of the variance was .42 with 1, .31 with 3, .14 with 10.
"""


@dataclass(frozen=True, eq=False)
class Setting:
    """The learner of a path of trees, and what it makes of the data.

    `center` and `unit` turn scores into targets' units. `benefits` (K, A) are in the currency of
    the prices.
    """

    learner: CostTree
    phi: Plain | Boosted
    n_classes: int
    center: float
    unit: float
    benefits: np.ndarray | None

    def problem(self, rows: LeafRows, lambda_: float) -> Objective:
        """The objective of a tree on these rows with a trade-off."""
        return Objective(
            rows.columns,
            rows.targets,
            shares=rows.weights / rows.weights.sum(),
            loss=loss_of(self.n_classes),
            charges=Charges.of(self.learner.prices_, self.phi.uses),
            lambda_=lambda_,
            rho=self.learner.rho,
            steepness=STEEPNESS if self.n_classes and self.learner.standardise else 1.0,
        )

    def lambdas(self, rows: LeafRows) -> list[float]:
        """Rising trade-offs; with the largest a single node uses no feature with a price."""
        problem = self.problem(rows, 0.0)
        charges = problem.charges
        S = np.tile(self.prior(rows), (len(rows.columns), 1))
        slopes = problem.shares[:, None] * problem.loss(S, rows.targets)[1]
        pull = np.sqrt(np.square(rows.columns.T @ slopes).sum(axis=1))
        ratios = np.sqrt(charges.members @ np.square(pull)) / charges.price
        largest = float(ratios.max(initial=0.0))
        return list(largest * np.geomspace(*RANGE, STEPS)) if largest else [0.0]

    def path(
        self, inside: LeafRows, outside: LeafRows, lambdas: list[float]
    ) -> Iterator[tuple[Point, HardTree]]:
        """Trees for rising trade-offs, each starting from the one before.

        There are two such paths, one from either way to `grow` the first tree.
        """
        total = 2 * len(lambdas)
        soft: SoftTree | None = None
        for number, (greedy, lambda_) in enumerate(product((False, True), lambdas)):
            with part(
                number / total, (number + 1) / total, f"tree {number + 1} of {total}"
            ):
                problem = self.problem(inside, lambda_)
                with part(0.0, 0.4, "starting nodes"):
                    if soft is None or number % len(lambdas) == 0:
                        soft = grow(problem, self.learner.depth, greedy=greedy)
                    else:
                        soft = soft.posed(problem)
                with part(0.4, 1.0):
                    improve(soft, _CYCLES)
                for hard in self.hardened(soft, inside):
                    hard.prune(inside, outside)
                    tree = self.assemble(hard, self.prior(outside))
                    yield self.point(tree, outside, lambda_), hard

    def hardened(self, soft: SoftTree, rows: LeafRows) -> Iterator[HardTree]:
        """The tuned tree, and of a path those whose exits choose their columns anew."""
        hard = HardTree(soft, self.learner.zero_tolerance)
        hard.tune(rows)
        yield hard.twin()
        if self.learner.trade_off is None:
            yield from hard.exits_by_price(rows, soft.problem, EXITS)

    def chosen(
        self, inside: LeafRows, outside: LeafRows
    ) -> tuple[list[Point], tuple[Point, HardTree]]:
        """The points of the path, and the best of them within the budget, with its tree.

        Where no point is within the budget, the best is the prior, of an infinite trade-off.
        """
        learner = self.learner
        lambdas = (
            self.lambdas(inside)
            if learner.trade_off is None
            else [float(learner.trade_off)]
        )
        path = list(self.path(inside, outside, lambdas))
        empty = self.empty(inside)
        prior = self.point(self.assemble(empty, self.prior(inside)), outside, np.inf)
        affordable = [step for step in path if step[0].cost <= limit_of(learner.budget)]
        unit = EQUAL * prior.error or 1.0

        def least_error(step: tuple[Point, HardTree]) -> tuple[float, float]:
            return round(step[0].error / unit), step[0].cost

        def largest_net_benefit(step: tuple[Point, HardTree]) -> tuple[float, float]:
            return step[0].net_benefit, -step[0].cost

        if self.benefits is None:
            best = min(affordable, key=least_error, default=(prior, empty))
        else:
            best = max([(prior, empty), *affordable], key=largest_net_benefit)
        return sorted(point for point, _ in path), best

    def point(self, tree: TreeOfClassifiers, sample: LeafRows, lambda_: float) -> Point:
        """Mean cost, error and net benefit of rows whose features are acquired one by one."""
        parts = []
        for start in range(0, len(sample.X), BLOCK):
            rows = tree.travel(sample.X[start : start + BLOCK], self.learner.prices_)
            ends = np.arange(len(rows)), rows.length
            parts.append((rows.spent[ends], rows.vote[ends], rows.P[ends]))
        cost, predicted, P = map(np.concatenate, zip(*parts, strict=True))
        y, B = sample.targets, self.benefits
        error = predicted != y
        if not self.n_classes:
            error = np.square(predicted - (self.center + self.unit * y))
        columns = [cost, error]
        if B is not None:
            columns.append(row_benefits(y, decide(P, B).choice, B) - cost)
        return Point(
            lambda_, *np.average(columns, axis=1, weights=sample.weights).tolist()
        )

    def prior(self, rows: LeafRows) -> np.ndarray:
        """The best scores (L,) without any feature; each class counts one row more."""
        if not self.n_classes:
            return np.array([rows.weights @ rows.targets / rows.weights.sum()])
        counts = np.log(
            np.bincount(rows.targets, rows.weights, minlength=self.n_classes) + 1.0
        )
        return counts[1:] - counts[0] if self.n_classes == 2 else counts - counts.mean()

    def empty(self, rows: LeafRows) -> HardTree:
        """A node that asks for no feature and answers the prior."""
        soft = SoftTree(self.problem(rows, 0.0), 1)
        soft.put(0, soft.weights[0], self.prior(rows), 0.0)
        return HardTree(soft, 0.0)

    def assemble(self, hard: HardTree, prior: np.ndarray) -> TreeOfClassifiers:
        """The tree that answers: nodes numbered anew, weights folded with the feature map."""
        nodes = np.flatnonzero(hard.alive).tolist()
        place = {k: i for i, k in enumerate(nodes)}
        support = np.array([hard.support(k) for k in nodes])
        N, T = support.shape
        L = hard.loss.outputs
        leaf = np.array([hard.leaf(k) for k in nodes])
        routes = np.where(leaf[:, None], 0.0, hard.routes[nodes])
        predictors = hard.predictors[nodes].transpose(1, 0, 2).reshape(T, N * L)
        coef = np.concatenate((routes.T, self.unit * predictors), axis=1)
        offsets = self.center + self.unit * hard.offsets[nodes].ravel()
        return TreeOfClassifiers(
            upper=np.array([place.get(2 * k + 1, -1) for k in nodes], dtype=np.int32),
            lower=np.array([place.get(2 * k + 2, -1) for k in nodes], dtype=np.int32),
            thresholds=hard.thresholds[nodes],
            needs=support.astype(np.float64) @ self.phi.uses.T.astype(np.float64) > 0,
            scorer=self.phi.scorer(coef, np.concatenate((np.zeros(N), offsets))),
            prior=self.center + self.unit * prior,
            n_classes=self.n_classes,
        )


def scale_of(y: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The mean of numbers, and the unit in which their standard deviation is `SPREAD`."""
    mean = float(weights @ y / weights.sum())
    spread = float(np.sqrt(weights @ (y - mean) ** 2 / weights.sum()))
    return mean, spread / SPREAD or 1.0


def train(
    learner: CostTree, X: np.ndarray, y: np.ndarray, weights: np.ndarray, K: int
) -> tuple[TreeOfClassifiers, Point, list[Point]]:
    """Train the path on rows (n, m) and K classes, or numbers (K = 0).

    Returns the tree of the best point within the budget, its Point, and all Points of the path.
    """
    random = check_random_state(learner.random_state)
    inside, outside = validation_folds(
        y if K else np.zeros(len(y), dtype=np.intp), random, blocks=learner.blocks
    )[0]
    center, unit = (0.0, 1.0) if K or not learner.standardise else scale_of(y, weights)
    targets = y if K else (y - center) / unit
    with part(0.0, 0.2, "preparing columns"):
        phi: Plain | Boosted = Plain.fit(
            X, weights, learner.categorical(), standardise=learner.standardise
        )
        if isinstance(phi, Plain) and learner.features == "boosted":
            seed = int(random.randint(2**31 - 1))
            phi = fit_boosted(
                learner, phi, X[inside], targets[inside], weights[inside], K, seed
            )
    rows = LeafRows(X, phi.columns(X), targets, weights)
    benefits = None
    # Without prices in their currency, or with a trade-off, benefits choose nothing.
    if K and learner.feature_costs is not None and learner.trade_off is None:
        benefits = learner.benefits
    if benefits is not None:
        benefits = np.asarray(benefits, dtype=np.float64)
    setting = Setting(learner, phi, K, center, unit, benefits)
    with part(0.2, 0.98, "training trees"):
        path, (point, hard) = setting.chosen(rows.take(inside), rows.take(outside))
    if np.isfinite(point.lambda_):
        hard.tune(rows)
    else:
        hard = setting.empty(rows)
    return setting.assemble(hard, setting.prior(rows)), point, path


def fit_boosted(
    learner: CostTree,
    plain: Plain,
    X: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    K: int,
    seed: int,
) -> Boosted:
    """The trees of `weak_learners` boosting rounds; of three classes or more one for each class."""
    rounds = int(learner.weak_learners)
    columns = plain.columns(X)
    kind = GradientBoostingClassifier if K else GradientBoostingRegressor
    model = kind(n_estimators=rounds, max_depth=_WEAK_DEPTH, random_state=seed)
    model.fit(
        columns,
        targets,
        sample_weight=weights,
        monitor=lambda i, *_: report((i + 1) / rounds, "boosting"),
    )
    trees = [tree.tree_ for tree in model.estimators_.ravel()]
    uses = np.zeros((plain.uses.shape[0], len(trees)), dtype=np.bool_)
    for t, tree in enumerate(trees):
        uses[:, t] = plain.uses[:, np.unique(tree.feature[tree.feature >= 0])].any(
            axis=1
        )
    predictions = outputs(trees, columns)
    means = weights @ predictions / weights.sum()
    scales = np.ones(len(trees))
    if learner.standardise:
        scales = np.sqrt(weights @ (predictions - means) ** 2 / weights.sum())
    return Boosted(plain, trees, means, np.where(scales > 0, scales, 1.0), uses)
