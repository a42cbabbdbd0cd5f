"""The set of dependent labels with the smallest expected loss over weighted label vectors."""

from collections.abc import Iterable

import numpy as np

from payoff.arrays import F64, I64, U8, Bools
from payoff.compiled import copy, kernel
from payoff.errors import Invalid
from payoff.retrieval.dynamic_programming import loss_table, table_error
from payoff.retrieval.losses import SetTerms
from payoff.retrieval.quadrature import UNIT
from payoff.retrieval.selection import Selections

WITH_SAMPLES = ("f_beta", "jaccard", "am", "g_tp_pr")
"""Losses that are concave in the true positives, which the bound needs."""
MAX_LABELS = 100
RAKING_PASSES = 5
_STEPS = 10_000  # of branch and bound for one set, times labels


def select_sampled(
    vectors: Iterable[tuple[U8, F64]], P: F64, terms: SetTerms
) -> tuple[Selections, F64]:
    """The best set of labels for each row, and the marginals (n, L) of the weighted vectors.

    vectors: for each row (S, L) of 0 and 1, and weights (S,) that sum to 1; P (n, L): the marginals
    towards which these weights are moved. The figures have two more rows: the gap (the loss of the
    best set is smaller by at most this) and the effective number of vectors, 1 / (sum of squared
    weights). Exact where the gap is 0, which it is unless the loss is Jaccard and the search ends
    early. O(S L²) a row, for Jaccard up to O(10,000 S). Invalid at `/loss` and `/k_min`.
    """
    if terms.loss.name not in WITH_SAMPLES:
        names = ", ".join(map(repr, WITH_SAMPLES))
        raise Invalid.at(
            "/loss/name", f"the loss of the method 'sampled' must be one of {names}"
        )
    n, L = P.shape
    low, high = terms.sizes(L)
    losses = loss_table(terms.loss, L, terms.empty)
    k = np.arange(L + 1)
    begins = np.concatenate(([0], np.cumsum((k + 1) * (L - k + 1))))
    chosen = np.zeros((n, L), dtype=np.bool_)
    figures, marginals = np.empty((6, n)), np.empty((n, L))
    for i, (label_vectors, shares) in enumerate(vectors):
        Y = np.ascontiguousarray(label_vectors)
        weights = shares / shares.sum()
        rake(Y, P[i], weights, RAKING_PASSES)
        weights /= weights.sum()
        error = table_error(terms.loss, L) + (4 * len(weights) + L) * UNIT
        bound = search(
            Y, weights, losses, begins, low, high, error, _STEPS // max(L, 1), chosen[i]
        )
        hits = Y[:, chosen[i]].sum(axis=1)
        size = chosen[i].sum()
        positives = Y.sum(axis=1)
        loss = float(
            weights @ terms.loss.of_counts(hits, size, positives, L, empty=terms.empty)
        )
        gap = bound - (1.0 - loss)
        recall = weights @ np.where(positives > 0, hits / np.maximum(positives, 1), 1.0)
        precision = weights @ hits / size if size else 1.0
        reported_gap = gap if gap > 2 * error else 0.0
        figures[:, i] = (
            loss,
            precision,
            recall,
            error,
            reported_gap,
            1.0 / (weights @ weights),
        )
        marginals[i] = weights @ Y
    order = np.argsort(np.where(chosen, -marginals, np.inf), axis=1, kind="stable")
    sizes = chosen.sum(axis=1)
    chosen_labels = order[np.arange(L) < sizes[:, None]]
    return Selections(
        chosen_labels, sizes, figures, np.zeros(n, dtype=np.int64), None
    ), marginals


@kernel
def rake(vectors: U8, p: F64, weights: F64, passes: int) -> None:
    """Move the weights (S,) of the vectors (S, L) towards the marginals p (L,), label after label.

    A label that all vectors have, or none, keeps its marginal. The sum of the weights stays 1.
    """
    for _ in range(passes):
        for i in range(len(p)):
            ones, zeros = 0.0, 0.0
            for s in range(len(weights)):
                if vectors[s, i]:
                    ones += weights[s]
                else:
                    zeros += weights[s]
            if ones > 0.0 and zeros > 0.0:
                for s in range(len(weights)):
                    weights[s] *= p[i] / ones if vectors[s, i] else (1.0 - p[i]) / zeros


@kernel
def _take(score: F64, fate: U8, picked: Bools, count: int) -> tuple[int, float]:
    """Add the `count` open labels of the largest score to `picked`; return the first, and a sum."""
    first, total = -1, 0.0
    for _ in range(count):
        best = -1
        for i in range(len(score)):
            if fate[i] == 0 and not picked[i] and (best < 0 or score[i] > score[best]):
                best = i
        picked[best] = True
        total += score[best]
        if first < 0:
            first = best
    return first, total


@kernel
def _gain(vectors: U8, weights: F64, losses: F64, k: int, picked: Bools) -> float:
    """The mean gain of the k labels `picked`, by the block of k in `losses`."""
    gain = 0.0
    for s in range(len(weights)):
        size, hits = 0, 0
        for i in range(len(picked)):
            size += vectors[s, i]
            hits += vectors[s, i] * picked[i]
        gain += weights[s] * (1.0 - losses[hits * (len(picked) - k) + size])
    return gain


@kernel
def _relaxed(
    vectors: U8, weights: F64, losses: F64, k: int, fate: U8, picked: Bools, score: F64
) -> tuple[float, float, int]:
    """A bound on the gain of all sets of k labels that agree with `fate`; the gain of `picked`.

    `fate` (L,): 0 is open, 1 in the set, 2 not; `picked` becomes one of these sets. `losses` is the
    block of k in `loss_table`. The gain (1 - loss) on one vector is convex in the true positives,
    so a chord bounds it, and the sum of chords is additive in the labels. Also returns the open
    label with the largest part in that sum. O(S L + L k).
    """
    L = len(fate)
    free, included = 0, 0
    for i in range(L):
        free += fate[i] == 0
        included += fate[i] == 1
        picked[i] = fate[i] == 1
        score[i] = 0.0
    missing, bound = k - included, 0.0
    for s in range(len(weights)):
        size, sure, possible = 0, 0, 0
        for i in range(L):
            if vectors[s, i]:
                size += 1
                sure += fate[i] == 1
                possible += fate[i] == 0
        low = sure + max(0, missing - (free - possible))
        high = sure + min(missing, possible)
        least = 1.0 - losses[low * (L - k) + size]
        slope = (
            (1.0 - losses[high * (L - k) + size] - least) / (high - low)
            if high > low
            else 0.0
        )
        bound += weights[s] * (least + (sure - low) * slope)
        for i in range(L):
            if vectors[s, i]:
                score[i] += weights[s] * slope
    first, open_score = _take(score, fate, picked, missing)
    return bound + open_score, _gain(vectors, weights, losses, k, picked), first


@kernel
def search(
    vectors: U8, weights: F64, losses: F64, begins: I64, low: int, high: int, slack: float,
    max_steps: int, chosen: Bools,
) -> float:  # fmt: skip
    """Write the set of low to high labels with the largest gain to `chosen` (L,).

    Returns a bound on the gain of all such sets. Branch and bound, depth first from the size with
    the largest bound, in at most `max_steps` steps.
    `begins` (L + 1,): where the block of each size begins in `losses`.
    """
    L = len(chosen)
    fates = np.zeros((high - low + L + 2, L), dtype=np.uint8)
    sizes, bounds = np.zeros(len(fates), dtype=np.int64), np.zeros(len(fates))
    picked, score = np.zeros(L, dtype=np.bool_), np.zeros(L)
    best, waiting = -np.inf, high - low + 1
    for k in range(low, high + 1):
        bound, value, _ = _relaxed(
            vectors, weights, losses[begins[k] :], k, fates[0], picked, score
        )
        if value > best + slack:
            best = value
            copy(picked, chosen)
        place = k - low  # bounds are sorted, the largest last
        while place > 0 and bounds[place - 1] > bound:
            sizes[place], bounds[place] = sizes[place - 1], bounds[place - 1]
            place -= 1
        sizes[place], bounds[place] = k, bound
    steps = 0
    while waiting:
        waiting -= 1
        if bounds[waiting] <= best + slack:
            continue
        if steps == max_steps:
            for i in range(waiting):
                bounds[waiting] = max(bounds[waiting], bounds[i])
            return float(bounds[waiting])
        steps += 1
        k, fate = sizes[waiting], fates[waiting]
        bound, value, first = _relaxed(
            vectors, weights, losses[begins[k] :], k, fate, picked, score
        )
        if value > best + slack:
            best = value
            copy(picked, chosen)
        if bound > best + slack:
            copy(fate, fates[waiting + 1])
            fate[first], fates[waiting + 1, first] = 2, 1
            sizes[waiting + 1] = k
            bounds[waiting] = bounds[waiting + 1] = bound
            waiting += 2
        else:
            fate[:] = 0
    return best
