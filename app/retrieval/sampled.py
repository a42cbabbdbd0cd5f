"""The set of labels with the smallest expected loss over weighted label vectors: labels may depend on one another."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from app.arrays import F64, I64, U8
from app.errors import Invalid
from app.retrieval import _sampled
from app.retrieval.quadrature import UNIT
from app.retrieval.selection import loss_table, table_error
from app.retrieval.terms import Terms

WITH_SAMPLES = ("f_beta", "jaccard", "am", "g_tp_pr")
"""Losses that are concave in the true positives, which the bound needs."""
MAX_LABELS = 100
_PASSES = 5  # of raking
_STEPS = 10_000  # of branch and bound for one set, times labels


@dataclass(frozen=True)
class SampledSets:
    """Chosen sets, as columns: `order` has the labels of all sets, those of a set by falling marginal.

    `figures` (6, sets): expected loss, precision and recall, the bound on rounding, the gap (at most so much smaller is
    the loss of the best set) and the effective number of vectors, 1 / (sum of squared weights). `marginals` (sets, L).
    """

    order: I64
    k: I64
    figures: F64
    marginals: F64


def select_sampled(vectors: Iterable[tuple[U8, F64]], P: F64, terms: Terms) -> SampledSets:
    """The best set of labels for each row of P (n, L), the marginals to which the vectors' weights are moved.

    vectors: for each row (S, L) of 0 and 1, and weights (S,) that sum to 1. Exact where the gap is 0, which it is
    unless the loss is Jaccard and the search ends early. O(S L²) a row, for Jaccard up to O(10,000 S). Invalid at
    `/loss` and `/k_min`.
    """
    if terms.loss.name not in WITH_SAMPLES:
        names = ", ".join(map(repr, WITH_SAMPLES))
        raise Invalid.at("/loss/name", f"the loss of the method 'sampled' must be one of {names}")
    n, L = P.shape
    low, high = terms.sizes(L)
    losses = loss_table(terms.loss, L, terms.empty)
    k = np.arange(L + 1)
    begins = np.concatenate(([0], np.cumsum((k + 1) * (L - k + 1))))
    chosen, figures, marginals = np.zeros((n, L), dtype=np.bool_), np.empty((6, n)), np.empty((n, L))
    for i, (given, shares) in enumerate(vectors):
        Y, weights = np.ascontiguousarray(given), shares / shares.sum()
        _sampled.rake(Y, P[i], weights, _PASSES)
        weights /= weights.sum()
        error = table_error(terms.loss, L) + (4 * len(weights) + L) * UNIT
        bound = _sampled.search(Y, weights, losses, begins, low, high, error, _STEPS // max(L, 1), chosen[i])
        hits, size, positives = Y[:, chosen[i]].sum(axis=1), chosen[i].sum(), Y.sum(axis=1)
        loss = float(weights @ terms.loss.of_counts(hits, size, positives, L, empty=terms.empty))
        gap = bound - (1.0 - loss)
        recall = weights @ np.where(positives > 0, hits / np.maximum(positives, 1), 1.0)
        figures[:, i] = (
            loss, weights @ hits / size if size else 1.0, recall, error,
            gap if gap > 2 * error else 0.0, 1.0 / (weights @ weights),
        )  # fmt: skip
        marginals[i] = weights @ Y
    order = np.argsort(np.where(chosen, -marginals, np.inf), axis=1, kind="stable")
    sizes = chosen.sum(axis=1)
    return SampledSets(order[np.arange(L) < sizes[:, None]], sizes, figures, marginals)
