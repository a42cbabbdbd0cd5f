"""The distribution of numbers around a boosted mean: residuals of rows that it did not see."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from payoff.arrays import F64
from payoff.decisions.quantities import Distribution, Samples
from payoff.stored import Stored

RESIDUALS = 1000  # quantiles of the residuals that stand for all of them
_CELLS = 1 << 20  # numbers of the distributions that are made at once


@dataclass(frozen=True, eq=False)
class Residuals(Stored):
    """A boosted mean, a boosted spread, and the residuals of unseen rows in units of their spread.

    `scaled` (R,) are these residuals, ascending and equally likely, as in split conformal
    prediction. `spread` None is the same for all rows, and no spread is below `least`. No number is
    below `floor`: numbers that are never negative stay so.
    """

    mean: Any
    spread: Any
    least: float
    scaled: F64
    floor: float

    def values(self, X: np.ndarray) -> np.ndarray:
        """The mean (n,) of rows X (n, m)."""
        return np.asarray(np.maximum(self.mean.values(X), self.floor))

    def distribution(self, X: np.ndarray) -> Distribution:
        """For rows X (n, m): the mean plus each residual times the row's spread. O(n R)."""
        values = np.asarray(self.mean.values(X))
        spread = np.ones(len(X))
        if self.spread is not None:
            spread = np.maximum(self.spread.values(X), self.least)

        def parts() -> Iterator[Samples]:
            R = len(self.scaled)
            levels = np.arange(1, R + 1)[None] / R
            step = _CELLS // R
            for start in range(0, len(X), step):
                rows = slice(start, start + step)
                samples = values[rows, None] + spread[rows, None] * self.scaled
                yield Samples(np.maximum(samples, self.floor), levels)

        return Distribution(np.maximum(values, self.floor), parts)


def even_quantiles(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """At most `RESIDUALS` quantiles at even levels of residuals (n,) with weights (n,)."""
    order = np.argsort(residuals)
    reached = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    R = min(len(residuals), RESIDUALS)
    return np.asarray(np.interp((np.arange(R) + 0.5) / R, reached, residuals[order]))
