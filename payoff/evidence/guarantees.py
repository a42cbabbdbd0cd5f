"""Cuts of a score above which an action's risk is certified: at most so often wrong, or so costly.

Learn then Test (Angelopoulos, Bates, Candès, Jordan and Lei, 2022, arXiv 2110.01052): each cut is a
hypothesis, that the risk of the cases above it exceeds the limit. Cuts are tested from the
strictest down, and a sequence stops at the first that is not rejected, so that the chance of any
false certificate is at most 1 - confidence. The risk need not fall with the score.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, betaincinv

STEP = 0.05  # of the cases, between two cuts
# Shares of the cases at which a sequence of tests starts: each has its part of the error, so that
# cases at the top that are worse than expected do not end them all.
_STARTS = (0.05, 0.2, 0.5)
# Below ten times the fewest cases that can certify there is one sequence, which starts at these.
_FEW = 10
_MAX_BET = 0.9  # share of the capital that one case can take
_HALVINGS = 40  # of the interval in which a bound is searched
_LEAST_GROWTH = (
    1e-12  # of the capital by one case: smaller limits need more cases than exist
)


class Limit(NamedTuple):
    """The mean risk of a case is at most `at_most`, with the probability `confidence`.

    A case can have the risk `largest`. A limit of wrong cases, whose risk is 0 or 1, has
    `of_money` False.
    """

    at_most: float
    confidence: float
    largest: float = 1.0
    of_money: bool = False

    @property
    def target(self) -> float:
        """The limit in parts of the largest risk of a case."""
        return self.at_most / self.largest

    @property
    def error(self) -> float:
        """The probability that the guarantee may fail with."""
        return 1.0 - self.confidence

    def min_cases(self, error: float | None = None) -> int:
        """The fewest cases, all flawless, that certify the limit."""
        error = self.error if error is None else error
        growth = -np.log1p(-self.target)
        if self.of_money:
            growth = np.log1p(_MAX_BET * self.target / (1 - self.target))
        return int(np.ceil(-np.log(error) / max(growth, _LEAST_GROWTH)))

    def is_shown(self, values: np.ndarray, error: float) -> bool:
        """Whether values (n,), risks in parts of the largest, show the limit to this error."""
        test = is_below if self.of_money else is_rarer
        return test(values, self.target, error)


class Certificate(NamedTuple):
    """The certified rule: cases with a score of at least `cut` are taken, `cases` of them.

    `risk` is their mean risk, `bound` the upper end of its one-sided interval at the confidence,
    and `gain` the sum of what taking them earned.
    """

    cut: float
    cases: int
    risk: float
    bound: float
    gain: float


def certify(
    score: np.ndarray, risk: np.ndarray, gain: np.ndarray, limit: Limit
) -> Certificate | None:
    """The certified cut that earns most, of cases with scores, risks and gains (n,).

    The cases are independent draws that the score has not been fitted to. Risks are from 0 to
    `limit.largest`; wrong cases have the exact binomial test, money a test by betting. A gain is
    what taking the case earns beyond what is done otherwise. Ties of scores are
    one cut. None where nothing is certified. O(n log n), and a pass for each of up to 48 cuts.
    """
    order = np.argsort(-score, kind="stable")
    values = risk[order] / limit.largest
    # The test by betting reads cases one after the other: in a fixed order that neither the score
    # nor the file has a say in.
    turn = np.random.default_rng(0).permutation(len(order))
    counts = _certified_counts(score[order], values, turn, limit)
    if not counts:
        return None
    gains = np.cumsum(gain[order])
    count = max(counts, key=lambda n: (gains[n - 1], n))
    inside = _in_turn(values, turn, count)
    return Certificate(
        cut=float(score[order[count - 1]]),
        cases=count,
        risk=float(inside.mean()) * limit.largest,
        bound=upper_bound(inside, limit) * limit.largest,
        gain=float(gains[count - 1]),
    )


def _certified_counts(
    score: np.ndarray, values: np.ndarray, turn: np.ndarray, limit: Limit
) -> set[int]:
    """How many cases each certified cut takes; scores (n,) fall."""
    starts = _starts(len(score), limit)
    error = limit.error / len(starts)
    certified = set()
    for start in starts:
        for count in _counts(score, start):
            inside = _in_turn(values, turn, count)
            if not limit.is_shown(inside, error):
                break
            certified.add(count)
    return certified


def _starts(n: int, limit: Limit) -> list[int]:
    """The numbers of cases at which the sequences start, which depend on n alone."""
    if n < _FEW * limit.min_cases():
        return [limit.min_cases()]
    min_cases = limit.min_cases(limit.error / len(_STARTS))
    return [max(int(np.ceil(share * n)), min_cases) for share in _STARTS]


def _counts(score: np.ndarray, start: int) -> list[int]:
    """Numbers of cases of the cuts from `start` on; a cut takes all cases of its lowest score."""
    n = len(score)
    step = max(1, int(STEP * n))
    ranks = np.arange(start, n + step, step).clip(max=n)
    if start > n:
        return []
    ends = np.searchsorted(-score, -score[ranks - 1], side="right")
    return np.unique(ends).tolist()


def _in_turn(values: np.ndarray, turn: np.ndarray, count: int) -> np.ndarray:
    """The first `count` of the values (n,), in the order in which the test reads them."""
    return values[turn[turn < count]]


def is_rarer(wrong: np.ndarray, target: float, error: float) -> bool:
    """Whether the share of ones among draws of 0 and 1 (n,) is shown to be below a target.

    The exact binomial test: wrong with a probability of at most `error`.
    """
    return bool(bdtr(float(wrong.sum()), len(wrong), target) <= error)


def is_below(values: np.ndarray, target: float, error: float) -> bool:
    """Whether the mean of the distribution of values (n,) in [0, 1] is shown to be below a target.

    Wrong with a probability of at most `error`. If the mean is at least the target, a gambler who
    bets that values are below it ever has 1 / error times the capital with a probability of at most
    `error` (Ville; bets of Waudby-Smith and Ramdas, 2023, section 4).
    """
    n = len(values)
    # Mean and variance of the values before each, with one value at half of the target before all.
    prior = target / 2
    counts = np.arange(1, n + 1)
    mean = (prior + _before(values)) / counts
    variance = (prior * (1 - prior) + _before((values - mean) ** 2)) / counts
    bet = np.sqrt(-2 * np.log(error) / (n * variance)).clip(max=_MAX_BET / (1 - target))
    capital = np.log1p(bet * (target - values)).cumsum()
    return bool(capital.max(initial=0.0) >= -np.log(error))


def _before(values: np.ndarray) -> np.ndarray:
    """The sum of the values (n,) before each."""
    return np.concatenate(([0.0], values[:-1].cumsum()))


def upper_bound(values: np.ndarray, limit: Limit) -> float:
    """The upper end of the mean's one-sided interval, of values (n,) in parts of the largest risk.

    Of wrong cases that of Clopper and Pearson (1934), of money the smallest mean that the bets
    reject.
    """
    n = len(values)
    if not limit.of_money:
        wrong = float(values.sum())
        return (
            1.0
            if wrong == n
            else float(betaincinv(wrong + 1, n - wrong, limit.confidence))
        )
    low = float(values.mean())
    high = 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if is_below(values, middle, limit.error):
            high = middle
        else:
            low = middle
    return high
