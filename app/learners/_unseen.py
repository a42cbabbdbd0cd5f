"""Compare ways to fit by rows that they did not see."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

_FLOOR = 1e-6  # probability below which an error counts as no worse: one row must not decide a choice


def unseen(
    fold: np.ndarray, n_classes: int, fitted: Callable[[int, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
) -> np.ndarray:
    """Probabilities (n, K) of each row in a fold, by a model without that fold; rows in no fold have zeros.

    `fold` (n,) holds 0, 1, …, or `UNJUDGED`. `fitted` takes a fold's number and the masks (n,) of the rows to learn
    from and to answer; it returns the classes that the model knows and its probabilities for the rows to answer.
    """
    P = np.zeros((len(fold), n_classes))
    for number in range(int(fold.max()) + 1):
        inside, outside = fold != number, fold == number
        classes, found = fitted(number, inside, outside)
        P[np.ix_(outside, classes)] = found
    return P


def log_losses(P: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The log loss (n,) of each row with probabilities P (n, K) and true classes (n,)."""
    losses: np.ndarray = -np.log(np.maximum(P[np.arange(len(P)), codes], _FLOOR))
    return losses


def mean_and_error(values: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The weighted mean of values (n,), and its standard error."""
    w = weights / weights.sum()
    mean = float(w @ values)
    return mean, float(np.sqrt((w**2) @ (values - mean) ** 2))


def near_best(values: Mapping[str, np.ndarray], weights: np.ndarray) -> list[str]:
    """The names, in their order, whose values (n,) have the largest mean, or one standard error less at most.

    The error is that of the paired difference.
    """
    best = max(values, key=lambda name: mean_and_error(values[name], weights)[0])
    gaps = {name: mean_and_error(values[best] - own, weights) for name, own in values.items()}
    return [name for name, (gap, error) in gaps.items() if gap <= error]
