"""The classes of a model's last known outcomes, in memory: a prediction that asks for them waits for no database."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock
from time import monotonic, time
from typing import Any

import numpy as np
from sqlalchemy import func, select

from app.database import Database
from app.errors import Damaged, NotReady
from app.outcomes import rows
from app.outcomes.archive import Archive
from app.outcomes.cases import UNKNOWN, Cases
from app.outcomes.identity import DAY, day_of
from app.outcomes.tables import DECISIONS, OUTCOMES, SEALED_DAYS
from app.polling import Poller
from app.usecases.outcome_report.action_counts import ActionCounts
from app.usecases.outcome_report.reading import matured
from app.usecases.outcome_report.selection import selection
from app.usecases.outcome_report.slices import slices

_log = logging.getLogger(__name__)

MOST = 10_000  # outcomes of a model
_DAYS = 400
_OF_DAY = 2_000  # decisions, evenly spaced, of a day with more
_LOOK_SECONDS = 60.0
_LOAD = 20.0  # times as long as a look took, the next one waits
_WAIT_SECONDS = 5.0  # for the first look, by the first request
_FORGET_SECONDS = 3600.0  # after the last request
_KEPT = ("at", "term", "key", "choice", "truth", "action", "outcome_at", "received_at")


@dataclass(frozen=True)
class Tail:
    """The true classes of the last decisions with a known outcome, the last first, text (n,): of days whose truths have
    come, see `matured`. `reason` is why there is no such day, `selective` whether truth depends on the action.
    """

    labels: Sequence[str]
    selective: bool
    reason: str | None

    @classmethod
    def of(cls, days: Sequence[Cases], now: float) -> Tail:
        """Of days, the last one last."""
        maturity, counts, labels = matured(days, now), ActionCounts(), list[str]()
        for cases in reversed(days):
            if (maturity.since is None or cases.day < maturity.since) and len(labels) < MOST:
                for part in slices(cases):
                    counts.add(part)
                last = np.flatnonzero(cases.truth != UNKNOWN)
                last = last[cases.at[last].argsort(kind="stable")[::-1]]
                pairs = zip(cases.term[last].tolist(), cases.truth[last].tolist(), strict=True)
                labels += [str(cases.terms[term].classes[truth]) for term, truth in pairs]
        return cls(labels[:MOST], selection(counts)["is"], maturity.reason)


@dataclass(frozen=True)
class _Read:
    """What was read of a model: its days with the marks by which a change is seen, and when the next look is due."""

    days: dict[int, tuple[Any, list[Cases]]]
    tail: Tail
    due: float


class RecentOutcomes:
    """Looks every minute for outcomes of the models that were asked for within the last hour."""

    def __init__(self, database: Database, archive: Archive) -> None:
        self._database = database
        self._archive = archive
        self._poller = Poller("recent outcomes", self._look, _LOOK_SECONDS, at_once=True)
        self._lock = Lock()
        self._asked: dict[str, float] = {}
        self._found: dict[str, _Read] = {}
        self._looked = Event()

    def stop(self) -> None:
        if self._poller.alive:
            self._poller.stop()

    def of(self, model: str) -> Tail:
        """The last outcomes of a model, as of the last minute; of a model with millions of decisions, of some minutes.

        The first request for a model waits for the thread that reads them; NotReady where that takes long.
        """
        self._asked[model] = monotonic()
        for _ in range(2):  # the first look to end may have begun before
            if (found := self._found.get(model)) is not None:
                return found.tail
            with self._lock:
                self._looked.clear()
                if self._poller.alive:
                    self._poller.wake()
                else:
                    self._poller.start()
            self._looked.wait(_WAIT_SECONDS)
        if (found := self._found.get(model)) is None:
            raise NotReady("the recent outcomes are not counted yet; try again")
        return found.tail

    def _look(self) -> None:
        try:
            oldest = monotonic() - _FORGET_SECONDS
            self._asked = {model: asked for model, asked in self._asked.copy().items() if asked > oldest}
            self._found = {model: found for model in self._asked if (found := self._try(model)) is not None}
        finally:
            self._looked.set()

    def _try(self, model: str) -> _Read | None:
        before, began = self._found.get(model), monotonic()
        if before is not None and began < before.due:
            return before
        try:
            days = self._days(model, {} if before is None else before.days)
        except Damaged as error:  # it keeps no other model from being looked at
            _log.warning("recent outcomes of %s: %s", model, error.detail)
            return before
        tail = Tail.of([cases for day in sorted(days) for cases in days[day][1]], time())
        return _Read(days, tail, began + _LOAD * (monotonic() - began))

    def _days(self, model: str, before: dict[int, tuple[Any, list[Cases]]]) -> dict[int, tuple[Any, list[Cases]]]:
        """The last days, of which only those that changed are read."""
        marks = self._marks(model, day_of(time()) - _DAYS)
        same = {day: before[day] for day, mark in marks.items() if day in before and before[day][0] == mark}
        return {day: same.get(day) or (mark, self._read(model, day)) for day, mark in marks.items()}

    def _marks(self, model: str, first: int) -> dict[int, Any]:
        """For each day from the first on its file, its outcomes and decisions in the database, and the last outcome."""
        outcome, sealed, decision = OUTCOMES.c, SEALED_DAYS.c, DECISIONS.c
        files = select(sealed.day, sealed.file).where(sealed.model == model, sealed.day >= first)
        told = select(outcome.day, func.count(), func.max(outcome.received_at)).group_by(outcome.day)
        with self._database.reading() as connection:
            marks = {day: [file] for day, file in connection.execute(files)}
            for day in rows.days_of(connection, model, float(first * DAY), None):
                made = select(func.count(decision.id)).where(*rows.of_day(model, day))
                marks.setdefault(day, [None]).append(connection.execute(made).scalar())
            for day, *found in connection.execute(told.where(outcome.model == model, outcome.day >= first)):
                marks.setdefault(day, [None]).extend(found)
        return marks

    def _read(self, model: str, day: int) -> list[Cases]:
        """At most about 2,000 cases of a day, without what is not needed here; memory of some thousands."""
        kept: list[Cases] = []
        step = 1.0
        for cases in self._archive.cases(model, since=day * DAY, until=(day + 1) * DAY):
            kept.append(_some(cases, step))
            if (count := sum(map(len, kept))) > 2 * _OF_DAY:
                kept, step = _thinned(kept, count / _OF_DAY), step * count / _OF_DAY
        return _thinned(kept, max(sum(map(len, kept)) / _OF_DAY, 1.0))


def _thinned(parts: Sequence[Cases], step: float) -> list[Cases]:
    return [_some(cases, step) for cases in parts]


def _some(cases: Cases, step: float) -> Cases:
    """Cases that are so far apart with their terms, without their probabilities, amounts and ids."""
    places = np.arange(0, len(cases), step).astype(np.intp)
    nothing = np.broadcast_to(np.nan, len(places))
    columns: dict[str, Any] = {name: getattr(cases, name)[places] for name in _KEPT}
    columns |= dict.fromkeys(("expected", "propensity", "benefit"), nothing)
    used, columns["term"] = np.unique(columns["term"], return_inverse=True)
    terms = [cases.terms[term] for term in used]
    return replace(cases, **columns, terms=terms, probabilities=nothing[:, None], shadows={})
