"""How mixed the classes of a set of examples are, in the sense that bounds a tree's cost."""

from __future__ import annotations

from app.arrays import Ints
from app.compiled import kernel


@kernel
def threshold_pairs(counts: Ints, alpha: float) -> float:
    """Sum over ordered pairs of classes i != j of `[[n_i - a]+ [n_j - a]+ - a²]+`.

    `counts` (K,) are numbers of examples per class, `alpha` >= 0. The result is at least 0, in squared examples, exact
    while it stays below 2**53; it is 0 for a pure set, never falls when an example is added, and rises the more the
    larger the set already is (monotone and supermodular, which the cost guarantee needs). O(K²).
    Source: Nan, Wang, Saligrama, "Feature-Budgeted Random Forest" (2015), equation 11, its minus signs restored.
    """
    total = 0.0
    square = alpha * alpha
    for i in range(counts.shape[0]):
        excess = counts[i] - alpha
        if excess <= 0.0:
            continue
        for j in range(i):
            other = counts[j] - alpha
            if other > 0.0:
                total += max(0.0, excess * other - square)
    return 2.0 * total
