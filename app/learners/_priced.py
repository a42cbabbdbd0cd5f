"""What stepwise learners earn on rows that they did not see, less the price of what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.acquisition.prices import Prices
from app.acquisition.stopping import Experience
from app.learners.stepwise import prices_of

_SIZES = np.geomspace(0.25, 64, 9)  # worth of a right class, in units of the price of all features
_CELLS = 2_000_000  # probabilities in memory together


def net_benefits(
    learner: Any,
    X: np.ndarray,
    codes: np.ndarray,
    feature_costs: Prices | Sequence[float] | None,
    B: np.ndarray | Sequence[Sequence[float]] | None,
) -> np.ndarray:
    """What each row of X (n, m) with its class in `codes` (n,) earns with benefits B (K, A), less what it is charged.

    Each row is asked as `/acquire` does, until more is not worth its price, by the `experience_` of the fitted
    `learner`, which has not seen these rows. Without B a right class is worth 1, and prices count in that unit: the
    mean over nine sizes of it, from a quarter of the price of all features to 64 times that.
    """
    priced, K = prices_of(feature_costs, X.shape[1]), len(learner.classes_)
    total = float(priced.cost.sum())
    sizes = total * _SIZES if B is None and total else np.ones(1)
    matrix = np.eye(K) if B is None else np.asarray(B, dtype=np.float64)
    known = learner.experience_
    worths = [None if known is None else known.worth(size * matrix, priced) for size in sizes]
    block = max(1, _CELLS // ((len(learner.model_.columns) + 1) * (K + matrix.shape[1])))
    earned = np.empty(len(X))
    for start in range(0, len(X), block):
        rows = slice(start, start + block)
        seen = _travelled(learner, X[rows], codes[rows], priced)
        stake, now = seen.valued(matrix)
        everyone, most = np.arange(len(seen)), matrix.max(axis=1)[seen.y]
        found = []
        for size, worth in zip(sizes, worths, strict=True):
            ends, paid = seen.ends(worth, size * stake, priced)
            found.append(most + now[everyone, ends] - paid[everyone, ends] / size)
        earned[rows] = np.mean(found, axis=0)
    return earned


def _travelled(learner: Any, X: np.ndarray, codes: np.ndarray, prices: Prices) -> Experience:
    """The rows in every state to the end, with the probabilities that `/acquire` gives there."""
    run = learner.model_.travel(X, prices)
    n, states, K = run.P.shape
    known, ends = np.broadcast_to(np.arange(states), (n, states)), run.length[:, None]
    P = np.where((known <= ends)[:, :, None], run.P, 1 / K).reshape(-1, K)
    final = P if learner.calibrator_ is None else learner.calibrator_.apply(P)
    curve = None if learner.experience_ is None else learner.experience_.curve
    partly = final if curve is None else curve.apply(P, known.ravel().astype(np.float64))
    calibrated = np.where((known < ends).reshape(-1, 1), partly, final).reshape(run.P.shape)
    return Experience(run.asked, run.missing, run.length, calibrated, codes, None, X.shape[1])
