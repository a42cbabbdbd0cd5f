"""Which decision rule earns most on the same rows, and whether the difference is significant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from app.decisions.benefit import irrelevance, namesakes, oddities, row_benefits
from app.decisions.bootstrap import FEWEST, Possible, Ranking, rank
from app.decisions.threshold import posterior_threshold
from app.text import counted

_MAX_NAMED = 20  # classes in warnings


@dataclass(frozen=True)
class Judged:
    """Rows of known class y (n,), codes below K, with benefits B (K, A).

    `shares` (K,) are the class shares of the population in use, as far as they are known: a class with a share above 0
    counts, with or without rows. With `known` the rows are weighted by these shares, else equally.
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
        """The weight of each row, float64 (n,)."""
        if not self.known:
            return np.ones(len(self.y))
        found = self.counts / max(len(self.y), 1)
        ratio = np.divide(self.shares, found, out=np.zeros(len(found)), where=found > 0)
        return np.asarray(ratio[self.y])


def contest(choices: np.ndarray, judged: Judged, *, fixed: Sequence[int] = ()) -> Ranking:
    """Rank c rules by the benefits of their actions, int (n, c); as `rank`, but stricter about `significant`.

    On new rows a rule may take any action of the matrix; the rules in `fixed` (columns) take the same action on all
    rows. Intervals allow for that. Every class of positive share in which the actions of best and runner-up can have
    different benefits must have `FEWEST` rows: a few rows that happen to agree are not evidence. O(n log n c) and the
    bootstrap.
    """
    values = np.column_stack([row_benefits(judged.y, choice, judged.B) for choice in choices.T])
    strata = judged.y if judged.known else None
    ranking = rank(values, judged.weights, strata, possible=_possible(choices, judged, fixed))
    if not ranking.significant or ranking.runner_up is None:
        return ranking
    apart = _where_apart(choices[:, ranking.best], choices[:, ranking.runner_up], judged.B)
    enough = judged.counts >= FEWEST
    return replace(ranking, significant=bool((enough | ~apart | (judged.shares <= 0)).all()))


def _possible(choices: np.ndarray, judged: Judged, fixed: Sequence[int]) -> Possible:
    """The benefits that each rule may have in each class that counts."""
    c = choices.shape[1]
    low = np.repeat(judged.B.min(axis=1, keepdims=True), c, axis=1)
    high = np.repeat(judged.B.max(axis=1, keepdims=True), c, axis=1)
    for j in fixed:
        low[:, j] = high[:, j] = judged.B[:, choices[0, j]]
    if judged.known:
        return Possible(low, high, judged.shares)
    counting = (judged.shares > 0) | (judged.counts > 0)
    return Possible(low[counting], high[counting])


def _where_apart(first: np.ndarray, second: np.ndarray, B: np.ndarray) -> np.ndarray:
    """For each class, bool (K,), whether such pairs of actions can have different benefits."""
    mine, other = np.divmod(np.unique(first * B.shape[1] + second), B.shape[1])
    return np.asarray((B[:, mine] != B[:, other]).any(axis=1))


def doubts(
    judged: Judged,
    classes: Sequence[object],
    bound: float,
    rows: str = "row",
    actions: Sequence[object] | None = None,
) -> list[str]:
    """Warnings about the matrix, the upper bound and classes of few rows.

    `classes` names the K classes, `actions` the A columns, by default the classes where they are as many; `rows` is
    what one row is called.
    """
    B = judged.B
    if actions is None and B.shape[0] == B.shape[1]:
        actions = classes
    warnings = oddities(B, actions, () if actions is None else namesakes(actions, classes))
    if B.shape == (2, 2) and not irrelevance(B):
        warnings += posterior_threshold(B, actions or classes).warnings
    if bound <= 0:
        warnings.append("the upper bound is not positive: mu is undefined")
    return warnings + _thin_classes(judged, classes, rows)


def _thin_classes(judged: Judged, classes: Sequence[object], rows: str) -> list[str]:
    """A warning for each class of positive share with fewer rows than `FEWEST`, the rarest first.

    A class in which all actions have the same benefit needs none.
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
        return f"class {name!r} has no {rows}, but a share of {share:.2g}: its benefit is not included"
    return f"class {name!r} has {counted(count, rows)}: too few for a reliable interval"
