"""The losses of a retrieved set, given how many of its items are relevant.

Every loss is a function of four counts of one outcome: relevant and retrieved (`tp`), retrieved
(`k`), relevant (`positives`) and all items (`n`). The definitions are Table 1 of Natarajan et al.,
"Optimal Classification with Multivariate Losses" (ICML 2016), written in counts, and completed for
0/0:

- the rate of an absent class is 1: TPR where nothing is relevant, TNR where everything is;
- F, Jaccard, G-TP/PR and MCC with nothing relevant and nothing retrieved are `empty`: 0 (a correct
  "nothing") or 1;
- H-Mean with TPR = TNR = 0 is 1, and so is MCC wherever else a count of its denominator is 0;
- a fractional-linear loss whose numerator and denominator both vanish is `empty`.

A fractional-linear loss may be used if its denominator keeps its sign, and it falls with the true
positives. "c1 < d1" is not enough (Proposition 2 of Natarajan et al. 2016 holds only under further
conditions): for (.25 + .5 u - .2 v) / (1 + u) the best set of (.9, .8, .2, .1) is the two LEAST
likely items. For fixed k and P the loss (A + c1 tp) / (B + d1 tp) falls with tp exactly where c1 B
- d1 A <= 0; that is linear in (k, P), so its largest value is at a corner, as are the extremes of
the denominator over the feasible counts. There they are compared exactly, in integers: a number
that is nearly zero does not count as zero, nor a slow rise as none.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from payoff.errors import Invalid, TooLarge

DEFAULT_BETA = 1.0  # recall and precision have the same weight
LARGEST_BETA = 1e150  # its square is still a float
# Sums over any number of items, and quotients of two of them, stay far from overflow.
LARGEST_COEFFICIENT = 1e100
LARGEST_LOSS = {"mcc": 2.0}  # of all other losses but fractional_linear it is 1
NEARLY_ZERO = 1e-12  # a sum this small beside its terms may be rounding alone


@dataclass(frozen=True)
class Loss:
    """One loss, hashable and comparable; `beta` and coefficients are in the ranges below."""

    name: str
    beta: float | None = None
    c: tuple[float, ...] | None = None
    d: tuple[float, ...] | None = None

    @property
    def square(self) -> float:
        """β²."""
        return (self.beta or DEFAULT_BETA) ** 2

    def of_counts(
        self,
        tp: np.ndarray,
        k: np.ndarray,
        positives: np.ndarray,
        n: int,
        *,
        empty: int = 0,
    ) -> np.ndarray:
        """The loss of single outcomes, float64, of counts that broadcast.

        0 <= tp <= min(k, positives).
        """
        floats = (np.asarray(count, dtype=np.float64) for count in (tp, k, positives))
        counts = np.broadcast_arrays(*floats)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(LOSSES[self.name](self, *counts, float(n), float(empty)))

    def within_range(self, values: np.ndarray) -> np.ndarray:
        """Expected losses (n,) moved into the range of the loss, which rounding may leave.

        Fractional-linear losses have no range.
        """
        if self.name == "fractional_linear":
            return values
        return np.asarray(np.clip(values, 0.0, LARGEST_LOSS.get(self.name, 1.0)))

    def as_json(self) -> dict[str, Any]:
        """The fields of the loss as in requests; those that are None are omitted."""
        fields = {"name": self.name, "beta": self.beta, "c": self.c, "d": self.d}
        return {
            key: list(value) if isinstance(value, tuple) else value
            for key, value in fields.items()
            if value is not None
        }


def _rates(
    tp: np.ndarray, k: np.ndarray, positives: np.ndarray, n: float
) -> tuple[np.ndarray, np.ndarray]:
    negatives = n - positives
    tpr = np.where(positives > 0, tp / positives, 1.0)
    tnr = np.where(negatives > 0, (negatives - k + tp) / negatives, 1.0)
    return tpr, tnr


def _f_beta(
    loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    _n: float,
    empty: float,
) -> np.ndarray:
    value = 1 - (1 + loss.square) * tp / (loss.square * positives + k)
    return np.where(positives + k > 0, value, empty)


def _jaccard(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    _n: float,
    empty: float,
) -> np.ndarray:
    return np.where(
        positives + k > 0, (positives + k - 2 * tp) / (positives + k - tp), empty
    )


def _am(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    n: float,
    _empty: float,
) -> np.ndarray:
    tpr, tnr = _rates(tp, k, positives, n)
    return np.asarray(1 - (tpr + tnr) / 2)


def _g_tp_pr(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    _n: float,
    empty: float,
) -> np.ndarray:
    value = np.where(positives * k > 0, 1 - tp / np.sqrt(positives * k), 1.0)
    return np.where(positives + k > 0, value, empty)


def _g_mean(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    n: float,
    _empty: float,
) -> np.ndarray:
    tpr, tnr = _rates(tp, k, positives, n)
    return np.asarray(1 - np.sqrt(tpr * tnr))


def _h_mean(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    n: float,
    _empty: float,
) -> np.ndarray:
    tpr, tnr = _rates(tp, k, positives, n)
    return np.asarray(1 - np.where(tpr + tnr > 0, 2 * tpr * tnr / (tpr + tnr), 0.0))


def _auc(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    n: float,
    _empty: float,
) -> np.ndarray:
    pairs = positives * (n - positives)
    return np.where(pairs > 0, (k - tp) * (positives - tp) / pairs, 0.0)


def _mcc(
    _loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    n: float,
    empty: float,
) -> np.ndarray:
    square = k * (n - k) * positives * (n - positives)
    value = np.where(square > 0, 1 - (n * tp - k * positives) / np.sqrt(square), 1.0)
    return np.where(positives + k > 0, value, empty)


def _fractional_linear(
    loss: Loss,
    tp: np.ndarray,
    k: np.ndarray,
    positives: np.ndarray,
    n: float,
    empty: float,
) -> np.ndarray:
    c, d = loss.c or (0.0,) * 4, loss.d or (1.0,) * 4
    above, below = (
        np.asarray(x[0] * n + x[1] * tp + x[2] * k + x[3] * positives) for x in (c, d)
    )
    near = np.abs(below) <= NEARLY_ZERO * absolute_sum(d, (n, tp, k, positives))
    if near.any():  # rounding hides whether these denominators are zero
        columns = [np.full(int(near.sum()), n), tp[near], k[near], positives[near]]
        exact, scale = exact_sums(d, np.column_stack(columns).astype(np.int64))
        below[near] = [value / scale for value in exact]
    return np.where(below != 0, above / below, empty)


def absolute_sum(
    d: tuple[float, ...], counts: Sequence[float | np.ndarray]
) -> np.ndarray:
    """The sum of the absolute terms of a denominator at counts (n, tp, k, positives)."""
    return np.asarray(
        sum(abs(value) * count for value, count in zip(d, counts, strict=True))
    )


def exact_sums(
    coefficients: tuple[float, ...], counts: np.ndarray
) -> tuple[list[int], int]:
    """The exact sums of coefficients times counts (rows of four): integers and their divisor."""
    ratios = [value.as_integer_ratio() for value in coefficients]
    scale = max(
        below for _, below in ratios
    )  # all denominators of floats are powers of 2
    integers = [above * (scale // below) for above, below in ratios]
    rows = counts.tolist()
    sums = [
        sum(x * count for x, count in zip(integers, row, strict=True)) for row in rows
    ]
    return sums, scale


LOSSES: dict[str, Callable[..., np.ndarray]] = {
    "f_beta": _f_beta,
    "jaccard": _jaccard,
    "am": _am,
    "g_tp_pr": _g_tp_pr,
    "g_mean": _g_mean,
    "h_mean": _h_mean,
    "auc": _auc,
    "mcc": _mcc,
    "fractional_linear": _fractional_linear,
}
"""The value of each loss, of (loss, tp, k, positives, n, empty), in the order of the documents."""


# The largest quotient of two values of a denominator: the number of nodes of its quadrature grows
# with the logarithm, and is 208 here.
WIDEST_DENOMINATOR = 1e20


@dataclass(frozen=True)
class Denominator:
    """A usable loss at n items, its coefficients turned so that the denominator is positive.

    [low, high] is the range of its nonzero values; `largest` bounds the sum of the numerator's
    terms in absolute value over the denominator, and `cancels` the same of the denominator's own
    terms: how much their rounding is amplified.
    """

    c: tuple[float, ...]
    d: tuple[float, ...]
    low: float
    high: float
    largest: float
    cancels: float
    n: int

    def vanishes(
        self, tp: float | np.ndarray, k: float | np.ndarray, positives: float
    ) -> np.ndarray:
        """Whether the denominator is zero at these feasible counts.

        A loss whose denominator is nearly zero, but not zero, is refused before.
        """
        value = (
            self.d[0] * self.n + self.d[1] * tp + self.d[2] * k + self.d[3] * positives
        )
        terms = absolute_sum(self.d, (self.n, tp, k, positives))
        return np.asarray(np.abs(value) <= NEARLY_ZERO * terms)


def check_monotone(loss: Loss, n: int) -> None:
    """Raise Invalid unless the most likely items minimise the loss.

    The message has counts at which the loss rises with the true positives.
    """
    if n == 0:  # nothing is retrieved and nothing relevant: the loss is `empty`
        return
    denominator(loss, n)
    c, d = loss.c or (), loss.d or ()
    if n == 1:
        return
    for k, positives in product((1, n - 1), repeat=2):
        counts = np.array([[n, 0, k, positives], [0, 1, 0, 0]])
        (above, c1), _ = exact_sums(c, counts)
        (below, d1), _ = exact_sums(d, counts)
        if c1 * below > d1 * above:
            tp = max(0, k + positives - n)
            values = loss.of_counts(
                np.array([tp, tp + 1]), np.array(k), np.array(positives), n
            )
            raise Invalid.at(
                "",
                f"the loss must not rise with the true positives; of {n} items, with {k} retrieved"
                f" and {positives} relevant, {tp} true positives cost {values[0]:.6g} and {tp + 1}"
                f" cost {values[1]:.6g}",
            )


@lru_cache(maxsize=4096)
def denominator(loss: Loss, n: int) -> Denominator:
    """The loss at n items.

    Invalid where its denominator changes sign or vanishes among the feasible counts, TooLarge where
    the denominator has too wide a range.
    """
    c, d = np.array(loss.c), np.array(loss.d)
    counts = _corners(n)
    values = counts @ d
    exact, scale = exact_sums(loss.d or (), counts)
    if min(exact) < 0 < max(exact):
        negative = counts[exact.index(min(exact))]
        raise _refused(loss, n, negative, "is negative and elsewhere positive")
    if max(exact) <= 0:
        c, d, values = -c, -d, -values
    zero = np.array([value == 0 for value in exact])
    tiny = ~zero & ~(values > NEARLY_ZERO * (counts @ np.abs(d)))
    if tiny.any():
        first = int(tiny.argmax())
        fault = (
            f"is {exact[first] / scale:.3g}, "
            "which floats cannot tell from zero beside its terms"
        )
        raise _refused(loss, n, counts[first], fault)
    numerator = np.array([value != 0 for value in exact_sums(loss.c or (), counts)[0]])
    inner = ((counts[:, 2:] > 0) & (counts[:, 2:] < n)).all(axis=1)
    undefined = zero & (numerator | inner | zero.all())
    if undefined.any():
        raise _refused(loss, n, counts[undefined.argmax()], "is zero")
    above = counts @ np.abs(c)
    low, high = float(values[~zero].min()), float(values.max())
    if high > WIDEST_DENOMINATOR * low:
        raise TooLarge(
            f"the denominator of {loss.name!r} ranges from {low:.3g} to {high:.3g} for {n} items;"
            f" at most a factor of {WIDEST_DENOMINATOR:g} is supported"
        )
    largest = float((above[~zero] / values[~zero]).max())
    if zero.any():
        largest += 40 * float(above[zero].max()) / low
    cancels = float((counts[~zero] @ np.abs(d) / values[~zero]).max())
    return Denominator(tuple(c), tuple(d), low, high, largest, cancels, n)


def _corners(n: int) -> np.ndarray:
    """Counts (n, tp, k, positives) at the corners of the feasible region, on and off its edges."""
    ends = sorted({0, min(1, n), max(n - 1, 0), n})
    middle = {n // 2, (n + 1) // 2}
    points = {
        (n, tp, k, positives)
        for k, positives in product({*ends, *middle}, repeat=2)
        for tp in (max(0, k + positives - n), min(k, positives))
    }
    return np.array(sorted(points))


def _refused(loss: Loss, n: int, counts: np.ndarray, fault: str) -> Invalid:
    _, tp, k, positives = (int(count) for count in counts)
    return Invalid.at(
        "/d",
        f"the denominator of {loss.name!r} {fault} (of {n} items, {k} retrieved,"
        f" {positives} relevant, {tp} both); choose 'd' so that it keeps its sign",
    )


AUC_WARNING = (
    "the AUC loss of an empty or a whole set is 0, so k is kept within 1 … n - 1; "
    "set k_min and k_max to allow both"
)


@dataclass(frozen=True)
class SetTerms:
    """The loss, bounds on the size k, and whether the curve is computed as a whole.

    Invalid at `/k_min` where it is above `k_max`.
    """

    loss: Loss
    empty: int = 0
    k_min: int = 0
    k_max: int | None = None
    curve: bool = False

    def __post_init__(self) -> None:
        if self.k_max is not None and self.k_min > self.k_max:
            raise Invalid.at(
                "/k_min",
                f"'k_min' is {self.k_min}; it must be at most 'k_max', {self.k_max}",
            )

    def sizes(self, n: int) -> tuple[int, int]:
        """The smallest and largest k allowed for n items.

        A k_max above n is no bound; a k_min above n is Invalid.
        """
        if self.k_min > n:
            raise Invalid.at(
                "/k_min",
                f"'k_min' is {self.k_min}; it must be at most the number of items, {n}",
            )
        low = self.k_min
        high = n if self.k_max is None else min(self.k_max, n)
        if self.loss.name == "auc":
            low = low or min(1, high)
            if not self._bounds(n):
                high = max(low, n - 1)
        return low, high

    def warnings(self, n: int) -> tuple[str, ...]:
        """Warnings about every set of at most n items that is chosen on these terms."""
        narrowed = self.loss.name == "auc" and (self.k_min == 0 or not self._bounds(n))
        return (AUC_WARNING,) if narrowed else ()

    def _bounds(self, n: int) -> bool:
        """Whether k_max is a bound for n items."""
        return self.k_max is not None and self.k_max <= n
