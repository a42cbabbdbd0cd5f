"""Multinomial logistic regression on raw rows, cost-blind."""

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any, ClassVar

import numpy as np

from payoff.decisions.folds import Blocks, stratified_folds
from payoff.decisions.row_weights import effective_total
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.design import SHAPES, Design
from payoff.learners.linear import LinearScorer
from payoff.learners.monotonic import Monotonic
from payoff.learners.parameters import Calibration, Strength
from payoff.learners.unseen import log_losses, near_best, unseen

_CANDIDATES = (
    *SHAPES,
    "none",
)  # the simplest first; the one that a tail can break, last
_MIN_ROWS = 200  # on fewer rows the standard error hides what another transform gains
_MAX_ROWS = 3000  # the maximum number of rows from which a transform is chosen


class Logistic(Learner):
    """Multinomial logistic regression, cost-blind: benefits enter only when decisions are made.

    Its preparation of rows is inside (see `design.Design`). `C`: inverse strength of the L2
    penalty. `numeric_transform`: what becomes of numeric features, see `design` and
    `choose_transform`. `monotonic`: columns with which the probability of the second of two classes
    only rises (`up`) or falls (`down`), see `Design.slopes`. Fitted, besides `Learner`'s:
    `numeric_transform_`, the one used, and `converged_`, False if the last fit reached its maximum
    number of steps. A row costs one product.
    """

    name: ClassVar = "logistic"
    C: Strength = 1.0
    calibration: Calibration = "auto"
    monotonic: Monotonic = None
    numeric_transform: str = "auto"

    model_: LinearScorer = field(init=False, repr=False)

    @property
    def converged_(self) -> bool:
        return self.model_.converged

    def _check(self) -> None:
        self.signs(self.n_features_in_, len(self.classes_))

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.numeric_transform_ = choose_transform(self, X, codes, weights, self.C)

    def _fit_raw(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> LinearScorer:
        design = Design.fit(X, weights, self.categorical(), self.numeric_transform_)
        model, converged = loading.scikit.fit_linear(
            design.matrix(X),
            codes,
            weights,
            self.C,
            design.slopes(self.signs(X.shape[1])),
        )
        linear = design.fold(model.coef_, model.intercept_).recorded(X, weights)
        return LinearScorer(linear, converged)


def choose_transform(
    learner: Any,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    C: float,
    candidates: Sequence[str] = _CANDIDATES,
    losses: Callable[..., np.ndarray] | None = None,
) -> str:
    """A learner's `numeric_transform`; for `auto` the shape of the least cross-validated loss.

    `codes` are classes (n,), or labels (n, L) whose losses are added up. `losses` are log losses,
    or a function like `_losses`, for numbers (n,). The first of the
    candidates that is not worse than the best by a standard error of the paired difference; `clip`
    on fewer than `_MIN_ROWS` rows. Three fits for each candidate and label on two thirds of at most
    `_MAX_ROWS` rows; folds are split by the learner's blocks.
    """
    transform = learner.numeric_transform
    categorical = learner.categorical()
    if transform != "auto":
        return transform
    if len(categorical) == X.shape[1]:
        return "none"
    if effective_total(weights) < _MIN_ROWS:
        return "clip"
    sample = np.sort(np.random.default_rng(0).permutation(len(X))[:_MAX_ROWS])
    X, w = X[sample], weights[sample]
    labels = codes[sample].reshape(len(sample), -1).T
    measure = losses or _losses
    gains = {
        shape: -np.sum(
            [
                measure(shape, X, y, w, learner, C, learner.blocks_of(sample))
                for y in labels
            ],
            axis=0,
        )
        for shape in candidates
    }
    return near_best(gains, w)[0]


def _losses(
    shape: str,
    X: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    learner: Any,
    C: float,
    blocks: Blocks | None,
) -> np.ndarray:
    """Each row's log loss (n,) by a model that did not see it; 0 where there is only one class."""
    classes, codes = np.unique(codes, return_inverse=True)
    if len(classes) < 2:
        return np.zeros(len(X))

    def fit_and_predict(_: int, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        design = Design.fit(X[inside], weights[inside], learner.categorical(), shape)
        model, _ = loading.scikit.fit_linear(
            design.matrix(X[inside]),
            codes[inside],
            weights[inside],
            C,
            design.slopes(learner.signs(X.shape[1])),
        )
        return np.asarray(model.predict_proba(design.matrix(X[outside])))

    fold = stratified_folds(codes, 3, 0, blocks)
    return log_losses(unseen(fold, len(classes), fit_and_predict), codes)
