"""Ways to decide, and the difference in benefit between two ways on the same cases.

A way is a column of actions (n,) over the cases of a slice, `UNKNOWN` where it decides nothing: the
decisions, the actions really performed, always the same action, the choices of a challenger, or
those of another model, rule or matrix.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from app.outcomes.decision import UNKNOWN, Label
from app.report.earned import MIN_ACTION_SHARE, amount, total
from app.report.slices import Slice
from payoff.decisions.benefit import least, losses
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.decisions.row_weights import effective_rows
from payoff.evidence.intervals import Mean, MeanSums, risk
from payoff.evidence.sequence import Sequence as Betting
from payoff.evidence.truths import payoff_range, propensity_estimate

_THIN = f"there are fewer than {MIN_ROWS_TO_COMPARE} cases of a class in which the two can differ"
# cases whose values are held; of more cases every second, fourth, …
_MAX_KEPT = 100_000
_MIN_EFFECTIVE = 10  # cases of equal weight after a best action
_IPS = (
    "all decisions with a propensity, "
    "weighted by how probable it was that the truth became known"
)
_DR = "the same, with the model's expectation where the truth is unknown"


def undrawn_actions(part: Slice, rows: np.ndarray) -> np.ndarray:
    """The actions (n,) that rows (n,) of a slice would have by their probabilities, had no action
    been drawn.
    """
    best: np.ndarray = part.choice[rows]
    # The best action has a propensity above one half.
    drawn = np.flatnonzero(part.propensity[rows] <= 0.5)
    P = part.probabilities[rows[drawn]]
    regrets = losses(part.stack.matrices[part.term[rows[drawn]]])
    best[drawn] = least(np.einsum("nk,nka->an", P, regrets), P.shape[1])
    return best


def truth_chances(part: Slice, shares: Mapping[Label, float]) -> np.ndarray:
    """The probability (n,) that the truth of each case became known, by the `shares` of known
    truths after each action.

    Where actions were drawn it is the mean over the draws; else that after the case's own action.
    """
    known_after = np.array([shares.get(label, 0.0) for label in part.stack.actions])
    chances = known_after[part.choice]
    epsilon = part.stack.explore[part.term]
    rows = np.flatnonzero(~np.isnan(part.propensity + epsilon) & part.has_matrix)
    after_best = known_after[undrawn_actions(part, rows)]
    chances[rows] = after_best + epsilon[rows] * (known_after.mean() - after_best)
    return chances


def likely_actions(part: Slice) -> np.ndarray:
    """The best action (n,) for the most probable class; of equally good actions the first."""
    best = part.stack.matrices.argmax(axis=2)
    return np.asarray(best[part.term, part.probabilities.argmax(axis=1)])


def way(part: Slice, rows: np.ndarray, actions: np.ndarray | int) -> np.ndarray:
    """The way (n,) that takes these actions in rows of a slice, and no action in other rows."""
    column = np.full(len(part), UNKNOWN, dtype=np.intp)
    column[rows] = actions
    return column


@dataclass
class Paired(MeanSums):
    """The differences between two ways, the cases by class, and the classes in which the two could
    have earned differently.

    A rare large loss that did not occur yet is in no difference: with few cases of its class there
    is no interval.
    """

    by_class: Counter[Label] = field(default_factory=Counter)
    differing_classes: set[Label] = field(default_factory=set)

    def compare(
        self, part: Slice, base: np.ndarray, rival: np.ndarray | None
    ) -> np.ndarray:
        """Add the benefit of `rival` less that of `base` where both decide and the truth is known.

        The rival None takes the best action of the true class. Returns the rows that were compared.
        """
        rows = part.priced
        decided = base[rows] != UNKNOWN
        if rival is not None:
            decided &= rival[rows] != UNKNOWN
        if not decided.all():
            rows = rows[decided]
        if not len(rows):
            return rows
        M = part.stack.matrices
        best = part.stack.best
        term = part.term[rows]
        truth = part.truth[rows]
        first = base[rows]
        second = first if rival is None else rival[rows]
        earned = best[term, truth] if rival is None else M[term, truth, second]
        self.add(earned - M[term, truth, first], part.day)
        counts = np.bincount(truth, minlength=M.shape[1]).tolist()
        self.by_class.update(dict(zip(part.stack.classes, counts, strict=True)))
        # The distinct terms with two actions; with few possible ones counting is faster than
        # sorting.
        sizes = len(M), M.shape[2], M.shape[2]
        code = np.ravel_multi_index((term, first, second), sizes)
        can_count = math.prod(sizes) <= 4 * len(code)
        distinct = np.flatnonzero(np.bincount(code)) if can_count else np.unique(code)
        term, first, second = np.unravel_index(distinct, sizes)
        payoffs = best[term] if rival is None else M[term, :, second]
        differs = (M[term, :, first] != payoffs).any(axis=0)
        self.differing_classes.update(
            part.stack.classes[k] for k in np.flatnonzero(differs)
        )
        return rows

    def mean(self) -> Mean:
        mean = super().mean()
        if any(
            self.by_class[label] < MIN_ROWS_TO_COMPARE
            for label in self.differing_classes
        ):
            return Mean(mean.mean, reason=_THIN)
        return mean

    def __iadd__(self, paired: Paired) -> Self:
        self.count += paired.count
        self.nonzero += paired.nonzero
        self.total += paired.total
        self.powers += paired.powers
        for day, sums in paired.days.items():
            self.days[day] = self.days.get(day, np.zeros(2)) + sums
        self.differing_classes |= paired.differing_classes
        self.by_class.update(paired.by_class)
        return self


@dataclass
class Ways:
    """The ways that every report compares with the decisions, and the actions of people.

    `singles` are the ways of a single action, by action and half of the cases. `reported` is the
    benefit that clients reported less that of the matrix. `shadows` are the challengers by name,
    and `differing` the numbers of cases in which they chose another action.
    """

    decided: float = 0.0
    most_probable: Paired = field(default_factory=Paired)
    perfect: Paired = field(default_factory=Paired)
    singles: dict[tuple[Label, int], Paired] = field(
        default_factory=lambda: defaultdict(Paired)
    )
    overrides: Paired = field(default_factory=Paired)
    reported: MeanSums = field(default_factory=MeanSums)
    shadows: defaultdict[str, Betting] = field(
        default_factory=lambda: defaultdict(Betting)
    )
    differing: Counter[str] = field(default_factory=Counter)

    def add(self, part: Slice) -> None:
        rows = part.priced
        money = part.money
        if not len(rows):
            return
        # Cases alternate between the halves, also from slice to slice.
        half = np.zeros(len(part), dtype=bool)
        half[rows] = (self.perfect.count + np.arange(len(rows))) % 2 == 0
        self.decided += float(money.decided.sum())
        self.perfect.compare(part, part.choice, None)
        self.most_probable.compare(part, part.choice, likely_actions(part))
        for number, side in enumerate((half, ~half)):
            base = np.where(side, part.choice, UNKNOWN)
            for place, label in enumerate(part.stack.actions):
                self.singles[label, number].compare(
                    part, base, np.full(len(part), place)
                )
        if money.overridden.any():
            overridden = rows[money.overridden]
            people = way(part, overridden, part.performed[overridden])
            self.overrides.compare(part, part.choice, people)
        has_benefit = ~np.isnan(part.benefit[rows])
        self.reported.add(
            (money.received - money.performed_earned)[has_benefit], part.day
        )
        for name, choices in part.shadows.items():
            shadowed = rows[choices[rows] != UNKNOWN]
            # (rows, K): the gains in every class
            gains = part.payoffs(shadowed, choices) - part.payoffs(
                shadowed, part.choice
            )
            realised = gains[np.arange(len(shadowed)), part.truth[shadowed]]
            self.shadows[name].add(realised, *payoff_range(gains), part.day)
            differs = choices[shadowed] != part.choice[shadowed]
            self.differing[name] += int(np.count_nonzero(differs))

    def alternatives(self, basis: str) -> dict[str, Any] | None:
        """The benefits of other ways on the same cases; None without cases."""
        n = self.perfect.count
        if not n:
            return None
        single = self._single(n)
        compared = {"most_probable": self.most_probable, "perfect": self.perfect}
        if single is not None:
            compared["best_single_action"] = single[1]
        lines: dict[str, dict[str, Any]] = {
            name: {
                **total(self.decided + paired.total, n, basis),
                "gain": gain(paired, basis),
            }
            for name, paired in compared.items()
        }
        best = None
        if single is not None:
            best = {"action": single[0], **lines["best_single_action"]}
        return {
            "decided": total(self.decided, n, basis),
            "most_probable": lines["most_probable"],
            "best_single_action": best,
            "perfect": lines["perfect"],
        }

    def _single(self, n: int) -> tuple[Label, Paired] | None:
        """The best of the actions that all cases have, with a comparison without hindsight: on each
        half of the cases, the action that was best on the other half.
        """
        labels = [
            label
            for label in dict.fromkeys(label for label, _ in self.singles)
            if self.singles[label, 0].count + self.singles[label, 1].count == n
        ]
        if not labels or n < 2:
            return None
        crossed = Paired()
        for half in (0, 1):
            label = max(labels, key=lambda label: self.singles[label, 1 - half].total)
            crossed += self.singles[label, half]
        best = max(
            labels,
            key=lambda label: (
                self.singles[label, 0].total + self.singles[label, 1].total
            ),
        )
        return best, crossed

    def overriding(self, basis: str, doubt: str | None = None) -> dict[str, Any]:
        """Whether people or decisions earned more where people performed another action; a `doubt`
        is the reason why that is open.
        """
        mean = self.overrides.mean()
        doubt = doubt or mean.reason
        right = {"better": "people", "worse": "decisions"}.get(
            verdict(mean, doubt), "undecided"
        )
        return {**gain(self.overrides, basis), "right": right, "reason": doubt}

    def challengers(self, basis: str, doubt: str | None = None) -> list[dict[str, Any]]:
        """Challengers against the decisions, by confidence sequences; a `doubt` is the reason why
        no challenger has a verdict.
        """
        lines = []
        for name, sequence in sorted(self.shadows.items()):
            mean = sequence.interval()
            result = verdict(mean, doubt)
            reason = doubt
            if not reason and result == "undecided":
                reason = "the interval contains 0"
            lines.append(
                {
                    "challenger": name,
                    "cases": sequence.count,
                    "differing": self.differing[name],
                    "gain": amount(mean, basis),
                    "verdict": result,
                    "reason": reason,
                }
            )
        return lines


def verdict(mean: Mean, doubt: str | None = None) -> str:
    """The verdict on a mean gain: undecided with a doubt, and where the interval contains 0 or does
    not exist.
    """
    if doubt is not None or mean.low is None or mean.high is None:
        return "undecided"
    if mean.low > 0:
        return "better"
    return "worse" if mean.high < 0 else "undecided"


def gain(sums: MeanSums, basis: str) -> dict[str, Any]:
    """A mean difference to what the decisions earned on the same cases."""
    return {
        **amount(sums.mean(), basis),
        "cases": sums.count,
        "differing": sums.nonzero,
    }


@dataclass
class Kept:
    """Columns of values of at most `_MAX_KEPT` cases: every case, then every second, fourth, …"""

    stride: int = 1
    _blocks: list[np.ndarray] = field(default_factory=list)
    _seen: int = 0

    def add(self, columns: np.ndarray) -> None:
        """Columns (c, n)."""
        first = -self._seen % self.stride
        self._seen += columns.shape[1]
        self._blocks.append(columns[:, first :: self.stride])
        while sum(block.shape[1] for block in self._blocks) > _MAX_KEPT:
            self._blocks = [self.columns()[:, ::2]]
            self.stride *= 2

    def columns(self) -> np.ndarray:
        """(c, n of the cases held); (0, 0) without cases."""
        return (
            np.concatenate(self._blocks, axis=1) if self._blocks else np.zeros((0, 0))
        )


@dataclass
class Exploration:
    """Cases of requests that drew a share of their actions at random.

    `labels` and `action_sets` have the codes of actions, and of sets of actions, in the columns of
    `cases`.
    """

    cases: Kept = field(default_factory=Kept)
    action_sets: dict[tuple[Label, ...], int] = field(default_factory=dict)
    labels: dict[Label, int] = field(default_factory=dict)

    def add(self, part: Slice) -> None:
        shares = part.stack.explore[part.term]
        rows = np.flatnonzero(~np.isnan(part.propensity + shares) & part.has_matrix)
        if not part.mature or not len(rows):
            return
        P = part.probabilities[rows]
        M = part.stack.matrices[part.term[rows]]
        case = np.arange(len(rows))
        expected = np.einsum("nk,nka->na", P, M)
        truth = part.truth[rows]
        earned = M[case, np.maximum(truth, 0)]
        best = undrawn_actions(part, rows)
        ways: list[np.ndarray] = []
        for way in (best, likely_actions(part)[rows]):
            ways += (earned[case, way], expected[case, way], *risk(P, M[case, :, way]))
        for label in part.stack.actions:
            self.labels.setdefault(label, len(self.labels))
        codes = np.array([self.labels[label] for label in part.stack.actions])
        action_set = self.action_sets.setdefault(
            part.stack.actions, len(self.action_sets)
        )
        columns = (
            truth >= 0,
            codes[part.choice[rows]],
            codes[best],
            shares[rows],
            np.full(len(rows), action_set),
            *ways,
        )
        self.cases.add(np.stack(columns))

    def document(self, doubt: str | None = None) -> dict[str, Any] | None:
        """Inverse-propensity and doubly robust estimates over all decisions of these requests; None
        without such decisions. With a `doubt` no estimate is usable.
        """
        if not self.labels:
            return None
        columns = self.cases.columns()
        known = columns[0] > 0
        choice, best, action_set = (columns[i].astype(np.intp) for i in (1, 2, 4))
        epsilon = columns[3]
        cases = np.bincount(choice, minlength=len(self.labels))
        # The share of known truths after each action, and its mean over the actions of each set.
        known_after = np.bincount(choice, known, len(self.labels)) / np.maximum(
            cases, 1
        )
        mean_after = np.array(
            [
                known_after[[self.labels[label] for label in labels]].mean()
                for labels in self.action_sets
            ]
        )
        chance = (1 - epsilon) * known_after[best] + epsilon * mean_after[action_set]
        is_reached = doubt is None and _reached(known, chance, best)
        ways = {}
        for name, first in (("without_exploration", 5), ("most_probable", 9)):
            earned, expected, *risks = columns[first : first + 4]
            estimate = propensity_estimate(
                known & (chance > 0), chance, earned, expected, np.array(risks)
            )
            ways[name] = {
                "ips": amount(estimate.ips, _IPS),
                "dr": amount(estimate.dr, _DR),
                "effective_cases": estimate.effective,
                "largest_weight": estimate.largest,
                "usable": estimate.usable and is_reached,
            }
        return {
            "cases": len(known) * self.cases.stride,
            "epsilon": float(epsilon.mean()),
            "known": int(known.sum()) * self.cases.stride,
            "ways": ways,
        }


def _reached(known: np.ndarray, chance: np.ndarray, best: np.ndarray) -> bool:
    """Whether the truth of every case had a chance to become known, and did so often enough after
    every frequent best action: as often as `_MIN_EFFECTIVE` cases of equal weight.
    """
    if not (chance > 0).all():
        return False
    cases = np.bincount(best)
    effective = effective_rows(known / chance, best)
    is_frequent = cases >= MIN_ACTION_SHARE * len(best)
    return bool((effective[is_frequent] >= _MIN_EFFECTIVE).all())
