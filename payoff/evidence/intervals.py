"""Means of differences of money, with intervals from sums alone.

Paired gains have Johnson's interval. Realised less promised benefit has one that holds for rare
losses: the model's own probabilities state how the benefit of each decision varies, and so how the
mean does. Rare large losses that did not occur yet are part of it; a sample alone cannot know them.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.special import stdtr, stdtrit

from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE

LARGEST_EARNED = 1e100  # amount that is recorded, told or replayed
UNIT = (
    2.0**120
)  # of sums: fourth powers of amounts from 1e-37 to 1e100 neither vanish nor overflow; division is exact
ROUNDING = 1e-12  # relative: differences below it are those of rounding alone
LEVEL, SIGNIFICANT = 0.95, 0.05  # of all intervals, and of all tests of changes and differences
Z = 1.959963984540054
_SMOOTH = (
    1e-5  # share of every class that the model excludes: some models state 0 where they mean rare
)
_LOGIT, _SCALE = (
    24.0,
    512,
)  # range of the binned log-odds, and the binary logarithms of ranges, each to both sides
_LOGIT_BINS, _SCALE_BINS = 481, 16_385
_NARROWER, _WIDER = 0.5, 2.0  # prior standard deviations of the log dispersion, below and above 1
_FEW = 0.5  # skewness of the sum under the promise above which no interval is given: of about four losses of equal size
_FAR = 30.0  # log-odds
_UNPROMISED = 1.3  # dispersion from which the sample has a say beside the promise


@dataclass(frozen=True)
class Mean:
    """A mean, None without values, and its 95 % interval, None where too few values differ from 0
    or for another `reason`; `freedom` are the degrees of freedom of the estimate by days.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None
    freedom: float = np.inf
    reason: str | None = None

    @property
    def p_value(self) -> float | None:
        """Of the mean being 0, two-sided, as far as the interval tells: each side as that of
        Student's t.
        """
        if self.mean is None or self.low is None or self.high is None:
            return None
        reach = self.mean - self.low if self.mean > 0 else self.high - self.mean
        if reach <= 0:
            return float(self.mean == 0)
        return float(
            2 * stdtr(self.freedom, -stdtrit(self.freedom, 0.975) * abs(self.mean) / reach)
        )


@dataclass
class MeanSums:
    """Sums of the first three powers of values, how many differ from 0, and the sums of days.
    Powers and days are of multiples of `UNIT`.
    """

    count: int = 0
    nonzero: int = 0
    total: float = 0.0
    powers: np.ndarray = field(default_factory=lambda: np.zeros(3))
    days: dict[int, np.ndarray] = field(default_factory=dict)  # cases, and the sum of their values

    def add(self, values: np.ndarray, day: int = 0) -> None:
        """Values (n,) of cases of one day."""
        self.count += len(values)
        self.nonzero += int(np.count_nonzero(values))
        self.total += float(values.sum())
        values = values / UNIT
        square = values * values
        self.powers += (values.sum(), square.sum(), (square * values).sum())
        if len(values):
            self.days[day] = self.days.get(day, np.zeros(2)) + np.array((len(values), values.sum()))

    def mean(self) -> Mean:
        """Johnson's (1978) modified t: the interval's centre is moved by the skewness.

        Cases of a day may depend on each other: of several days the variance is at least that of
        Student's over these.
        """
        if not self.count:
            return Mean(None)
        n, value = self.count, self.total / self.count
        mean, square, cube = (self.powers / n).tolist()
        if self.nonzero < MIN_ROWS_TO_COMPARE or n < 2:
            return Mean(value)
        second = square - mean**2
        if second <= ROUNDING * square:
            return Mean(value, value, value)
        centre = mean + (cube - 3 * mean * square + 2 * mean**3) / (6 * second * n)
        cases, total = np.array(list(self.days.values())).T
        inflation, freedom = day_inflation(total, cases / n, n * second)
        reach = student(n - 1) * float(np.sqrt(second * widening(inflation, freedom) / (n - 1)))
        return Mean(value, (centre - reach) * UNIT, (centre + reach) * UNIT, freedom)


def day_inflation(
    totals: np.ndarray, share: np.ndarray, variance: float
) -> tuple[float | None, float]:
    """The variance of a sum by the totals of days (D,), over that of independent cases, and the
    degrees of freedom of this estimate; None for one day, which shows nothing.

    Each day is compared with its share (D,) in the sum; days of unequal shares have fewer degrees
    of freedom (Bell and McCaffrey, 2002).
    """
    rest = 1 - share
    if rest.min() < ROUNDING:
        return None, np.inf
    found = float(((totals - share * totals.sum()) ** 2 / rest).sum())
    weight = share**2 / rest
    freedom = 1 / float((share**2).sum() + weight.sum() ** 2 - (weight**2).sum())
    return found / variance, freedom


def widening(inflation: float | None, freedom: float) -> float:
    """By how much a variance grows, at least 1, so that a normal interval becomes Student's over
    days.
    """
    return 1.0 if inflation is None else max(inflation * (student(freedom) / Z) ** 2, 1.0)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n independent cases; it is wider than 0 where all cases are
    equal, too.
    """
    part = Z**2 / n
    reach = (part * share * (1 - share) + part**2 / 4) ** 0.5
    return (share + part / 2 - reach) / (1 + part), (share + part / 2 + reach) / (1 + part)


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    return float(stdtrit(freedom, 0.975))


def risk(P: np.ndarray, payoffs: np.ndarray) -> np.ndarray:
    """The promised distribution of each case's benefit around its mean, as a distribution of two
    points, (2, n): the log-odds of the upper point, and its distance from the lower one, 0 where
    nothing can vary but by rounding.

    Variance and skewness are those that the class probabilities (n, K) promise of the `payoffs` (n,
    K) of the chosen action.
    """
    values, shares = (
        np.ascontiguousarray(payoffs.T),
        np.ascontiguousarray(P.T),
    )  # sums over the first axis are fast
    shares = (1 - _SMOOTH) * shares + _SMOOTH / len(values)
    size = np.abs(values).max(axis=0)
    fixed = np.max(values, axis=0) - np.min(values, axis=0) <= ROUNDING * size
    values = values / np.where(size > 0, size, 1.0)
    values -= (shares * values).sum(axis=0)
    moment = shares * values * values
    variance = np.where(fixed, 1.0, moment.sum(axis=0))
    moment *= values
    deviation = np.sqrt(variance)
    skewness = np.where(fixed, 0.0, moment.sum(axis=0) / (variance * deviation))
    half = np.abs(skewness) / 2
    up = half + np.sqrt(half * half + 1)  # the root of u - 1/u = |skewness|, without cancellation
    logit = -2 * np.log(up) * np.where(skewness < 0, -1.0, 1.0)
    return np.stack((logit, np.where(fixed, 0.0, size * deviation * (up + 1 / up))))


@dataclass
class PromiseSums(MeanSums):
    """All that `judge` needs of any number of differences, realised less expected: sums, and a
    histogram of risks.
    """

    _promised: dict[int, float] = field(default_factory=dict)  # variances of the sums of days
    _cells: list[np.ndarray] = field(
        default_factory=list
    )  # (cell, count, sum of log-odds, variance) x cells

    def compare(self, differences: np.ndarray, risks: np.ndarray, day: int) -> None:
        """Differences (n,) of cases of one day, and their risks (2, n), see `risk`.

        Without risk both sides are the same, so what differs is rounding, and counts as 0.
        """
        if not len(differences):
            return
        logit, width = risks
        if not (varies := width > 0).all():
            differences, logit, width = (
                np.where(varies, differences, 0.0),
                logit[varies],
                width[varies],
            )
        self.add(differences, day)
        share = 1 / (1 + np.exp(-logit))
        variance = share * (1 - share) * (width / UNIT) ** 2
        self._promised[day] = self._promised.get(day, 0.0) + float(variance.sum())
        cell = np.rint(
            (np.clip(logit, -_LOGIT, _LOGIT) + _LOGIT) * ((_LOGIT_BINS - 1) / (2 * _LOGIT))
        )
        scale = np.rint(
            (np.clip(np.log2(width), -_SCALE, _SCALE) + _SCALE) * ((_SCALE_BINS - 1) / (2 * _SCALE))
        )
        code = (scale * _LOGIT_BINS + cell).astype(np.int64)
        if len(code):
            self._cells.append(_summed(code, np.stack((np.ones(len(code)), logit, variance))))
        if len(self._cells) > 64:
            self._cells = [self._merged()]

    def _merged(self) -> np.ndarray:
        cells = np.concatenate(self._cells, axis=1) if self._cells else np.zeros((4, 0))
        return _summed(cells[0].astype(np.int64), cells[1:])

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the cells of the histogram: the mean log-odds, the width in units that has the
        variance, and the cases.
        """
        _, count, logit, variance = self._merged()
        logit = logit / np.maximum(count, 1)
        share = 1 / (1 + np.exp(-logit))
        return logit, np.sqrt(variance / count / (share * (1 - share))), count

    def by_days(self) -> tuple[float | None, float]:
        """See `day_inflation`; each day is compared with its share in what all days risk."""
        if self.variance <= ROUNDING * self.powers[1] / self.count:
            return None, np.inf
        total, promised = np.array(
            [(self.days[day][1], own) for day, own in self._promised.items()]
        ).T
        return day_inflation(total, promised / promised.sum(), self.count * self.variance)

    @property
    def variance(self) -> float:
        """Of the differences."""
        return float((self.powers[1] - self.powers[0] ** 2 / self.count) / (self.count - 1))


@dataclass(frozen=True)
class Judged(Mean):
    """The mean difference of realised from expected benefit, and what it proves.

    `dispersion` is the observed variance over the promised one, `day_inflation` the variance by the
    sums of days over that of independent cases (None: of one day).
    """

    dispersion: float | None = None
    day_inflation: float | None = None

    def verdict(self, tolerance: float) -> str:
        """Within 10 % only where the interval excludes differences above the `tolerance`, which is
        that part.
        """
        if self.low is None or self.high is None:
            return "undecided"
        if self.high < 0:
            return "over_promises"
        if self.low > 0:
            return "under_promises"
        return "within_10_percent" if max(-self.low, self.high) <= tolerance else "undecided"


def judge(sums: PromiseSums) -> Judged:
    """The 95 % interval of the mean difference: the shifts of all log-odds, common to all cases,
    that the sum of the differences does not reject at 2.5 % on either side.

    The distribution of the sum under a shift is the Cornish-Fisher expansion of its four cumulants.
    Its variance is multiplied by the observed dispersion, shrunk towards 1 as far as the promise
    says that it is noise. Where it is above 1.3, the promise describes the cases badly; the
    interval then contains Student's, too. Cases of a day may depend on each other: of several days
    the variance is at least that of Student's over these.
    """
    n, total = sums.count, float(sums.powers[0])
    if n < MIN_ROWS_TO_COMPARE:
        return Judged(
            sums.total / n if n else None,
            reason=f"fewer than {MIN_ROWS_TO_COMPARE} cases with known truth",
        )
    mean, value, cumulants = total / n, sums.total / n, partial(_cumulants, *sums.points(), n)
    _, second, third, _, _ = cumulants(0.0)
    if second <= 0:
        return Judged(value, value, value)
    if abs(third) > _FEW * second**1.5:
        return Judged(value, reason="too few cases for outcomes as rare and as large as these")
    fitted = _root(lambda shift: total - cumulants(shift)[0], -_FAR, _FAR)
    ratio, dispersion = _dispersion(sums, cumulants(fitted))
    inflation, freedom = sums.by_days()
    widened = widening(inflation, freedom)

    def place(shift: float) -> float:
        return _cornish_fisher(total, cumulants(shift), dispersion * widened)

    low = _crossing(lambda shift: Z - place(shift), fitted, -1)
    high = _crossing(lambda shift: Z + place(shift), fitted, 1)
    ends = cumulants(low)[0] / n, cumulants(high)[0] / n
    if ratio > _UNPROMISED:
        reach = Z * float(np.sqrt(sums.variance * widened / n))
        ends = min(ends[0], mean - reach), max(ends[1], mean + reach)
    return Judged(value, ends[0] * UNIT, ends[1] * UNIT, freedom, None, ratio, inflation)


def _cumulants(
    logit: np.ndarray, width: np.ndarray, count: np.ndarray, cases: int, shift: float
) -> tuple[float, float, float, float, float]:
    """Of the sum of differences of as many cases drawn from cells of two points, all log-odds of
    the upper ones shifted by the same amount: the first four, and the sum of the squared variances
    of the cases.
    """
    start, share = (1 / (1 + np.exp(-odds)) for odds in (logit, logit + shift))
    mean = width * (share - start)
    spread = share * (1 - share)
    variance = spread * width**2
    total = float(count @ mean)
    centred = mean - total / cases
    rest = max(cases - count.sum(), 0.0)  # cases without risk, whose difference is 0
    outer = -total / cases
    second = count @ (variance + centred**2) + rest * outer**2
    third = (
        count @ (variance * (width * (1 - 2 * share) + 3 * centred) + centred**3) + rest * outer**3
    )
    fourth = count @ (variance * width**2 * (1 - 6 * spread))
    return total, float(second), float(third), float(fourth), float(count @ variance**2)


def _dispersion(sums: PromiseSums, cumulants: tuple[float, ...]) -> tuple[float, float]:
    """Observed variance over that of the fitted family, as it is and shrunk."""
    _, second, _, fourth, squares = cumulants
    observed = sums.count * sums.variance
    if second <= 0 or observed <= 0:
        return 1.0, 1.0
    ratio = float(observed / second)
    noise = max(fourth + 2 * squares, 0.0) / second**2
    prior = _NARROWER if ratio < 1 else _WIDER
    return ratio, float(ratio ** (1 / (1 + noise / prior**2)))


def _summed(code: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Sums of the columns of `values` (m, n) that have the same code, below these codes."""
    found, place = np.unique(code, return_inverse=True)
    return np.vstack((found, *(np.bincount(place, row, len(found)) for row in values)))


def _cornish_fisher(total: float, cumulants: tuple[float, ...], dispersion: float) -> float:
    """The standard normal value whose tail is that of `total` in a distribution with these
    cumulants.
    """
    mean, second, third, fourth, _ = cumulants
    if second <= 0:
        return float(np.sign(total - mean) * np.inf) if total != mean else 0.0
    z = (total - mean) / float(np.sqrt(second * dispersion))
    g, k = third / second**1.5, fourth / second**2
    return float(
        z - g * (z * z - 1) / 6 - k * (z**3 - 3 * z) / 24 + g * g * (4 * z**3 - 7 * z) / 36
    )


def _crossing(function: Callable[[float], float], start: float, sign: int) -> float:
    """Where a function that is positive at `start` first is negative in the direction of `sign`, at
    most 30 away.
    """
    step, last = 0.02, start
    while abs(last - start) < _FAR:
        following = last + sign * step
        if function(following) < 0:
            return _root(function, *sorted((last, following)))
        last, step = following, step * 1.6
    return last


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415 - imported with the first report

    ends = function(low), function(high)
    if ends[0] * ends[1] > 0:
        return low if abs(ends[0]) < abs(ends[1]) else high
    return float(brentq(function, low, high, xtol=1e-9, rtol=1e-12))
