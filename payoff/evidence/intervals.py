"""Means of differences of money, with intervals from sums alone.

Paired gains have Johnson's interval. Realised less promised benefit has an interval that holds for
rare losses: the probabilities of the model state how the benefit of each decision varies, and so
how the mean varies. They contain rare large losses that did not occur yet, and a sample does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from scipy.special import stdtr, stdtrit

from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE

LARGEST_EARNED = 1e100  # amount that is recorded, reported or replayed
# Of sums: fourth powers of amounts from 1e-37 to 1e100 neither vanish nor overflow, and division is
# exact.
UNIT = 2.0**120
ROUNDING = 1e-12  # relative; smaller differences are rounding
LEVEL = 0.95  # of all intervals
SIGNIFICANT = 0.05  # of all tests of changes and differences
Z = 1.959963984540054  # the 97.5 % quantile of the standard normal distribution
# Share of all classes in each distribution, as some models state 0 for rare classes.
_SMOOTH = 1e-5
_LOGIT = 24.0  # the binned log-odds are from -24 to 24
_SCALE = 512  # the binned binary logarithms of widths are from -512 to 512
_LOGIT_BINS = 481
_SCALE_BINS = 16_385
_MAX_PARTS = 64  # of a histogram, before they are merged
_NARROWER = 0.5  # prior standard deviation of the log dispersion below 1
_WIDER = 2.0  # prior standard deviation of the log dispersion above 1
# Skewness of the sum under the promise, above which there is no interval: that of about four losses
# of equal size.
_MAX_SKEWNESS = 0.5
_MAX_SHIFT = 30.0  # log-odds
# Dispersion above which the interval of the sample counts beside that of the promise.
_MAX_PROMISED_DISPERSION = 1.3


@dataclass(frozen=True)
class Mean:
    """A mean, None without values, and its 95 % interval from `low` to `high`.

    There is no interval where too few values differ from 0, or for another `reason`. `freedom` are
    the degrees of freedom of the estimate by days.
    """

    mean: float | None
    low: float | None = None
    high: float | None = None
    freedom: float = np.inf
    reason: str | None = None

    @property
    def p_value(self) -> float | None:
        """The two-sided p-value of a mean of 0, from the interval: each side is that of Student's
        t.
        """
        if self.mean is None or self.low is None or self.high is None:
            return None
        reach = self.mean - self.low if self.mean > 0 else self.high - self.mean
        if reach <= 0:
            return float(self.mean == 0)
        t = stdtrit(self.freedom, 0.975) * abs(self.mean) / reach
        return float(2 * stdtr(self.freedom, -t))


@dataclass
class MeanSums:
    """Sums of values: their number, those that differ from 0, sums of powers, and sums by day.

    Powers, the first three, and sums by day are of values divided by `UNIT`.
    """

    count: int = 0
    nonzero: int = 0
    total: float = 0.0
    powers: np.ndarray = field(default_factory=lambda: np.zeros(3))
    # By day the number of cases, and the sum of their values.
    days: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, values: np.ndarray, day: int = 0) -> None:
        """Values (n,) of cases of one day."""
        self.count += len(values)
        self.nonzero += int(np.count_nonzero(values))
        self.total += float(values.sum())
        values = values / UNIT
        square = values * values
        self.powers += (values.sum(), square.sum(), (square * values).sum())
        if len(values):
            self.days[day] = self.days.get(day, np.zeros(2)) + np.array(
                (len(values), values.sum())
            )

    def mean(self) -> Mean:
        """The mean, with the interval of Johnson's (1978) modified t: its centre is moved by the
        skewness.

        Cases of a day may depend on each other: with several days the variance is at least that of
        Student's t over days.
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
        reach = student(n - 1) * float(
            np.sqrt(second * widening(inflation, freedom) / (n - 1))
        )
        return Mean(value, (centre - reach) * UNIT, (centre + reach) * UNIT, freedom)


def day_inflation(
    totals: np.ndarray, share: np.ndarray, variance: float
) -> tuple[float | None, float]:
    """The variance of a sum by the totals of days (D,), over that of independent cases, and the
    degrees of freedom of this estimate; None for a single day.

    Each day is compared with its share (D,) in the sum; days of unequal shares have fewer degrees
    of freedom (Bell and McCaffrey, 2002).
    """
    complement = 1 - share
    if complement.min() < ROUNDING:
        return None, np.inf
    by_days = float(((totals - share * totals.sum()) ** 2 / complement).sum())
    weight = share**2 / complement
    freedom = 1 / float((share**2).sum() + weight.sum() ** 2 - (weight**2).sum())
    return by_days / variance, freedom


def widening(inflation: float | None, freedom: float) -> float:
    """The factor of a variance, at least 1, with which a normal interval becomes that of Student's
    t over days.
    """
    if inflation is None:
        return 1.0
    return max(inflation * (student(freedom) / Z) ** 2, 1.0)


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's interval of a share of n independent cases; its width is positive also where all
    cases are equal.
    """
    part = Z**2 / n
    reach = (part * share * (1 - share) + part**2 / 4) ** 0.5
    return (share + part / 2 - reach) / (1 + part), (share + part / 2 + reach) / (
        1 + part
    )


def student(freedom: float) -> float:
    """The 97.5 % quantile of Student's t."""
    return float(stdtrit(freedom, 0.975))


def risk(P: np.ndarray, payoffs: np.ndarray) -> np.ndarray:
    """The promised distribution of each case's benefit around its mean, as a distribution of two
    points, (2, n).

    The first row has the log-odds of the upper point, the second its distance from the lower point,
    0 where the benefit can vary by rounding only. Variance and skewness are those of the `payoffs`
    (n, K) of the chosen action under the class probabilities P (n, K). O(n K).
    """
    # Sums over the first axis are fast.
    values = np.ascontiguousarray(payoffs.T)
    shares = (1 - _SMOOTH) * np.ascontiguousarray(P.T) + _SMOOTH / len(values)
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
    # The root of u - 1/u = |skewness|, without cancellation.
    up = half + np.sqrt(half * half + 1)
    logit = -2 * np.log(up) * np.where(skewness < 0, -1.0, 1.0)
    return np.stack((logit, np.where(fixed, 0.0, size * deviation * (up + 1 / up))))


@dataclass
class PromiseSums(MeanSums):
    """What `promise_interval` needs of any number of differences, realised less expected: sums, and
    a histogram of risks.
    """

    # By day the promised variance of the sum of its differences.
    promised: dict[int, float] = field(default_factory=dict)
    # Arrays (4, cells): the code of each cell, its cases, sum of log-odds, and sum of variances.
    _cells: list[np.ndarray] = field(default_factory=list)

    def compare(self, differences: np.ndarray, risks: np.ndarray, day: int) -> None:
        """Add differences (n,) of cases of one day, and their risks (2, n), see `risk`.

        Without risk realised and expected benefit are equal but for rounding, and the difference
        counts as 0.
        """
        if not len(differences):
            return
        logit, width = risks
        varies = width > 0
        if not varies.all():
            differences = np.where(varies, differences, 0.0)
            logit = logit[varies]
            width = width[varies]
        self.add(differences, day)
        share = 1 / (1 + np.exp(-logit))
        variance = share * (1 - share) * (width / UNIT) ** 2
        self.promised[day] = self.promised.get(day, 0.0) + float(variance.sum())
        code = _bins(np.log2(width), _SCALE, _SCALE_BINS) * _LOGIT_BINS
        code = (code + _bins(logit, _LOGIT, _LOGIT_BINS)).astype(np.int64)
        if len(code):
            self._cells.append(
                _summed(code, np.stack((np.ones(len(code)), logit, variance)))
            )
        if len(self._cells) > _MAX_PARTS:
            self._cells = [self._merged()]

    def _merged(self) -> np.ndarray:
        """The histogram of all parts, (4, cells)."""
        cells = np.concatenate(self._cells, axis=1) if self._cells else np.zeros((4, 0))
        return _summed(cells[0].astype(np.int64), cells[1:])

    def points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The mean log-odds of each cell of the histogram, the width with the cell's variance, in
        units of `UNIT`, and its cases.
        """
        _, count, logit, variance = self._merged()
        logit = logit / np.maximum(count, 1)
        share = 1 / (1 + np.exp(-logit))
        return logit, np.sqrt(variance / count / (share * (1 - share))), count

    def by_days(self) -> tuple[float | None, float]:
        """See `day_inflation`; the share of a day is that of its promised variance."""
        if self.variance <= ROUNDING * self.powers[1] / self.count:
            return None, np.inf
        total = np.array([self.days[day][1] for day in self.promised])
        promised = np.array(list(self.promised.values()))
        return day_inflation(
            total, promised / promised.sum(), self.count * self.variance
        )

    @property
    def variance(self) -> float:
        """The variance of the differences."""
        return float(
            (self.powers[1] - self.powers[0] ** 2 / self.count) / (self.count - 1)
        )


@dataclass(frozen=True)
class PromiseInterval(Mean):
    """The mean difference of realised from expected benefit, with its interval.

    `dispersion` is the observed variance over the promised one, `day_inflation` the variance by the
    sums of days over that of independent cases, None for a single day.
    """

    dispersion: float | None = None
    day_inflation: float | None = None

    def verdict(self, tolerance: float) -> str:
        """Whether the interval proves a difference, or excludes one above the `tolerance`, which is
        10 % of the expected benefit.
        """
        if self.low is None or self.high is None:
            return "undecided"
        if self.high < 0:
            return "over_promises"
        if self.low > 0:
            return "under_promises"
        return (
            "within_10_percent"
            if max(-self.low, self.high) <= tolerance
            else "undecided"
        )


def compare_probabilities(
    sums: PromiseSums,
    P: np.ndarray,
    truth: np.ndarray,
    day: int = 0,
    weights: np.ndarray | None = None,
) -> float:
    """Add whether classes occurred, less the probability that they had; returns the sum of these.

    For P (n, K) and true codes (n,): of two classes the second, of more each row's most probable.
    `weights` (n,) have the mean 1, and are 1 each by default.
    """
    n, K = P.shape
    classes = np.ones(n, dtype=np.intp) if K == 2 else P.argmax(axis=1)
    stated = P[np.arange(n), classes]
    is_class = classes[:, None] == np.arange(K)
    w = np.ones(n) if weights is None else weights
    logit, width = risk(P, is_class * 1.0)
    sums.compare(w * ((truth == classes) - stated), np.stack((logit, w * width)), day)
    return float(w @ stated)


def promise_interval(sums: PromiseSums) -> PromiseInterval:
    """The 95 % interval of the mean difference: the shifts of all log-odds, common to all cases,
    that the sum of the differences does not reject at 2.5 % on either side.

    The distribution of the sum under a shift is the Cornish-Fisher expansion of its four cumulants.
    Its variance is multiplied by the observed dispersion, shrunk towards 1 by the part that is
    noise according to the promise. Where the dispersion is above 1.3, the promise describes the
    cases badly; the interval then contains that of Student's t, too. Cases of a day may depend on
    each other: with several days the variance is at least that of Student's t over days.
    """
    n = sums.count
    if n < MIN_ROWS_TO_COMPARE:
        reason = f"fewer than {MIN_ROWS_TO_COMPARE} cases with known truth"
        return PromiseInterval(sums.total / n if n else None, reason=reason)
    value = sums.total / n
    total = float(sums.powers[0])
    cumulants = partial(_cumulants, *sums.points(), n)
    _, second, third, _, _ = cumulants(0.0)
    if second <= 0:
        return PromiseInterval(value, value, value)
    if abs(third) > _MAX_SKEWNESS * second**1.5:
        reason = "too few cases for outcomes as rare and as large as these"
        return PromiseInterval(value, reason=reason)
    fitted = _root(lambda shift: total - cumulants(shift)[0], -_MAX_SHIFT, _MAX_SHIFT)
    ratio, dispersion = _dispersion(sums, cumulants(fitted))
    inflation, freedom = sums.by_days()
    widened = widening(inflation, freedom)

    def quantile(shift: float) -> float:
        return _cornish_fisher(total, cumulants(shift), dispersion * widened)

    lowest_shift = _crossing(lambda shift: Z - quantile(shift), fitted, -1)
    highest_shift = _crossing(lambda shift: Z + quantile(shift), fitted, 1)
    low = cumulants(lowest_shift)[0] / n
    high = cumulants(highest_shift)[0] / n
    if ratio > _MAX_PROMISED_DISPERSION:
        mean = total / n
        reach = Z * float(np.sqrt(sums.variance * widened / n))
        low = min(low, mean - reach)
        high = max(high, mean + reach)
    return PromiseInterval(
        value, low * UNIT, high * UNIT, freedom, None, ratio, inflation
    )


def _cumulants(
    logit: np.ndarray, width: np.ndarray, count: np.ndarray, cases: int, shift: float
) -> tuple[float, float, float, float, float]:
    """The first four cumulants of the sum of differences, and the sum of the squared variances of
    the cases.

    The cases are drawn from cells of two points; the log-odds of all upper points are shifted by
    `shift`.
    """
    promised = 1 / (1 + np.exp(-logit))
    share = 1 / (1 + np.exp(-(logit + shift)))
    mean = width * (share - promised)
    spread = share * (1 - share)
    variance = spread * width**2
    total = float(count @ mean)
    centred = mean - total / cases
    without_risk = max(cases - count.sum(), 0.0)  # cases whose difference is 0
    distance = -total / cases
    second = count @ (variance + centred**2) + without_risk * distance**2
    skewness = variance * (width * (1 - 2 * share) + 3 * centred) + centred**3
    third = count @ skewness + without_risk * distance**3
    fourth = count @ (variance * width**2 * (1 - 6 * spread))
    return total, float(second), float(third), float(fourth), float(count @ variance**2)


def _dispersion(sums: PromiseSums, cumulants: tuple[float, ...]) -> tuple[float, float]:
    """The observed variance over that of the fitted family, and the same ratio shrunk towards 1."""
    _, second, _, fourth, squares = cumulants
    observed = sums.count * sums.variance
    if second <= 0 or observed <= 0:
        return 1.0, 1.0
    ratio = float(observed / second)
    noise = max(fourth + 2 * squares, 0.0) / second**2
    prior = _NARROWER if ratio < 1 else _WIDER
    return ratio, float(ratio ** (1 / (1 + noise / prior**2)))


def _summed(code: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The different codes, and below them the sums of the columns of `values` (m, n) of each
    code.
    """
    codes, place = np.unique(code, return_inverse=True)
    return np.vstack((codes, *(np.bincount(place, row, len(codes)) for row in values)))


def _bins(values: np.ndarray, limit: float, bins: int) -> np.ndarray:
    """The nearest of so many bins between -limit and limit, as floats."""
    return np.rint(
        (np.clip(values, -limit, limit) + limit) * ((bins - 1) / (2 * limit))
    )


def _cornish_fisher(
    total: float, cumulants: tuple[float, ...], dispersion: float
) -> float:
    """The standard normal value whose tail is that of `total` in a distribution with these
    cumulants.
    """
    mean, second, third, fourth, _ = cumulants
    if second <= 0:
        return float(np.sign(total - mean) * np.inf) if total != mean else 0.0
    z = (total - mean) / float(np.sqrt(second * dispersion))
    g = third / second**1.5
    k = fourth / second**2
    by_skewness = g * (z * z - 1) / 6
    by_kurtosis = k * (z**3 - 3 * z) / 24
    return float(z - by_skewness - by_kurtosis + g * g * (4 * z**3 - 7 * z) / 36)


def _crossing(function: Callable[[float], float], start: float, sign: int) -> float:
    """The first root of a function that is positive at `start`, in the direction of `sign`, at most
    about `_MAX_SHIFT` away.
    """
    step = 0.02
    shift = start
    while abs(shift - start) < _MAX_SHIFT:
        following = shift + sign * step
        if function(following) < 0:
            return _root(function, *sorted((shift, following)))
        shift = following
        step *= 1.6
    return shift


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq  # noqa: PLC0415 - for reports alone

    """The root of a function between two numbers, or the number nearer to it where the function has
    one sign.
    """
    at_low, at_high = function(low), function(high)
    if at_low * at_high > 0:
        return low if abs(at_low) < abs(at_high) else high
    return float(brentq(function, low, high, xtol=1e-9, rtol=1e-12))
