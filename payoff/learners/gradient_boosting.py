"""scikit-learn's histogram gradient boosting on raw rows, cost-blind."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from joblib import Parallel, delayed
from pydantic import Field

from payoff.decisions.folds import UNJUDGED, Blocks, stratified_folds
from payoff.errors import Invalid
from payoff.learners import loading
from payoff.learners.base import Learner
from payoff.learners.monotonic import Monotonic
from payoff.learners.parameters import Calibration, Task
from payoff.learners.residuals import Residuals, even_quantiles
from payoff.learners.rows import ALL, SINGLE, FoldedRows, stage_name
from payoff.learners.unseen import log_losses
from payoff.progress import part, report

# Leaves of a tree by the number of rows: the best realised benefit on seven UCI tables, see
# benchmarks/defaults.py.
_LEAVES = ((1500, 8), (10_000, 16))
_LARGE_LEAVES = 31
_STEPS = ", ".join(f"{leaves} up to {rows:,} rows" for rows, leaves in _LEAVES)
_AUTO_LEAVES = f"{_STEPS}, then {_LARGE_LEAVES}"
_FOLDS = 5
# Up to so many rows, numbers have twice as many folds: the residuals of a model that was fitted on
# a fifth of the rows less are clearly larger than those of the model of all rows.
_MAX_ROWS_OF_MORE_FOLDS = 5000
_NO_ERRORS = (
    "one sample shows no errors: numbers need two rows, of two groups or moments where these are"
    " given"
)
_LEAST_SPREAD = 0.1  # the least spread of a row, as a part of the mean spread
# Small trees, as the size of errors takes more rows to learn than the mean.
_SPREAD_PARAMETERS = {"loss": "gamma", "max_leaf_nodes": 4, "monotonic_cst": None}
# Parts of `max_iter` after which a fit may end: finer steps gained nothing on the UCI tables.
_STAGES = np.array([0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0])


class GradientBoosting(Learner):
    """Gradient boosted trees on histograms, cost-blind; takes missing values and categories without
    preparation; of numbers it knows the distribution.

    scikit-learn's HistGradientBoostingClassifier or HistGradientBoostingRegressor. The rounds are
    those of the smallest calibrated log loss on the folds of the calibration, of numbers of the
    least squared error, and `max_iter` without folds: rows, parameters and seed decide the model.
    Of a categorical feature with more than 255 categories the 254 most common stay apart and the
    others count as one (scikit-learn would refuse it). `monotonic`: columns with which the number,
    or the probability of the second of two classes, only rises (`up`) or falls (`down`). The
    distribution of a number is the mean plus the residuals of rows that it did not see, divided by
    a boosted spread where that makes them more alike (split-conformal, by cross-fitting). Fitted,
    besides `Learner`'s: `n_iter_`.

    A fit takes five fits of `max_iter` rounds on four fifths of the rows, and one of `n_iter_`; of
    numbers twice as many, up to 5,000 rows with ten folds in place of five. A row takes
    scikit-learn 0.7 ms at 100 trees, 3 ms at 500, and 1 ms more with categories: its trees have no
    public form that a quicker walk could use.
    """

    name: ClassVar = "gradient_boosting"
    # Boosting is overconfident: on six of the UCI tables, whole and cut to 150 rows (smallest class
    # 4 to 247), the sigmoid lowered held-out log loss every time, by 15 to 40 %, and beat isotonic
    # nearly always.
    _min_rows_to_calibrate: ClassVar = 4
    tasks: ClassVar = ("classification", "regression")

    task: Task = None
    max_iter: Annotated[
        int,
        Field(ge=1, le=10_000),
        "Boosting rounds, at most; each has a tree per class.",
    ] = 200
    learning_rate: Annotated[float, Field(gt=0, le=10), "Shrinkage of each round."] = (
        0.1
    )
    max_leaf_nodes: Annotated[
        Annotated[int, Field(ge=2)] | Literal["auto"] | None,
        f"Maximum number of leaves of a tree; auto is {_AUTO_LEAVES}.",
    ] = "auto"
    min_samples_leaf: Annotated[
        int, Field(ge=1), "Minimum number of rows in a leaf."
    ] = 10
    l2_regularization: Annotated[
        float, Field(ge=0, le=1e10), "L2 penalty on the values of leaves."
    ] = 1.0
    calibration: Calibration = "auto"
    monotonic: Monotonic = None

    def _check(self) -> None:
        self.signs(self.n_features_in_, 0 if self.regresses else len(self.classes_))

    def _prepare(self, X: np.ndarray, *_: np.ndarray) -> None:
        self.n_iter_ = int(self.max_iter)
        self.max_leaf_nodes_ = self.max_leaf_nodes
        if self.max_leaf_nodes == "auto":
            self.max_leaf_nodes_ = next(
                (leaves for rows, leaves in _LEAVES if len(X) <= rows), _LARGE_LEAVES
            )

    def _fit_calibrated(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> None:
        if self.regresses:
            self._cross_fit(X, codes, weights)
        else:
            super()._fit_calibrated(X, codes, weights)

    def _cross_fit(
        self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray
    ) -> np.ndarray:
        if not self.regresses:
            return super()._cross_fit(X, codes, weights)
        rows, folds = in_folds(X, codes, weights, self._seed(), self.blocks)
        with part(0.0, 0.6, "mean"):
            mean, unseen, self.n_iter_ = self._cross_fitted(rows, folds, _squared)
        with part(0.6, 1.0, "spread"):
            self.model_ = self.around(mean, unseen, rows, folds)
        return unseen[:, None]

    def _fit_raw(self, X: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> Any:
        model = next(self.grow(X, codes, weights, [self.n_iter_]))
        # A refit of numbers keeps the distribution of the residuals.
        return replace(self.model_, mean=model) if self.regresses else model

    def around(
        self, mean: Any, unseen: np.ndarray, rows: FoldedRows, folds: int
    ) -> Residuals:
        """The distribution around a mean, from its values (n,) for rows that it did not see.

        The spread is boosted; it is None, one for all rows, where that is as likely.
        """
        y, weights = rows.codes, rows.weights
        residuals = y - unseen
        typical = float(np.average(np.abs(residuals), weights=weights)) or 1.0
        sizes = np.maximum(np.abs(residuals) / typical, _LEAST_SPREAD)
        errors = rows._replace(codes=sizes)
        parameters = _SPREAD_PARAMETERS | {
            "min_samples_leaf": 2 * int(self.min_samples_leaf)
        }
        spread, spreads, _ = self._cross_fitted(errors, folds, _unlikely, **parameters)
        spreads = np.maximum(spreads, _LEAST_SPREAD)
        constant = float(np.average(sizes, weights=weights))
        if _unlikely(spreads, errors) >= _unlikely(constant, errors):
            spread = None
            spreads = np.ones(len(y))
        floor = 0.0 if y.min() >= 0 else -np.inf
        scaled = even_quantiles(residuals / spreads, weights)
        return Residuals(mean, spread, _LEAST_SPREAD, scaled, floor)

    def _fit_folds(self, rows: FoldedRows, folds: int) -> np.ndarray:
        self.model_, P, self.n_iter_ = self._cross_fitted(rows, folds, self._loss)
        return P.astype(np.float64)

    def _loss(self, P: np.ndarray, rows: FoldedRows) -> float:
        """The log loss of unseen rows' probabilities P (n, K) once they are calibrated.

        So rounds are not judged by an overconfidence that the calibration takes away.
        """
        held_out = rows.fold != UNJUDGED
        P = P[held_out].astype(np.float64)
        codes, weights = rows.codes[held_out], rows.weights[held_out]
        calibrator = loading.scikit.fit_calibrator(self.calibration_, P, codes, weights)
        return float(weights @ log_losses(calibrator.apply(P), codes))

    def _cross_fitted(
        self,
        rows: FoldedRows,
        folds: int,
        criterion: Callable[[np.ndarray, FoldedRows], float],
        **parameters: Any,
    ) -> tuple[Any, np.ndarray, int]:
        """The model of all rows, each row's prediction by a model that did not see it, the rounds.

        The rounds are those with which these predictions have the least `criterion`. `parameters`
        come before those of the learner.
        """
        stages = np.unique(np.ceil(_STAGES * int(self.max_iter)).astype(int)).tolist()
        fits = Parallel(prefer="threads", return_as="generator")(
            delayed(self.seeded().fold_stages)(
                *rows, number, folds, stages, **parameters
            )
            for number in range(folds)
        )
        unseen: np.ndarray = np.zeros(0)
        for number, predictions in enumerate(fits):
            if number == 0:
                shape = len(stages), len(rows.X), *predictions.shape[2:]
                unseen = np.zeros(shape, dtype=predictions.dtype)
            unseen[:, rows.fold == number] = predictions
            report((number + 1) / (folds + 1), stage_name(number, folds))
        best = int(np.argmin([criterion(predictions, rows) for predictions in unseen]))
        with part(folds / (folds + 1), 1.0, stage_name(folds, folds)):
            model = next(self.grow(*rows.without(ALL), [stages[best]], **parameters))
        return model, unseen[best], stages[best]

    def fold_stages(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        fold: np.ndarray,
        number: int,
        folds: int,
        stages: Sequence[int],
        **parameters: Any,
    ) -> np.ndarray:
        """Predictions of the rows of fold `number` by a model without them, after `stages` rounds.

        Probabilities (stages, rows, K), or numbers (stages, rows). Probabilities are float32: all
        stages of all rows are in memory together, and calibration does not see the difference.
        """
        rows = FoldedRows(X, codes, weights, fold)
        inside = np.ascontiguousarray(rows.only(number))
        with part(
            number / (folds + 1), (number + 1) / (folds + 1), stage_name(number, folds)
        ):
            models = self.grow(*rows.without(number), stages, **parameters)
            if self.regresses:
                return np.stack([model.values(inside) for model in models])
            return np.stack(
                [model.posterior(inside).astype(np.float32) for model in models]
            )

    def grow(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray,
        rounds: Sequence[int],
        **parameters: Any,
    ) -> Iterator[Any]:
        """The same model (`Boosted`) after each number of `rounds`; arguments as for `_fit_raw`.

        `parameters` come before those of the learner.
        """
        names = (
            "learning_rate",
            "min_samples_leaf",
            "l2_regularization",
            "random_state",
        )
        defaults = {name: getattr(self, name) for name in names}
        if self.monotonic:
            defaults["monotonic_cst"] = self.signs(X.shape[1])
        if "max_leaf_nodes" not in parameters:
            defaults["max_leaf_nodes"] = self.max_leaf_nodes_
        return loading.scikit.boosted_trees.grow(
            defaults | parameters, self.categorical(), X, codes, weights, rounds
        )


def in_folds(
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    seed: int,
    blocks: Blocks | None,
) -> tuple[FoldedRows, int]:
    """Rows whose numbers are to be cross-fitted, in folds, and the number of folds.

    Invalid where nothing can be held out, or for numbers that single precision cannot hold.
    """
    largest = SINGLE / 4
    if np.abs(y).max() > largest:
        message = (
            f"numbers must be at most {largest:.1g} in magnitude; use a larger unit"
        )
        raise Invalid.at("", message)
    folds = min(len(X), _FOLDS if len(X) > _MAX_ROWS_OF_MORE_FOLDS else 2 * _FOLDS)
    fold = stratified_folds(np.zeros(len(X), dtype=np.intp), folds, seed, blocks)
    if blocks is not None:
        folds = int(fold.max()) + 1
    if folds < 2:
        raise Invalid.at("", _NO_ERRORS)
    return FoldedRows(X, y, weights, fold.astype(np.int8)), folds


def _squared(predictions: np.ndarray, rows: FoldedRows) -> float:
    """The sum of squared errors of predictions (n,)."""
    return float(np.square(predictions - rows.codes) @ rows.weights)


def _unlikely(means: np.ndarray | float, errors: FoldedRows) -> float:
    """Minus the log-likelihood of sizes of errors by exponential laws of `means`; no constants."""
    return float((np.log(means) + errors.codes / means) @ errors.weights)
