"""Several labels at once: one random forest for all, calibrated label by label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np
from scipy.special import logit

from app.acquisition.forest import FlatForest
from app.decisions.calibration import Calibrator, Sigmoid
from app.decisions.folds import UNJUDGED, multilabel_folds
from app.learners._forests import forest_like, grown_forests
from app.learners._multilabel import Curves, Multilabel, as_indicator, constant_share
from app.learners._neighbours import Neighbours
from app.learners.base import ALL, Dealt
from app.learners.compiled_kinds import MULTILABEL_FOREST

_FOLDS = 5


class MultilabelForest(Multilabel):
    """Random forest (Breiman 2001) of which each leaf has the share of every label; y is an indicator (n, L).

    scikit-learn grows the trees: a split is chosen by the mean impurity over the labels. Parameters as in
    `RandomForest`. Each label is calibrated on probabilities from forests that did not see the row, by the method that
    `calibration` gives for its numbers of rows. A label that is the same in all rows is given (its ones + 1)/(n + 2).
    Fitted: as `Multilabel`, and `model_`, a `FlatForest` whose distribution is that of `grown_forests`. Training grows
    six forests, one without calibration; answering costs O(trees x (depth + L)) a row.
    """

    parameters = MULTILABEL_FOREST.parameters

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: float | str | None = "sqrt",
        min_samples_leaf: int = 2,
        calibration: str = "auto",
        categorical_features: Sequence[int] | None = None,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.calibration = calibration
        self.categorical_features = categorical_features
        self.random_state = random_state

    model_: FlatForest
    neighbours_: Neighbours

    def _check(self) -> None:
        forest_like(self)

    @property
    def _resolution(self) -> float:
        return 1.0 / self.n_estimators

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Grow the forest again on rows (n, m) and labels (n, L); calibration stays. Time: one forest."""
        dealt = Dealt(np.ascontiguousarray(X), as_indicator(y), np.ones(len(X)), np.full(len(X), ALL, dtype=np.int8))
        ((_, self.model_),) = grown_forests(
            forest_like(self), dealt, [ALL], len(self.classes_), self._categorical()
        )  # fmt: skip
        self.neighbours_ = Neighbours.of(self.model_, *dealt[:3])
        return self

    def label_vectors(self, X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """What `Neighbours.find` says of rows X (n, m), before calibration."""
        return self.neighbours_.find(self.model_, X)

    def label_vector_work(self, X: np.ndarray) -> int:
        """What `Neighbours.work` says of rows X (n, m)."""
        return self.neighbours_.work(self.model_, X)

    def _odds(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(logit(_marginals(self.model_, X)))

    def _fit_labels(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        from sklearn.utils import check_random_state  # noqa: PLC0415 - see `estimator`

        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        fold = multilabel_folds(Y, _FOLDS, seed).astype(np.int8)
        needed = any(self._method(np.bincount(y, minlength=2)) != "none" for y in Y.T)
        folds = [*np.unique(fold[fold != UNJUDGED]).tolist(), ALL] if needed else [ALL]
        P = np.zeros(Y.shape)
        dealt = Dealt(X, Y, weights, fold)
        for number, forest in grown_forests(forest_like(self), dealt, folds, Y.shape[1], self._categorical()):
            if number == ALL:
                self.model_, self.neighbours_ = forest, Neighbours.of(forest, X, Y, weights)
            else:
                P[fold == number] = _marginals(forest, np.ascontiguousarray(dealt.only(number)))
        judged = fold != UNJUDGED
        found = [self._curve(P[judged, label], Y[:, label], judged, weights) for label in range(Y.shape[1])]
        self.curves_ = Curves.of([curve for _, curve in found])
        self.calibrations_ = [method for method, _ in found]

    def _curve(
        self, p: np.ndarray, y: np.ndarray, judged: np.ndarray, weights: np.ndarray
    ) -> tuple[str, Calibrator | None]:
        """The calibration of a label y (n,), from the probabilities of the rows that are judged."""
        counts = np.bincount(y, minlength=2)
        if not counts.all():
            share = constant_share(counts[1], len(y))
            return "none", Sigmoid(np.zeros(1), np.array([logit(share)]), 0.0)
        self.calibration_ = self._method(counts)
        self._calibrate(np.column_stack((1.0 - p, p)), y[judged], weights[judged])
        return self.calibration_, self.calibrator_


def _marginals(forest: FlatForest, X: np.ndarray) -> np.ndarray:
    """The probability of each label (n, L), of a forest that `grown_forests` made for labels."""
    P = forest.posterior(X)
    return np.asarray(np.minimum(P[:, :-1] * (P.shape[1] - 1), 1.0))
