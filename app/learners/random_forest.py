"""scikit-learn's random forest, for one label or several, as flat trees that predict fast."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Annotated, Any, Literal, Self

import numpy as np
from scipy.special import logit

from app.decisions.calibration import Calibrator, Sigmoid
from app.decisions.folds import UNJUDGED, multilabel_folds
from app.learners._multilabel import Curves, Multilabel, as_indicator, constant_share
from app.learners.base import ALL, Dealt
from app.learners.parameters import Amount, Calibration, Range
from app.learners.stepwise import Stepwise

_LEAVES = (1, 2, 5)
_FOLDS = 5


def _forests() -> Any:
    """The module that grows, loaded then: scikit-learn and the compiler take 120 MB."""
    from app.learners import _forests as module  # noqa: PLC0415

    return module


class RandomForest(Stepwise):
    """scikit-learn's random forest, cost-blind; answers `/acquire`.

    Categories are put in the order of their class distributions and then split like numbers. `min_samples_leaf` `auto`:
    see `best_leaf`. `predict` takes the largest (calibrated) probability; `model_.predict` is the plain vote of the
    trees.
    Fitted: as `Stepwise`, and `min_samples_leaf_`. Answering costs O(trees x depth) a row.
    """

    n_estimators: Annotated[int, Range(1, 10_000), "Number of trees."] = 100
    max_features: Annotated[
        Amount,
        "Features considered for a split: a number, a fraction, or the root or logarithm of all; null is all. With all"
        " features the trees ask for more of the same ones, so `/acquire` asks for fewer.",
    ] = "sqrt"
    min_samples_leaf: Annotated[
        int | Literal["auto"],
        Range(1),
        "Minimum number of rows in a leaf; auto is 1, 2 or 5, by the log loss of rows out of bag.",
    ] = "auto"
    calibration: Calibration = "auto"

    def _check(self) -> None:
        _forests().forest_like(self)

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if self.min_samples_leaf == "auto":
            dealt = Dealt(X, codes, weights, np.full(len(X), ALL, dtype=np.int8))
            like = _forests().forest_like(self)
            self.min_samples_leaf_ = _forests().best_leaf(like, _LEAVES, dealt, len(self.classes_), self.categorical())
        else:
            self.min_samples_leaf_ = int(self.min_samples_leaf)

    @property
    def _resolution(self) -> float:
        return 1.0 / self.n_estimators

    def _again(self) -> RandomForest:
        return replace(self, calibration="none", min_samples_leaf=self.min_samples_leaf_)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        ((_, forest),) = self._grown(Dealt(X, codes, weights, np.full(len(X), ALL, dtype=np.int8)), [ALL])
        return forest

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        P = np.empty((len(dealt.X), len(self.classes_)))
        for fold, forest in self._grown(dealt, [*range(folds), ALL]):
            if fold == ALL:
                self.model_ = forest
            else:
                P[dealt.fold == fold] = forest.posterior(np.ascontiguousarray(dealt.only(fold)))
        return P

    def _grown(self, dealt: Dealt, folds: list[int]) -> Iterator[tuple[int, Any]]:
        """The forest without each of the folds."""
        model = _forests().forest_like(self).set_params(min_samples_leaf=self.min_samples_leaf_)
        grown: Iterator[tuple[int, Any]] = _forests().grown_forests(
            model, dealt, folds, len(self.classes_), self.categorical()
        )
        return grown


class MultilabelForest(Multilabel):
    """A random forest for several labels together: the probability that each applies, for `/retrieve`.

    Each leaf has the share of every label; y is an indicator (n, L).
    scikit-learn grows the trees: a split is chosen by the mean impurity over the labels. Parameters as in
    `RandomForest`. Each label is calibrated on probabilities from forests that did not see the row, by the method that
    `calibration` gives for its numbers of rows. A label that is the same in all rows is given (its ones + 1)/(n + 2).
    Fitted: as `Multilabel`, and `model_`, a `FlatForest` whose distribution is that of `grown_forests`. Training grows
    six forests, one without calibration; answering costs O(trees x (depth + L)) a row.
    """

    n_estimators: Annotated[int, Range(1, 10_000), "Number of trees."] = 100
    max_features: Annotated[
        Amount,
        "Features considered for a split: a number, a fraction, or the root or logarithm of all; null is all.",
    ] = "sqrt"
    min_samples_leaf: Annotated[int, Range(1), "Minimum number of rows in a leaf."] = 2
    calibration: Calibration = "auto"

    neighbours_: Any = field(init=False, repr=False)

    def _check(self) -> None:
        _forests().forest_like(self)

    @property
    def _resolution(self) -> float:
        return 1.0 / self.n_estimators

    def refit(self, X: np.ndarray, y: np.ndarray) -> Self:
        """Grow the forest again on rows (n, m) and labels (n, L); calibration stays. Time: one forest."""
        dealt = Dealt(np.ascontiguousarray(X), as_indicator(y), np.ones(len(X)), np.full(len(X), ALL, dtype=np.int8))
        ((_, self.model_),) = self._grown(dealt, [ALL])
        self.neighbours_ = _forests().Neighbours.of(self.model_, *dealt[:3])
        return self

    def label_vectors(self, X: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
        """What `Neighbours.find` says of rows X (n, m), before calibration."""
        found: Iterator[tuple[np.ndarray, np.ndarray, float]] = self.neighbours_.find(self.model_, X)
        return found

    def label_vector_work(self, X: np.ndarray) -> int:
        """What `Neighbours.work` says of rows X (n, m)."""
        return int(self.neighbours_.work(self.model_, X))

    def _odds(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(logit(_marginals(self.model_, X)))

    def _fit_labels(self, X: np.ndarray, Y: np.ndarray, weights: np.ndarray) -> None:
        fold = multilabel_folds(Y, _FOLDS, self._seed()).astype(np.int8)
        needed = any(self._method(np.bincount(y, minlength=2)) != "none" for y in Y.T)
        folds = [*np.unique(fold[fold != UNJUDGED]).tolist(), ALL] if needed else [ALL]
        P = np.zeros(Y.shape)
        dealt = Dealt(X, Y, weights, fold)
        for number, forest in self._grown(dealt, folds):
            if number == ALL:
                self.model_, self.neighbours_ = forest, _forests().Neighbours.of(forest, X, Y, weights)
            else:
                P[fold == number] = _marginals(forest, np.ascontiguousarray(dealt.only(number)))
        judged = fold != UNJUDGED
        found = [self._curve(P[judged, label], Y[:, label], judged, weights) for label in range(Y.shape[1])]
        self.curves_ = Curves.of([curve for _, curve in found])
        self.calibrations_ = [method for method, _ in found]

    def _grown(self, dealt: Dealt, folds: list[int]) -> Iterator[tuple[int, Any]]:
        """The forest without each of the folds."""
        model = _forests().forest_like(self)
        grown: Iterator[tuple[int, Any]] = _forests().grown_forests(
            model, dealt, folds, len(self.classes_), self.categorical()
        )
        return grown

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


def _marginals(forest: Any, X: np.ndarray) -> np.ndarray:
    """The probability of each label (n, L), of a forest that `grown_forests` made for labels."""
    P = forest.posterior(X)
    return np.asarray(np.minimum(P[:, :-1] * (P.shape[1] - 1), 1.0))
