"""A weighted mean of the probabilities, or numbers, of several fitted learners."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from payoff.decisions.calibration import Calibrator, is_flat
from payoff.decisions.explanations import Contributions
from payoff.decisions.folds import Blocks
from payoff.learners.base import Learner
from payoff.learners.linear import softmax
from payoff.learners.unseen import mean_and_error, near_best
from payoff.stored import Stored

MAX_MEMBERS = 3
"""Kinds that a blend counts, with repetitions: more gained nothing."""
# Points and weights of an integral over [0, 1].
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True, eq=False)
class Blend(Stored):
    """Learners of the same classes 0…K-1, or of numbers, their `weights` (M,) of sum 1, and the
    calibration.
    """

    members: tuple[Learner, ...]
    weights: np.ndarray
    calibrator: Calibrator | None

    @property
    def calibration_(self) -> str:
        """The calibration of the mean."""
        return "none" if self.calibrator is None else "sigmoid"

    def findings(self, _names: Sequence[str]) -> dict[str, Any]:
        """Nothing: a fit reports the members."""
        return {}

    def posterior(self, X: np.ndarray) -> np.ndarray:
        return self._mean([member.posterior for member in self.members], X)

    def plain_posterior(self, X: np.ndarray) -> np.ndarray:
        """`posterior` of rows of numbers that are neither missing nor huge."""
        return self._mean([member.plain_posterior for member in self.members], X)

    def values(self, X: np.ndarray) -> np.ndarray:
        """The numbers (n,) of rows X (n, m), NaN where missing."""
        return self._mean([member.values for member in self.members], X)

    def _mean(
        self, functions: Sequence[Callable[[np.ndarray], np.ndarray]], X: np.ndarray
    ) -> np.ndarray:
        P = self.weights[0] * functions[0](X)
        for weight, function in zip(self.weights[1:], functions[1:], strict=True):
            P += weight * function(X)
        return P if self.calibrator is None else self.calibrator.apply(P)

    def refit(
        self,
        X: np.ndarray,
        codes: np.ndarray,
        weights: np.ndarray | None,
        blocks: Blocks | None,
    ) -> None:
        """Fit every member again; weights and calibration stay."""
        for member in self.members:
            member.refit(X, codes, weights, blocks)

    def ranks(self) -> bool:
        """Whether the probabilities differ from row to row."""
        ranked = any(member.ranks() for member in self.members)
        return ranked and not is_flat(self.calibrator)

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions | None:
        """The weighted mean of the members' contributions, of those that have some.

        Members with different scores contribute to their probabilities.
        """
        parts = [member.contributions(X, chosen) for member in self.members]
        scores = {part.score for part in parts if part is not None}
        if len(scores) > 1:
            parts = [
                part
                if part is None or part.score == "probability"
                else _to_probability(member, X, part.chosen)
                for member, part in zip(self.members, parts, strict=True)
            ]
        weighted = [
            (weight, part)
            for weight, part in zip(self.weights, parts, strict=True)
            if part is not None
        ]
        if not weighted:
            return None
        total = sum(weight for weight, _ in weighted)
        return replace(
            weighted[0][1],
            values=sum(weight / total * part.values for weight, part in weighted),
            base=sum(weight / total * part.base for weight, part in weighted),
            without=tuple(
                member.name
                for member, part in zip(self.members, parts, strict=True)
                if part is None
            ),
        )


def _to_probability(member: Any, X: np.ndarray, chosen: np.ndarray) -> Contributions:
    """Contributions (n, m) to the probability of the `chosen` classes (n,), from those to scores.

    Integrated gradients: each feature's part of the way of the scores from their base to the row,
    times the slope of the probability along it. Source: Sundararajan, Taly, Yan (2017), Axiomatic
    attribution for deep networks, section 3. O(n m K).
    """
    n, K = len(X), len(member.classes_)
    classes = range(1 if K == 2 else 0, K)
    scores = [member.contributions(X, np.full(n, k)) for k in classes]
    values = np.stack([score.values for score in scores], axis=2)
    base = np.stack([score.base for score in scores], axis=1)
    if K == 2:  # one score, the log-odds of the second class
        values = np.concatenate((np.zeros_like(values), values), axis=2)
        base = np.concatenate((np.zeros_like(base), base), axis=1)
    way = values.sum(axis=1)
    is_chosen = np.eye(K)[chosen]
    slopes = np.zeros((n, K))
    for point, weight in zip((_POINTS + 1) / 2, _WEIGHTS / 2, strict=True):
        P = softmax(base + point * way)
        slopes += weight * P[np.arange(n), chosen, None] * (is_chosen - P)
    effects = np.einsum("nmk,nk->nm", values, slopes)
    reached = softmax(base + way)[np.arange(n), chosen]
    return Contributions(
        effects, reached - effects.sum(axis=1), chosen, score="probability"
    )


def best_blend(
    answers: Mapping[str, np.ndarray],
    losses: Callable[[np.ndarray], np.ndarray],
    weights: np.ndarray,
    slow: str,
) -> dict[str, float]:
    """The weight of each kind in the best blend of up to `MAX_MEMBERS` kinds, those above 0.

    `answers` (n,) are each kind's to rows that it did not see, `losses` maps such answers to the
    losses (n,), `weights` (n,) are those of the rows. The least mean loss of those within a
    standard error of the best, and of these of those without the `slow` kind, if there are any.
    O(n) for each blend; there are 45 of five kinds.
    """
    gains = {
        kinds: -losses(np.mean([answers[kind] for kind in kinds], axis=0))
        for count in range(1, MAX_MEMBERS + 1)
        for kinds in combinations_with_replacement(answers, count)
        if count == 1 or len(set(kinds)) > 1
    }
    near = near_best(gains, weights)
    quick = [kinds for kinds in near if slow not in kinds] or near
    best = max(quick, key=lambda kinds: mean_and_error(gains[kinds], weights)[0])
    return {kind: count / len(best) for kind, count in Counter(best).items()}
