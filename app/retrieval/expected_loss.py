"""The expected loss of retrieving the first k items, for every k at once, by the method that suits the size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from app.errors import Invalid
from app.retrieval import _dynamic_programming
from app.retrieval.fractional_linear import check_monotone, denominator
from app.retrieval.losses import Loss, check_empty
from app.retrieval.probabilities import check_probabilities
from app.retrieval.quadrature import BY_QUADRATURE, UNIT, Curve
from app.retrieval.windows import MeanOfRates

# Up to this many items dynamic programming, O(n³/6) on tabled losses, beats the quadrature's O(nodes n), for one set:
# both take some 30 microseconds here, most of it outside the kernels (benchmarks/retrieval_speed.py, "change-over").
DP_LIMIT = 32

MEANS = {"g_mean": False, "h_mean": True}  # whether harmonic


def expected_losses(p: ArrayLike, loss: Loss, *, empty: int = 0) -> Curve:
    """L_0 … L_n: the expected loss of retrieving the first k of n independent items, in the order given.

    p: (n,) probabilities of being relevant. The curve has n + 1 entries, `error` bounds the error of each. Up to
    DP_LIMIT items O(n³), then O(n) with 50 to 100 nodes (G-Mean and H-Mean O(n), some microseconds per k). Invalid
    where a probability is not within [0, 1] (`/3`), or at `/loss` and `/empty`. The methods: `quadrature`, `windows`.
    """
    p = check_probabilities(p)
    check_usable(loss, len(p))
    return curve_of(p, loss, check_empty(empty))


def curve_of(p: np.ndarray, loss: Loss, empty: int) -> Curve:
    """`expected_losses` for arguments that are checked."""
    if len(p) <= DP_LIMIT:
        curve = tabled_curve(p, loss, empty)
    elif loss.name in MEANS:
        curve = MeanOfRates(p, harmonic=MEANS[loss.name]).curve()
    else:
        curve = BY_QUADRATURE[loss.name](p, loss, empty)
    if loss.name == "fractional_linear":
        return curve
    return replace(curve, values=np.clip(curve.values, 0.0, 1.0))  # all other losses are within [0, 1]


def check_usable(loss: Loss, n: int) -> None:
    """Invalid at `/loss` where the theory does not hold for this loss at n items."""
    if loss.name == "fractional_linear":
        try:
            check_monotone(loss, n)
        except Invalid as error:
            raise error.under("/loss") from None


def tabled_curve(p: np.ndarray, loss: Loss, empty: int) -> Curve:
    """Algorithm 1 of Natarajan et al. (2016) with all laws from one recursion: O(n³/6), for small n."""
    n = len(p)
    laws, curve = np.empty((2, n + 1, n + 1, 1)), np.empty((n + 1, 1))
    _dynamic_programming.tabled_curves(p[:, None], loss_table(loss, n, empty), laws[0], laws[1], curve)
    return Curve(curve[:, 0], table_error(loss, n))


def table_error(loss: Loss, n: int) -> float:
    """3 n u for the laws, (n + 1) u for the sums and a few for the loss itself, more where its denominator cancels."""
    if loss.name != "fractional_linear" or n == 0:
        return (8 * n + 16) * UNIT
    form = denominator(loss, n)
    return (8 * n + 16 + 8 * form.cancels) * UNIT * max(form.largest, 1.0)


@lru_cache(maxsize=128)
def loss_table(loss: Loss, n: int, empty: int) -> np.ndarray:
    """The loss at all feasible counts, as the kernels want it: for each k a block (tp, false negatives)."""
    return _table(n, lambda tp, k, positives: loss.of_counts(tp, k, positives, n, empty=empty))


@lru_cache(maxsize=128)
def recall_table(n: int) -> np.ndarray:
    """TPR at all feasible counts."""
    return _table(n, lambda tp, _k, positives: np.where(positives > 0, tp / np.maximum(positives, 1), 1.0))


def _table(n: int, of_counts: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> np.ndarray:
    blocks = []
    for k in range(n + 1):
        tp, fn = np.arange(k + 1)[:, None], np.arange(n - k + 1)[None, :]
        blocks.append(np.ravel(of_counts(tp, np.array([[k]]), tp + fn)))
    return np.concatenate(blocks)
