"""Two classes and two actions: the cut on the probability of class 1, by benefits or by scores."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from payoff.errors import Invalid

# Relative; the rounding of sums of four nonnegative products stays below it.
_TIE = 16 * float(np.finfo(np.float64).eps)
_JUST_ABOVE_0 = math.nextafter(0.0, 1.0)
_JUST_BELOW_1 = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Cut:
    """Take action `above` where the score of class 1 is above `value`, else `below`; at `value` the
    action of the lower index.

    Where one action is better for both classes, `above` and `below` are that action, and `value`
    may be None.
    """

    value: float | None
    above: int = 1
    below: int = 0
    warnings: tuple[str, ...] = ()


def posterior_threshold(B: np.ndarray, actions: Sequence[object] = (0, 1)) -> Cut:
    """The cut t* on the posterior of class 1 that takes the action with the larger expected
    benefit, for B (2, 2).

    With `d = (b11 - b10) + (b00 - b01)`: for d > 0 action 1 is taken where `p1 > t* = (b00 - b01) /
    d`; for d < 0 the inequality is reversed; for d = 0 the action does not depend on p1. t* outside
    (0, 1) means that one action is at least as good for both classes. `actions` names the two
    actions in warnings. Source: the paper's section Benefit-Based Performance Metric.
    """
    first, second = _gains(B)
    d = first + second
    if d == 0 or first < 0 < second or second < 0 < first:
        better = int(first < second)
        return Cut(
            first / d if d else None, better, better, (_dominance(actions, better),)
        )
    # The value is 0 or 1 only where a gain is 0, never by rounding alone.
    lowest = _JUST_ABOVE_0 if first else 0.0
    highest = _JUST_BELOW_1 if second else 1.0
    value = min(max(lowest, first / d), highest)
    above = int(d > 0)
    below = 1 - above
    if not 0 < value < 1:
        return Cut(
            value, above, below, (_dominance(actions, above if value <= 0 else below),)
        )
    return Cut(value, above, below, () if d > 0 else (_reversal(actions),))


def _gains(B: np.ndarray) -> tuple[float, float]:
    """The gain of action 0 over the other on class 0, and of action 1 on class 1."""
    (b00, b01), (b10, b11) = B.tolist()
    return b00 - b01, b11 - b10


def _reversal(actions: Sequence[object]) -> str:
    """The warning that action 1 is taken below the cut."""
    return (
        f"action {actions[1]!r}, the second column, is taken BELOW the threshold and"
        f" {actions[0]!r} above it, as each is better for the other class; swap the columns if this"
        " is not intended"
    )


def _dominance(actions: Sequence[object], better: int) -> str:
    """The warning that one action is at least as good for both classes."""
    comparison = (
        f"action {actions[better]!r} is at least as good as {actions[1 - better]!r}"
    )
    return (
        f"{comparison} for both classes: no threshold in (0, 1) separates them and decisions do not"
        " depend on the data"
    )


def cut_at(
    value: float, B: np.ndarray | None = None, actions: Sequence[object] = (0, 1)
) -> Cut:
    """A cut at a number; with B (2, 2) in the direction of the cuts that follow from B.

    A number outside [0, 1] is allowed, with a warning: every instance gets the same action.
    """
    is_reversed = B is not None and sum(_gains(B)) < 0
    warnings = [_reversal(actions)] if is_reversed else []
    if not 0 <= value <= 1:
        warnings.append(
            "the threshold is outside [0, 1]: every instance gets the same action"
        )
    return Cut(value, int(not is_reversed), int(is_reversed), tuple(warnings))


def decide_by_threshold(p1: np.ndarray, cut: Cut) -> np.ndarray:
    """The actions, int (n,), for scores of class 1 (n,): `cut.above` above the cut, `cut.below`
    below it, and the action of the lower index at the cut.
    """
    if cut.value is None:
        return np.full(len(p1), cut.above)
    is_above = p1 > cut.value if cut.above >= cut.below else p1 >= cut.value
    return np.where(is_above, cut.above, cut.below)


class HoldoutScores:
    """Hold-out scores sorted once, to find the best cut of many benefit matrices.

    `scores` float64 (n,): larger means class 1 is more probable, calibrated or not; `y` codes 0 and
    1 (n,), and `weights` positive (n,), 1 each by default. Raises Invalid if a class is missing.
    O(n log n) here, O(m) per matrix for m distinct scores.
    """

    def __init__(
        self, scores: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
    ) -> None:
        self._weights = np.ones(len(y)) if weights is None else weights
        counts = np.bincount(y, self._weights, minlength=2)
        if len(counts) != 2 or not counts.all():
            raise Invalid.at(
                "", "the hold-out needs rows of both classes and of no other"
            )
        self.frequencies: np.ndarray = counts / counts.sum()
        self._scores, self._place = np.unique(scores, return_inverse=True)
        self._y = y
        # The rows of each class below cut j, (2, m + 1): those of the j lowest distinct scores.
        cuts = len(self._scores) + 1
        codes = y * cuts + self._place + 1
        sums = np.bincount(codes, self._weights, 2 * cuts).reshape(2, cuts)
        below = sums.cumsum(axis=1)
        self._below = below / counts[:, None]
        self._above = (counts[:, None] - below) / counts[:, None]

    def best(
        self,
        B: np.ndarray,
        priors: np.ndarray | None = None,
        actions: Sequence[object] = (0, 1),
    ) -> tuple[Cut, float]:
        """The cut with the largest mean benefit on the hold-out, and that benefit, for B (2, 2), or
        (n, 2, 2), a matrix for each row, whose mean determines which action is above the cut.

        `priors` (2,) are the weights of the classes (default: their shares in the hold-out). The
        cut lies midway between neighbouring scores, or just outside of all scores; of equally good
        cuts it is the one that takes action 0 most often. Action 1 is taken below the cut where
        `(b11 - b10) + (b00 - b01) < 0`. Where one action is at least as good for both classes,
        there is no cut, and all rows get that action; warnings as from `posterior_threshold`.
        """
        warnings: tuple[str, ...] = ()
        if B.ndim == 2:
            posterior = posterior_threshold(B, actions)
            warnings = posterior.warnings
            if posterior.value is None or not 0 < posterior.value < 1:
                better = posterior.below if posterior.value == 1 else posterior.above
                mean = float(self._priors(priors) @ B[:, better])
                return Cut(None, better, better, warnings), mean
        above = self._action_above(B)
        # Regrets are nonnegative, so the rounding of their sums is relative.
        regrets = self._means(B.max(axis=-1, keepdims=True) - B, above, priors)
        equal = np.flatnonzero(regrets <= regrets.min() * (1 + _TIE))
        j = int(equal[-1] if above else equal[0])
        mean = float(self._means(B, above, priors)[j])
        return Cut(self._value(j, above), above, 1 - above, warnings), mean

    def curve(
        self, B: np.ndarray, points: int = 200, priors: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The paper's B(t) at two or more evenly spaced t from 0 to 1: thresholds and benefits
        (points,), in the direction of `best`.
        """
        thresholds = np.linspace(0.0, 1.0, points)
        above = self._action_above(B)
        # A score at the threshold gets action 0, above or below.
        cuts = np.searchsorted(
            self._scores, thresholds, side="right" if above else "left"
        )
        return thresholds, self._means(B, above, priors)[cuts]

    def _action_above(self, B: np.ndarray) -> int:
        """The action above the cut."""
        if B.ndim == 3:
            B = np.average(B, axis=0, weights=self._weights)
        return int(sum(_gains(B)) >= 0)

    def _means(
        self, B: np.ndarray, above: int, priors: np.ndarray | None
    ) -> np.ndarray:
        """`pi0 F0 b[0][below] + pi0 (1 - F0) b[0][above] + …` for every cut, (m + 1,)."""
        if B.ndim == 3:
            weights = (self._priors(priors) / self.frequencies)[self._y]
            weights *= self._weights / self._weights.mean()
            benefits = B[np.arange(len(self._y)), self._y] * weights[:, None]
            if_below = self._sums(benefits[:, 1 - above])
            if_above = self._sums(benefits[:, above])
            return np.asarray(if_below + if_above[-1] - if_above)
        weighted = self._priors(priors)[:, None] * B
        means: np.ndarray = (
            weighted[:, 1 - above] @ self._below + weighted[:, above] @ self._above
        )
        return means

    def _sums(self, benefits: np.ndarray) -> np.ndarray:
        """The sums (m + 1,) of benefits (n,) of the rows below every cut, divided by n."""
        return np.append(
            0.0, np.bincount(self._place, benefits).cumsum() / len(benefits)
        )

    def _priors(self, priors: np.ndarray | None) -> np.ndarray:
        return self.frequencies if priors is None else priors

    def _value(self, j: int, above: int) -> float:
        """A threshold that has exactly j distinct scores below it."""
        if j == 0:
            return math.nextafter(self._scores[0], -math.inf)
        if j == len(self._scores):
            return math.nextafter(self._scores[-1], math.inf)
        low, high = float(self._scores[j - 1]), float(self._scores[j])
        middle = low + (high - low) / 2
        if low < middle < high:
            return middle
        return low if above else high  # there is no number between these neighbours
