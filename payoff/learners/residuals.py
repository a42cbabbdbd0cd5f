"""The distribution of numbers around a boosted mean: residuals of rows that it did not see."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from payoff.arrays import F64
from payoff.decisions.quantities import Distribution, Samples
from payoff.stored import Stored

RESIDUALS = 1000  # that stand for all
_CELLS = 1 << 20  # of the distributions that are made at once


@dataclass(frozen=True, eq=False)
class Residuals(Stored):
    """A boosted mean, a boosted `spread` (None: the same for all rows), and `scaled` (R,):
    residuals of unseen rows in units of their spread, ascending and equally likely, as in split
    conformal prediction. The spread is at least `least`, and no number below `floor`: numbers that
    are never negative stay so.
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
        """Of rows X (n, m): the mean plus each residual times the row's spread. O(n R)."""
        values = np.asarray(self.mean.values(X))
        spread = (
            np.ones(len(X))
            if self.spread is None
            else np.maximum(self.spread.values(X), self.least)
        )

        def parts() -> Iterator[Samples]:
            levels, rows = (
                np.arange(1, len(self.scaled) + 1)[None] / len(self.scaled),
                _CELLS // len(self.scaled),
            )
            for begin in range(0, len(X), rows):
                some = slice(begin, begin + rows)
                samples = values[some, None] + spread[some, None] * self.scaled
                yield Samples(np.maximum(samples, self.floor), levels)

        return Distribution(np.maximum(values, self.floor), parts)


def thinned(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """At most `RESIDUALS` quantiles at even levels of residuals (n,) with weights (n,)."""
    order = np.argsort(residuals)
    reached = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    R = min(len(residuals), RESIDUALS)
    return np.asarray(np.interp((np.arange(R) + 0.5) / R, reached, residuals[order]))
