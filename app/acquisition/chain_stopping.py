"""When a chain of forests stops: least squares Monte Carlo state by state, as all cases meet the same states.

Source: Longstaff, Schwartz, "Valuing American options by simulation" (2001).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from app.acquisition.chain import chained
from app.acquisition.prices import Prices, check_budget
from app.acquisition.stopping import FEW, Experience, Worth


@dataclass(frozen=True, eq=False)
class ChainExperience(Experience):
    """n rows in every state of chains that were grown without them: each is asked for all features in one order."""

    @classmethod
    def of(cls, P: np.ndarray, y: np.ndarray, missing: np.ndarray, order: Sequence[int], n_features: int) -> Self:
        """From calibrated P (n, S + 1, K), class codes y (n,), and `missing` (n, S) in the columns of `order` (S,)."""
        asked = np.repeat(np.asarray(order, dtype=np.int32)[None], len(y), axis=0)
        length = np.full(len(y), len(order))
        return cls(asked, missing, length, P.astype(np.float32), y, None, n_features, bounded=True)

    def fitted(self, stake: np.ndarray, now: np.ndarray, prices: Prices, budget: float | None = None) -> Worth:
        """`Experience.fitted`; from the last state to the first, the gain of going on is regressed on the stake and its
        square. O(n S).
        """
        price, paid, reached = chained(self.asked, self.missing, prices, check_budget(budget))
        S = self.asked.shape[1]
        lines = np.zeros((5, self.n_features))  # offset, slope, bend, low, high of each column
        worth = Worth(lines[0], lines[1], lines[3], lines[4], bounded=True, bend=lines[2])
        value = now[:, S]
        for s in range(S - 1, -1, -1):
            on = reached[:, s]
            j, gain = self.asked[0, s], value - now[:, s]
            if on.any():
                lines[:, j] = _quadratic(stake[on, s], gain[on])
            feature = np.full(len(on), j)
            on &= ~worth.stops(feature, price[:, s], stake[:, s])
            value = np.where(on, value - paid[:, s], now[:, s])
        return worth

    def error_by_state(self) -> np.ndarray:
        """The share of rows whose most probable class is wrong in each state, (S + 1,)."""
        wrong: np.ndarray = (self.P.argmax(axis=2) != self.y[:, None]).mean(axis=0)
        return wrong

    def stopping(self, B: np.ndarray, prices: Prices) -> np.ndarray:
        """The share of rows that stop in each state, (S + 1,), with benefits B (K, A) at these prices."""
        stake, now = self.valued(B)
        ends, _ = self.ends(self.fitted(stake, now, prices), stake, prices)
        shares: np.ndarray = np.bincount(ends, minlength=stake.shape[1]) / len(self)
        return shares


def _quadratic(z: np.ndarray, gain: np.ndarray) -> tuple[float, float, float, float, float]:
    """Offset, slope and bend of least squares, and the range of z (n,); the mean of few rows, or if z hardly
    varies.
    """
    low, high = float(z.min()), float(z.max())
    if len(z) < FEW or high - low <= 1e-9 * high:
        return float(gain.mean()), 0.0, 0.0, low, high
    x = (z - low) / (high - low)  # numbers of any size are solved alike
    (c0, c1, c2), *_ = np.linalg.lstsq(np.stack((np.ones(len(x)), x, x * x), axis=1), gain, rcond=1e-9)
    width = high - low
    slope, bend = c1 / width, c2 / (width * width)
    return float(c0 - slope * low + bend * low * low), float(slope - 2 * bend * low), float(bend), low, high
