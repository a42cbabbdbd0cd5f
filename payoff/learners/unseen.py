"""Choose models, preparations, calibrations by the log loss of rows that a fit did not see."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from payoff.decisions.calibration import MIN_ROWS_OF_CURVE
from payoff.decisions.folds import Blocks, stratified_folds
from payoff.decisions.row_weights import effective_rows
from payoff.learners import loading

_Name = TypeVar("_Name")
_FOLDS = 5
# Rows times classes that are enough to choose by: it takes at most about two seconds.
_ENOUGH_CELLS = 30_000
# A calibration replaces another whose loss is greater by so many standard errors: with none or one
# the choice followed noise, with two it gave away half of the gain.
_CLEAR = 1.5
# The probability below which an error counts as no worse: one row must not decide a choice.
_FLOOR = 1e-6


def unseen(
    fold: np.ndarray,
    n_classes: int,
    fit_and_predict: Callable[[int, np.ndarray, np.ndarray], np.ndarray],
) -> np.ndarray:
    """Probabilities (n, K) of each row by a model without its fold; zeros for rows in no fold.

    `fold` (n,) is of `stratified_folds`, so that every model knows every class. `fit_and_predict`
    takes a fold's number and the masks (n,) of the rows to learn from and to predict; it returns
    the probabilities of the rows to predict.
    """
    P = np.zeros((len(fold), n_classes))
    for number in range(int(fold.max()) + 1):
        outside = fold == number
        P[outside] = fit_and_predict(number, ~outside, outside)
    return P


def calibrated_unseen(
    method: str,
    P: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    fold: np.ndarray,
    resolution: float = 0.0,
) -> np.ndarray:
    """P (n, K), each row calibrated by a calibration that was fitted without its fold (n,).

    Arguments as of `fit_calibrator`; the method `none` leaves P as it is.
    """

    def fit_and_predict(_: int, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        if method == "none":
            return P[outside]
        calibrator = loading.scikit.fit_calibrator(
            method, P[inside], codes[inside], weights[inside], resolution
        )
        return calibrator.apply(P[outside])

    return unseen(fold, P.shape[1], fit_and_predict)


def log_losses(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The log loss (n,) of each row with probabilities P (n, K) and true classes (n,)."""
    return minus_logs(P[np.arange(len(P)), codes])


def minus_logs(p: np.ndarray) -> np.ndarray:
    """The log losses (n,) of rows whose true classes have the probabilities p (n,)."""
    return -np.log(np.maximum(p, _FLOOR))


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean of values (n,), and its standard error."""
    w = weights / weights.sum()
    mean = float(w @ values)
    return mean, float(np.sqrt((w**2) @ (values - mean) ** 2))


def near_best(values: Mapping[_Name, np.ndarray], weights: np.ndarray) -> list[_Name]:
    """The names, in their order, whose values (n,) have the largest mean, or nearly the largest.

    Nearly is at most one standard error of the paired difference less.
    """
    best = max(values, key=lambda name: mean_and_error(values[name], weights)[0])
    gaps = {
        name: mean_and_error(values[best] - x, weights) for name, x in values.items()
    }
    return [name for name, (gap, error) in gaps.items() if gap <= error]


def best_calibration(
    P: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    resolution: float = 0.0,
    *,
    may_leave: bool = True,
    blocks: Blocks | None = None,
) -> str:
    """`sigmoid`, or `isotonic` or `none` where it is clearly better; arguments as `fit_calibrator`.

    The first whose log loss no later one lowers by more than `_CLEAR` standard errors of the
    difference, on five folds of at most `_ENOUGH_CELLS` rows times classes, or a few rows of each
    class; with `blocks` the folds do not divide them. Isotonic curves need 20 rows of each class;
    `none` is tried with `may_leave`. The sigmoid comes first because with up to 1,000 rows of a
    class it was the best or as good on nearly all tables: see docs/explanation/defaults.md.
    """
    methods = ["sigmoid"]
    if effective_rows(weights, codes).min() >= MIN_ROWS_OF_CURVE:
        methods.append("isotonic")
    if may_leave:
        methods.append("none")
    best, *alternatives = methods
    if not alternatives:
        return best
    rows = _sample(codes)
    P, codes, weights = P[rows], codes[rows], weights[rows]
    fold = stratified_folds(
        codes, _FOLDS, 0, None if blocks is None else blocks.take(rows)
    )

    def losses(method: str) -> np.ndarray:
        # Rows in no fold have the same loss by every method.
        return log_losses(
            calibrated_unseen(method, P, codes, weights, fold, resolution), codes
        )

    least = losses(best)
    for method in alternatives:
        loss = losses(method)
        gain, error = mean_and_error(least - loss, weights)
        if gain > _CLEAR * error:
            best, least = method, loss
    return best


def _sample(codes: np.ndarray) -> np.ndarray:
    """The numbers of all rows, or of as many random ones as `_ENOUGH_CELLS` allow.

    Each class (codes (n,)) has its share of them, or all of its rows up to `MIN_ROWS_OF_CURVE`.
    """
    counts = np.bincount(codes)
    order = np.random.default_rng(0).permutation(len(codes))
    share = min(1.0, _ENOUGH_CELLS / (len(codes) * len(counts)))
    sizes = np.maximum(MIN_ROWS_OF_CURVE, counts * share).astype(np.intp)
    return np.concatenate(
        [order[codes[order] == k][:size] for k, size in enumerate(sizes)]
    )
