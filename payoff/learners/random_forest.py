"""scikit-learn's random forest, of classes or numbers, as flat trees that predict fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field

from payoff.acquisition.prices import Prices
from payoff.decisions.folds import Blocks, stratified_folds
from payoff.learners import loading
from payoff.learners.gradient_boosting import in_folds
from payoff.learners.parameters import Amount, Calibration, Count, Task
from payoff.learners.rows import ALL, FoldedRows, stage_name
from payoff.learners.stepwise import Stepwise, prices_of
from payoff.progress import part

_FOLDS = 5
_TREES = 300  # they earn more than 100 (benchmarks/defaults.md), at most 17 MB at 12,000 x 54
_FEW_TREES = 100  # of numbers, and of forests that choose or calibrate
_LEAVES = (1, 2, 5)
_LEAVES_OF_NUMBERS = (1, 3, 10)


class RandomForest(Stepwise):
    """scikit-learn's random forest, cost-blind; of classes it answers `/acquire`, of numbers it
    knows the distribution.

    Categories are put in the order of their class distributions, or mean numbers, and then split
    like numbers. `min_samples_leaf` `auto`: see `best_leaf`; of numbers that of the least `cost`.
    `predict` takes the largest (calibrated) probability; `model_.predict` is the plain vote of the
    trees. Numbers: a `QuantileForest`, which `calibration` `none` leaves as the leaves have it.
    Fitted: as `Stepwise`, and `min_samples_leaf_`. Answering costs O(trees x depth) a row.
    """

    name: ClassVar = "random_forest"
    tasks: ClassVar = ("classification", "regression")
    task: Task = None
    n_estimators: Annotated[
        Annotated[int, Field(ge=1, le=10_000)] | Literal["auto"],
        f"Number of trees; auto is {_TREES}, for numbers {_FEW_TREES}.",
    ] = "auto"
    max_features: Annotated[
        Amount | Literal["auto"],
        "Features considered for a split: a number, a fraction, or the root or logarithm of all;"
        " null is all; auto is the root for classes, and all for numbers. With all features the"
        " trees ask for more of the same ones, so `/acquire` asks for fewer.",
    ] = "auto"
    min_samples_leaf: Annotated[
        Count | Literal["auto"],
        "Minimum number of rows in a leaf; auto is 1, 2 or 5, by the log loss of rows out of bag;"
        " for numbers 1, 3 or 10, by the cost of their quantiles.",
    ] = "auto"
    calibration: Calibration = "auto"

    def _check(self) -> None:
        loading.compiled.forests.forest_like(self)

    def _prepare(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        if self.min_samples_leaf != "auto":
            self.min_samples_leaf_ = int(self.min_samples_leaf)
        elif not self.regresses:
            with part(0.0, 0.0, "choosing the size of leaves"):
                self.min_samples_leaf_ = loading.compiled.forests.best_leaf(
                    self, _LEAVES, X, codes, weights, self._few_trees
                )

    def _fit_calibrated(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> None:
        if not self.regresses or self.min_samples_leaf != "auto":
            super()._fit_calibrated(X, codes, weights)
            return
        count = len(_LEAVES_OF_NUMBERS)
        for number, leaf in enumerate(_LEAVES_OF_NUMBERS):
            self.min_samples_leaf_ = leaf
            with part(number / count, (number + 1) / count):
                forest = self._fit_raw(X, codes, weights)
            if number == 0 or forest.cost < self.model_.cost:
                self.model_ = forest
                best = leaf
        self.min_samples_leaf_ = best

    def _cross_fit(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        if not self.regresses:
            return super()._cross_fit(X, codes, weights)
        rows, folds = in_folds(X, codes, weights, self._seed(), self.blocks)
        with part(0.0, 0.5):
            self._fit_calibrated(X, codes, weights)
        values = np.zeros((len(X), 1))
        with part(0.5, 1.0):
            forests = loading.compiled.forests.grow_forests(
                self, rows, range(folds), self.min_samples_leaf_, self._trees
            )
            for number, forest, _ in forests:
                model = loading.compiled.quantile_forest.QuantileForest.plain(
                    forest, *rows.without(number)
                )
                unseen = np.ascontiguousarray(rows.only(number))
                values[rows.fold == number, 0] = model.values(unseen)
        return values

    @property
    def _trees(self) -> int:
        if self.n_estimators != "auto":
            return int(self.n_estimators)
        return _FEW_TREES if self.regresses else _TREES

    @property
    def _few_trees(self) -> int:
        return min(self._trees, _FEW_TREES)

    @property
    def _resolution(self) -> float:
        return 1.0 / self._few_trees

    def _again(self) -> RandomForest:
        return replace(
            self,
            n_estimators=self._few_trees,
            calibration="none",
            min_samples_leaf=self.min_samples_leaf_,
        )

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        if self.regresses and self.blocks is not None:
            return self._cross_fitted(X, codes, weights, self.blocks)
        rows = FoldedRows.in_no_fold(X, codes, weights)
        ((_, forest, bags),) = loading.compiled.forests.grow_forests(
            self, rows, [ALL], self.min_samples_leaf_, self._trees
        )
        if not self.regresses:
            return forest
        return loading.compiled.quantile_forest.QuantileForest.of(
            forest, bags, X, codes, weights, corrected=self.calibration != "none"
        )

    def _cross_fitted(
        self, X: np.ndarray, y: np.ndarray, weights: np.ndarray, blocks: Blocks
    ) -> Any:
        """A `QuantileForest` that is corrected by forests without the row's block.

        A tree has nearly every group, so that hardly one is out of its bag.
        """
        fold = stratified_folds(
            np.zeros(len(X), dtype=np.intp), _FOLDS, self._seed(), blocks
        ).astype(np.int8)
        rows = FoldedRows(X, y, weights, fold)
        forests = {
            number: loading.compiled.quantile_forest.QuantileForest.plain(
                forest, *rows.without(number)
            )
            for number, forest, _ in loading.compiled.forests.grow_forests(
                self,
                rows,
                [*range(int(fold.max()) + 1), ALL],
                self.min_samples_leaf_,
                self._trees,
            )
        }
        return loading.compiled.quantile_forest.cross_fitted(
            forests, rows, corrected=self.calibration != "none"
        )

    def _fit_folds(self, rows: FoldedRows, folds: int) -> np.ndarray:
        P = np.empty((len(rows.X), len(self.classes_)))
        with part(0.0, 0.6):
            forests = loading.compiled.forests.grow_forests(
                self, rows, range(folds), self.min_samples_leaf_, self._few_trees
            )
            for fold, forest, _ in forests:
                X = np.ascontiguousarray(rows.only(fold))
                P[rows.fold == fold] = forest.posterior(X)
        with part(0.6, 1.0, stage_name(folds, folds)):
            self.model_ = self._fit_raw(*rows.without(ALL))
        return P


class FreeForest(RandomForest):
    """A random forest of the free features; without any it answers with the class shares."""

    name: ClassVar = "nothing"
    feature_costs: Prices | Sequence[float] | None = None

    def fit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        return super().fit(self._free(X), y, sample_weight, blocks)

    def refit(
        self,
        X: np.ndarray,
        y: np.ndarray,
        sample_weight: np.ndarray | None = None,
        blocks: Blocks | None = None,
    ) -> Self:
        return super().refit(self._free(X), y, sample_weight, blocks)

    def _free(self, X: np.ndarray) -> np.ndarray:
        """Rows (n, m) without the values that have a price: a column without values is never split
        on.
        """
        prices = prices_of(self.feature_costs, X.shape[1])
        return np.where(prices.cost > 0, np.nan, X)
