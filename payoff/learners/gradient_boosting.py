"""scikit-learn's histogram gradient boosting on raw rows, cost-blind."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from joblib import Parallel, delayed
from pydantic import Field

from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.base import ALL, SINGLE, Dealt, Learner, stage_name
from payoff.learners.parameters import Calibration, Task
from payoff.learners.residuals import Residuals, thinned
from payoff.learners.unseen import log_losses
from payoff.progress import part, report

# Leaves of a tree by the number of rows: benefit realised on seven UCI tables,
# benchmarks/defaults.py.
_LEAVES = ((1500, 8), (10_000, 16))
_LARGE_LEAVES = 31
_AUTO_LEAVES = (
    ", ".join(f"{leaves} up to {rows:,} rows" for rows, leaves in _LEAVES)
    + f", then {_LARGE_LEAVES}"
)
_FOLDS = 5
_FEW = 5000  # rows that more folds are worth: with a fifth less, residuals are clearly larger than the model's own
_LEAST_SPREAD = 0.1  # of a row, as a part of the mean one
_SPREAD = {
    "loss": "gamma",
    "max_leaf_nodes": 4,
}  # how large errors are takes more rows than the mean
# Rounds after which a fit may end, as parts of `max_iter`: finer steps gained nothing on the UCI
# tables.
_STAGES = np.array([0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0])


class GradientBoosting(Learner):
    """Gradient boosted trees on histograms, cost-blind; takes missing values and categories without
    preparation; of numbers it knows the distribution.

    scikit-learn's HistGradientBoostingClassifier or HistGradientBoostingRegressor. The rounds are
    those of the smallest calibrated log loss on the folds of the calibration, of numbers of the
    least squared error, and `max_iter` without folds: rows, parameters and seed decide the model.
    Of a categorical feature with more than 255 categories the 254 most common stay apart and the
    others count as one (scikit-learn would refuse it). The distribution of a number is the mean
    plus the residuals of rows that it did not see, divided by a boosted spread where that makes
    them more alike (split-conformal, by cross-fitting). Fitted, besides `Learner`'s: `n_iter_`.

    A fit takes five fits of `max_iter` rounds on four fifths of the rows, and one of `n_iter_`; of
    numbers twice as many, up to 5,000 rows with ten folds in place of five. A row takes
    scikit-learn 0.7 ms at 100 trees, 3 ms at 500, and 1 ms more with categories: its trees have no
    public form that a quicker walk could use.
    """

    name: ClassVar = "gradient_boosting"
    # Boosting is overconfident: on six of the UCI tables, whole and cut to 150 rows (smallest class
    # 4 to 247), the sigmoid lowered held-out log loss every time, by 15 to 40 %, and beat isotonic
    # nearly always.
    _fewest: ClassVar = 4
    tasks: ClassVar = ("classification", "regression")

    task: Task = None
    max_iter: Annotated[
        int, Field(ge=1, le=10_000), "Boosting rounds, at most; each has a tree per class."
    ] = 200
    learning_rate: Annotated[float, Field(gt=0, le=10), "Shrinkage of each round."] = 0.1
    max_leaf_nodes: Annotated[
        Annotated[int, Field(ge=2)] | Literal["auto"] | None,
        f"Maximum number of leaves of a tree; auto is {_AUTO_LEAVES}.",
    ] = "auto"
    min_samples_leaf: Annotated[int, Field(ge=1), "Minimum number of rows in a leaf."] = 10
    l2_regularization: Annotated[
        float, Field(ge=0, le=1e10), "L2 penalty on the values of leaves."
    ] = 1.0
    calibration: Calibration = "auto"

    def _fit_calibrated(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> None:
        self.n_iter_ = int(self.max_iter)
        self.max_leaf_nodes_ = self.max_leaf_nodes
        if self.max_leaf_nodes == "auto":
            self.max_leaf_nodes_ = next(
                (leaves for rows, leaves in _LEAVES if len(X) <= rows), _LARGE_LEAVES
            )
        if self.regresses:
            self._fit_numbers(X, codes, weights)
        else:
            super()._fit_calibrated(X, codes, weights)

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        grown = next(self.grown(X, codes, weights, [self.n_iter_]))
        return (
            replace(self.model_, mean=grown) if self.regresses else grown
        )  # a refit keeps what residuals said

    def _fit_numbers(self, X: np.ndarray, y: np.ndarray, weights: np.ndarray) -> None:
        """The mean, and from its cross-fitted residuals the spread, or none if one for all rows is
        as likely.
        """
        if len(X) == 1:
            raise Invalid.at("", "one sample shows no errors; boosting of numbers needs two rows")
        if np.abs(y).max() > SINGLE / 4:
            raise Invalid.at(
                "", f"numbers must be at most {SINGLE / 4:.1g} in magnitude; use a larger unit"
            )
        folds = min(len(X), _FOLDS if len(X) > _FEW else 2 * _FOLDS)
        fold = stratified_folds(np.zeros(len(X), dtype=np.intp), folds, self._seed()).astype(
            np.int8
        )
        with part(0.0, 0.6, "mean"):
            mean, unseen, self.n_iter_ = self._cross_fitted(
                Dealt(X, y, weights, fold), folds, _squared
            )
        residuals = y - unseen
        typical = float(np.average(np.abs(residuals), weights=weights)) or 1.0
        size = np.maximum(np.abs(residuals) / typical, _LEAST_SPREAD)
        with part(0.6, 1.0, "spread"):
            own = _SPREAD | {"min_samples_leaf": 2 * int(self.min_samples_leaf)}
            sizes = Dealt(X, size, weights, fold)
            spread, found, _ = self._cross_fitted(sizes, folds, _unlikely, **own)
        found = np.maximum(found, _LEAST_SPREAD)
        if _unlikely(found, sizes) >= _unlikely(float(np.average(size, weights=weights)), sizes):
            spread, found = None, np.ones(len(X))
        floor = 0.0 if y.min() >= 0 else -np.inf
        self.model_ = Residuals(
            mean, spread, _LEAST_SPREAD, thinned(residuals / found, weights), floor
        )

    def _fit_folds(self, dealt: Dealt, folds: int) -> np.ndarray:
        self.model_, P, self.n_iter_ = self._cross_fitted(dealt, folds, self._loss)
        return P.astype(np.float64)

    def _loss(self, P: np.ndarray, dealt: Dealt) -> float:
        """The log loss of unseen rows' probabilities (n, K) once they are calibrated: what too many
        rounds leave.
        """
        judged = dealt.fold != UNJUDGED
        P, codes, weights = P[judged].astype(np.float64), dealt.codes[judged], dealt.weights[judged]
        calibrator = loading.scikit.fit_calibrator(self.calibration_, P, codes, weights)
        return float(weights @ log_losses(calibrator.apply(P), codes))

    def _cross_fitted(
        self, dealt: Dealt, folds: int, judge: Callable[[np.ndarray, Dealt], float], **own: Any
    ) -> tuple[Any, np.ndarray, int]:
        """The model of all rows, each row's answer by a model that did not see it, and their
        rounds: those with which these answers, as the `judge` has it, lose least. With parameters
        of their `own`.
        """
        stages = np.unique(np.ceil(_STAGES * int(self.max_iter)).astype(int)).tolist()
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(self.seeded().fold_stages)(*dealt, number, folds, stages, **own)
            for number in range(folds)
        )
        answers: np.ndarray = np.zeros(0)
        for number, found in enumerate(fits):
            if number == 0:
                answers = np.zeros((len(stages), len(dealt.X), *found.shape[2:]), dtype=found.dtype)
            answers[:, dealt.fold == number] = found
            report((number + 1) / (folds + 1), stage_name(number, folds))
        best = int(np.argmin([judge(each, dealt) for each in answers]))
        with part(folds / (folds + 1), 1.0, stage_name(folds, folds)):
            model = next(self.grown(*dealt.without(ALL), [stages[best]], **own))
        return model, answers[best], stages[best]

    def fold_stages(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray, fold: np.ndarray, number: int, folds: int,
        stages: Sequence[int], **own: Any,
    ) -> np.ndarray:  # fmt: skip
        """Probabilities (stages, rows, K), or numbers (stages, rows), of the rows of a fold by a
        model without them, after each of `stages` rounds.

        Probabilities as float32: all stages of all rows are in memory together, and calibration
        does not see the difference.
        """
        dealt = Dealt(X, codes, weights, fold)
        rows = np.ascontiguousarray(dealt.only(number))
        with part(number / (folds + 1), (number + 1) / (folds + 1), stage_name(number, folds)):
            grown = self.grown(*dealt.without(number), stages, **own)
            if self.regresses:
                return np.stack([boosted.values(rows) for boosted in grown])
            return np.stack([boosted.posterior(rows).astype(np.float32) for boosted in grown])

    def grown(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        rounds: Sequence[int],
        **own: Any,
    ) -> Iterator[Any]:
        """The same model (`Boosted`) after each of so many rounds, with parameters of its `own`;
        arguments as for `_fit_raw`.
        """
        names = ("learning_rate", "min_samples_leaf", "l2_regularization", "random_state")
        parameters = {name: getattr(self, name) for name in names} | {
            "max_leaf_nodes": self.max_leaf_nodes_,
            **own,
        }
        return loading.scikit.boosted_trees.grown(
            parameters, self.categorical(), X, codes, weights, rounds
        )


def _squared(found: np.ndarray, dealt: Dealt) -> float:
    """The sum of squared errors."""
    return float(np.square(found - dealt.codes) @ dealt.weights)


def _unlikely(found: np.ndarray | float, sizes: Dealt) -> float:
    """Minus the log-likelihood of some sizes, by exponential laws of the means `found`; but for
    constants.
    """
    return float((np.log(found) + sizes.codes / found) @ sizes.weights)
