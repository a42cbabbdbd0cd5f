"""Confidence sequences: intervals that hold together with 95 %, however often they are shown."""

from dataclasses import dataclass, field

import numpy as np

from payoff.evidence.intervals import Mean

_REJECTED = float(
    np.log(2 / 0.05)
)  # log capital that rejects; each end may fail in half of 5 %
_MAX_LOSS = 0.75  # share of the capital that one value can take


@dataclass
class _Gambler:
    """Bets the same amount on each value of a batch, that it is positive."""

    largest_loss: float = 0.0  # that a value could have until now
    total_bet: float = 0.0
    log_capital: float = 0.0

    def play(self, values: np.ndarray, losses: np.ndarray, bet: float) -> None:
        """Bet on values (n,), each of which can lose at most `losses` (n,)."""
        self.largest_loss = max(self.largest_loss, float(losses.max()))
        if self.largest_loss > 0:
            bet = min(bet, _MAX_LOSS / self.largest_loss)
        self.log_capital += float(np.log1p(bet * values).sum())
        self.total_bet += bet * len(values)

    @property
    def lowest_mean(self) -> float:
        """The lowest mean that is not rejected."""
        return (self.log_capital - _REJECTED) / self.total_bet


@dataclass
class Sequence:
    """The mean of values that come in batches, such as the paired differences of a day; each value
    has its bounds.

    A gambler who bets b on each value x has the capital prod(1 + b x). If the mean, given the past,
    is m, the expected capital is at most prod(exp(b m)), and the capital ever exceeds 40 times that
    with a probability of at most 2.5 % (Ville; betting of Waudby-Smith and Ramdas, 2023). One
    gambler bets on gains, which gives the lower end, one on losses. The bet on a batch uses earlier
    batches, and how much its values can lose, which the matrices state. So the intervals hold at
    any sample size, for any distribution between the bounds, at all times at once. They assume that
    the mean, given the past, is always the same; where it is not, each end is a bound for the means
    weighted by the bets.
    """

    count: int = 0
    _total: float = 0.0
    _squares: float = 0.0
    _gains: _Gambler = field(default_factory=_Gambler)
    _losses: _Gambler = field(default_factory=_Gambler)
    _day: int = 0
    _batch: list[tuple[np.ndarray, ...]] = field(default_factory=list)  # of that day

    def add(
        self, values: np.ndarray, low: np.ndarray, high: np.ndarray, day: int
    ) -> None:
        """Add values (n,) of a day, with the bounds (n,) of each, which are known before the
        values. Days come in order, and each is a batch.
        """
        if day != self._day:
            self._bet()
            self._day = day
        self._batch.append((values, low, high))

    def _bet(self) -> None:
        """Bet on the values of the batch."""
        if not self._batch:
            return
        values, low, high = map(np.concatenate, zip(*self._batch, strict=True))
        self._batch = []
        n = len(values)
        before = self.count
        self.count += n
        possible = float((np.maximum(np.abs(low), np.abs(high)) ** 2).sum())
        if not possible:
            return
        # The mean square of earlier values, and of one more: a quarter of the largest possible.
        square = (self._squares + possible / (4 * n)) / (before + 1)
        bet = float(
            np.sqrt(2 * _REJECTED / (square * self.count * np.log1p(self.count)))
        )
        self._gains.play(values, -low, bet)
        self._losses.play(-values, high, bet)
        self._total += float(values.sum())
        self._squares += float((values * values).sum())

    def interval(self) -> Mean:
        """The mean of all days and its interval; no mean before the first value that can differ
        from 0.
        """
        self._bet()
        if not self._gains.total_bet:
            return Mean(None)
        return Mean(
            self._total / self.count, self._gains.lowest_mean, -self._losses.lowest_mean
        )
