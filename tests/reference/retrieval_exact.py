"""Expected losses in integers with 300 binary places: what an error bound is held to."""

from __future__ import annotations

import math
from fractions import Fraction

BITS = 300
ONE = 1 << BITS


def fixed(value):
    """A finite float or Fraction in units of 2^-BITS, rounded down."""
    numerator, denominator = value.as_integer_ratio()
    return (numerator << BITS) // denominator


def laws(p):
    """The laws of the number of relevant items among the first 0, 1, …, n."""
    found = [[ONE]]
    for one in map(fixed, p):
        old = found[-1]
        kept, moved = [x * (ONE - one) >> BITS for x in [*old, 0]], [x * one >> BITS for x in [0, *old]]
        found.append([a + b for a, b in zip(kept, moved, strict=True)])
    return found


def root(numerator, denominator):
    """The square root of a ratio."""
    return math.isqrt((numerator << 2 * BITS) // denominator)


def loss_of(loss, tp, k, positives, n, empty):
    """One outcome's loss, from the definitions."""
    tpr = Fraction(tp, positives) if positives else Fraction(1)
    tnr = Fraction(n - k - positives + tp, n - positives) if n > positives else Fraction(1)
    if loss.name in ("f_beta", "jaccard", "g_tp_pr") and positives + k == 0:
        return empty * ONE
    if loss.name in ("g_tp_pr", "g_mean"):
        square = tpr * tnr if loss.name == "g_mean" else Fraction(tp * tp, max(positives * k, 1))
        return ONE - root(square.numerator, square.denominator)
    if loss.name == "f_beta":
        weight = Fraction(loss.beta) ** 2
        value = 1 - (1 + weight) * tp / (weight * positives + k)
    elif loss.name == "jaccard":
        value = Fraction(positives + k - 2 * tp, positives + k - tp)
    elif loss.name == "am":
        value = 1 - (tpr + tnr) / 2
    elif loss.name == "h_mean":
        value = 1 - (2 * tpr * tnr / (tpr + tnr) if tpr + tnr else 0)
    elif loss.name == "auc":
        value = Fraction((k - tp) * (positives - tp), max(positives * (n - positives), 1))
    else:
        above, below = (
            sum(Fraction(one) * count for one, count in zip(given, (n, tp, k, positives), strict=True))
            for given in (loss.c, loss.d)
        )
        value = above / below if below else Fraction(empty)
    return fixed(Fraction(value))


def expectations(p, of_counts):
    """Σ Pr(tp) Pr(fn) of_counts(tp, k, tp + fn) for k = 0 … n, as Fractions."""
    n, front, back = len(p), laws(p), laws(p[::-1])
    return [
        Fraction(
            sum(
                front[k][tp] * back[n - k][fn] * of_counts(tp, k, tp + fn)
                for tp in range(k + 1)
                for fn in range(n - k + 1)
            ),
            ONE**3,
        )
        for k in range(n + 1)
    ]


def exact_curve(p, loss, empty):
    """L_0 … L_n."""
    return expectations(p, lambda tp, k, positives: loss_of(loss, tp, k, positives, len(p), empty))


def exact_recalls(p):
    """Expected recalls of the first 0, 1, …, n items."""
    return expectations(p, lambda tp, _k, positives: ONE * tp // positives if positives else ONE)
