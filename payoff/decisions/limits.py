"""Decisions of a batch that lose least in sum, under limits on how often each action is chosen and
on what it uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from payoff.arrays import F64, I64
from payoff.decisions.benefit import TIE, regrets
from payoff.errors import Invalid

UNMET = "decisions for all {n} instances cannot meet these limits together; change one"


class Limits(NamedTuple):
    """Least and most rows of each action, int (A,), and resources: what an action uses of each (R,
    A), and how much there is, (R,). Sums of uses are compared up to 1e-9 of the largest use.
    """

    lower: I64
    upper: I64
    uses: F64
    most: F64

    @staticmethod
    def none(n_actions: int, n_resources: int = 0) -> Limits:
        """No limits at all."""
        upper = np.full(n_actions, np.iinfo(np.int64).max)
        uses, most = np.zeros((n_resources, n_actions)), np.full(n_resources, np.inf)
        return Limits(np.zeros(n_actions, dtype=np.int64), upper, uses, most)

    @staticmethod
    def of(
        n_actions: int,
        at_least: Mapping[int, int] | None = None,
        at_most: Mapping[int, int] | None = None,
        uses: Sequence[Sequence[float]] = (),
        available: Sequence[float] = (),
    ) -> Limits:
        """Limits by the numbers of actions; `uses` (R, A) is what an action uses of each resource,
        of which there is `available` (R,).

        >>> Limits.of(3, at_most={2: 40}).upper[2]
        np.int64(40)
        """
        limits = Limits.none(n_actions, len(available))
        for bounds, given in ((limits.lower, at_least), (limits.upper, at_most)):
            for action, count in (given or {}).items():
                bounds[action] = count
        if len(available):
            limits.uses[:], limits.most[:] = uses, available
        return limits


class Limited(NamedTuple):
    """The action of each row, int (n,); by how much at most other decisions lose less; and shadow
    prices.

    A shadow price is the change of the total benefit if the limit is greater by one: of `lower`
    (A,), at most 0 and NaN where that is impossible; of `upper` (A,) and `most` (R,), at least 0.
    """

    choice: I64
    gap: float
    lower: F64
    upper: F64
    most: F64


def decide_within(P: F64, B: F64, choice: I64, limits: Limits) -> Limited:
    """The decisions with the largest total expected benefit within limits; Invalid where these
    cannot be met together.

    Shapes as in `benefit.decide`, whose `choice` (n,) they keep for the rows that need not change;
    of tied rows the earlier ones. Without resources the result and its shadow prices are exact. One
    limit takes O(n A), more take O(n m log n) for m limited actions, and for each row that changes
    O(m^3). With resources see `limit_solvers.allocate`.

    The solvers see m columns: the limited actions from 1 on, and as column 0 the best of all
    others.
    """
    losses, n = _losses(P, B, choice), len(P)
    held = (limits.lower > 0) | (limits.upper < n) | limits.uses.any(axis=0)
    actions, others = np.flatnonzero(held), np.flatnonzero(~held)
    start = np.where(held, np.cumsum(held), 0)[choice]
    rest = losses[others]
    other = others[rest.argmin(axis=0)] if len(others) else np.zeros(n, dtype=np.int64)
    D = np.vstack([rest.min(axis=0, initial=np.inf), losses[actions]])
    del losses, rest
    low = np.concatenate(([0], limits.lower[held]))
    high = np.concatenate(([n if len(others) else 0], np.minimum(limits.upper[held], n)))
    if (low > high).any() or not low.sum() <= n <= high.sum():
        raise Invalid.at("/limits", UNMET.format(n=n))
    uses = np.hstack([np.zeros((len(limits.most), 1)), limits.uses[:, held]])
    by_column = Limits(low, high, uses, limits.most)
    found = _transport(D, start, by_column)
    if len(limits.most):
        found = _solvers().allocate(D, by_column, found)
    lower, upper = np.zeros((2, len(held)))
    lower[held], upper[held] = found.lower[1:], found.upper[1:]
    chosen = np.where(found.choice == 0, other, np.concatenate(([0], actions))[found.choice])
    return Limited(chosen, found.gap, lower, upper, found.most)


def _solvers() -> Any:
    """The module that wraps them, loaded then: SciPy's optimizers and the compiler take 80 MB."""
    from payoff.decisions import limit_solvers  # noqa: PLC0415

    return limit_solvers


def arcs(D: F64, column: I64) -> F64:
    """The least loss of moving a row from column a to column b, (m, m); infinite where there is
    none.
    """
    loss = np.full((len(D), len(D)), np.inf)
    for a in range(len(D)):
        rows = np.flatnonzero(column == a)
        loss[a] = (D[:, rows] - D[a, rows]).min(axis=1, initial=np.inf)
    return loss


def distances(loss: F64, start: F64) -> F64:
    """The least loss on the way to each node (m,) over arcs (m, m); `start` is the loss of entering
    at each node.
    """
    reached = start
    for _ in range(len(start)):
        reached = np.minimum(reached, (reached[:, None] + loss).min(axis=0))
    return reached


def _losses(P: F64, B: F64, choice: I64) -> F64:
    """What each row loses by each action in place of its best one, (A, n): 0 where they are
    tied.
    """
    R = regrets(P, B)
    own = R[choice, np.arange(len(choice))]
    tied = own * (1.0 + TIE * P.shape[1]) >= R
    R -= own
    R[tied] = 0.0
    return R


def _transport(D: F64, column: I64, limits: Limits) -> Limited:
    """By columns, without resources."""
    lower, upper = limits.lower, limits.upper
    if len(D) == 2:
        move_first(D, column, int(lower[1]), int(upper[1]))
    elif len(D) > 2 and not _solvers().assign(D, column, lower, upper):
        raise ArithmeticError("no assignment within limits that are feasible")
    count = np.bincount(column, minlength=len(D))
    loss = arcs(D, column)
    loss[0] = np.where(
        count > lower, np.minimum(loss[0], 0.0), loss[0]
    )  # column 0 takes a place from any other
    reached = distances(loss, np.where(np.arange(len(D)) == 0, 0.0, np.inf))
    more = np.where(count == upper, np.maximum(0.0, -reached), 0.0)
    forced = np.where(np.isfinite(reached) & (count < upper), np.minimum(0.0, -reached), np.nan)
    return Limited(column, 0.0, np.where(count == lower, forced, 0.0), more, np.zeros(0))


def move_first(D: F64, column: I64, lower: int, upper: int) -> None:
    """Between two columns: move rows that lose least, the last of tied ones, until column 1 is
    within its limits.
    """
    count = int(column.sum())
    source, excess = (1, count - upper) if count > upper else (0, lower - count)
    if excess > 0:
        rows = np.flatnonzero(column == source)
        loss = D[1 - source, rows]
        most = np.partition(loss, excess - 1)[excess - 1]
        first, tied = rows[loss < most], rows[loss == most]
        column[first] = column[tied[len(tied) - excess + len(first) :]] = 1 - source
