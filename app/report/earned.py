"""What the decisions earned against what was expected of them, and what is known of that: the
verdict on the model, whether truth depends on the action, and the bounds that leaves.

Every object with an amount of money has `basis`: which cases it is about, and what it takes for
granted.
"""

from collections import Counter, defaultdict
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.outcomes.decision import Label
from app.report.slices import Money, Slice
from payoff.evidence.intervals import LEVEL, Mean, MeanSums, PromiseSums, judge
from payoff.evidence.truths import AlikeDecisions, known_shares, payoff_range

ALL = "all decisions, by the model's probabilities"
KNOWN = "decisions with known truth"
ASSUMING = "decisions with known truth, as if whether the truth is known did not depend on it"
SELECTED = "only decisions with known truth, which depends on the action; not an estimate for all decisions"
_TOLERANCE = 0.1  # of the mean absolute expected benefit
UNEQUAL = "truth is known more often after some actions than after others"
WHATEVER = "all decisions; for those without known truth the worst and the best class"
_EXPECTED = "all decisions; for those without known truth what the model expects, which nothing here confirms"
OFTEN = 0.05  # of the cases, from which on an action counts


@dataclass
class Account:
    """Decisions, and what became of them: of all, or of one group."""

    decisions: int = 0
    known: int = 0
    expecting: int = 0  # decisions with an expected benefit
    expected: float = 0.0  # the sum of theirs
    promised: float = 0.0  # the same of those with known truth
    size: float = 0.0  # the sum of the absolute ones of these
    received: float = 0.0
    promise: PromiseSums = field(default_factory=PromiseSums)
    taken: PromiseSums | None = (
        None  # the same of the actions really taken, from the first that is another
    )
    taken_promised: float = 0.0
    # Decisions with a matrix whose truth is unknown: how many, and the sums of the least and the
    # greatest that they can earn, and of what is expected of them.
    open: np.ndarray = field(default_factory=lambda: np.zeros(4))
    told: MeanSums = field(
        default_factory=MeanSums
    )  # benefit told less that of the matrix, 0 where none was

    def add(self, part: Slice, rows: np.ndarray | None = None) -> None:
        """Cases of a slice: all, or these rows of it."""
        every: Any = slice(None)
        money, unknown = part.money, np.flatnonzero(~part.known & part.has_matrix)
        if rows is not None and len(rows) < len(part):
            every, unknown = rows, np.intersect1d(unknown, rows, assume_unique=True)
            own = np.isin(part.priced, rows, assume_unique=True)
            money = Money(*(column[..., own] for column in money))
        expected = part.expected[every]
        self.decisions += len(expected)
        self.known += int(np.count_nonzero(part.known[every]))
        self.expecting += int(np.count_nonzero(~np.isnan(expected)))
        self.expected += float(np.nansum(expected))
        self.promised += float(money.promised.sum())
        self.size += float(np.abs(money.promised).sum())
        self.received += float(money.received.sum())
        self.taken_promised += float(money.taken_promised.sum())
        low, high = payoff_range(part.payoffs(unknown, part.choice))
        self.open += (len(unknown), low.sum(), high.sum(), part.expected[unknown].sum())
        self.told.add(money.received - money.taken_earned, part.day)
        if self.taken is None and money.overridden.any():
            self.taken = deepcopy(self.promise)  # until here they were the same
        if self.taken is not None:
            self.taken.compare(
                money.taken_earned - money.taken_promised, money.taken_risks, part.day
            )
        self.promise.compare(money.decided - money.promised, money.risks, part.day)

    def document(self, basis: str, doubt: str | None = None) -> dict[str, Any]:
        """Promised and realised benefit, their difference, the verdict, and counts; `doubt` is why
        there is none.
        """
        judged = judge(self.promise)
        n = self.promise.count
        tolerance = _TOLERANCE * self.size / n if n else None
        unknown, *ends = self.open.tolist()
        low, high, held = (total(self.received + own, n + int(unknown), WHATEVER) for own in ends)
        return {
            "promised": total(self.promised, n, f"{basis}; by the model's probabilities"),
            "realised": total(self.received, n, basis) | amount(self._realised(judged), basis),
            "difference": {
                **amount(judged, basis),
                "cases": n,
                "reason": doubt or judged.reason,
                "p_value": judged.p_value,
                "dispersion": judged.dispersion,
                "day_inflation": judged.day_inflation,
                "tolerance": tolerance,
            },
            "verdict": "undecided" if doubt else judged.verdict(tolerance or 0.0),
            "decisions": self.decisions,
            "known": self.known,
            "coverage": self.known / self.decisions if self.decisions else None,
            "expected": total(self.expected, self.expecting, ALL),
            "bounds": {  # of all decisions with a matrix, whatever the unknown truths are
                "cases": low["cases"],
                "unknown": int(unknown),
                "low": low["total"],
                "high": high["total"],
                "mean_low": low["mean"],
                "mean_high": high["mean"],
                "basis": WHATEVER,
                "if_probabilities_hold": {
                    "mean": held["mean"],
                    "total": held["total"],
                    "basis": _EXPECTED,
                },
            },
        }

    def _realised(self, judged: Mean) -> Mean:
        """The benefit received, with an interval around what the model expected of the actions
        really taken.

        Benefits that were told differ from the matrix by an amount with an interval of its own; the
        two are added as independent (Zou and Donner, 2008).
        """
        n = self.promise.count
        if not n:
            return Mean(None)
        taken = judged if self.taken is None else judge(self.taken)
        low, high, mean, promised = (
            taken.low,
            taken.high,
            self.received / n,
            self.taken_promised / n,
        )
        told = self.told.mean()
        if (
            told.mean is None
            or low is None
            or high is None
            or (self.told.nonzero and told.low is None)
        ):
            return Mean(mean)
        centre = mean - promised - told.mean
        if told.low is not None and told.high is not None and self.told.nonzero:
            low = centre + told.mean - float(np.hypot(centre - low, told.mean - told.low))
            high = centre + told.mean + float(np.hypot(high - centre, told.high - told.mean))
        return Mean(mean, promised + low, promised + high)


def amount(found: Mean, basis: str) -> dict[str, Any]:
    """A mean with its interval."""
    return {
        "mean": found.mean,
        "low": found.low,
        "high": found.high,
        "level": LEVEL,
        "basis": basis,
    }


def total(amount: float, cases: int, basis: str) -> dict[str, Any]:
    """A sum over cases, and their mean."""
    return {
        "mean": amount / cases if cases else None,
        "total": amount,
        "cases": cases,
        "basis": basis,
    }


def basis(known: int, decisions: int, *, selective: bool, reason: str | None) -> str:
    """What an amount about the cases with known truth takes for granted; `reason`: why no day is
    mature.
    """
    about = SELECTED if selective else ASSUMING if known < decisions else KNOWN
    return about if reason is None else f"{about}; {reason}"


@dataclass
class ActionCounts:
    """Counts of mature days; `by_action` are known truths and decisions (2,)."""

    by_action: dict[Label, np.ndarray] = field(
        default_factory=lambda: defaultdict(lambda: np.zeros(2, dtype=np.int64))
    )
    # Known cases and all, counts (2, A), by key, version and actions.
    alike: dict[tuple[str | None, int, tuple[Label, ...]], np.ndarray] = field(default_factory=dict)
    done: Counter[Label] = field(default_factory=Counter)  # actions really taken, of known cases
    overridden: int = 0

    def add(self, part: Slice) -> None:
        """Cases of a slice; those of days that are not mature are left out."""
        if not part.mature:
            return
        stack, size = part.stack, len(part.stack.actions)
        cases, known = (
            np.bincount(own, minlength=size) for own in (part.choice, part.choice[part.known])
        )
        for i in np.flatnonzero(cases).tolist():
            self.by_action[stack.actions[i]] += (known[i], cases[i])
        self.overridden += int(np.count_nonzero((part.taken != part.choice)[part.known]))
        done = np.bincount(part.taken[part.known], minlength=size).tolist()
        self.done.update(dict(zip(stack.actions, done, strict=True)))
        code = part.key.astype(np.int64) * size + part.choice
        tables = np.stack(
            [np.bincount(own, minlength=len(part.keys) * size) for own in (code[part.known], code)]
        )
        for key, table in zip(
            part.keys, np.moveaxis(tables.reshape(2, -1, size), 1, 0), strict=True
        ):
            if (
                table[1].any()
            ):  # decisions of one key, version and set of actions: mixtures may hide a difference
                name = key, stack.version, stack.actions
                self.alike[name] = self.alike.get(name, 0) + table

    def document(self) -> dict[str, Any]:
        """Whether truth is known more often after some actions than after others."""
        found = known_shares(
            [AlikeDecisions(actions, *own) for (_, _, actions), own in self.alike.items()]
        )
        every = sum(own[1] for own in self.by_action.values())
        often = [label for label, (_, cases) in self.by_action.items() if cases >= OFTEN * every]
        replaced = bool(self.overridden) and any(
            not self.done[label] for label in often
        )  # and so never seen
        return {
            "is": replaced or found.selective,
            "p_value": found.p_value,
            "actions": [
                {
                    "action": label,
                    "decisions": int(cases),
                    "known": int(known),
                    "coverage": float(known / cases),
                }
                for label, (known, cases) in self.by_action.items()
            ],
        }
