"""scikit-learn's histogram gradient boosting on raw rows, cost-blind."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from joblib import Parallel, delayed
from pydantic import Field

from app.decisions.folds import UNJUDGED, stratified_folds
from app.errors import Invalid
from app.learners.base import ALL, SINGLE, Dealt, Learner, stage_name
from app.learners.loading import scikit
from app.learners.parameters import Calibration, Task
from app.learners.residuals import Residuals, thinned
from app.learners.unseen import log_losses
from app.progress import part, report

# Leaves of a tree by the number of rows: benefit realised on seven UCI tables, benchmarks/defaults.py.
_LEAVES = ((1500, 8), (10_000, 16))
_LARGE_LEAVES = 31
_AUTO_LEAVES = ", ".join(f"{leaves} up to {rows:,} rows" for rows, leaves in _LEAVES) + f", then {_LARGE_LEAVES}"
# Rounds after which a fit may end, as parts of `max_iter`: finer steps gained nothing on the UCI tables.
_FOLDS = 5
_FEW = 5000  # rows that more folds are worth: with a fifth less, residuals are clearly larger than the model's own
_LEAST_SPREAD = 0.1  # of a row, as a part of the mean one
_SPREAD = {"loss": "gamma", "max_leaf_nodes": 4}  # how large errors are takes more rows than the mean
_STAGES = np.array([0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0])


class GradientBoosting(Learner):
    """Gradient boosted trees on histograms, cost-blind; takes missing values and categories without preparation; of
    numbers it knows the distribution.

    scikit-learn's HistGradientBoostingClassifier or HistGradientBoostingRegressor. The rounds are those of the smallest
    calibrated log loss on the folds of the calibration, of numbers of the least squared error, and `max_iter` without
    folds: rows, parameters and seed decide the model. Of a categorical feature with more than 255 categories the 254
    most common stay apart and the others count as one (scikit-learn would refuse it). The distribution of a number is
    the mean plus the residuals of rows that it did not see, divided by a boosted spread where that makes them more
    alike (split-conformal, by cross-fitting). Fitted, besides `Learner`'s: `n_iter_`.

    A fit takes five fits of `max_iter` rounds on four fifths of the rows, and one of `n_iter_`. A row takes
    scikit-learn 0.7 ms at 100 trees, 3 ms at 500, and 1 ms more with categories: its trees have no public form that a
    quicker walk could use.
    """

    name: ClassVar = "gradient_boosting"
    # Boosting is overconfident: on six of the UCI tables, whole and cut to 150 rows (smallest class 4 to 247), the
    # sigmoid lowered held-out log loss every time, by 15 to 40 %, and beat isotonic nearly always.
    _fewest: ClassVar = 4
    tasks: ClassVar = ("classification", "regression")

    task: Task = None
    max_iter: Annotated[int, Field(ge=1, le=10_000), "Boosting rounds, at most; each has a tree per class."] = 200
    learning_rate: Annotated[float, Field(gt=0, le=10), "Shrinkage of each round."] = 0.1
    max_leaf_nodes: Annotated[
        Annotated[int, Field(ge=2)] | Literal["auto"] | None,
        f"Maximum number of leaves of a tree; auto is {_AUTO_LEAVES}.",
    ] = "auto"
    min_samples_leaf: Annotated[int, Field(ge=1), "Minimum number of rows in a leaf."] = 10
    l2_regularization: Annotated[float, Field(ge=0, le=1e10), "L2 penalty on the values of leaves."] = 1.0
    calibration: Calibration = "auto"

    @property
    def n_iter_(self) -> int:
        """The rounds that the last fit took."""
        return int((self.model_.mean if self.regresses else self.model_).model.n_iter_)

    def _fit_calibrated(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.rounds_ = int(self.max_iter)
        self.max_leaf_nodes_ = self.max_leaf_nodes
        if self.max_leaf_nodes == "auto":
            self.max_leaf_nodes_ = next((leaves for rows, leaves in _LEAVES if len(X) <= rows), _LARGE_LEAVES)
        if self.regresses:
            self._fit_numbers(X, codes, weights)
        else:
            super()._fit_calibrated(X, codes, weights)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        grown = next(self.grown(X, codes, weights, [self.rounds_]))
        return replace(self.model_, mean=grown) if self.regresses else grown  # a refit keeps what residuals said

    def _fit_numbers(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """The mean, and from its cross-fitted residuals the spread, or none if one for all rows is as likely."""
        if len(X) == 1:
            raise Invalid.at("", "one sample shows no errors; boosting of numbers needs two rows")
        if np.abs(y).max() > SINGLE / 4:
            raise Invalid.at("", f"numbers must be at most {SINGLE / 4:.1g} in magnitude; use a larger unit")
        folds = min(len(X), _FOLDS if len(X) > _FEW else 2 * _FOLDS)
        fold = stratified_folds(np.zeros(len(X), dtype=np.intp), folds, self._seed()).astype(np.int8)
        with part(0.0, 0.6, "mean"):
            mean, unseen, self.rounds_ = self._cross_fitted(Dealt(X, y, weights, fold), {})
        residuals = y - unseen
        typical = float(np.average(np.abs(residuals), weights=weights)) or 1.0
        size = np.maximum(np.abs(residuals) / typical, _LEAST_SPREAD)
        with part(0.6, 1.0, "spread"):
            own = _SPREAD | {"min_samples_leaf": 2 * int(self.min_samples_leaf)}
            spread, found, _ = self._cross_fitted(Dealt(X, size, weights, fold), own)
        found = np.maximum(found, _LEAST_SPREAD)
        if _unlikely(found, size) @ weights >= _unlikely(np.average(size, weights=weights), size) @ weights:
            spread, found = None, np.ones(len(X))
        floor = 0.0 if y.min() >= 0 else -np.inf
        self.model_ = Residuals(mean, spread, _LEAST_SPREAD, thinned(residuals / found, weights), floor)

    def _cross_fitted(self, dealt: Dealt, own: Mapping[str, Any]) -> tuple[Any, np.ndarray, int]:
        """The model of numbers, each row's number (n,) by a model that did not see it, and the rounds of least loss on
        these: the squared error, or of sizes (with parameters of their `own`) that of the gamma distribution.
        """
        folds, stages = int(dealt.fold.max()) + 1, self._stages()
        values = np.empty((len(stages), len(dealt.X)))
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(self._seeded().fold_stages)(*dealt, number, folds, stages, own) for number in range(folds)
        )
        for number, found in enumerate(fits):
            values[:, dealt.fold == number] = found
        loss = _unlikely(values, dealt.codes) if own else np.square(values - dealt.codes)
        best = int(np.argmin(loss @ dealt.weights))
        return next(self.grown(*dealt.without(ALL), [stages[best]], own)), values[best], stages[best]

    def _stages(self) -> list[int]:
        found: list[int] = np.unique(np.ceil(_STAGES * int(self.max_iter)).astype(int)).tolist()
        return found

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        stages = self._stages()
        P: np.ndarray = np.empty((len(stages), len(dealt.X), len(self.classes_)), dtype=np.float32)
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(self._seeded().fold_stages)(*dealt, number, folds, stages) for number in range(folds)
        )
        for number, scores in enumerate(fits):
            P[:, dealt.fold == number] = scores
            report((number + 1) / (folds + 1), stage_name(number, folds))
        best = int(np.argmin([self._loss(scores, dealt) for scores in P]))
        self.rounds_ = stages[best]
        with part(folds / (folds + 1), 1.0, stage_name(folds, folds)):
            self.model_ = self._fit_raw(*dealt.without(ALL))
        return np.asarray(P[best], dtype=np.float64)

    def fold_stages(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, number: int, folds: int,
        stages: Sequence[int], own: Mapping[str, Any] = MappingProxyType({}),
    ) -> np.ndarray:  # fmt: skip
        """Probabilities (stages, rows, K), or numbers (stages, rows), of the rows of a fold by a model without them,
        after each of `stages` rounds.

        Probabilities as float32: all stages of all rows are in memory together, and calibration does not see the
        difference.
        """
        dealt = Dealt(X, codes, weights, fold)
        rows = np.ascontiguousarray(dealt.only(number))
        with part(number / (folds + 1), (number + 1) / (folds + 1), stage_name(number, folds)):
            grown = self.grown(*dealt.without(number), stages, own)
            if self.regresses:
                return np.stack([boosted.values(rows) for boosted in grown])
            scores: np.ndarray = np.stack([boosted.posterior(rows).astype(np.float32) for boosted in grown])
            return scores

    def _loss(self, P: np.ndarray, dealt: Dealt) -> float:
        """The log loss of unseen rows' probabilities (n, K) once they are calibrated: what too many rounds leave."""
        judged = dealt.fold != UNJUDGED
        P, codes, weights = P[judged].astype(np.float64), dealt.codes[judged], dealt.weights[judged]
        calibrator = scikit().fit_calibrator(self.calibration_, P, codes, weights)
        return float(weights @ log_losses(calibrator.apply(P), codes))

    def grown(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, rounds: Sequence[int],
        own: Mapping[str, Any] = MappingProxyType({}),
    ) -> Iterator[Any]:  # fmt: skip
        """The same model (`Boosted`) after each of so many rounds, with parameters of its `own`; arguments as for
        `_fit_raw`.
        """
        names = ("learning_rate", "min_samples_leaf", "l2_regularization", "random_state")
        parameters = {name: getattr(self, name) for name in names} | {"max_leaf_nodes": self.max_leaf_nodes_, **own}
        found: Iterator[Any] = scikit().boosted_trees.grown(parameters, self.categorical(), X, codes, weights, rounds)
        return found


def _unlikely(found: np.ndarray | float, sizes: np.ndarray) -> np.ndarray:
    """Minus the log-likelihood of each of some sizes, by an exponential law of the mean `found`; but for constants."""
    return np.asarray(np.log(found) + sizes / found)
