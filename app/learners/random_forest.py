"""scikit-learn's random forest, of classes or numbers, as flat trees that predict fast."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from app.decisions.folds import stratified_folds
from app.learners.base import ALL, Dealt
from app.learners.loading import compiled
from app.learners.numbers import STEPS, NumberForest, levels_of
from app.learners.parameters import Amount, Calibration, Count, Task
from app.learners.stepwise import Stepwise

_LEAVES = (1, 2, 5)
_LEAF_OF_NUMBERS = 5
_FOLDS = 5


class RandomForest(Stepwise):
    """scikit-learn's random forest, cost-blind; of classes it answers `/acquire`, of numbers it knows the distribution.

    Categories are put in the order of their class distributions, or mean numbers, and then split like numbers.
    `min_samples_leaf` `auto`: see `best_leaf`; of numbers `_LEAF_OF_NUMBERS`. `predict` takes the largest (calibrated)
    probability; `model_.predict` is the plain vote of the trees. Numbers: a `NumberForest`, whose levels are corrected
    by forests that did not see the row, so that quantiles hold the share that they say.
    Fitted: as `Stepwise`, and `min_samples_leaf_`. Answering costs O(trees x depth) a row.
    """

    name: ClassVar = "random_forest"
    tasks: ClassVar = ("classification", "regression")
    task: Task = None
    n_estimators: Annotated[int, Field(ge=1, le=10_000), "Number of trees."] = 100
    max_features: Annotated[
        Amount,
        "Features considered for a split: a number, a fraction, or the root or logarithm of all; null is all. With all"
        " features the trees ask for more of the same ones, so `/acquire` asks for fewer.",
    ] = "sqrt"
    min_samples_leaf: Annotated[
        Count | Literal["auto"],
        "Minimum number of rows in a leaf; auto is 1, 2 or 5, by the log loss of rows out of bag.",
    ] = "auto"
    calibration: Calibration = "auto"
    levels_: np.ndarray = field(init=False, repr=False)

    def _check(self) -> None:
        compiled().forests.forest_like(self)

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if self.min_samples_leaf == "auto" and self.regresses:
            self.min_samples_leaf_ = _LEAF_OF_NUMBERS
        elif self.min_samples_leaf == "auto":
            self.min_samples_leaf_ = compiled().forests.best_leaf(self, _LEAVES, X, codes, weights)
        else:
            self.min_samples_leaf_ = int(self.min_samples_leaf)

    @property
    def _resolution(self) -> float:
        return 1.0 / self.n_estimators

    def _again(self) -> RandomForest:
        return replace(self, calibration="none", min_samples_leaf=self.min_samples_leaf_)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        dealt = Dealt.whole(X, codes, weights)
        ((_, forest),) = compiled().forests.grown_forests(self, dealt, [ALL], self.min_samples_leaf_)
        return NumberForest.of(forest, X, codes, weights, self.levels_) if self.regresses else forest

    def _fit_calibrated(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if not self.regresses:
            super()._fit_calibrated(X, codes, weights)
            return
        self.levels_, folds = STEPS, min(_FOLDS, len(X) // self.min_samples_leaf_)
        fold = stratified_folds(np.zeros(len(X), dtype=np.intp), max(folds, 1), self._seed()).astype(np.int8)
        reached, parts = np.empty(len(X)), [*range(folds), ALL] if folds > 1 else [ALL]
        dealt = Dealt(X, codes, weights, fold)
        for number, forest in compiled().forests.grown_forests(self, dealt, parts, self.min_samples_leaf_):
            model = NumberForest.of(forest, *dealt.without(number), STEPS)
            if number == ALL:
                self.levels_ = levels_of(reached, weights) if folds > 1 else self.levels_
                self.model_ = replace(model, levels=self.levels_)
            else:
                reached[fold == number] = model.reached(dealt.only(number), codes[fold == number])

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        P = np.empty((len(dealt.X), len(self.classes_)))
        for fold, forest in compiled().forests.grown_forests(self, dealt, [*range(folds), ALL], self.min_samples_leaf_):
            if fold == ALL:
                self.model_ = forest
            else:
                P[dealt.fold == fold] = forest.posterior(np.ascontiguousarray(dealt.only(fold)))
        return P
