"""One pass over recorded cases: the sums from which the report is made."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from app.decisions.priors import shift_priors
from app.evidence.means import MeanSums
from app.evidence.promise import risk
from app.evidence.selection import payoff_range
from app.evidence.sequence import Sequence
from app.outcomes.cases import UNKNOWN
from app.outcomes.terms import Label
from app.usecases.outcome_report.action_counts import ActionCounts
from app.usecases.outcome_report.best_actions import best_actions, undrawn_actions
from app.usecases.outcome_report.earnings import Earned
from app.usecases.outcome_report.paired import Paired, apart, by_class
from app.usecases.outcome_report.slices import Slice

_KEPT = 1_000_000  # cases of which single values are kept; of more every second, fourth …
_LEARNT = 50  # known outcomes before priors are corrected by them
SCORE_BINS = 200


@dataclass
class Kept:
    """Columns of single values of bounded number: every case, then every second, every fourth …"""

    most: int = _KEPT
    stride: int = 1
    _blocks: list[np.ndarray] = field(default_factory=list)
    _seen: int = 0

    def add(self, columns: np.ndarray) -> None:
        """Columns (c, n)."""
        first = -self._seen % self.stride
        self._seen += columns.shape[1]
        self._blocks.append(columns[:, first :: self.stride])
        while sum(block.shape[1] for block in self._blocks) > self.most:
            self._blocks, self.stride = [self.columns()[:, ::2]], self.stride * 2

    def columns(self) -> np.ndarray:
        """(c, kept); (0, 0) without any."""
        return np.concatenate(self._blocks, axis=1) if self._blocks else np.zeros((0, 0))


@dataclass
class Sums:
    """All sums of a report. `trained` answers the class shares (K,) of a version in training, None where unknown."""

    trained: Callable[[int], np.ndarray | None]
    total: Earned = field(default_factory=Earned)
    actions: ActionCounts = field(default_factory=ActionCounts)
    unknown: np.ndarray = field(default_factory=lambda: np.zeros(4))  # cases; sums of least, greatest, expected
    values: Kept = field(default_factory=Kept)  # promised and decided
    most_probable: Paired = field(default_factory=Paired)
    perfect: Paired = field(default_factory=Paired)
    singles: dict[tuple[Label, int], Paired] = field(default_factory=lambda: defaultdict(Paired))
    decided: float = 0.0
    overrides: Paired = field(default_factory=Paired)
    told: MeanSums = field(default_factory=MeanSums)  # benefit told less that of the matrix
    classes: dict[int, np.ndarray] = field(default_factory=dict)  # counts by version
    promised: dict[int, np.ndarray] = field(default_factory=dict)  # of the same cases: sums of the probabilities
    arrived: dict[int, dict[int, np.ndarray]] = field(
        default_factory=dict
    )  # counts by version and the day they were known
    corrected: Paired = field(default_factory=Paired)
    scores: dict[int, dict[int, np.ndarray]] = field(default_factory=dict)  # by version and day: (K, bins)
    shadows: dict[str, tuple[Sequence, int]] = field(default_factory=dict)
    action_sets: dict[tuple[Label, ...], int] = field(default_factory=dict)
    labels: dict[Label, int] = field(default_factory=dict)
    explored: Kept = field(default_factory=lambda: Kept(_KEPT // 10))

    def add(self, part: Slice) -> None:
        self.total.add(part)
        self._bound(part)
        self._score(part)
        if part.mature:
            self.actions.add(part)
            self._explore(part)
        if len(part.priced):
            self.values.add(np.stack((part.promised, part.decided)))
            self._alternatives(part)
            self._overrides(part)
            self._shadows(part)
        self._priors(part)

    def _bound(self, part: Slice) -> None:
        rows = np.flatnonzero(~part.known & part.has_matrix)
        if len(rows):
            low, high = payoff_range(part.payoffs[rows])
            self.unknown += (len(rows), np.nansum(low), np.nansum(high), part.expected[rows].sum())

    def _alternatives(self, part: Slice) -> None:
        rows, decided, choice = part.priced, part.decided, part.choice[part.priced]
        classes = by_class(part, rows)
        half = (self.perfect.count + np.arange(len(rows))) % 2 == 0  # goes on from slice to slice: days may be small
        self.decided += float(decided.sum())
        perfect = np.nanmax(np.ascontiguousarray(part.earned.T), axis=0)
        self.perfect.compare(perfect - decided, classes, apart(part, rows, choice))
        best = np.argmax(np.nan_to_num(part.stack.matrices, nan=-np.inf), axis=2)
        likely = best[part.term[rows], most_probable(part.P[rows])]
        self.most_probable.compare(part.earned_by(likely) - decided, classes, apart(part, rows, choice, likely))
        sets = part.stack.action_set[part.term[rows]]
        for code in np.unique(sets):
            own = sets == code
            halves = [(some, by_class(part, rows[some])) for some in (own & half, own & ~half)]
            for place, label in enumerate(part.stack.action_sets[code]):
                gain, differ = part.earned[:, place] - decided, apart(part, rows[own], choice[own], place)
                for number, (some, counts) in enumerate(halves):
                    self.singles[label, number].compare(gain[some], counts, differ)

    def _overrides(self, part: Slice) -> None:
        own = part.overridden
        if own.any():
            rows, gain = part.priced[own], (part.taken_earned - part.decided)[own]  # both by the matrix
            self.overrides.compare(gain, by_class(part, rows), apart(part, rows, part.choice[rows], part.taken[own]))
        told = ~np.isnan(part.benefit[part.priced])
        self.told.add((part.received - part.taken_earned)[told])

    def _shadows(self, part: Slice) -> None:
        rows = part.priced
        for name, chosen in part.shadows.items():
            asked = rows[chosen[rows] != UNKNOWN]
            term, own, other, each = part.term[asked], part.choice[asked], chosen[asked], np.arange(len(asked))
            gains = part.stack.matrices[term, :, other] - part.stack.matrices[term, :, own]  # in every class
            sequence, differing = self.shadows.get(name, (Sequence(), 0))
            sequence.add(gains[each, part.truth[asked]], *payoff_range(gains))
            differing += int(np.count_nonzero(other != own))
            self.shadows[name] = sequence, differing

    def _explore(self, part: Slice) -> None:
        """Cases of which some were drawn, with the share that was."""
        shares = part.stack.explore[part.term]
        rows = np.flatnonzero(~np.isnan(part.propensity + shares) & part.has_matrix)
        if not len(rows):
            return
        P, M, each = part.P[rows], part.stack.matrices[part.term[rows]], np.arange(len(rows))
        model = np.einsum("nk,nka->na", np.nan_to_num(P), np.nan_to_num(M))
        offered = ~np.isnan(M[:, 0, :])
        chosen, epsilon = part.choice[rows], shares[rows]
        best = undrawn_actions(part, rows)
        truth = part.truth[rows]
        earned = M[each, np.maximum(truth, 0)]
        likely = np.where(offered, M[each, most_probable(P)], -np.inf).argmax(axis=1)
        ways: list[np.ndarray] = []
        for way in (best, likely):
            own = risk(P, M[each, :, way])
            ways += (earned[each, way], model[each, way], own.logit, own.width)
        offers, sets = self._coded_actions(part)
        place = part.stack.action_set[part.term[rows]]
        codes = offers[place, chosen], offers[place, best]
        self.explored.add(np.stack((truth >= 0, *codes, epsilon, sets[place], *ways)))

    def _coded_actions(self, part: Slice) -> tuple[np.ndarray, np.ndarray]:
        """For each set of actions of the slice the codes (A,) of its labels, and its own, in the whole report."""
        sets = part.stack.action_sets
        codes = np.full((len(sets), part.stack.matrices.shape[2]), -1)
        for place, labels in enumerate(sets):
            codes[place, : len(labels)] = [self.labels.setdefault(label, len(self.labels)) for label in labels]
        return codes, np.array([self.action_sets.setdefault(labels, len(self.action_sets)) for labels in sets])

    def _score(self, part: Slice) -> None:
        """Histograms of the probabilities of each class, under the priors of training, with all features known."""
        lengths = np.array([len(classes) for classes in part.stack.class_sets])[part.stack.class_set]
        is_plain = part.stack.plain.all()
        for version, own in part.of_versions:
            rows: Any = slice(None) if own is None else own
            K = int(lengths[part.stack.versions == version].max())
            kept = self.scores.setdefault(version, {}).setdefault(part.day, np.zeros((K, SCORE_BINS)))
            plain = slice(None) if is_plain else part.stack.plain[part.term[rows]]
            for k in range(len(kept)):
                kept[k] += histogram(part.P[rows, k][plain])

    def _priors(self, part: Slice) -> None:
        """Counts of the classes; decisions by the shares of the truths that had come before their day."""
        for version, own in part.of_versions:
            trained = self.trained(version)
            rows = np.flatnonzero(part.known) if own is None else own[part.known[own]]
            if trained is None or not len(rows):
                continue
            size = len(trained)
            counts = self.classes.setdefault(version, np.zeros(size, dtype=np.int64))
            waiting = self.arrived.setdefault(version, {})
            before = sum((waiting[day] for day in waiting if day < part.day), np.zeros(size, dtype=np.int64))
            self._correct(part, rows, before, trained)
            truth, day = part.truth[rows], part.known_day[rows]
            counts += np.bincount(truth, minlength=size)
            self.promised[version] = self.promised.get(version, 0.0) + np.nansum(part.P[rows, :size], axis=0)
            for arrival in np.unique(day).tolist():
                some = np.bincount(truth[day == arrival], minlength=size)
                waiting[arrival] = waiting.get(arrival, 0) + some

    def _correct(self, part: Slice, rows: np.ndarray, counts: np.ndarray, trained: np.ndarray) -> None:
        """The decisions of the rule against those under the priors of training, neither limited nor drawn."""
        rows = rows[(part.has_matrix & part.stack.free[part.term])[rows]]
        if counts.sum() < _LEARNT or not len(rows):
            return
        shares = np.where(trained > 0, counts + 0.5, 0)
        shifted, _ = shift_priors(part.P[rows, : len(counts)], trained, shares / shares.sum())
        before, after = undrawn_actions(part, rows), best_actions(part, rows, shifted)
        M, term, truth = part.stack.matrices, part.term[rows], part.truth[rows]
        gain = M[term, truth, after] - M[term, truth, before]
        self.corrected.compare(gain, by_class(part, rows), apart(part, rows, before, after))


def most_probable(P: np.ndarray) -> np.ndarray:
    """The class (n,) with the largest probability (n, K), of equal ones the first; NaN pads."""
    best, place = P[:, 0].copy(), np.zeros(len(P), dtype=np.intp)
    for k in range(1, P.shape[1]):
        larger = P[:, k] > best
        place[larger] = k
        best = np.where(larger, P[:, k], best)
    return place


def histogram(scores: np.ndarray) -> np.ndarray:
    """Counts (bins,) of probabilities."""
    places = np.minimum((scores[~np.isnan(scores)] * SCORE_BINS).astype(np.intp), SCORE_BINS - 1)
    return np.bincount(places, minlength=SCORE_BINS)
