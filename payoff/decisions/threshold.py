"""Two classes and two actions: the cut on the probability of class 1, from the benefits or from
hold-out scores.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from payoff.errors import Invalid

_TIE = 16 * float(
    np.finfo(np.float64).eps
)  # relative; sums of four nonnegative products differ by rounding below it
_JUST_ABOVE_0 = math.nextafter(0.0, 1.0)
_JUST_BELOW_1 = math.nextafter(1.0, 0.0)


@dataclass(frozen=True)
class Cut:
    """Take action `above` where the score of class 1 exceeds `value`, else `below`; at `value`
    itself the lower index.

    Without a `value`, or where one action is better for both classes, `above` and `below` are that
    action.
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
    (0, 1) means that one action is at least as good for both classes. `actions` names the two in
    warnings. Paper, Benefit-Based Performance Metric.
    """
    first, second = _gains(B)
    d = first + second
    if d == 0 or first < 0 < second or second < 0 < first:
        better = int(first < second)
        return Cut(first / d if d else None, better, better, (_one_dominates(actions, better),))
    # not 0 or 1 because of rounding alone
    value = min(max(_JUST_ABOVE_0 if first else 0.0, first / d), _JUST_BELOW_1 if second else 1.0)
    above = int(d > 0)
    if not 0 < value < 1:
        return Cut(
            value, above, 1 - above, (_one_dominates(actions, above if value <= 0 else 1 - above),)
        )
    return Cut(
        value, above, 1 - above, () if d > 0 else (_TURNED.format(one=actions[1], zero=actions[0]),)
    )


def _gains(B: np.ndarray) -> tuple[float, float]:
    """The gain of action 0 over the other on class 0, and of action 1 on class 1."""
    (b00, b01), (b10, b11) = B.tolist()
    return b00 - b01, b11 - b10


_TURNED = (
    "action {one!r}, the second column, is taken BELOW the threshold and {zero!r} above it, as each is better for"
    " the other class; swap the columns if this is not intended"
)


def _one_dominates(actions: Sequence[object], better: int) -> str:
    return (
        f"action {actions[better]!r} is at least as good as {actions[1 - better]!r} for both classes:"
        " no threshold in (0, 1) separates them and decisions do not depend on the data"
    )


def cut_at(value: float, B: np.ndarray | None = None, actions: Sequence[object] = (0, 1)) -> Cut:
    """A cut at a given number; with B (2, 2) in the direction of that matrix, as all cuts made from
    it.

    A number outside [0, 1] is allowed, with a warning: every instance gets the same action.
    """
    turned = B is not None and sum(_gains(B)) < 0
    warnings = [_TURNED.format(one=actions[1], zero=actions[0])] if turned else []
    if not 0 <= value <= 1:
        warnings.append("the threshold is outside [0, 1]: every instance gets the same action")
    return Cut(value, int(not turned), int(turned), tuple(warnings))


def decide_by_threshold(p1: np.ndarray, cut: Cut) -> np.ndarray:
    """The action, int (n,), for scores of class 1 (n,): `cut.above` beyond the cut, `cut.below`
    before, ties to 0.
    """
    if cut.value is None:
        return np.full(len(p1), cut.above)
    beyond = p1 > cut.value if cut.above >= cut.below else p1 >= cut.value
    return np.where(beyond, cut.above, cut.below)


class HoldoutScores:
    """Hold-out scores sorted once, to find the best cut of many benefit matrices.

    `scores` float64 (n,): larger means class 1 is more probable, calibrated or not; `y` codes 0 and
    1 (n,). Raises Invalid if a class is missing. O(n log n) here, O(m) per matrix for m distinct
    scores.
    """

    def __init__(self, scores: np.ndarray, y: np.ndarray) -> None:
        counts = np.bincount(y, minlength=2)
        if len(counts) != 2 or not counts.all():
            raise Invalid.at(
                "", "the hold-out needs rows of both classes and of no other; increase holdout"
            )
        self.frequencies: np.ndarray = counts / len(y)
        self._scores, place = np.unique(scores, return_inverse=True)
        self._y, self._place = y, place
        # how many rows of each class lie before cut j, (2, m + 1): none before cut 0, the j lowest
        # scores before cut j
        cuts = len(self._scores) + 1
        before = (
            np.bincount(y * cuts + place + 1, minlength=2 * cuts).reshape(2, cuts).cumsum(axis=1)
        )
        self._before, self._beyond = (
            before / counts[:, None],
            (counts[:, None] - before) / counts[:, None],
        )

    def best(
        self, B: np.ndarray, priors: np.ndarray | None = None, actions: Sequence[object] = (0, 1)
    ) -> tuple[Cut, float]:
        """The cut with the largest mean benefit on the hold-out, of all there are, and that
        benefit, for B (2, 2), or (n, 2, 2) for each row its own, whose mean then says which action
        is above.

        `priors` (2,) reweigh the classes (default: their shares in the hold-out). The cut lies
        midway between neighbouring scores, or just outside them all; of equally good cuts it is the
        one that takes action 0 most often. Action 1 is taken below it where `(b11 - b10) + (b00 -
        b01) < 0`, and there is no cut but one action throughout where that one is at least as good
        for both classes; warnings as from `posterior_threshold`.
        """
        above, warnings = self._above(B), tuple[str, ...]()
        if B.ndim == 2:
            posterior = posterior_threshold(B, actions)
            warnings = posterior.warnings
            if posterior.value is None or not 0 < posterior.value < 1:
                better = posterior.below if posterior.value == 1 else posterior.above
                return Cut(None, better, better, warnings), float(
                    self._priors(priors) @ B[:, better]
                )
        missed = self._means(
            B.max(axis=-1, keepdims=True) - B, above, priors
        )  # nonnegative sums: rounding is relative
        equal = np.flatnonzero(missed <= missed.min() * (1 + _TIE))
        j = int(equal[-1] if above else equal[0])
        return Cut(self._value(j, above), above, 1 - above, warnings), float(
            self._means(B, above, priors)[j]
        )

    def curve(
        self, B: np.ndarray, points: int = 200, priors: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """The paper's B(t) at evenly spaced t from 0 to 1, two or more: thresholds and benefits
        (points,), turned as in `best`.
        """
        thresholds, above = np.linspace(0.0, 1.0, points), self._above(B)
        # a score at the threshold gets action 0, whichever that is
        below = np.searchsorted(self._scores, thresholds, side="right" if above else "left")
        return thresholds, self._means(B, above, priors)[below]

    def _above(self, B: np.ndarray) -> int:
        """The action beyond the cut."""
        return int(sum(_gains(B if B.ndim == 2 else B.mean(axis=0))) >= 0)

    def _means(self, B: np.ndarray, above: int, priors: np.ndarray | None) -> np.ndarray:
        """`pi0 F0 b[0][below] + pi0 (1 - F0) b[0][above] + …` for every cut, (m + 1,)."""
        if B.ndim == 3:
            own = (
                B[np.arange(len(self._y)), self._y]
                * (self._priors(priors) / self.frequencies)[self._y, None]
            )
            sums = [
                np.bincount(self._place, own[:, action]).cumsum() / len(own)
                for action in (1 - above, above)
            ]
            return np.asarray(np.append(0.0, sums[0]) + sums[1][-1] - np.append(0.0, sums[1]))
        weighted = self._priors(priors)[:, None] * B
        means: np.ndarray = (
            weighted[:, 1 - above] @ self._before + weighted[:, above] @ self._beyond
        )
        return means

    def _priors(self, priors: np.ndarray | None) -> np.ndarray:
        return self.frequencies if priors is None else priors

    def _value(self, j: int, above: int) -> float:
        """A threshold that has exactly j distinct scores before it."""
        if j == 0:
            return math.nextafter(self._scores[0], -math.inf)
        if j == len(self._scores):
            return math.nextafter(self._scores[-1], math.inf)
        low, high = float(self._scores[j - 1]), float(self._scores[j])
        middle = low + (high - low) / 2
        if low < middle < high:
            return middle
        return low if above else high  # neighbours with no number between them
