"""A tree of linear classifiers whose training objective includes the price of features."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from app.acquisition.prices import Prices, check_budget
from app.acquisition.tree_of_classifiers import Stop, TreeOfClassifiers, outline
from app.errors import Invalid
from app.learners.base import Learner
from app.learners.compiled_kinds import COST_TREE, STARTS
from app.learners.cost_tree.hard import HardTree, Rows
from app.learners.cost_tree.losses import loss_of
from app.learners.cost_tree.path import Point, Sample, Setting, scale_of, split
from app.learners.cost_tree.scorers import Boosted, Map, Plain
from app.learners.stepwise import check_fraction, prices_of
from app.progress import part

if TYPE_CHECKING:  # see `app.learners.estimator`
    from sklearn.utils import Tags

STEEPNESS = 5.0
"""In training a row goes up with probability `sigmoid(steepness (score - threshold))`. Class scores are log odds of a
few units: with 1 even distant rows go both ways, and the exits fit a mixture that does not occur in prediction. If one
feature decides which other two count, accuracy was .77 with 1, .90 with 3, .93 with 6; on Covertype (class 2, lambda
.001) the error .139 with 1, .129 with 4."""


class CostTree(Learner):
    """Cost-sensitive tree of classifiers (Xu, Kusner, Weinberger, Chen 2013), for classes or numbers.

    Every node is a linear model of the columns phi; its score predicts, and sends a case up or down. Training minimises
    mean loss (logistic, or squared) + `rho` |weights|_1 + trade-off x expected price of the path, over all nodes
    together, with soft traversal and mixed norms for "is used on the path". Three classes or more: softmax scores for
    each class and one score more that decides, so that all share one traversal, and a column costs once for all of
    them. Then weights up to `zero_tolerance` are zero, nodes that do not lower the loss on rows held out are pruned,
    and the predictions of the rest are fitted anew on the columns left.

    `task`: `classification` or `regression`. `depth`: models on a path, 1 to 8. `trade_off` (lambda) >= 0, or None:
    a path of rising trade-offs is trained, each from the one before, and the point with the least error held out
    whose cost is within `budget` (None: no limit) is taken; the prior at cost 0 where none is. With `benefits` (K, A)
    in the currency of the `feature_costs` it is the one with the largest net benefit (benefit of the decisions less
    cost), or the prior where that has more. `features`: `raw`, the prepared features, or `boosted`, the outputs of
    `weak_learners` boosting rounds of regression trees of `weak_depth`,
    each of which costs `evaluation_cost` besides the features that it reads. `initialiser`: where nodes start, `leaf`
    (all columns, shrunk), `greedy` (column by column, as long as one is worth its price), or `both`: a path from each;
    the greedy one reaches cheaper trees (Covertype: one feature, where the other's cheapest has four). `steepness` > 0:
    in training a row goes up with probability `sigmoid(steepness (score - threshold))`; None is 5 for classes and 1,
    the paper's, for numbers and without `standardise`. `standardise`: numbers are scaled to variance 1, and a numeric
    target to standard deviation 10, before the trade-offs weigh them.
    `feature_costs`: Prices, or one price >= 0 for each column, or None for 1 each; of a group, the path pays the
    discounted prices and once the difference. `validation_fraction` of the rows is held out inside `fit`. A missing
    value counts as one that cannot be had: the mean, at no cost. The other parameters are `Learner`'s; probabilities
    are not calibrated.

    Fitted, besides `Learner`'s: `model_` (TreeOfClassifiers), `prices_`, `tradeoff_`: all Points of the path with cost,
    error (share of wrong classes, or mean squared error) and net benefit held out, and of the point taken `trade_off_`,
    `cost_`, `error_`, `net_benefit_`. O(path x cycles x nodes x rows x columns).
    """

    parameters = COST_TREE.parameters
    calibration: str = "none"
    model_: TreeOfClassifiers

    def __init__(
        self,
        *,
        task: str = "classification",
        depth: int = 4,
        trade_off: float | None = None,
        rho: float = 1e-4,
        budget: float | None = None,
        zero_tolerance: float = 0.01,
        features: str = "raw",
        weak_learners: int = 100,
        weak_depth: int = 2,
        evaluation_cost: float = 0.0,
        initialiser: str = "both",
        steepness: float | None = None,
        standardise: bool = True,
        feature_costs: Prices | Sequence[float] | None = None,
        benefits: np.ndarray | Sequence[Sequence[float]] | None = None,
        validation_fraction: float = 0.2,
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.task = task
        self.depth = depth
        self.trade_off = trade_off
        self.rho = rho
        self.budget = budget
        self.zero_tolerance = zero_tolerance
        self.features = features
        self.weak_learners = weak_learners
        self.weak_depth = weak_depth
        self.evaluation_cost = evaluation_cost
        self.initialiser = initialiser
        self.steepness = steepness
        self.standardise = standardise
        self.feature_costs = feature_costs
        self.benefits = benefits
        self.validation_fraction = validation_fraction
        self.categorical_features = categorical_features
        self.random_state = random_state

    def fit(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> Self:
        """Fit on rows (n, m), NaN where missing, and classes or numbers (n,); weights (n,) >= 0.

        Raises Invalid for a wrong parameter, and for fewer than two classes.
        """
        if self.task != "regression":
            fitted: Self = super().fit(X, y, sample_weight)
            return fitted
        X, y, weights = self._checked(X, y, sample_weight, y_numeric=True)
        if not len(X):
            raise Invalid.at("", "all rows weigh nothing")
        self._check_common()
        self._check_codes(X)
        self._check()
        self.model_ = self._train(X, np.asarray(y, dtype=np.float64), weights, 0)
        return self

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """`fit`: nothing but the tree is learned."""
        return self.fit(X, y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable class of each row (n, m), or its number."""
        rows = self._validated(X)
        if self.task == "regression":
            return self.values(rows)
        chosen: np.ndarray = self.classes_[self.posterior(rows).argmax(axis=1)]
        return chosen

    @property
    def predict_proba(self) -> Callable[[np.ndarray], np.ndarray]:
        """That of `Learner`; numbers have none."""
        if self.task == "regression":
            raise AttributeError("a regression has no predict_proba")
        return super().predict_proba

    def values(self, X: np.ndarray) -> np.ndarray:
        """`predict` of numbers (n,) without any check, for float64 C-contiguous rows (n, m)."""
        return self.model_.values(X)

    def score(self, X: np.ndarray, y: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
        """Accuracy, or the coefficient of determination."""
        if self.task == "regression":
            from sklearn.metrics import r2_score  # noqa: PLC0415 - see `app.learners.estimator`

            return float(r2_score(y, self.predict(X), sample_weight=sample_weight))
        return float(super().score(X, y, sample_weight))

    def __sklearn_tags__(self) -> Tags:
        from sklearn.utils import RegressorTags  # noqa: PLC0415 - see `app.learners.estimator`

        tags = super().__sklearn_tags__()
        if self.task == "regression":
            tags.estimator_type, tags.classifier_tags, tags.regressor_tags = "regressor", None, RegressorTags()
        return tags

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> TreeOfClassifiers:
        return self._train(X, codes, weights, len(self.classes_))

    def _train(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, K: int) -> TreeOfClassifiers:
        from sklearn.utils import check_random_state  # noqa: PLC0415 - see `app.learners.estimator`

        random = check_random_state(self.random_state)
        inside, outside = split(y if K else np.zeros(len(y), dtype=np.intp), self.validation_fraction, random)
        center, unit = (0.0, 1.0) if K or not self.standardise else scale_of(y, weights)
        targets = y if K else (y - center) / unit
        with part(0.0, 0.2, "preparing columns"):
            phi = self._map(X, targets, weights, inside, K, random)
        sample = Sample(X, Rows(phi.columns(X), targets, weights))
        setting = Setting(
            phi=phi, loss=loss_of(K), n_classes=K, prices=self.prices_, depth=int(self.depth), rho=float(self.rho),
            evaluation=np.full(phi.uses.shape[1], float(self.evaluation_cost) if self.features == "boosted" else 0.0),
            tolerance=float(self.zero_tolerance), steepness=self._steepness(), center=center, unit=unit,
            initialisers=STARTS if self.initialiser == "both" else (self.initialiser,), benefits=self._stakes(K),
        )  # fmt: skip
        with part(0.2, 0.98, "training trees"):
            chosen = self._choose(setting, sample.take(inside), sample.take(outside))
        if chosen is None:
            return setting.empty(setting.prior(sample.rows))
        chosen.tune(sample.rows)
        return setting.assemble(chosen, setting.prior(sample.rows))

    def _map(
        self, X: np.ndarray, targets: np.ndarray, weights: np.ndarray, inside: np.ndarray, K: int,
        random: np.random.RandomState,
    ) -> Map:  # fmt: skip
        plain = Plain.fit(X, weights, self._categorical(), standardise=self.standardise)
        if self.features == "raw":
            return plain
        return Boosted.fit(
            plain, X[inside], targets[inside], weights[inside], K, rounds=int(self.weak_learners),
            depth=int(self.weak_depth), random_state=int(random.randint(2**31 - 1)), standardise=self.standardise,
        )  # fmt: skip

    def _choose(self, setting: Setting, inside: Sample, outside: Sample) -> HardTree | None:
        """Train the path, and take the best point within the budget; None is no tree at all."""
        lambdas = setting.lambdas(inside.rows) if self.trade_off is None else [float(self.trade_off)]
        path = list(setting.path(inside, outside, lambdas))
        self.tradeoff_ = sorted(point for point, _ in path)
        nothing = setting.point(setting.empty(setting.prior(inside.rows)), outside, np.inf), None
        within = [step for step in path if step[0].cost <= check_budget(self.budget)]
        if setting.benefits is None:
            best, hard = min(within, key=lambda step: (step[0].error, step[0].cost), default=nothing)
        else:
            best, hard = max([nothing, *within], key=lambda step: (step[0].net_benefit, -step[0].cost))
        self.trade_off_, self.cost_, self.error_, self.net_benefit_ = best
        return hard

    def _stakes(self, K: int) -> np.ndarray | None:
        """The benefits that choose the point: without prices in their currency, or with a trade-off, none do."""
        if not K or self.benefits is None or self.feature_costs is None or self.trade_off is not None:
            return None
        return np.asarray(self.benefits, dtype=np.float64)

    def _check(self) -> None:
        if self.trade_off is not None and self.budget is not None:
            raise Invalid.at("/budget", "lambda and budget are mutually exclusive")
        check_fraction(self.validation_fraction)
        self.prices_ = prices_of(self.feature_costs, self.n_features_in_)

    def _steepness(self) -> float:
        if self.steepness is not None:
            return float(self.steepness)
        return STEEPNESS if self.task == "classification" and self.standardise else 1.0

    def findings(self) -> dict[str, Any]:
        """What the fit chose, `lambda` being None where that is no tree, and the points of the path as columns."""
        taken = None if np.isinf(self.trade_off_) else _short(self.trade_off_)
        names = ("lambda", "cost", "error") if np.isnan(self.net_benefit_) else ("lambda", *Point._fields[1:])
        points = sorted({tuple(map(_short, point[: len(names)])) for point in self.tradeoff_})
        frontier = dict(zip(names, zip(*points, strict=True), strict=True))
        chosen = {name: _short(getattr(self, f"{name}_")) for name in names[1:]}
        return {"lambda": taken, **chosen, "nodes": self.model_.n_nodes, "frontier": frontier}

    def outline(self) -> tuple[Stop, ...]:
        """What each node asks for, and what its path costs at the prices of training."""
        return outline(self.model_, self.prices_)


def _short(figure: float) -> float:
    """A number with six digits."""
    return float(f"{figure:.6g}")
