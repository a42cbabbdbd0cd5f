"""Slow, obvious twins of app.retrieval: enumeration of outcomes and sets, and sums over full laws."""

from __future__ import annotations

from itertools import product

import numpy as np

from tests.reference.retrieval_exact import ONE, exact_loss

RATE_OF_NOTHING = 1.0


def loss_of(loss, y, s, *, empty=0):
    """The loss of one retrieved set s against one outcome y, both 0/1 vectors."""
    tp = sum(a * b for a, b in zip(y, s, strict=True))
    return exact_loss(loss, tp, sum(s), sum(y), len(y), empty) / ONE


def outcomes(p):
    """All 2^n outcomes (2^n, n) of independent labels and their probabilities."""
    y = np.array(list(product((0, 1), repeat=len(p)))).reshape(2 ** len(p), len(p)).astype(int)
    return y, np.prod(np.where(y == 1, p, 1 - np.asarray(p)), axis=1)


def expected_losses_of_all_sets(p, loss, *, empty=0):
    """The expected loss of every one of the 2^n sets, in the order of `outcomes`, by enumeration of all outcomes."""
    y, probability = outcomes(p)
    n = len(p)
    table = np.empty((n + 1, n + 1, n + 1))
    for k, positives in product(range(n + 1), repeat=2):
        for tp in range(max(0, k + positives - n), min(k, positives) + 1):
            s = [1] * k + [0] * (n - k)
            truth = [1] * tp + [0] * (k - tp) + [1] * (positives - tp) + [0] * (n - k - positives + tp)
            table[tp, k, positives] = loss_of(loss, truth, s, empty=empty)
    sizes = y.sum(axis=1)
    return y, table[y @ y.T, sizes[:, None], sizes[None, :]] @ probability


def expected_losses_on_vectors(vectors, weights, loss, *, empty=0):
    """Every set (2^n, n), and its expected loss where the truth is one of the label vectors (S, n), by their weights.

    Also its expected recall and precision.
    """
    n = vectors.shape[1]
    every = outcomes(np.zeros(n))[0]
    found = np.zeros((3, len(every)))
    for row, s in enumerate(every):
        for y, weight in zip(vectors.tolist(), weights, strict=True):
            tp = sum(a * b for a, b in zip(y, s, strict=True))
            recall = tp / sum(y) if sum(y) else RATE_OF_NOTHING
            precision = tp / s.sum() if s.sum() else RATE_OF_NOTHING
            found[:, row] += weight * np.array([loss_of(loss, y, s.tolist(), empty=empty), recall, precision])
    return every, *found


def raked(vectors, weights, p, passes):
    """Weights moved to the marginals p, one label after the other: iterative proportional fitting."""
    for i in [*range(len(p))] * passes:
        ones, zeros = (weights[vectors[:, i] == value].sum() for value in (1, 0))
        if ones > 0 and zeros > 0:
            weights = np.where(vectors[:, i] == 1, weights * p[i] / ones, weights * (1 - p[i]) / zeros)
    return weights


def expected_rates_of_all_sets(p):
    """Expected recall and precision of every set, in the order of `outcomes`."""
    y, probability = outcomes(p)
    positives, sizes, tp = y.sum(axis=1), y.sum(axis=1)[:, None], y @ y.T
    recall = np.where(positives > 0, tp / np.maximum(positives, 1), RATE_OF_NOTHING) @ probability
    precision = np.where(sizes > 0, tp / np.maximum(sizes, 1), RATE_OF_NOTHING) @ probability
    return y, recall, precision


def pmf(p):
    """The law of the number of relevant items, one factor after the other."""
    law = np.ones(1)
    for one in p:
        law = np.convolve(law, [1 - one, one])
    return law


def curve(p, loss, *, empty=0):
    """L_0 … L_n by Algorithm 1 of the paper: for each k a double sum over the two laws, but for entries below 1e-30."""
    n = len(p)
    prefixes = [np.ones(1)]
    for one in p:
        prefixes.append(np.convolve(prefixes[-1], [1 - one, one]))
    suffix = np.ones(1)
    values = np.empty(n + 1)
    for k in range(n, -1, -1):
        values[k] = _double_sum(prefixes[k], suffix, k, n, loss, empty)
        if k:
            suffix = np.convolve(suffix, [1 - p[k - 1], p[k - 1]])
    return values


def one_loss(p, k, loss, *, empty=0):
    """The one entry L_k of `curve`."""
    return _double_sum(pmf(p[:k]), pmf(p[k:]), k, len(p), loss, empty)


def _double_sum(front, back, k, n, loss, empty):
    tp, fn = np.flatnonzero(front > 1e-30)[:, None], np.flatnonzero(back > 1e-30)[None, :]
    table = loss.of_counts(tp, np.array([[k]]), tp + fn, n, empty=empty)
    return float(front[tp[:, 0]] @ table @ back[fn[0]])


def multinomial_losses_of_all_sets(p, loss, *, empty=0):
    """The expected loss of every set of classes when class j alone is true with probability p[j]."""
    sets = list(product((0, 1), repeat=len(p)))
    values = [
        sum(p[j] * loss_of(loss, [int(i == j) for i in range(len(p))], s, empty=empty) for j in range(len(p)))
        for s in sets
    ]
    return np.array(sets), np.array(values)
