"""Recorded decisions beside what an alternative would have decided: sums, pairs, and what they prove."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from app.decisions.bootstrap import FEWEST, RESAMPLES, Possible, Ranking, rank
from app.evidence.drift import holm
from app.outcomes.terms import Label
from app.usecases.outcome_report.promise import basis
from app.usecases.outcome_report.selection import UNEQUAL, WHATEVER
from app.usecases.outcome_report.ways import LEVEL, THIN

_SIGNIFICANT = 0.05
_FOR_EACH = 100  # resamples for each alternative
_ARRAYS = ("P", "term", "done", "truth", "told")


@dataclass(frozen=True)
class Part:
    """Comparable decisions of a day.

    Posteriors P (n, K). `term` (n,) are indices into `matrices` (T, K, A), the benefits. `done` (n,) is the action that
    was taken, `truth` (n,) -1 where it is not known, `told` (n,) the benefit that a client reported, NaN without.
    """

    classes: tuple[Label, ...]
    actions: tuple[Label, ...]
    matrices: np.ndarray
    P: np.ndarray
    term: np.ndarray
    done: np.ndarray
    truth: np.ndarray
    told: np.ndarray
    instances: Sequence[str | None] = ()

    def __len__(self) -> int:
        return len(self.done)

    def __getitem__(self, rows: np.ndarray) -> Part:
        instances = np.array(self.instances, dtype=object)[rows].tolist() if self.instances else []
        arrays: dict[str, Any] = {name: getattr(self, name)[rows] for name in _ARRAYS}
        return replace(self, **arrays, instances=instances)

    @property
    def is_uniform(self) -> bool:
        """Whether all cases have the same benefits."""
        return bool((self.matrices[0] == self.matrices).all())

    @property
    def benefits(self) -> np.ndarray:
        """Those of all cases (K, A), or of each (n, K, A)."""
        found: np.ndarray = self.matrices[0] if self.is_uniform else self.matrices[self.term]
        return found

    def by_class(self, action: np.ndarray) -> np.ndarray:
        """What an action (n,) of each case earns in each class, (n, K)."""
        earned: np.ndarray = self.matrices[self.term, :, action]
        return earned

    def ordered(self, actions: tuple[Label, ...]) -> Part:
        """The same with its actions in another order."""
        names = list(map(str, self.actions))
        places = [names.index(str(name)) for name in actions]
        return replace(self, actions=actions, matrices=self.matrices[:, :, places], done=np.argsort(places)[self.done])

    @classmethod
    def joined(cls, parts: Sequence[Part]) -> Part:
        """All cases of parts with the same actions, in whatever order, as one; without instances."""
        first, *others = parts
        every = [first, *(each.ordered(first.actions) for each in others)]
        arrays: dict[str, Any] = {name: np.concatenate([getattr(each, name) for each in every]) for name in _ARRAYS}
        begin = np.cumsum([0, *(len(each.matrices) for each in every[:-1])])
        arrays["term"] += np.repeat(begin, [len(each) for each in every])
        return replace(first, matrices=np.concatenate([each.matrices for each in every]), **arrays, instances=())


@dataclass
class Tally:
    """What an alternative would have earned by the matrix, beside what was done; of unknown cases the least and the
    most of that. `told` counts and sums the benefits that clients reported, less those of the matrix.
    """

    n: int = 0
    failure: str | None = None
    earned: list[np.ndarray] = field(default_factory=list)  # (2, n): done, alternative
    truths: list[np.ndarray] = field(default_factory=list)
    low: np.ndarray = field(default_factory=lambda: np.full((0, 2), np.inf))
    high: np.ndarray = field(default_factory=lambda: np.full((0, 2), -np.inf))
    apart: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=bool))
    bounds: np.ndarray = field(default_factory=lambda: np.zeros(2))  # sums of differences over all cases
    told: np.ndarray = field(default_factory=lambda: np.zeros(2))

    def add(self, part: Part, choice: np.ndarray) -> None:
        """Both sides earn what the matrix has, also where a client reported another benefit of what was done."""
        known, k = part.truth >= 0, part.truth[part.truth >= 0]
        before, after = part.by_class(part.done), part.by_class(choice)
        gap = after - before
        earned = np.stack((before[known, k], after[known, k]))
        self.n += len(part)
        self.earned.append(earned)
        self.truths.append(k)
        self._widen(part.matrices[np.unique(part.term)], gap)
        apart = (part.told[known] - earned[0])[~np.isnan(part.told[known])]
        self.told += len(apart), apart.sum()
        self.bounds += [gap[~known].min(axis=1).sum(), gap[~known].max(axis=1).sum()]
        self.bounds += (earned[1] - earned[0]).sum()

    def _widen(self, matrices: np.ndarray, gap: np.ndarray) -> None:
        """What each side may earn in each class, and in which classes they may differ."""
        low, high = matrices.min(axis=(0, 2)), matrices.max(axis=(0, 2))
        if not len(self.low):
            self.low, self.high = np.full((len(low), 2), np.inf), np.full((len(low), 2), -np.inf)
            self.apart = np.zeros(len(low), dtype=bool)
        self.low, self.high = np.minimum(self.low, low[:, None]), np.maximum(self.high, high[:, None])
        self.apart |= (gap != 0).any(axis=0)

    def ranking(self, resamples: int) -> Ranking | None:
        """Of what was done and of the alternative; None without a case of known truth."""
        if self.failure is not None or not self.known:
            return None
        seen = self._counts() > 0
        return rank(self._values(), possible=Possible(self.low[seen], self.high[seen]), resamples=resamples)

    @property
    def known(self) -> int:
        return sum(map(len, self.truths))

    @property
    def differs(self) -> bool:
        """Whether some case of known truth earned differently."""
        return self.failure is None and any((one[0] != one[1]).any() for one in self.earned)

    def _values(self) -> np.ndarray:
        return np.concatenate(self.earned, axis=1).T

    def _counts(self) -> np.ndarray:
        return np.bincount(np.concatenate(self.truths), minlength=len(self.low))

    def document(self, ranking: Ranking | None, p_value: float, *, selective: bool, late: str | None) -> dict[str, Any]:
        """The figures, paired; `p_value` is corrected for the number of alternatives."""
        if ranking is None:
            why = "no case has a known truth" if self.n else "there is no case, or no instance of one was recorded"
            return {"cases": self.n, "known": self.known, "error": self.failure or why}
        values, counts = self._values(), self._counts()
        sign, behind = (1, ranking.standings[0]) if ranking.best == 1 else (-1, ranking.standings[1])
        low, high = sorted(sign * end for end in behind.behind_interval)
        limits = (self.bounds / self.n).tolist()
        enough = bool(((counts >= FEWEST) | ~self.apart).all())
        differing = int(np.count_nonzero(values[:, 0] != values[:, 1]))
        about = {"basis": basis(len(values), self.n, selective=selective, reason=late)}
        reason = (
            late if late is not None
            else f"only {differing} cases differ; {FEWEST} are needed" if differing < FEWEST
            else THIN if not enough
            else "the difference may be chance" if not (ranking.significant and p_value < _SIGNIFICANT)
            else f"{UNEQUAL}, and the bounds over all decisions contain 0" if selective and limits[0] <= 0 <= limits[1]
            else None
        )  # fmt: skip
        verdict = ("better" if sign > 0 else "worse") if reason is None else "undecided"
        if not differing:
            verdict, reason = "same", None
        return {
            "cases": self.n,
            "known": len(values),
            **about,
            "mean": ranking.standings[1].mean,
            "total": float(values[:, 1].sum()),
            "done": {
                **about,
                "mean": ranking.standings[0].mean,
                "total": float(values[:, 0].sum()),
                "cases": len(values),
            },
            "difference": {
                **about,
                "mean": sign * behind.behind + 0.0,
                "low": low,
                "high": high,
                "level": LEVEL,
                "cases": len(values),
                "differing": differing,
            },
            "bounds": {"basis": WHATEVER, "low": limits[0], "high": limits[1]},
            "told_benefits": self._told(about),
            "adjusted_p_value": p_value,
            "verdict": verdict,
            "reason": reason,
        }

    def _told(self, about: dict[str, str]) -> dict[str, Any] | None:
        cases, total = int(self.told[0]), float(self.told[1])
        return {**about, "cases": cases, "mean": total / cases, "total": total} if cases else None


def documents(tallies: Sequence[Tally], *, selective: bool, late: str | None = None) -> list[dict[str, Any]]:
    """The figures of all alternatives, with one correction for all that differ from what was done (Holm). `late` is why
    nothing can be concluded yet.

    The rule for a significant difference is that of `/compare` (see `ranking.contest`); resamples are enough for the
    least p-value that the correction asks for.
    """
    tested = [i for i, tally in enumerate(tallies) if tally.differs]
    rankings = [tally.ranking(max(RESAMPLES, _FOR_EACH * len(tested))) for tally in tallies]
    adjusted = np.ones(len(tallies))
    found = (rankings[i] for i in tested)
    adjusted[tested] = holm(np.array([one.standings[1 - one.best].p_value for one in found if one is not None]))
    return [
        tally.document(ranking, float(p), selective=selective, late=late)
        for tally, ranking, p in zip(tallies, rankings, adjusted, strict=True)
    ]
