"""Compare decision rules by their benefits on the same rows, given what the matrix makes possible;
and warn of what is doubtful.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from payoff.decisions.benefit import class_means, irrelevance, oddities, row_benefits
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE, Possible, Ranking, rank
from payoff.decisions.row_weights import effective_rows
from payoff.decisions.threshold import cut_at, posterior_threshold
from payoff.errors import counted

_MAX_NAMED = 20  # classes in warnings


@dataclass(frozen=True)
class LabelledRows:
    """Rows of true classes y (n,), codes below K, with benefits B (K, A), or (n, K, A), a matrix
    for each row.

    `shares` (K,) are the class shares of the population in use, as far as they are known: a class
    with a share above 0 counts, with or without rows. With `known` the classes have these weights.
    `row_weights` (n,) are positive, 1 each by default. `groups` (n,) are codes of groups whose rows
    depend on each other. `cross_validated`: the rows were predicted by the models of several folds.
    """

    y: np.ndarray
    B: np.ndarray
    shares: np.ndarray
    known: bool = False
    row_weights: np.ndarray | None = None
    groups: np.ndarray | None = None
    cross_validated: bool = False

    @property
    def counts(self) -> np.ndarray:
        """The effective number of rows, or the number of groups, of each class, float64 (K,)."""
        if self.groups is not None:
            pairs = np.unique(np.column_stack((self.groups, self.y)), axis=0)
            return np.bincount(pairs[:, 1], minlength=self.B.shape[-2]) * 1.0
        return effective_rows(self._row_weights, self.y, self.B.shape[-2])

    @property
    def _row_weights(self) -> np.ndarray:
        return np.ones(len(self.y)) if self.row_weights is None else self.row_weights

    @property
    def weights(self) -> np.ndarray:
        """The weight of each row, float64 (n,)."""
        weights = self._row_weights
        if not self.known:
            return weights
        sums = np.bincount(self.y, weights, self.B.shape[-2])
        observed = sums / max(sums.sum(), 1e-300)
        ratio = np.divide(
            self.shares, observed, out=np.zeros(len(observed)), where=observed > 0
        )
        return np.asarray(ratio[self.y] * weights)

    @property
    def bound(self) -> float:
        """The mean benefit if every true class is known."""
        rows = np.arange(len(self.y))
        benefits = self.B[self.y] if self.B.ndim == 2 else self.B[rows, self.y]
        return float(np.average(benefits.max(axis=1), weights=self.weights))


def contest(
    choices: np.ndarray, rows: LabelledRows, *, fixed: Sequence[int] = ()
) -> Ranking:
    """Rank c rules by the benefits of their actions, int (n, c); as `rank`, but stricter about
    `significant`.

    On new rows a rule may take any action of the matrix; the rules in `fixed` (columns) take the
    same action on all rows. Intervals allow for that. For significance, every class of positive
    share in which the actions of best and runner-up can have different benefits must have
    `MIN_ROWS_TO_COMPARE` rows: a few rows that happen to agree are not evidence. O(n log n c) and
    the bootstrap.
    """
    values = np.column_stack(
        [row_benefits(rows.y, choice, rows.B) for choice in choices.T]
    )
    strata = rows.y if rows.known else np.zeros_like(rows.y)
    ranking = rank(
        values,
        rows.weights,
        strata,
        possible=_possible(choices, rows, fixed),
        groups=rows.groups,
        cross_validated=rows.cross_validated,
    )
    if not ranking.significant or ranking.runner_up is None:
        return ranking
    can_differ = _can_differ(
        choices[:, ranking.best], choices[:, ranking.runner_up], rows.B
    )
    enough = rows.counts >= MIN_ROWS_TO_COMPARE
    return replace(
        ranking, significant=bool((enough | ~can_differ | (rows.shares <= 0)).all())
    )


def _possible(
    choices: np.ndarray, rows: LabelledRows, fixed: Sequence[int]
) -> Possible:
    """The benefits that each rule may have in each class that counts."""
    c = choices.shape[1]
    lowest = rows.B if rows.B.ndim == 2 else rows.B.min(axis=0)
    highest = rows.B if rows.B.ndim == 2 else rows.B.max(axis=0)
    low = np.repeat(lowest.min(axis=1, keepdims=True), c, axis=1)
    high = np.repeat(highest.max(axis=1, keepdims=True), c, axis=1)
    for j in fixed:
        action = choices[0, j]
        low[:, j] = lowest[:, action]
        high[:, j] = highest[:, action]
    if rows.known:
        return Possible(low, high, rows.shares)
    counting = (rows.shares > 0) | (rows.counts > 0)
    return Possible(low[counting], high[counting])


def _can_differ(first: np.ndarray, second: np.ndarray, B: np.ndarray) -> np.ndarray:
    """For each class, bool (K,), whether two rules with these actions (n,) on the same rows can
    have different benefits.
    """
    action, rival = np.divmod(np.unique(first * B.shape[-1] + second), B.shape[-1])
    differ = (B[..., action] != B[..., rival]).any(axis=-1)
    return np.asarray(differ if B.ndim == 2 else differ.any(axis=0))


def doubts(
    rows: LabelledRows,
    classes: Sequence[object],
    bound: float,
    unit: str = "row",
    actions: Sequence[object] | None = None,
) -> list[str]:
    """Warnings about the matrix, the upper bound and classes of fewer rows than
    `MIN_ROWS_TO_COMPARE`, the rarest first.

    A class in which all actions have the same benefit has no warning. `classes` names the K
    classes, `actions` the A columns, by default the classes where they are as many; `unit` is the
    word for a row.
    """
    B = rows.B
    warnings = oddities(class_means(rows.y, B, rows.row_weights), actions, classes)
    if B.shape == (2, 2) and not irrelevance(B):
        warnings += posterior_threshold(B, actions or classes).warnings
    elif B.shape[1:] == (2, 2):
        warnings += cut_at(0.5, B.mean(axis=0), actions or classes).warnings
    if bound <= 0:
        warnings.append("the upper bound is not positive: mu is undefined")
    counts = rows.counts
    unit = unit if rows.groups is None else "group"
    or_hold_out = " or hold out more," if unit.startswith("hold-out") else ""
    differs = np.ptp(B, axis=-1) > 0
    differs = differs if B.ndim == 2 else differs.any(axis=0)
    rare = np.flatnonzero((counts < MIN_ROWS_TO_COMPARE) & (rows.shares > 0) & differs)
    for k in rare[np.argsort(counts[rare], kind="stable")][:_MAX_NAMED]:
        count = int(counts[k])
        if count:
            problem = f"{counted(count, unit)}: too few for a reliable interval"
        else:
            share = f"a share of {rows.shares[k]:.2g}"
            problem = f"no {unit}, but {share}: its benefit is not included"
        warnings.append(
            f"class {classes[k]!r} has {problem}; add {unit.split()[-1]}s of it, with weights that"
            f" keep its share,{or_hold_out} until {MIN_ROWS_TO_COMPARE} are evaluated"
        )
    if len(rare) > _MAX_NAMED:
        more = f"{len(rare) - _MAX_NAMED} more classes"
        warnings.append(f"{more} have fewer than {MIN_ROWS_TO_COMPARE} {unit}s")
    return warnings
