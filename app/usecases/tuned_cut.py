"""The tuned threshold: the best one on rows with known truth, to compare with exact retrieval."""

from __future__ import annotations

import numpy as np

from app.errors import Invalid
from app.retrieval.losses import Loss
from app.retrieval.selection import check_usable


def tuned_cut(scores: np.ndarray, truth: np.ndarray, loss: Loss, empty: int) -> float:
    """The cut t for which retrieving what is above t has the smallest mean loss over the sets.

    scores, truth: (sets, items), probabilities and 0 or 1. Candidates lie between neighbouring scores, above all and
    below all; of equals the highest is taken. This is empirical utility maximisation, the "tuned threshold" of Koyejo
    et al. (2014) and of Natarajan et al. (2016), section 5. Raises Invalid at /loss where no cut makes sense.
    O(sets items log(sets items)): items are taken in from the highest score on, each changing its own set's loss.
    """
    if loss.name == "auc":
        msg = "no threshold can be tuned for 'auc'; the best one retrieves nothing or everything, with loss 0"
        raise Invalid.at("/loss", msg)
    sets, n = scores.shape
    check_usable(loss, n)
    order = np.argsort(-scores, axis=1, kind="stable")
    ranked = np.take_along_axis(scores, order, axis=1)
    hits = np.zeros((sets, n + 1))
    np.cumsum(np.take_along_axis(truth, order, axis=1), axis=1, out=hits[:, 1:])
    losses = loss.of_counts(hits, np.arange(n + 1), hits[:, -1:], n, empty=empty)
    steps = np.argsort(-ranked, axis=None, kind="stable")
    values = ranked.ravel()[steps]
    totals = losses[:, 0].sum() + np.concatenate(([0.0], np.cumsum(np.diff(losses, axis=1).ravel()[steps])))
    edges = np.concatenate(([1.0], values, [0.0]))  # what is retrieved first, and what is left, at each candidate
    allowed = np.concatenate(([True], values > edges[2:]))  # equal scores are retrieved together, those of 0 never
    best = int(np.argmin(np.where(allowed, totals, np.inf)))
    upper, lower = edges[best], edges[best + 1]
    middle = (upper + lower) / 2
    return float(middle if middle < upper else lower)
