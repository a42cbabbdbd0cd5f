"""The realised benefit of decisions against the expected one: the verdict on the model, whether the
truth is known more often after some actions, and the bounds for unknown truths.

Every object with an amount of money has `basis`: which cases it is about, and what it takes for
granted.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.outcomes.decision import Label, date_of
from app.report.slices import Money, Slice
from payoff.evidence.intervals import (
    LEVEL,
    Mean,
    MeanSums,
    PromiseSums,
    compare_probabilities,
    promise_interval,
    wilson,
)
from payoff.evidence.truths import AlikeDecisions, known_shares, payoff_range

ALL = "all decisions, by the model's probabilities"
KNOWN = "decisions with known truth"
ASSUMING = (
    "only decisions whose truth is known;"
    " assumes that whether it is known does not depend on it"
)
SELECTED = (
    "only decisions with known truth, which depends on the action;"
    " not an estimate for all decisions"
)
TOLERANCE = 0.1  # of the mean absolute expected benefit
UNEQUAL = "truth is known more often after some actions than after others"
WHATEVER = "all decisions; for those without known truth the worst and the best class"
_EXPECTED = (
    "all decisions; for those without known truth what the model expects,"
    " which nothing here confirms"
)
MIN_ACTION_SHARE = 0.05  # of the cases; rarer actions are not tested


@dataclass
class Account:
    """Sums over decisions, of all or of one group.

    `with_expectation` counts the decisions with an expected benefit, and `expected` is the sum of
    these. `promised` is that sum for decisions with known truth, `magnitude` the sum of the
    absolute values. `promise` compares decided with promised benefits. `performance` does so for
    the actions really performed; it is None until one differs from the decision. `open` (4,) is
    about decisions with a matrix whose truth is unknown: their number, and the sums of the smallest
    and the greatest benefit that they can have, and of the expected one. `reported` is the benefit
    that a client reported less that of the matrix, 0 where the client reported none.
    `money_by_day` has the sums of promised and received benefits (2,) of each day.
    """

    decisions: int = 0
    known: int = 0
    with_expectation: int = 0
    expected: float = 0.0
    promised: float = 0.0
    magnitude: float = 0.0
    received: float = 0.0
    promise: PromiseSums = field(default_factory=PromiseSums)
    performance: PromiseSums | None = None
    performed_promised: float = 0.0
    open: np.ndarray = field(default_factory=lambda: np.zeros(4))
    reported: MeanSums = field(default_factory=MeanSums)
    money_by_day: dict[int, np.ndarray] = field(default_factory=dict)

    def add(self, part: Slice, rows: np.ndarray | None = None) -> None:
        """Add the cases of a slice: all, or these rows of it."""
        index: Any = slice(None)
        money = part.money
        unknown = np.flatnonzero(~part.known & part.has_matrix)
        if rows is not None and len(rows) < len(part):
            index = rows
            unknown = np.intersect1d(unknown, rows, assume_unique=True)
            is_priced = np.isin(part.priced, rows, assume_unique=True)
            money = Money(*(column[..., is_priced] for column in money))
        expected = part.expected[index]
        self.decisions += len(expected)
        self.known += int(np.count_nonzero(part.known[index]))
        self.with_expectation += int(np.count_nonzero(~np.isnan(expected)))
        self.expected += float(np.nansum(expected))
        self.promised += float(money.promised.sum())
        self.magnitude += float(np.abs(money.promised).sum())
        self.received += float(money.received.sum())
        sums = np.array((money.promised.sum(), money.received.sum()))
        self.money_by_day[part.day] = self.money_by_day.get(part.day, 0.0) + sums
        self.performed_promised += float(money.performed_promised.sum())
        low, high = payoff_range(part.payoffs(unknown, part.choice))
        self.open += (len(unknown), low.sum(), high.sum(), part.expected[unknown].sum())
        self.reported.add(money.received - money.performed_earned, part.day)
        if self.performance is None and money.overridden.any():
            self.performance = deepcopy(
                self.promise
            )  # up to this slice the two are equal
        if self.performance is not None:
            differences = money.performed_earned - money.performed_promised
            self.performance.compare(differences, money.performed_risks, part.day)
        self.promise.compare(money.decided - money.promised, money.risks, part.day)

    def document(self, basis: str, doubt: str | None = None) -> dict[str, Any]:
        """Promised and realised benefit, their difference, the verdict, and counts; a `doubt` is
        the reason why there is no verdict.
        """
        difference = promise_interval(self.promise)
        n = self.promise.count
        tolerance = TOLERANCE * self.magnitude / n if n else None
        unknown, *sums = self.open.tolist()
        low, high, held = (
            total(self.received + open_sum, n + int(unknown), WHATEVER)
            for open_sum in sums
        )
        return {
            "promised": total(
                self.promised, n, f"{basis}; by the model's probabilities"
            ),
            "realised": total(self.received, n, basis)
            | amount(self._realised(difference), basis),
            "difference": {
                **amount(difference, basis),
                "cases": n,
                "reason": doubt or difference.reason,
                "p_value": difference.p_value,
                "dispersion": difference.dispersion,
                "day_inflation": difference.day_inflation,
                "tolerance": tolerance,
            },
            "verdict": "undecided" if doubt else difference.verdict(tolerance or 0.0),
            "decisions": self.decisions,
            "known": self.known,
            "coverage": self.known / self.decisions if self.decisions else None,
            "expected": total(self.expected, self.with_expectation, ALL),
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

    def series(self, realised: Mapping[str, Any]) -> dict[str, list[Any]]:
        """Columns for a picture: the days with known truth, and the promised and the realised
        benefit up to each, added up.

        The band, from `low` to `high`, is the reach of the `realised` interval, times the root of
        the share of the promised variance that the days so far have: at the end it is that
        interval. Null without one. At least one truth is known. O(days).
        """
        days = sorted(self.promise.days)
        steps = [(*self.money_by_day[day], self.promise.promised[day]) for day in days]
        promised, received, variance = np.cumsum(steps, axis=0).reshape(-1, 3).T
        reach = self.promise.count * np.sqrt(variance / max(variance[-1], 1e-300))
        return {
            "day": [date_of(day).isoformat() for day in days],
            "promised": promised.tolist(),
            "realised": received.tolist(),
        } | {
            end: [None] * len(days)
            if realised[end] is None
            else (received + reach * (realised[end] - realised["mean"])).tolist()
            for end in ("low", "high")
        }

    def _realised(self, difference: Mean) -> Mean:
        """The benefit received, with an interval around the expected benefit of the actions really
        performed; `difference` is that of the decisions.

        Benefits that clients reported differ from the matrix by an amount with an interval of its
        own; the two are added as independent (Zou and Donner, 2008).
        """
        n = self.promise.count
        if not n:
            return Mean(None)
        if self.performance is not None:
            difference = promise_interval(self.performance)
        low, high = difference.low, difference.high
        mean = self.received / n
        promised = self.performed_promised / n
        reported = self.reported.mean()
        if reported.mean is None or low is None or high is None:
            return Mean(mean)
        if self.reported.nonzero:
            if reported.low is None or reported.high is None:
                return Mean(mean)
            centre = mean - promised - reported.mean
            below = float(np.hypot(centre - low, reported.mean - reported.low))
            above = float(np.hypot(high - centre, reported.high - reported.mean))
            low = centre + reported.mean - below
            high = centre + reported.mean + above
        return Mean(mean, promised + low, promised + high)


@dataclass
class GroupAccount(Account):
    """Sums of one group, with the counts of its actions, and with the `stated` probabilities of
    classes against what occurred (`compare_probabilities`).
    """

    actions: Counter[Label] = field(default_factory=Counter)
    stated: float = 0.0
    calibration: PromiseSums = field(default_factory=PromiseSums)

    def add(self, part: Slice, rows: np.ndarray | None = None) -> None:
        super().add(part, rows)
        group = np.arange(len(part)) if rows is None else rows
        counts = np.bincount(part.choice[group], minlength=len(part.stack.actions))
        self.actions.update(dict(zip(part.stack.actions, counts.tolist(), strict=True)))
        known = group[part.known[group]]
        P = part.probabilities[known]
        self.stated += compare_probabilities(
            self.calibration, P, part.truth[known], part.day
        )

    def document(self, basis: str, doubt: str | None = None) -> dict[str, Any]:
        n = self.calibration.count
        difference = promise_interval(self.calibration)
        return {
            **super().document(basis, doubt),
            "actions": [
                shares_of(label, count, self.decisions)
                for label, count in self.actions.items()
                if count
            ],
            "calibration": {
                **amount(difference, basis),
                "stated": self.stated / n if n else None,
                "occurred": (self.stated + self.calibration.total) / n if n else None,
                "p_value": None if doubt else difference.p_value,
                "reason": doubt or difference.reason,
            },
        }


def shares_of(label: Label, count: int, cases: int) -> dict[str, Any]:
    """The share of an action in the cases, with Wilson's interval."""
    share = count / cases
    return {"action": label, "share": share, "interval": wilson(share, cases)}


def amount(mean: Mean, basis: str) -> dict[str, Any]:
    """A mean with its interval."""
    return {
        "mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
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
    """The basis of an amount about the cases with known truth; `reason` is why no day is mature."""
    if selective:
        about = SELECTED
    elif known < decisions:
        about = ASSUMING
    else:
        about = KNOWN
    return about if reason is None else f"{about}; {reason}"


@dataclass
class ActionCounts:
    """Counts of mature days.

    `by_action` are known truths and decisions (2,). `alike` are known cases and all (2, A), by key,
    version and actions: a mixture of these may hide a difference. `performed` counts the actions
    really performed in cases with known truth, `overridden` those that differ from the decision.
    """

    by_action: dict[Label, np.ndarray] = field(
        default_factory=lambda: defaultdict(lambda: np.zeros(2, dtype=np.int64))
    )
    alike: dict[tuple[str | None, int, tuple[Label, ...]], np.ndarray] = field(
        default_factory=dict
    )
    performed: Counter[Label] = field(default_factory=Counter)
    overridden: int = 0

    def add(self, part: Slice) -> None:
        """Add the cases of a slice, if its day is mature."""
        if not part.mature:
            return
        stack = part.stack
        size = len(stack.actions)
        cases = np.bincount(part.choice, minlength=size)
        known = np.bincount(part.choice[part.known], minlength=size)
        for i in np.flatnonzero(cases).tolist():
            self.by_action[stack.actions[i]] += (known[i], cases[i])
        self.overridden += int(
            np.count_nonzero((part.performed != part.choice)[part.known])
        )
        performed = np.bincount(part.performed[part.known], minlength=size).tolist()
        self.performed.update(dict(zip(stack.actions, performed, strict=True)))
        code = part.key.astype(np.int64) * size + part.choice
        tables = [
            np.bincount(codes, minlength=len(part.keys) * size).reshape(-1, size)
            for codes in (code[part.known], code)
        ]
        for key, table in zip(part.keys, np.stack(tables, axis=1), strict=True):
            if table[1].any():
                name = key, stack.version, stack.actions
                self.alike[name] = self.alike.get(name, 0) + table

    @property
    def shares_known(self) -> dict[Label, float]:
        """The share of known truths after each action."""
        return {
            label: float(known / cases)
            for label, (known, cases) in self.by_action.items()
        }

    def document(self) -> dict[str, Any]:
        """Whether truth is known more often after some actions than after others."""
        selection = known_shares(
            [
                AlikeDecisions(actions, *table)
                for (_, _, actions), table in self.alike.items()
            ]
        )
        decisions = sum(cases for _, cases in self.by_action.values())
        frequent = [
            label
            for label, (_, cases) in self.by_action.items()
            if cases >= MIN_ACTION_SHARE * decisions
        ]
        # An action that people always replace is never followed by a truth.
        is_replaced = bool(self.overridden) and not all(
            self.performed[label] for label in frequent
        )
        return {
            "is": is_replaced or selection.selective,
            "p_value": selection.p_value,
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
