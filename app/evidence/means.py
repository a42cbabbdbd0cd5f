"""Means of paired differences of money, with intervals by days, from sums alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np
from scipy.special import stdtr, stdtrit

FEWEST = 30  # cases that differ: as in `app.decisions.bootstrap`
SMALLEST = float(np.finfo(np.float64).tiny)
ROUNDING = 1e-12  # relative: differences below it are those of rounding alone
Z = 1.959963984540054


@dataclass(frozen=True)
class Mean:
    """A mean and its 95 % interval, None where too few values differ from 0; `freedom` are the degrees of freedom of
    the estimate by days.
    """

    mean: float
    low: float | None
    high: float | None
    freedom: float = np.inf

    @property
    def p_value(self) -> float:
        """Of the mean being 0, as far as the interval tells; 1 without one."""
        return 1.0 if self.low is None or self.high is None else p_value(self.mean, self.low, self.high, self.freedom)


@dataclass
class MeanSums:
    """Sums of the first three powers of values, how many differ from 0, and the sums of days; `+=` adds those of
    others.
    """

    count: int = 0
    nonzero: int = 0
    _unit: float = SMALLEST
    _powers: np.ndarray = field(default_factory=lambda: np.zeros(3))  # of multiples of the unit
    _days: dict[int, np.ndarray] = field(default_factory=dict)  # cases, and the sum of their values

    @property
    def total(self) -> float:
        return float(self._powers[0]) * self._unit

    def add(self, values: np.ndarray, day: int = 0) -> None:
        """Values (n,) of cases of one day."""
        self._use(unit_for(self._unit, values))
        self.count += len(values)
        self.nonzero += int(np.count_nonzero(values))
        values = values / self._unit
        square = values * values
        self._powers += (values.sum(), square.sum(), (square * values).sum())
        if len(values):
            self._days[day] = self._days.get(day, np.zeros(2)) + np.array((len(values), values.sum()))

    def __iadd__(self, other: MeanSums) -> Self:
        self._use(max(self._unit, other._unit))
        self.count += other.count
        self.nonzero += other.nonzero
        factor = other._unit / self._unit
        self._powers += other._powers * factor ** np.arange(1, 4)
        for day, own in other._days.items():
            self._days[day] = self._days.get(day, np.zeros(2)) + own * (1, factor)
        return self

    def _use(self, unit: float) -> None:
        factor, self._unit = self._unit / unit, unit
        if factor != 1:
            self._powers *= factor ** np.arange(1, 4)
            self._days = {day: own * (1, factor) for day, own in self._days.items()}

    def mean(self) -> Mean | None:
        """Johnson's (1978) modified t: the interval's centre is moved by the skewness. None without values.

        Cases of a day may depend on each other: of several days the variance is at least that of Student's over these.
        """
        if not self.count:
            return None
        n, unit = self.count, self._unit
        mean, square, cube = (self._powers / n).tolist()
        if self.nonzero < FEWEST or n < 2:
            return Mean(mean * unit, None, None)
        second = square - mean**2
        if second <= ROUNDING * square:
            return Mean(mean * unit, mean * unit, mean * unit)
        centre = mean + (cube - 3 * mean * square + 2 * mean**3) / (6 * second * n)
        cases, total = np.array(list(self._days.values())).T
        inflation, freedom = day_inflation(total, cases / n, n * second)
        reach = student(n - 1) * float(np.sqrt(second * widening(inflation, freedom) / (n - 1)))
        return Mean(mean * unit, (centre - reach) * unit, (centre + reach) * unit, freedom)


def day_inflation(totals: np.ndarray, share: np.ndarray, variance: float) -> tuple[float | None, float]:
    """The variance of a sum by the totals of days (D,), over that of independent cases, and the degrees of freedom of
    this estimate; None for one day, which shows nothing.

    Each day is compared with its share (D,) in the sum; days of unequal shares have fewer degrees of freedom (Bell and
    McCaffrey, 2002).
    """
    rest = 1 - share
    if rest.min() < ROUNDING:
        return None, np.inf
    found = float(((totals - share * totals.sum()) ** 2 / rest).sum())
    weight = share**2 / rest
    freedom = 1 / float((share**2).sum() + weight.sum() ** 2 - (weight**2).sum())
    return found / variance, freedom


def widening(inflation: float | None, freedom: float) -> float:
    """By how much a variance grows, at least 1, so that a normal interval becomes Student's over days."""
    return 1.0 if inflation is None else max(inflation * (student(freedom) / Z) ** 2, 1.0)


def unit_for(unit: float, *amounts: np.ndarray) -> float:
    """The unit, or the least power of two that none of the amounts exceeds, whichever is larger: powers of money in it
    neither overflow nor vanish.

    Multiplication by a power of two is exact.
    """
    largest = max(float(np.abs(own).max(initial=0.0)) for own in amounts)
    return max(unit, float(np.ldexp(1.0, np.frexp(largest)[1]))) if largest > unit else unit


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    return float(stdtrit(freedom, 0.975))


def p_value(mean: float, low: float, high: float, freedom: float) -> float:
    """That of the mean being 0, two-sided, as far as its 95 % interval tells: each side as that of Student's t."""
    reach = mean - low if mean > 0 else high - mean
    if reach <= 0:
        return float(mean == 0)
    return float(2 * stdtr(freedom, -stdtrit(freedom, 0.975) * abs(mean) / reach))
