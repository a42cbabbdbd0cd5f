"""What a model of rewards promises beside what a log says: calibration, and uplift curves.

The log's rewards are doubly robust (see `policies`), by models that did not see the case.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from payoff.evidence.intervals import Mean
from payoff.evidence.policies import (
    LoggedRewards,
    judge,
    judged_mean,
)

SHARES = np.arange(21) / 20  # of cases that are treated, along a curve
_MAX_BINS = 10
_CASES_OF_BIN = 40  # effective ones: an interval needs 30 that took the action


class Bin(NamedTuple):
    """Cases of about the same expected reward: their number, and those that took the action.

    `predicted` is the mean that was expected, `observed` the one that the log says, the interval
    being that of their difference.
    """

    rows: int
    acted: int
    predicted: float
    observed: Mean


class UpliftCurve(NamedTuple):
    """What treating the cases with the largest uplift earns over treating none, per case.

    `gains` are at each of `SHARES` of the cases, the last one that of treating all; `area` is the
    mean of the curve over that of treating as many at random (Qini), 0 for uplift that ranks
    nothing. Intervals are missing where the log cannot judge both policies, for a `reason`.
    """

    gains: list[Mean]
    area: Mean
    reason: str | None


def calibration(log: LoggedRewards, chosen: np.ndarray) -> list[Bin]:
    """Expected rewards of the actions that a policy chooses, codes (n,), beside those of the log.

    At most ten bins of about as many cases by their expected reward, by increasing reward, and
    fewer where fewer than 40 effective cases would be in each. Without an interval where the policy
    cannot be judged, or fewer than 30 cases of the bin took the action. O(n A + n log n).
    """
    predicted = log.expected[np.arange(len(chosen)), chosen]
    errors = log.values(chosen) - predicted
    acted = log.weights(chosen) > 0
    judgement = judge(log, chosen)
    cases = min(judgement.effective, judgement.expected_effective)
    bins = int(np.clip(cases // _CASES_OF_BIN, 1, _MAX_BINS))
    edges = np.quantile(predicted, np.arange(1, bins) / bins)
    codes = np.searchsorted(edges, predicted, side="right")
    lines = []
    for code in np.unique(codes):
        rows = np.flatnonzero(codes == code)
        part = log.take(rows)
        mean = float(np.average(predicted[rows], weights=part.row_weights))
        error = judged_mean(part.mean(errors[rows]), judgement.reason)
        lines.append(Bin(len(rows), int(acted[rows].sum()), mean, _moved(error, mean)))
    return lines


def uplift_curve(
    log: LoggedRewards, chosen: np.ndarray, baseline: int, fold: np.ndarray
) -> UpliftCurve:
    """The curve of treatments, codes (n,), over the `baseline`, a code.

    Cases are ranked by their expected uplift within their `fold` (n,): models of different folds
    err differently. Of cases with the same uplift a part is treated at random. The interval of the
    area is that of a statistic of pairs (Yadlowsky et al. 2025, "Evaluating treatment
    prioritization rules via rank-weighted average treatment effects"). O(n A + n log n).
    """
    n = len(chosen)
    single = np.full(n, baseline)
    uplift = log.expected[np.arange(n), chosen] - log.expected[:, baseline]
    effects = log.values(chosen) - log.values(single)
    first, last = _places(uplift, log.shares, fold)
    reason = judge(log, chosen, single).reason
    gains = [Mean(0.0, 0.0, 0.0)]
    for share in SHARES[1:]:
        treated = np.clip((share - first) / (last - first), 0.0, 1.0)
        gains.append(judged_mean(log.mean(effects * treated), reason))
    middle = (first + last) / 2
    # Each case adds its effect by its place, and moves the place of the others.
    curve = np.interp(middle, SHARES, [gain.mean or 0.0 for gain in gains])
    curve -= np.average(curve, weights=log.row_weights)
    area = judged_mean(log.mean(effects * (0.5 - middle) + curve), reason)
    return UpliftCurve(gains, area, reason)


def _places(
    uplift: np.ndarray, weights: np.ndarray, fold: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Between which shares of its fold (n,), by decreasing uplift (n,), each case and its equals
    are; by weights (n,).
    """
    first = np.empty(len(uplift))
    last = np.empty(len(uplift))
    for number in np.unique(fold):
        rows = fold == number
        places = np.unique(-uplift[rows], return_inverse=True)[1]
        sizes = np.bincount(places, weights[rows])
        ends = np.cumsum(sizes)
        last[rows] = ends[places] / ends[-1]
        first[rows] = (ends - sizes)[places] / ends[-1]
    return first, last


def _moved(mean: Mean, by: float) -> Mean:
    """A mean and its interval, moved by a number."""
    low, high = mean.low, mean.high
    return replace(
        mean,
        mean=(mean.mean or 0.0) + by,
        low=None if low is None else low + by,
        high=None if high is None else high + by,
    )
