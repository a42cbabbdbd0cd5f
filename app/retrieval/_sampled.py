"""Compiled: one set of labels against weighted label vectors."""

from __future__ import annotations

import numpy as np

from app.arrays import F64, I64, U8, Bools
from app.compiled import copy, kernel


@kernel
def rake(vectors: U8, p: F64, weights: F64, passes: int) -> None:
    """Move the weights (S,) of the vectors (S, L) towards the marginals p (L,), label after label.

    A label that all vectors or none have stays as it is. The sum of the weights stays 1.
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
    """Add the `count` open labels of the largest score to `picked`; returns the first of them and their sum."""
    first, total = -1, 0.0
    for _ in range(count):
        best = -1
        for i in range(len(score)):
            if fate[i] == 0 and not picked[i] and (best < 0 or score[i] > score[best]):
                best = i
        picked[best] = True
        total += score[best]
        first = best if first < 0 else first
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
    """A bound on the gain of every set of k labels that agrees with `fate`, and the gain of one of them, `picked`.

    `fate` (L,): 0 is open, 1 in the set, 2 not. `losses` is the block of k in `expected_loss.loss_table`. The gain
    (1 - loss) on one vector is convex in the true positives, so a chord bounds it, and the sum of chords is additive
    in the labels. Also returns the open label with the largest part in that sum. O(S L + L k).
    """
    L = len(fate)
    free, taken = 0, 0
    for i in range(L):
        free += fate[i] == 0
        taken += fate[i] == 1
        picked[i] = fate[i] == 1
        score[i] = 0.0
    missing, bound = k - taken, 0.0
    for s in range(len(weights)):
        size, sure, possible = 0, 0, 0
        for i in range(L):
            if vectors[s, i]:
                size += 1
                sure += fate[i] == 1
                possible += fate[i] == 0
        low, high = sure + max(0, missing - (free - possible)), sure + min(missing, possible)
        least = 1.0 - losses[low * (L - k) + size]
        slope = (1.0 - losses[high * (L - k) + size] - least) / (high - low) if high > low else 0.0
        bound += weights[s] * (least + (sure - low) * slope)
        for i in range(L):
            if vectors[s, i]:
                score[i] += weights[s] * slope
    first, rest = _take(score, fate, picked, missing)
    return bound + rest, _gain(vectors, weights, losses, k, picked), first


@kernel
def search(
    vectors: U8, weights: F64, losses: F64, begins: I64, low: int, high: int, slack: float, most: int, chosen: Bools
) -> float:
    """Write the set of low to high labels with the largest gain to `chosen` (L,); returns a bound on the gain of all.

    Branch and bound, depth first from the size with the largest bound, in at most `most` steps. `begins` (L + 1,):
    where the block of each size begins in `losses`.
    """
    L = len(chosen)
    fates = np.zeros((high - low + L + 2, L), dtype=np.uint8)
    sizes, bounds = np.zeros(len(fates), dtype=np.int64), np.zeros(len(fates))
    picked, score = np.zeros(L, dtype=np.bool_), np.zeros(L)
    best, waiting = -np.inf, high - low + 1
    for k in range(low, high + 1):
        bound, value, _ = _relaxed(vectors, weights, losses[begins[k] :], k, fates[0], picked, score)
        if value > best + slack:
            best = value
            copy(picked, chosen)
        place = k - low  # the largest bound comes last
        while place > 0 and bounds[place - 1] > bound:
            sizes[place], bounds[place] = sizes[place - 1], bounds[place - 1]
            place -= 1
        sizes[place], bounds[place] = k, bound
    steps = 0
    while waiting:
        waiting -= 1
        if bounds[waiting] <= best + slack:
            continue
        if steps == most:
            for i in range(waiting):
                bounds[waiting] = max(bounds[waiting], bounds[i])
            return float(bounds[waiting])
        steps += 1
        k, fate = sizes[waiting], fates[waiting]
        bound, value, first = _relaxed(vectors, weights, losses[begins[k] :], k, fate, picked, score)
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
