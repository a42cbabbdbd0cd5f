"""Choose by the log loss of rows that a fit did not see: among models, preparations, calibrations."""

from collections.abc import Callable, Mapping

import numpy as np

from payoff.decisions.calibration import MIN_ROWS_OF_CURVE
from payoff.decisions.folds import stratified_folds
from payoff.learners import loading

_FOLDS = 5
_CELLS = 30_000  # rows times classes that are enough to choose by: at most two seconds or so
_CLEAR = 1.5  # standard errors: with none or one the choice followed noise, with two it gave away half of the gain
_FLOOR = (
    1e-6  # probability below which an error counts as no worse: one row must not decide a choice
)


def unseen(
    fold: np.ndarray, n_classes: int, answered: Callable[[int, np.ndarray, np.ndarray], np.ndarray]
) -> np.ndarray:
    """Probabilities (n, K) of each row in a fold, by a model without that fold; rows in no fold
    have zeros.

    `fold` (n,) is of `stratified_folds`, so that every model knows every class. `answered` takes a
    fold's number and the masks (n,) of the rows to learn from and to answer; it returns the
    probabilities of the rows to answer.
    """
    P = np.zeros((len(fold), n_classes))
    for number in range(int(fold.max()) + 1):
        inside, outside = fold != number, fold == number
        P[outside] = answered(number, inside, outside)
    return P


def calibrated_unseen(
    method: str,
    P: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    fold: np.ndarray,
    resolution: float = 0.0,
) -> np.ndarray:
    """P (n, K), of each row by a calibration that was fitted without its fold (n,); arguments as of
    `fit_calibrator`, or the method `none`.
    """

    def answered(_: int, inside: np.ndarray, outside: np.ndarray) -> np.ndarray:
        found: np.ndarray = P[outside]
        if method != "none":
            fitted = loading.scikit.fit_calibrator(
                method, P[inside], codes[inside], weights[inside], resolution
            )
            found = fitted.apply(found)
        return found

    return unseen(fold, P.shape[1], answered)


def log_losses(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The log loss (n,) of each row with probabilities P (n, K) and true classes (n,)."""
    return -np.log(np.maximum(P[np.arange(len(P)), codes], _FLOOR))


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean of values (n,), and its standard error."""
    w = weights / weights.sum()
    mean = float(w @ values)
    return mean, float(np.sqrt((w**2) @ (values - mean) ** 2))


def near_best(values: Mapping[str, np.ndarray], weights: np.ndarray) -> list[str]:
    """The names, in their order, whose values (n,) have the largest mean, or one standard error
    less at most.

    The error is that of the paired difference.
    """
    best = max(values, key=lambda name: mean_and_error(values[name], weights)[0])
    gaps = {name: mean_and_error(values[best] - own, weights) for name, own in values.items()}
    return [name for name, (gap, error) in gaps.items() if gap <= error]


def best_calibration(
    P: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray,
    resolution: float = 0.0,
    *,
    may_leave: bool = True,
) -> str:
    """`sigmoid`, or `isotonic` or `none` where these are clearly better; arguments as of
    `fit_calibrator`.

    The first whose log loss no later one lowers by more than `_CLEAR` standard errors of the
    difference, on five folds of some 30,000 rows times classes at most. Isotonic curves need 20
    rows of each class; `none` is among them with `may_leave`. The sigmoid comes first because with
    up to 1,000 rows of a class it was the best or as good on nearly all tables: see
    docs/explanation/defaults.md.
    """
    curves = ["isotonic"] if np.bincount(codes).min() >= MIN_ROWS_OF_CURVE else []
    best, *others = ["sigmoid", *curves, *(["none"] if may_leave else [])]
    if not others:
        return best
    some = _some(codes)
    P, codes, weights = P[some], codes[some], weights[some]
    fold = stratified_folds(codes, _FOLDS, 0)

    def losses(method: str) -> np.ndarray:  # of rows in no fold all the same
        return log_losses(calibrated_unseen(method, P, codes, weights, fold, resolution), codes)

    least = losses(best)
    for other in others:
        tried = losses(other)
        gain, error = mean_and_error(least - tried, weights)
        if gain > _CLEAR * error:
            best, least = other, tried
    return best


def _some(codes: np.ndarray) -> np.ndarray:
    """The numbers of all rows, or of as many random ones as `_CELLS` allow, of each class its share
    or a few.
    """
    counts = np.bincount(codes)
    order = np.random.default_rng(0).permutation(len(codes))
    shares = np.maximum(
        MIN_ROWS_OF_CURVE, counts * min(1.0, _CELLS / (len(codes) * len(counts)))
    ).astype(np.intp)
    return np.concatenate([order[codes[order] == k][:most] for k, most in enumerate(shares)])
