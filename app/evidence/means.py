"""Means of paired differences of money, with intervals, from sums alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from app.evidence.units import ROUNDING, SMALLEST, unit_for

FEWEST = 30  # cases that differ: as in `app.decisions.bootstrap`


@dataclass(frozen=True)
class Mean:
    """A mean and its 95 % interval, None where too few values differ from 0."""

    mean: float
    low: float | None
    high: float | None


@dataclass
class MeanSums:
    """Sums of the first three powers of values, and how many differ from 0; `+=` adds those of others."""

    count: int = 0
    nonzero: int = 0
    _unit: float = SMALLEST
    _powers: np.ndarray = field(default_factory=lambda: np.zeros(3))  # of multiples of the unit

    @property
    def total(self) -> float:
        return float(self._powers[0]) * self._unit

    def add(self, values: np.ndarray) -> None:
        self._use(unit_for(self._unit, values))
        self.count += len(values)
        self.nonzero += int(np.count_nonzero(values))
        values = values / self._unit
        square = values * values
        self._powers += (values.sum(), square.sum(), (square * values).sum())

    def __iadd__(self, other: MeanSums) -> Self:
        self._use(max(self._unit, other._unit))
        self.count += other.count
        self.nonzero += other.nonzero
        self._powers += other._powers * (other._unit / self._unit) ** np.arange(1, 4)
        return self

    def _use(self, unit: float) -> None:
        self._powers *= (self._unit / unit) ** np.arange(1, 4)
        self._unit = unit

    def mean(self) -> Mean | None:
        """Johnson's (1978) modified t: the interval's centre is moved by the skewness. None without values."""
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
        reach = student(n - 1) * float(np.sqrt(second / (n - 1)))
        return Mean(mean * unit, (centre - reach) * unit, (centre + reach) * unit)


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.stats import t  # noqa: PLC0415 - imported with the first report

    return float(t.ppf(0.975, freedom))


def p_value(mean: float, low: float, high: float, freedom: float) -> float:
    """That of the mean being 0, two-sided, as far as its 95 % interval tells: each side as that of Student's t."""
    from scipy.stats import t  # noqa: PLC0415 - as above

    reach = mean - low if mean > 0 else high - mean
    if reach <= 0:
        return float(mean == 0)
    return float(2 * t.sf(t.ppf(0.975, freedom) * abs(mean) / reach, freedom))
