"""Expected losses in integers with 300 binary places: what an error bound is held to."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

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
        kept, moved = (
            [x * (ONE - one) >> BITS for x in [*old, 0]],
            [x * one >> BITS for x in [0, *old]],
        )
        found.append([a + b for a, b in zip(kept, moved, strict=True)])
    return found


def root(numerator, denominator):
    """The square root of a ratio."""
    return math.isqrt((numerator << 2 * BITS) // denominator)


# The definitions, from the counts TP, FP, FN, TN and the two rates: exact, or 1 minus a signed root (ROOTS).
DEFINITIONS = {
    "f_beta": lambda loss, c: (
        1
        - (1 + Fraction(loss.beta or 1) ** 2)
        * c.tp
        / (
            (1 + Fraction(loss.beta or 1) ** 2) * c.tp
            + Fraction(loss.beta or 1) ** 2 * c.fn
            + c.fp
        )
    ),
    "jaccard": lambda _, c: Fraction(c.fp + c.fn, c.tp + c.fp + c.fn),
    "am": lambda _, c: 1 - (c.tpr + c.tnr) / 2,
    "h_mean": lambda _, c: 1 - 2 / (1 / c.tpr + 1 / c.tnr) if c.tpr and c.tnr else 1,
    "auc": lambda _, c: Fraction(c.fp * c.fn, max((c.tp + c.fn) * (c.fp + c.tn), 1)),
    "fractional_linear": lambda loss, c: c.weighted(loss.c) / c.weighted(loss.d),
}
ROOTS = {
    "g_tp_pr": lambda _, c: Fraction(
        c.tp * c.tp, max((c.tp + c.fn) * (c.tp + c.fp), 1)
    ),
    "g_mean": lambda _, c: c.tpr * c.tnr,
    "mcc": lambda _, c: c.signed_square,
}
EMPTY = (
    "f_beta",
    "jaccard",
    "g_tp_pr",
    "mcc",
)  # `empty` where nothing is relevant and nothing is retrieved


@dataclass(frozen=True)
class Counts:
    """The confusion matrix of one outcome; the rate of an absent class is 1."""

    tp: int
    fp: int
    fn: int
    tn: int

    @property
    def tpr(self):
        return (
            Fraction(self.tp, self.tp + self.fn) if self.tp + self.fn else Fraction(1)
        )

    @property
    def tnr(self):
        return (
            Fraction(self.tn, self.tn + self.fp) if self.tn + self.fp else Fraction(1)
        )

    @property
    def signed_square(self):
        """Matthews's correlation times its magnitude; 0 where scikit-learn takes the correlation for 0."""
        above = self.tp * self.tn - self.fp * self.fn
        below = (
            (self.tp + self.fp)
            * (self.tp + self.fn)
            * (self.tn + self.fp)
            * (self.tn + self.fn)
        )
        return Fraction(above * abs(above), max(below, 1))

    def weighted(self, coefficients):
        """c0 n + c1 tp + c2 k + c3 positives."""
        counts = (
            self.tp + self.fp + self.fn + self.tn,
            self.tp,
            self.tp + self.fp,
            self.tp + self.fn,
        )
        return sum(
            Fraction(one) * count
            for one, count in zip(coefficients, counts, strict=True)
        )


@lru_cache(maxsize=10_000)
def exact_loss(loss, tp, k, positives, n, empty):
    """One outcome's loss, from the definitions, in units of 2^-BITS."""
    counts = Counts(tp, k - tp, positives - tp, n - k - positives + tp)
    nothing = loss.name in EMPTY and positives + k == 0
    if nothing or (loss.d and not counts.weighted(loss.d)):
        return empty * ONE
    if loss.name in ROOTS:
        square = ROOTS[loss.name](loss, counts)
        size = root(abs(square.numerator), square.denominator)
        return ONE - size if square >= 0 else ONE + size
    return fixed(Fraction(DEFINITIONS[loss.name](loss, counts)))


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
    return expectations(
        p, lambda tp, k, positives: exact_loss(loss, tp, k, positives, len(p), empty)
    )
