"""Row weights: of how many rows of the population a row stands for, as far as their ratios say.

Rules that ask for a number of rows count with Kish's effective number: a mean of rows with weights
w has about the variance of a mean of `(sum w)^2 / sum w^2` rows of equal weight.
Source: Kish, "Survey Sampling" (1965), section 11.7.
"""

import numpy as np

_LEAST = np.finfo(np.float64).tiny
_RANGE = (1e-100, 1e100)  # of weights: their squares are numbers, too
_FEWEST_EFFECTIVE = 2.0  # rows: a single one shows nothing


def effective_rows(
    weights: np.ndarray, groups: np.ndarray, size: int = 0
) -> np.ndarray:
    """Kish's effective number of rows of each group, float64 (K,), for weights >= 0 and codes (n,).

    There are at least `size` groups; one without weight has 0. Where all weights of a group are
    equal it is exactly the number of its rows. O(n).
    """
    largest = np.full(max(size, int(groups.max(initial=-1)) + 1), _LEAST)
    np.maximum.at(largest, groups, weights)
    relative = weights / largest[groups]
    sums = np.bincount(groups, relative, size)
    squares = np.bincount(groups, relative**2, size)
    return np.asarray(sums**2 / np.maximum(squares, 1.0))


def effective_total(weights: np.ndarray) -> float:
    """Kish's effective number of rows of weights >= 0 (n,); 0 without weight."""
    return float(effective_rows(weights, np.zeros(len(weights), dtype=np.intp), 1)[0])


def flaw_of_weights(weights: np.ndarray) -> tuple[np.ndarray, str] | None:
    """The rows whose weights of (n,) cannot be used, and why; None where all can.

    A weight is missing, not positive, or of another magnitude than `_RANGE`; or one row has nearly
    all weight.
    """
    least, largest = _RANGE
    rows = np.flatnonzero(~((weights >= least) & (weights <= largest)))
    if len(rows):
        first = weights[rows[0]]
        wrong = "it is missing, or text" if np.isnan(first) else f"it is {first:g}"
        message = f"a weight is a number from {least:g} to {largest:g}, and {wrong}"
        return rows, f"{message}; leave out rows that do not count"
    if effective_total(weights) < min(_FEWEST_EFFECTIVE, len(weights)):
        return np.array([weights.argmax()]), "nearly all weight is on this row"
    return None


def evenly(weights: np.ndarray, count: int) -> np.ndarray:
    """The positions of `count` rows spread over all of them, which may be sorted: with unequal
    weights (n,) each as often as its weight says. O(n).
    """
    if np.ptp(weights) == 0:
        return np.linspace(0, len(weights) - 1, count).astype(np.intp)
    sums = weights.cumsum()
    places = np.linspace(0, sums[-1], count, endpoint=False)
    return np.asarray(np.searchsorted(sums, places, side="right"))


def normalised(weights: np.ndarray) -> np.ndarray:
    """Positive weights (n,) with the mean 1; equal ones are exactly 1."""
    relative = weights / weights.max()
    return np.asarray(relative / relative.mean())
