"""Means of paired differences of money, with intervals, from sums alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

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
    powers: np.ndarray = field(default_factory=lambda: np.zeros(3))

    def add(self, values: np.ndarray) -> None:
        square = values * values
        self.count += len(values)
        self.nonzero += int(np.count_nonzero(values))
        self.powers += (values.sum(), square.sum(), (square * values).sum())

    def mean(self) -> Mean | None:
        """Johnson's (1978) modified t: the interval's centre is moved by the skewness. None without values."""
        if not self.count:
            return None
        n, mean = self.count, float(self.powers[0] / self.count)
        if self.nonzero < FEWEST or n < 2:
            return Mean(mean, None, None)
        second = max(float(self.powers[1] / n - mean**2), 0.0)
        third = float(self.powers[2] / n - 3 * mean * self.powers[1] / n + 2 * mean**3)
        centre = mean + (third / (6 * second * n) if second > 0 else 0.0)
        reach = student(n - 1) * float(np.sqrt(second / (n - 1)))
        return Mean(mean, centre - reach, centre + reach)


def student(freedom: int) -> float:
    """The 97.5 % quantile of Student's t."""
    from scipy.stats import t  # noqa: PLC0415 - imported with the first report

    return float(t.ppf(0.975, freedom))


def p_value(mean: float, low: float, high: float) -> float:
    """That of the mean being 0, two-sided, as far as its 95 % interval tells: each side as that of a normal one."""
    from scipy.stats import norm  # noqa: PLC0415 - as above

    reach = mean - low if mean > 0 else high - mean
    if reach <= 0:
        return float(mean == 0)
    return float(2 * norm.sf(norm.ppf(0.975) * abs(mean) / reach))
