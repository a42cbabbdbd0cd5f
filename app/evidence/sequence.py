"""A confidence sequence: intervals of which all together hold with 95 %, however often one looks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

_ERROR = 0.05
_BET = 0.5  # the largest bet, as a share of what can be lost


@dataclass
class Sequence:
    """The mean of bounded values that come in batches, such as the paired differences of a day.

    Empirical Bernstein with predictable bets (Waudby-Smith and Ramdas, 2023, theorem 2). The bet on a batch uses
    earlier batches alone, and the range of its values, which the matrices state; so it holds at any sample size, for
    any distribution in the range, at all times at once. It assumes that the mean, given the past, is always the same;
    where it is not, the interval is one of the means weighted by the bets.
    """

    count: int = 0
    _width: float = 0.0
    _total: float = 0.0  # as a multiple of the width
    _squares: float = 0.0  # the same of the distances from the mean before the batch
    _bet: float = 0.0
    _won: float = 0.0
    _cost: float = 0.0

    def add(self, values: np.ndarray, width: float) -> None:
        """A batch (n,) within a range of `width`, which is known without the values: twice what one case can differ."""
        n = len(values)
        if not n or width <= 0:
            self.count += n
            return
        if width > self._width:
            narrower, self._width = self._width / width, width
            self._total *= narrower
            self._squares *= narrower**2
        values = values / self._width
        mean = self._total / max(self.count, 1)
        variance = (self._squares + 1 / 4) / (self.count + 1)
        planned = self.count + n
        share = float(min(np.sqrt(2 * np.log(2 / _ERROR) / (variance * planned * np.log1p(planned))), _BET))
        squares = float(((values - mean) ** 2).sum())
        total = float(values.sum())
        self._won += share * total
        self._bet += share * n / self._width
        self._cost += squares * (-np.log1p(-share) - share)
        self._squares += squares
        self.count += n
        self._total += total

    def interval(self) -> tuple[float, float, float] | None:
        """The weighted mean and the ends of its interval; None before the first value that can differ."""
        if self._bet <= 0:
            return None
        centre = self._won / self._bet
        reach = float(np.log(2 / _ERROR) + self._cost) / self._bet
        return centre, max(centre - reach, -self._width / 2), min(centre + reach, self._width / 2)
