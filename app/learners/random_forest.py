"""scikit-learn's random forest, as flat trees that predict fast and acquire features one at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from app.acquisition.forest import FlatForest
from app.learners._forests import best_leaf, forest_like, grown_forests
from app.learners.base import ALL, Dealt
from app.learners.compiled_kinds import RANDOM_FOREST
from app.learners.stepwise import Stepwise

_LEAVES = (1, 2, 5)


class RandomForest(Stepwise):
    """Random forest (Breiman 2001) as scikit-learn grows it, with calibrated probabilities.

    `n_estimators`, `max_features` (features looked at per split: a number, a fraction, `sqrt`, `log2`; None is all) and
    `min_samples_leaf` mean what they mean there; `auto` is 1, 2 or 5, see `best_leaf`. Categories are put in the order
    of their class distributions and then split like numbers. The other parameters are `Learner`'s.
    `predict` takes the largest (calibrated) probability; `model_.predict` is the plain vote of the trees.
    Fitted: as `Stepwise`, and `min_samples_leaf_`. Answering costs O(trees x depth) a row.
    """

    parameters = RANDOM_FOREST.parameters

    def __init__(
        self,
        *,
        n_estimators: int = 100,
        max_features: float | str | None = "sqrt",
        min_samples_leaf: int | str = "auto",
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

    def _check(self) -> None:
        forest_like(self)

    min_samples_leaf_: int

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if self.min_samples_leaf == "auto":
            dealt = Dealt(X, codes, weights, np.full(len(X), ALL, dtype=np.int8))
            like = forest_like(self)
            self.min_samples_leaf_ = best_leaf(like, _LEAVES, dealt, len(self.classes_), self._categorical())
        else:
            self.min_samples_leaf_ = int(self.min_samples_leaf)

    @property
    def _resolution(self) -> float:
        return 1.0 / self.n_estimators

    def _again(self) -> RandomForest:
        from sklearn.base import clone  # noqa: PLC0415 - see `estimator`

        again: RandomForest = clone(self).set_params(calibration="none", min_samples_leaf=self.min_samples_leaf_)
        return again

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> FlatForest:
        ((_, forest),) = self._forests(Dealt(X, codes, weights, np.full(len(X), ALL, dtype=np.int8)), [ALL])
        return forest

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        P = np.empty((len(dealt.X), len(self.classes_)))
        for fold, forest in self._forests(dealt, [*range(folds), ALL]):
            if fold == ALL:
                self.model_ = forest
            else:
                P[dealt.fold == fold] = forest.posterior(np.ascontiguousarray(dealt.only(fold)))
        return P

    def _forests(self, dealt: Dealt, folds: list[int]) -> Iterator[tuple[int, FlatForest]]:
        """The forest without each of the folds."""
        model = forest_like(self).set_params(min_samples_leaf=self.min_samples_leaf_)
        return grown_forests(model, dealt, folds, len(self.classes_), self._categorical())
