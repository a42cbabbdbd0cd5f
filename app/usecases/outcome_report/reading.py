"""The pass over all recorded cases: which truths are used, in which groups, and all sections of the report."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal

import numpy as np

from app.errors import Invalid
from app.evidence.maturity import Arrivals, Maturity
from app.outcomes.cases import UNKNOWN, Cases
from app.outcomes.identity import DAY
from app.outcomes.terms import Label
from app.usecases.outcome_report.drift import Scores
from app.usecases.outcome_report.exploration import Exploration
from app.usecases.outcome_report.promise import Earned, Kept
from app.usecases.outcome_report.selection import ActionCounts, Bounds
from app.usecases.outcome_report.shares import ClassShares, Trained
from app.usecases.outcome_report.slices import Slice, slices
from app.usecases.outcome_report.ways import Ways

MOST_GROUPS = 1_000
_SHOWN_MATRICES = 10_000
_TIMED_CLASSES = 100  # of which each is timed apart; the others together

By = Literal["day", "week", "action", "version", "key"]


def matured(days: Iterable[Cases], now: float) -> Maturity:
    """Which truths are not to be used yet at `now`, in seconds: those of days of which many are still to come.

    Where clients say when truths were known, they may send them later, so none is expected after the last one sent.
    """
    arrivals, labels, last, is_stated = Arrivals(now), dict[Label, int](), -np.inf, False
    for cases in filter(len, days):
        codes = [[labels.setdefault(label, len(labels)) for label in term.classes] for term in cases.terms]
        width = max(map(len, codes))
        table = np.array([[*own, *[0] * (width - len(own))] for own in codes]).reshape(-1, width)
        known = cases.truth != UNKNOWN
        truth = np.full(len(cases), UNKNOWN)
        truth[known] = np.minimum(table[cases.term[known], cases.truth[known]], _TIMED_CLASSES - 1)
        arrivals.add(cases.day, cases.at, truth, cases.known_at, min(len(labels), _TIMED_CLASSES))
        last = float(np.fmax.reduce(cases.received_at, initial=last))
        is_stated = is_stated or not np.isnan(cases.outcome_at).all()
    if is_stated:
        arrivals.now = min(now, last)
    return arrivals.judge()


class Read:
    """The sections of a report, each of which reads the cases slice by slice."""

    def __init__(self, trained: Trained, by: By | None = None, maturity: Maturity | None = None) -> None:
        self.maturity = maturity or Maturity()
        self.by = by
        self.total = Earned()
        self.actions = ActionCounts()
        self.bounds = Bounds()
        self.ways = Ways()
        self.exploration = Exploration()
        self.shares = ClassShares(trained)
        self.scores = Scores()
        self.values = Kept()  # promised and decided
        self.groups: dict[Any, Earned] = {}
        self.classes: dict[int, tuple[Label, ...]] = {}
        self.days: set[int] = set()
        self.without_terms = 0
        self._matrices: set[Any] = set()

    def add(self, cases: Cases) -> None:
        """The cases of a day, or a part of them."""
        self.without_terms += cases.lost
        sections = (self.total, self.actions, self.bounds, self.ways, self.exploration, self.shares, self.scores)
        for part in slices(cases, self.maturity.since):
            self.days.add(part.day)
            for section in sections:
                section.add(part)
            self.values.add(np.stack((part.promised, part.decided)))
            if self.by is not None:
                self._group(part, self.by)
        for term in cases.terms:
            self.classes.setdefault(term.version, term.classes)
            if len(self._matrices) < _SHOWN_MATRICES:
                self._matrices.add(term.benefits)

    def _group(self, part: Slice, by: By) -> None:
        names, code = groups(part, by)
        if len(names) == 1:
            self._own(names[0]).add(part)
            return
        for place in np.unique(code):
            self._own(names[place]).add(part, np.flatnonzero(code == place))

    def _own(self, name: Label | None) -> Earned:
        if name not in self.groups and len(self.groups) >= MOST_GROUPS:
            raise Invalid.at("/by", f"there are more than {MOST_GROUPS:,} groups; send since and until")
        return self.groups.setdefault(name, Earned())

    @property
    def matrices(self) -> int:
        """How many benefit matrices the decisions have, up to 10,000."""
        return len(self._matrices - {None})


def groups(part: Slice, by: By) -> tuple[list[Label | None], np.ndarray]:
    """What the cases are grouped by, and the code (n,) of each case's group."""
    if by == "action":
        return list(part.stack.actions), part.choice
    if by == "version":
        return [part.stack.version], np.zeros(len(part), dtype=np.intp)
    if by == "key":
        return list(part.keys), part.key
    own = date_of(part.day)
    start = own - timedelta(days=own.weekday()) if by == "week" else own
    return [start.isoformat()], np.zeros(len(part), dtype=np.intp)


def date_of(day: int) -> date:
    return datetime.fromtimestamp(day * DAY, UTC).date()
