"""Decisions of recorded cases as if each was for itself, and none drawn."""

from __future__ import annotations

import numpy as np

from app.decisions.benefit import least
from app.usecases.outcome_report.slices import Slice


def best_actions(part: Slice, rows: np.ndarray, P: np.ndarray) -> np.ndarray:
    """The actions (n,) that `decide` takes for rows (n,) of a slice with the probabilities P (n, K); NaN pads these."""
    K = P.shape[1]
    regrets = np.einsum("nk,nka->an", np.where(np.isnan(P), 0.0, P), part.stack.losses[part.term[rows], :K])
    return least(regrets, K)


def undrawn_actions(part: Slice, rows: np.ndarray) -> np.ndarray:
    """The same by the probabilities of decisions for themselves: those chosen, but where another one was drawn."""
    best: np.ndarray = part.choice[rows]
    drawn = np.flatnonzero(part.propensity[rows] <= 0.5)  # the best action has a propensity above one half
    best[drawn] = best_actions(part, rows[drawn], part.P[rows[drawn]])
    return best
