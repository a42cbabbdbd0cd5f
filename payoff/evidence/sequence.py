"""A confidence sequence: intervals of which all together hold with 95 %, however often one
looks.
"""

from dataclasses import dataclass, field

import numpy as np

from payoff.evidence.intervals import Mean

_SURE = float(np.log(2 / 0.05))  # each end may fail in half of 5 %
_RISKED = 0.75  # the most of the capital that one value can take


@dataclass
class _Gambler:
    """Bets the same amount on each value of a batch that it is positive."""

    worst: float = 0.0  # the most that a value could lose until now
    bet: float = 0.0  # the sum of the bets
    won: float = 0.0  # the logarithm of the capital

    def play(self, values: np.ndarray, losses: np.ndarray, bet: float) -> None:
        self.worst = max(self.worst, float(losses.max()))
        if self.worst > 0:
            bet = min(bet, _RISKED / self.worst)
        self.won += float(np.log1p(bet * values).sum())
        self.bet += bet * len(values)

    @property
    def least(self) -> float:
        """The least mean that is not rejected."""
        return (self.won - _SURE) / self.bet


@dataclass
class Sequence:
    """The mean of values that come in batches, such as the paired differences of a day, each
    between bounds of its own.

    Who bets b on each value x has the capital prod(1 + b x), which `exp(b m)` of each value
    outgrows if the mean, given the past, is m: so it ever exceeds that 40-fold with a probability
    of at most 2.5 % (Ville; betting of Waudby-Smith and Ramdas, 2023). One gambler bets on gains,
    which gives the lower end, one on losses. The bet on a batch uses earlier batches, and how much
    its values can lose, which the matrices state; so this holds at any sample size, for any
    distribution between the bounds, at all times at once. It assumes that the mean, given the past,
    is always the same; where it is not, each end is one for the means weighted by the bets.
    """

    count: int = 0
    _total: float = 0.0
    _squares: float = 0.0
    _gains: _Gambler = field(default_factory=_Gambler)
    _losses: _Gambler = field(default_factory=_Gambler)
    _day: int = 0
    _waiting: list[tuple[np.ndarray, ...]] = field(default_factory=list)  # of that day

    def add(self, values: np.ndarray, low: np.ndarray, high: np.ndarray, day: int) -> None:
        """Values (n,) of a day, with the bounds (n,) of each, which are known without the values;
        days come in order, and each is a batch.
        """
        if day != self._day:
            self._bet()
            self._day = day
        self._waiting.append((values, low, high))

    def _bet(self) -> None:
        """Bet on the values that wait."""
        if not self._waiting:
            return
        values, low, high = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting = []
        n, before = len(values), self.count
        self.count += n
        possible = float((np.maximum(np.abs(low), np.abs(high)) ** 2).sum())
        if not possible:
            return
        square = (self._squares + possible / (4 * n)) / (
            before + 1
        )  # stands for what is not known yet
        bet = float(np.sqrt(2 * _SURE / (square * self.count * np.log1p(self.count))))
        self._gains.play(values, -low, bet)
        self._losses.play(-values, high, bet)
        self._total += float(values.sum())
        self._squares += float((values * values).sum())

    def interval(self) -> Mean:
        """The mean of all days and the ends of its interval; of nothing before the first value that
        can differ from 0.
        """
        self._bet()
        if not self._gains.bet:
            return Mean(None)
        return Mean(self._total / self.count, self._gains.least, -self._losses.least)
