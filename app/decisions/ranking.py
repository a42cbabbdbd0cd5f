"""Which way to decide earned most on the same rows, and whether these rows can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.decisions.benefit import irrelevance, row_benefits
from app.decisions.bootstrap import FEWEST, Ranking, rank
from app.decisions.threshold import posterior_threshold

_MAX_NAMED = 20  # classes; who has more rare ones knows it by then


@dataclass(frozen=True)
class Judged:
    """Rows of known class y (n,), codes below K, that are worth B (K, A).

    `shares` (K,) are the class shares where the decisions will be made, as far as they are known: a class whose share
    is above 0 matters, whether it has rows or not. With `known` the rows are weighed to them, else they count alike.
    """

    y: np.ndarray
    B: np.ndarray
    shares: np.ndarray
    known: bool = False

    @property
    def counts(self) -> np.ndarray:
        """Rows of each class, int (K,)."""
        return np.bincount(self.y, minlength=len(self.B))

    @property
    def weights(self) -> np.ndarray:
        """What each row counts, float64 (n,)."""
        if not self.known:
            return np.ones(len(self.y))
        found = self.counts / max(len(self.y), 1)
        ratio = np.divide(self.shares, found, out=np.zeros(len(found)), where=found > 0)
        return np.asarray(ratio[self.y])


def contest(choices: np.ndarray, judged: Judged, *, seed: int = 0) -> Ranking:
    """Rank c ways to decide by what their actions, int (n, c), earned; as `rank`, but surer of what is `significant`.

    Resamples only know what the rows of a class show. So every class that matters, and in which the best and the
    runner-up can earn differently where they differ, must have `FEWEST` rows: a class of two rows that happen to agree
    has an interval without width, however much it weighs. O(n log n c) and the bootstrap.
    """
    values = np.column_stack([row_benefits(judged.y, choice, judged.B) for choice in choices.T])
    ranking = rank(values, judged.weights, judged.y if judged.known else None, seed=seed)
    if not ranking.significant or ranking.runner_up is None:
        return ranking
    apart = _where_apart(choices[:, ranking.best], choices[:, ranking.runner_up], judged.B)
    enough = judged.counts >= FEWEST
    return replace(ranking, significant=bool((enough | ~apart | (judged.shares <= 0)).all()))


def _where_apart(first: np.ndarray, second: np.ndarray, B: np.ndarray) -> np.ndarray:
    """For each class, bool (K,), whether two deciders that take such pairs of actions can earn differently in it."""
    pairs = np.unique(np.column_stack((first, second)), axis=0)
    return np.asarray((B[:, pairs[:, 0]] != B[:, pairs[:, 1]]).any(axis=1))


def doubts(judged: Judged, classes: Sequence[object], bound: float, rows: str = "row") -> list[str]:
    """What to be warned about before reading what anything earned: the matrix, the upper bound, classes of few rows.

    `classes` names the K classes, and the actions where they are as many; `rows` is what one row is called.
    """
    B = judged.B
    warnings = irrelevance(B, classes if B.shape[0] == B.shape[1] else None)
    if not warnings and B.shape == (2, 2):
        warnings += posterior_threshold(B, classes).warnings
    if bound <= 0:
        warnings.append("the upper bound is not positive: mu, the share of it that is earned, has no meaning here")
    return warnings + _thin_classes(judged, classes, rows)


def _thin_classes(judged: Judged, classes: Sequence[object], rows: str) -> list[str]:
    """A warning for each of the rarest classes that matter and have fewer rows than `FEWEST`.

    A class in which all actions earn the same needs none.
    """
    counts = judged.counts
    thin = np.flatnonzero((counts < FEWEST) & (judged.shares > 0) & (np.ptp(judged.B, axis=1) > 0))
    thin = thin[np.argsort(counts[thin], kind="stable")]
    warnings = [_thin(classes[k], int(counts[k]), float(judged.shares[k]), rows) for k in thin[:_MAX_NAMED]]
    if len(thin) > _MAX_NAMED:
        warnings.append(f"{len(thin) - _MAX_NAMED} more classes have fewer than {FEWEST} {rows}s")
    return warnings


def _thin(name: object, count: int, share: float, rows: str) -> str:
    if not count:
        return f"class {name!r} has no {rows}, but a share of {share:.2g}: what it earns is not in these figures"
    return f"class {name!r} has {count} {rows}{'' if count == 1 else 's'}: the interval cannot know how it varies"
