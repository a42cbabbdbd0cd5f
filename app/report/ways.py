"""Ways to decide, and what one of them earns more than another on the same cases.

A way is a column of actions (n,) over the cases of a slice, `UNKNOWN` where it decides nothing:
what was decided, what was really taken, one action always, what a challenger chose, what another
model, rule or matrix would have decided.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from app.outcomes.decision import UNKNOWN, Label
from app.report.earned import OFTEN, amount, total
from app.report.slices import Slice
from payoff.decisions.benefit import least, losses
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.evidence.intervals import Mean, MeanSums, risk
from payoff.evidence.sequence import Sequence as Betting
from payoff.evidence.truths import payoff_range, weighted

_THIN = f"there are fewer than {MIN_ROWS_TO_COMPARE} cases of a class in which the two can differ"
_KEPT = 100_000  # cases of which single values are kept; of more every second, fourth …
_EFFECTIVE = 10  # cases of equal weight after a best action that are enough
_IPS = (
    "all decisions with a propensity, weighted by how probable it was that the truth became known"
)
_DR = "the same, with the model's expectation where the truth is unknown"


def undrawn_actions(part: Slice, rows: np.ndarray) -> np.ndarray:
    """The actions (n,) that rows (n,) of a slice would have by their probabilities, had none been
    drawn.
    """
    best: np.ndarray = part.choice[rows]
    drawn = np.flatnonzero(
        part.propensity[rows] <= 0.5
    )  # the best action has a propensity above one half
    P, regrets = (
        part.probabilities[rows[drawn]],
        losses(part.stack.matrices[part.term[rows[drawn]]]),
    )
    best[drawn] = least(np.einsum("nk,nka->an", P, regrets), P.shape[1])
    return best


def likely_actions(part: Slice) -> np.ndarray:
    """The best action (n,) for the most probable class, of equal ones the first."""
    return np.asarray(
        part.stack.matrices.argmax(axis=2)[part.term, part.probabilities.argmax(axis=1)]
    )


def way(part: Slice, rows: np.ndarray, actions: np.ndarray | int) -> np.ndarray:
    """The way (n,) that takes these actions in rows of a slice, and decides nothing in others."""
    column = np.full(len(part), UNKNOWN, dtype=np.intp)
    column[rows] = actions
    return column


@dataclass
class Paired(MeanSums):
    """The differences, the cases by class, and the classes in which the two earned, or could have
    earned, differently.

    A rare large loss that did not occur yet is in no difference: with few cases of its class there
    is no interval.
    """

    by_class: Counter[Label] = field(default_factory=Counter)
    apart: set[Label] = field(default_factory=set)

    def compare(self, part: Slice, base: np.ndarray, other: np.ndarray | None) -> np.ndarray:
        """Add what `other` earns more than `base` where both decide and the truth is known; None is
        the best action of the class that was true. Returns these rows.
        """
        rows = part.priced
        decided = base[rows] != UNKNOWN
        if other is not None:
            decided &= other[rows] != UNKNOWN
        if not decided.all():
            rows = rows[decided]
        if not len(rows):
            return rows
        M, term, truth = part.stack.matrices, part.term[rows], part.truth[rows]
        earned = part.stack.best[term, truth] if other is None else M[term, truth, other[rows]]
        self.add(earned - M[term, truth, base[rows]], part.day)
        counts = np.bincount(truth, minlength=M.shape[1]).tolist()
        self.by_class.update(dict(zip(part.stack.classes, counts, strict=True)))
        first, second = base[rows], base[rows] if other is None else other[rows]
        sizes = len(M), M.shape[2], M.shape[2]
        code = np.ravel_multi_index((term, first, second), sizes)
        few = math.prod(sizes) <= 4 * len(code)  # counting is then faster than sorting
        term, first, second = np.unravel_index(
            np.flatnonzero(np.bincount(code)) if few else np.unique(code), sizes
        )
        rival = part.stack.best[term] if other is None else M[term, :, second]
        self.apart.update(
            part.stack.classes[k] for k in np.flatnonzero((M[term, :, first] != rival).any(axis=0))
        )
        return rows

    def mean(self) -> Mean:
        found, is_thin = (
            super().mean(),
            any(self.by_class[label] < MIN_ROWS_TO_COMPARE for label in self.apart),
        )
        return Mean(found.mean, reason=_THIN) if is_thin else found

    def __iadd__(self, other: Paired) -> Self:
        self.count += other.count
        self.nonzero += other.nonzero
        self.total += other.total
        self.powers += other.powers
        for day, own in other.days.items():
            self.days[day] = self.days.get(day, np.zeros(2)) + own
        self.apart |= other.apart
        self.by_class.update(other.by_class)
        return self


@dataclass
class Ways:
    """The ways that every report compares with what was decided, and people's with it."""

    decided: float = 0.0
    most_probable: Paired = field(default_factory=Paired)
    perfect: Paired = field(default_factory=Paired)
    singles: dict[tuple[Label, int], Paired] = field(
        default_factory=lambda: defaultdict(Paired)
    )  # by action and half
    overrides: Paired = field(default_factory=Paired)
    told: MeanSums = field(default_factory=MeanSums)  # benefit told less that of the matrix
    shadows: defaultdict[str, Betting] = field(
        default_factory=lambda: defaultdict(Betting)
    )  # by challenger
    differing: Counter[str] = field(default_factory=Counter)  # cases in which it decided otherwise

    def add(self, part: Slice) -> None:
        rows, money = part.priced, part.money
        if not len(rows):
            return
        half = np.zeros(len(part), dtype=bool)
        half[rows] = (
            self.perfect.count + np.arange(len(rows))
        ) % 2 == 0  # goes on from slice to slice
        self.decided += float(money.decided.sum())
        self.perfect.compare(part, part.choice, None)
        self.most_probable.compare(part, part.choice, likely_actions(part))
        for number, side in enumerate((half, ~half)):
            own = np.where(side, part.choice, UNKNOWN)
            for place, label in enumerate(part.stack.actions):
                self.singles[label, number].compare(part, own, np.full(len(part), place))
        if money.overridden.any():
            self.overrides.compare(
                part, part.choice, way(part, others := rows[money.overridden], part.taken[others])
            )
        told = ~np.isnan(part.benefit[rows])
        self.told.add((money.received - money.taken_earned)[told], part.day)
        for name, chosen in part.shadows.items():
            asked = rows[chosen[rows] != UNKNOWN]
            gains = part.payoffs(asked, chosen) - part.payoffs(asked, part.choice)  # in every class
            bounds = payoff_range(gains)
            self.shadows[name].add(
                gains[np.arange(len(asked)), part.truth[asked]], *bounds, part.day
            )
            self.differing[name] += int(np.count_nonzero(chosen[asked] != part.choice[asked]))

    def alternatives(self, basis: str) -> dict[str, Any] | None:
        """What other ways would have earned on the same cases; None without any."""
        n = self.perfect.count
        if not n:
            return None
        ways = {
            "most_probable": ({}, self.most_probable),
            "best_single_action": self._single(n),
            "perfect": ({}, self.perfect),
        }
        lines = {
            name: None if way is None
            else way[0] | total(self.decided + way[1].total, n, basis) | {"gain": gain(way[1], basis)}
            for name, way in ways.items()
        }  # fmt: skip
        return {"decided": total(self.decided, n, basis), **lines}

    def _single(self, n: int) -> tuple[dict[str, Label], Paired] | None:
        """The best of the actions that all cases have, and what the one that was best on one half
        of the cases earned on the other, and the reverse: no hindsight.
        """
        every = dict.fromkeys(label for label, _ in self.singles)
        labels = [
            label
            for label in every
            if self.singles[label, 0].count + self.singles[label, 1].count == n
        ]
        if not labels or n < 2:
            return None
        crossed = Paired()
        for half in (0, 1):
            chosen = max(labels, key=lambda label: self.singles[label, 1 - half].total)
            crossed += self.singles[chosen, half]
        best = max(
            labels, key=lambda label: sum(self.singles[label, half].total for half in (0, 1))
        )
        return {"action": best}, crossed

    def overriding(self, basis: str, doubt: str | None = None) -> dict[str, Any]:
        """Who was right in money where another action was really taken; `doubt` is why nobody can
        say.
        """
        found = self.overrides.mean()
        doubt = doubt or found.reason
        shown = verdict(found, doubt)
        right = {"better": "people", "worse": "decisions"}.get(shown, "undecided")
        return {**gain(self.overrides, basis), "right": right, "reason": doubt}

    def challengers(self, basis: str, doubt: str | None = None) -> list[dict[str, Any]]:
        """Challengers against what was decided, by confidence sequences; `doubt` is why none has a
        verdict.
        """
        listed = []
        for name, sequence in sorted(self.shadows.items()):
            found = sequence.interval()
            shown = verdict(found, doubt)
            listed.append(
                {
                    "challenger": name,
                    "cases": sequence.count,
                    "differing": self.differing[name],
                    "gain": amount(found, basis),
                    "verdict": shown,
                    "reason": doubt
                    or ("the interval contains 0" if shown == "undecided" else None),
                }
            )
        return listed


def verdict(found: Mean, doubt: str | None = None) -> str:
    """What a mean gain shows; undecided with a doubt, and where its interval contains 0 or is not a
    number.
    """
    if doubt is not None or found.low is None or found.high is None:
        return "undecided"
    return "better" if found.low > 0 else "worse" if found.high < 0 else "undecided"


def gain(sums: MeanSums, basis: str) -> dict[str, Any]:
    """A mean difference to what the decisions earned on the same cases."""
    return {**amount(sums.mean(), basis), "cases": sums.count, "differing": sums.nonzero}


@dataclass
class Kept:
    """Columns of single values of bounded number: every case, then every second, every fourth …"""

    stride: int = 1
    _blocks: list[np.ndarray] = field(default_factory=list)
    _seen: int = 0

    def add(self, columns: np.ndarray) -> None:
        """Columns (c, n)."""
        first = -self._seen % self.stride
        self._seen += columns.shape[1]
        self._blocks.append(columns[:, first :: self.stride])
        while sum(block.shape[1] for block in self._blocks) > _KEPT:
            self._blocks, self.stride = [self.columns()[:, ::2]], self.stride * 2

    def columns(self) -> np.ndarray:
        """(c, kept); (0, 0) without any."""
        return np.concatenate(self._blocks, axis=1) if self._blocks else np.zeros((0, 0))


@dataclass
class Exploration:
    """Cases of which some were drawn, with the share that was; `labels` and `action_sets` are
    coded.
    """

    cases: Kept = field(default_factory=Kept)
    action_sets: dict[tuple[Label, ...], int] = field(default_factory=dict)
    labels: dict[Label, int] = field(default_factory=dict)

    def add(self, part: Slice) -> None:
        shares = part.stack.explore[part.term]
        rows = np.flatnonzero(~np.isnan(part.propensity + shares) & part.has_matrix)
        if not part.mature or not len(rows):
            return
        P, M, each = (
            part.probabilities[rows],
            part.stack.matrices[part.term[rows]],
            np.arange(len(rows)),
        )
        model = np.einsum("nk,nka->na", P, M)
        truth, best = part.truth[rows], undrawn_actions(part, rows)
        earned = M[each, np.maximum(truth, 0)]
        ways: list[np.ndarray] = []
        for way in (best, likely_actions(part)[rows]):
            ways += (earned[each, way], model[each, way], *risk(P, M[each, :, way]))
        labels = np.array(
            [self.labels.setdefault(label, len(self.labels)) for label in part.stack.actions]
        )
        actions = np.full(
            len(rows), self.action_sets.setdefault(part.stack.actions, len(self.action_sets))
        )
        codes = labels[part.choice[rows]], labels[best]
        self.cases.add(np.stack((truth >= 0, *codes, shares[rows], actions, *ways)))

    def document(self, doubt: str | None = None) -> dict[str, Any] | None:
        """Inverse-propensity and doubly robust estimates over all decisions that were drawn; None
        without any.

        With a `doubt` none is usable.
        """
        if not self.labels:
            return None
        kept = self.cases.columns()
        known, epsilon = kept[0] > 0, kept[3]
        chosen, best, sets = (kept[i].astype(np.intp) for i in (1, 2, 4))
        cases = np.bincount(chosen, minlength=len(self.labels))
        after = np.bincount(chosen, known, len(self.labels)) / np.maximum(cases, 1)
        mean_after = np.array(
            [after[[self.labels[label] for label in labels]].mean() for labels in self.action_sets]
        )
        chance = (1 - epsilon) * after[best] + epsilon * mean_after[sets]
        reached = doubt is None and _reached(known, chance, best)
        ways = {}
        for name, own in (("without_exploration", kept[5:9]), ("most_probable", kept[9:13])):
            found = weighted(known & (chance > 0), chance, own[0], own[1], own[2:])
            ways[name] = {
                "ips": amount(found.ips, _IPS),
                "dr": amount(found.dr, _DR),
                "effective_cases": found.effective,
                "largest_weight": found.largest,
                "usable": found.usable and reached,
            }
        return {
            "cases": len(known) * self.cases.stride,
            "epsilon": float(epsilon.mean()),
            "known": int(known.sum()) * self.cases.stride,
            "ways": ways,
        }


def _reached(known: np.ndarray, chance: np.ndarray, best: np.ndarray) -> bool:
    """Whether the truth of every case had a chance to become known, and did so often enough after
    every best action: as often as ten cases of equal weight, for actions of at least one case in
    twenty.
    """
    if not (chance > 0).all():
        return False
    weight = known / chance
    total, squares, cases = (
        np.bincount(best, values) for values in (weight, weight**2, np.ones(len(best)))
    )
    effective = total**2 / np.maximum(squares, 1e-300)
    return bool((effective[cases >= OFTEN * len(best)] >= _EFFECTIVE).all())
