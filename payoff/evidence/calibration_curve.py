"""The calibration curve: how often a class occurred among rows of about the same probability."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.decisions.row_weights import effective_total
from payoff.evidence.intervals import wilson

_MOST_BINS = 10


def calibration_curve(
    P: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    groups: np.ndarray | None = None,
) -> Iterator[dict[str, Any]]:
    """The mean probability `stated` and the share that `occurred`, of the rows of each bin.

    Probabilities P (n, K) of rows of true classes y (n,), in 0…K-1, with positive `weights` (n,):
    of two classes those of the second, of more the largest of each row. Bins have about as many
    rows each, at least about `MIN_ROWS_TO_COMPARE`, and are at most `_MOST_BINS`; rows of equal
    probability share a bin.

    `rows` counts rows, and `interval` is Wilson's 95 % interval of the share, for Kish's effective
    number of rows, or of whole `groups` (n,) of rows that may depend on each other. By the
    probability; without rows none. O(n log n).
    """
    n, K = P.shape
    classes = np.ones(n, dtype=np.intp) if K == 2 else P.argmax(axis=1)
    stated = P[np.arange(n), classes]
    bins = min(max(n // MIN_ROWS_TO_COMPARE, 1), _MOST_BINS)
    edges = np.sort(stated)[n * np.arange(1, bins) // bins]
    place = np.searchsorted(edges, stated, side="right")
    for bin_of_rows in np.unique(place):
        rows = np.flatnonzero(place == bin_of_rows)
        w = weights[rows]
        share = float(np.average((y == classes)[rows], weights=w))
        independent = w if groups is None else np.bincount(groups[rows], w)
        yield {
            "rows": len(rows),
            "stated": float(np.average(stated[rows], weights=w)),
            "occurred": share,
            "interval": wilson(share, round(effective_total(independent))),
        }
