"""Decisions of a batch with the largest total expected benefit, under limits on how often actions
are chosen and on what they use.
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
    """Limits on the number of rows of each action, `lower` and `upper` int (A,), and on resources.

    `uses` (R, A) is what a row of each action uses of each resource, `available` (R,) how much
    there is of it. Sums of uses are compared up to 1e-9 of the largest use.
    """

    lower: I64
    upper: I64
    uses: F64
    available: F64

    @staticmethod
    def none(n_actions: int, n_resources: int = 0) -> Limits:
        """Limits that allow everything."""
        return Limits(
            lower=np.zeros(n_actions, dtype=np.int64),
            upper=np.full(n_actions, np.iinfo(np.int64).max),
            uses=np.zeros((n_resources, n_actions)),
            available=np.full(n_resources, np.inf),
        )

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
        for action, count in (at_least or {}).items():
            limits.lower[action] = count
        for action, count in (at_most or {}).items():
            limits.upper[action] = count
        if len(available):
            limits.uses[:] = uses
            limits.available[:] = available
        return limits


class Limited(NamedTuple):
    """Decisions within limits: the action of each row, `choice` int (n,), and shadow prices.

    No other decisions have a total benefit that is larger by more than `gap`. A shadow price is the
    change of the total benefit if the limit is greater by one: of `lower` (A,), at most 0, and NaN
    where such a limit cannot be met; of `upper` (A,) and `available` (R,), at least 0.
    """

    choice: I64
    gap: float
    lower: F64
    upper: F64
    available: F64


def decide_within(P: F64, B: F64, choice: I64, limits: Limits) -> Limited:
    """The decisions with the largest total expected benefit within limits; Invalid where the limits
    cannot be met together.

    Shapes as in `benefit.decide`, whose `choice` (n,) stays for the rows that need not change; of
    tied rows it stays for the earlier ones. Without resources the result and its shadow prices are
    exact. One limit takes O(n A), more take O(n m log n) for m limited actions, and for each row
    that changes O(m^3). With resources see `limit_solvers.allocate`.

    The solvers have m columns: column 0 is the best of all unlimited actions, the columns from 1 on
    are the limited actions.
    """
    n = len(P)
    losses = _losses(P, B, choice)
    is_limited = (limits.lower > 0) | (limits.upper < n) | limits.uses.any(axis=0)
    limited = np.flatnonzero(is_limited)
    unlimited = np.flatnonzero(~is_limited)
    start = np.where(is_limited, np.cumsum(is_limited), 0)[choice]
    of_unlimited = losses[unlimited]
    best = np.zeros(n, dtype=np.int64)
    if len(unlimited):
        best = unlimited[of_unlimited.argmin(axis=0)]
    D = np.vstack([of_unlimited.min(axis=0, initial=np.inf), losses[limited]])
    del losses, of_unlimited
    low = np.concatenate(([0], limits.lower[limited]))
    high = np.concatenate(
        ([n if len(unlimited) else 0], np.minimum(limits.upper[limited], n))
    )
    if (low > high).any() or not low.sum() <= n <= high.sum():
        raise Invalid.at("/limits", UNMET.format(n=n))
    uses = np.hstack([np.zeros((len(limits.available), 1)), limits.uses[:, limited]])
    by_column = Limits(low, high, uses, limits.available)
    solution = _transport(D, start, by_column)
    if len(limits.available):
        solution = _solvers().allocate(D, by_column, solution)
    lower, upper = np.zeros((2, len(is_limited)))
    lower[limited] = solution.lower[1:]
    upper[limited] = solution.upper[1:]
    action_of = np.concatenate(([0], limited))
    actions = np.where(solution.choice == 0, best, action_of[solution.choice])
    return Limited(actions, solution.gap, lower, upper, solution.available)


def _solvers() -> Any:
    """The module of the solvers, imported when they are needed: SciPy's optimizers and the compiler
    take 80 MB.
    """
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
    """The least loss of a path to each node (m,) over arcs (m, m); `start` (m,) is the loss of a
    path that begins at a node.
    """
    reached = start
    for _ in range(len(start)):
        reached = np.minimum(reached, (reached[:, None] + loss).min(axis=0))
    return reached


def _losses(P: F64, B: F64, choice: I64) -> F64:
    """The loss of expected benefit of each row by each action in place of its choice, (A, n): 0
    where they are tied.
    """
    R = regrets(P, B)
    of_choice = R[choice, np.arange(len(choice))]
    tied = of_choice * (1.0 + TIE * P.shape[1]) >= R
    R -= of_choice
    R[tied] = 0.0
    return R


def _transport(D: F64, column: I64, limits: Limits) -> Limited:
    """The columns of rows with losses D (m, n) of the least total within limits on counts alone."""
    lower, upper = limits.lower, limits.upper
    if len(D) == 2:
        move_first(D, column, int(lower[1]), int(upper[1]))
    elif len(D) > 2 and not _solvers().assign(D, column, lower, upper):
        raise ArithmeticError("no assignment within limits that are feasible")
    count = np.bincount(column, minlength=len(D))
    loss = arcs(D, column)
    # Column 0 may take a unit from each column that is above its lower limit.
    loss[0] = np.where(count > lower, np.minimum(loss[0], 0.0), loss[0])
    reached = distances(loss, np.where(np.arange(len(D)) == 0, 0.0, np.inf))
    more = np.where(count == upper, np.maximum(0.0, -reached), 0.0)
    forced = np.where(
        np.isfinite(reached) & (count < upper), np.minimum(0.0, -reached), np.nan
    )
    return Limited(
        column, 0.0, np.where(count == lower, forced, 0.0), more, np.zeros(0)
    )


def move_first(D: F64, column: I64, lower: int, upper: int) -> None:
    """Move the rows of the least losses between two columns, of tied rows the last ones, until
    column 1 is within its limits.
    """
    count = int(column.sum())
    source = 1 if count > upper else 0
    excess = count - upper if count > upper else lower - count
    if excess <= 0:
        return
    rows = np.flatnonzero(column == source)
    loss = D[1 - source, rows]
    largest = np.partition(loss, excess - 1)[excess - 1]
    moved, tied = rows[loss < largest], rows[loss == largest]
    column[moved] = 1 - source
    column[tied[len(tied) - excess + len(moved) :]] = 1 - source
