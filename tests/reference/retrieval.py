"""Slow, obvious twins of payoff.retrieval: enumeration of outcomes and sets, and sums over full laws."""

from itertools import product

import numpy as np

from tests.reference.retrieval_exact import ONE, exact_loss

RATE_OF_NOTHING = 1.0


def subsets(n):
    """All 0/1 vectors (2^n, n)."""
    return np.array(list(product((0, 1), repeat=n))).reshape(2**n, n).astype(int)


def outcomes(p):
    """All 2^n outcomes (2^n, n) of independent labels and their probabilities."""
    y = subsets(len(p))
    return y, np.prod(np.where(y == 1, p, 1 - np.asarray(p)), axis=1)


def expected_of_all_sets(vectors, weights, loss, *, empty=0):
    """Every set (2^n, n), and its expected loss, recall and precision where the truth is one of the vectors (S, n)."""
    n = vectors.shape[1]
    sets = subsets(n)
    tp = sets @ vectors.T.astype(int)
    k, positives = (
        np.broadcast_to(one, tp.shape)
        for one in (sets.sum(axis=1)[:, None], vectors.sum(axis=1)[None])
    )
    counts = zip(*(one.ravel().tolist() for one in (tp, k, positives)), strict=True)
    losses = np.array(
        [exact_loss(loss, *each, n, empty) / ONE for each in counts]
    ).reshape(tp.shape)
    recall, precision = (
        np.where(one > 0, tp / np.maximum(one, 1), RATE_OF_NOTHING)
        for one in (positives, k)
    )
    return sets, losses @ weights, recall @ weights, precision @ weights


def raked(vectors, weights, p, passes):
    """Weights moved to the marginals p, one label after the other: iterative proportional fitting."""
    for i in [*range(len(p))] * passes:
        ones, zeros = (weights[vectors[:, i] == value].sum() for value in (1, 0))
        if ones > 0 and zeros > 0:
            weights = np.where(
                vectors[:, i] == 1, weights * p[i] / ones, weights * (1 - p[i]) / zeros
            )
    return weights


def pmf(p):
    """The law of the number of relevant items, one factor after the other."""
    law = np.ones(1)
    for one in p:
        law = np.convolve(law, [1 - one, one])
    return law


def one_loss(p, k, loss, *, empty=0):
    """The loss of the first k items by Algorithm 1 of the paper: a double sum over both laws above 1e-30."""
    front, back, n = pmf(p[:k]), pmf(p[k:]), len(p)
    tp, fn = (
        np.flatnonzero(front > 1e-30)[:, None],
        np.flatnonzero(back > 1e-30)[None, :],
    )
    table = loss.of_counts(tp, np.array([[k]]), tp + fn, n, empty=empty)
    return float(front[tp[:, 0]] @ table @ back[fn[0]])
