"""Limits on what actions use together, and on how often each is chosen: the solvers.

What is used depends on the counts of the actions alone, and the least loss for given counts,
F(counts), is convex. So a linear program over mixtures of decisions (Dantzig and Wolfe 1960) gives
prices for all limits, and a bound. Each price vector bounds F from below by a plane; an integer
program over the few counts minimises the largest of these planes, the exact loss at its solution
gives one more, and so on (Geoffrion 1972). HiGHS solves both programs.

Limits on counts alone are an assignment (`payoff.decisions.assignment`).
"""

from __future__ import annotations

from time import monotonic

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp

from payoff.arrays import F64, I64
from payoff.decisions.assignment import assign
from payoff.decisions.limits import UNMET, Limited, Limits, arcs, distances
from payoff.errors import Invalid

_SECONDS = 10.0
_SECONDS_OF_COUNTS = 5.0
_TIME_LIMIT = 1  # a status of SciPy's milp
_NOT_FOUND = (
    f"in {_SECONDS_OF_COUNTS:g} seconds no decisions within these limits were found"
)
_SIZE = 1e3  # of the largest coefficient, as HiGHS neglects 1e-6
_SMALL = 2e-9  # of the largest use of a resource: the tolerance of a limit
_MAX_PRICES = 300  # price vectors to evaluate
# share of the best duals so far in those evaluated next (Wentges 1997)
_SMOOTHING = 0.5
_WORK = 10_000_000  # losses of rows by columns, in all evaluations of counts
_ZERO = 1e-6  # of the largest price: smaller ones are rounding of the linear program
_EXACT = 1e-8  # of the largest price: a smaller gap is rounding
# Of a plane's prices to those of the linear program; steeper planes are for counts far from the
# best.
_MAX_RATIO = 1e7


def counts_within(n: int, limits: Limits, near: I64) -> I64:
    """Counts of the columns, int (m,), that sum to n and are within the limits, and nearest to
    `near` (m,) in sum. Raises Invalid where there are none, or none is found within 5 s.
    """
    m = len(limits.lower)
    ones, zeros, unit = np.ones(m), np.zeros(m), np.eye(m)
    # The variables are the counts, and the distance of each count from `near`.
    apart = np.vstack([np.hstack([unit, -unit]), np.hstack([-unit, -unit])])
    solved = milp(
        np.append(zeros, ones),
        integrality=np.append(ones, zeros),
        bounds=Bounds(
            np.append(limits.lower, zeros), np.append(limits.upper, np.full(m, np.inf))
        ),
        constraints=[
            LinearConstraint(np.append(ones, zeros), n, n),
            _within(limits, n, m),
            LinearConstraint(apart, -np.inf, np.append(near, -near)),
        ],
        options={"time_limit": _SECONDS_OF_COUNTS},
    )
    if solved.x is None:
        slow = solved.status == _TIME_LIMIT
        raise Invalid.at("/resources", _NOT_FOUND if slow else UNMET.format(n=n))
    counts: I64 = np.rint(solved.x[:m]).astype(np.int64)
    return counts


def allocate(D: F64, limits: Limits, start: Limited) -> Limited:
    """The columns of rows with losses D (m, n) of the least total within limits, from the best
    ones, `start`, within the limits on counts alone.

    Exact, with a gap of 0, where the integer program proves it in time. `_WORK` bounds the rounds,
    so that the result does not depend on the speed of the machine, unless they take more than
    10 s. Shadow prices are those of the linear program, in which a row may be divided between
    actions, unless `start` is within the resources, too.
    """
    end = monotonic() + _SECONDS
    rows = _Rows(limits, D.shape[1])
    if rows.allow(np.bincount(start.choice, minlength=len(D))):
        return start._replace(available=np.zeros(len(limits.available)))
    search = _Search(D, limits, rows, start)
    search.relax(end)
    search.round(end)
    return search.result()


class _Search:
    """The best decisions so far, and what is known about better ones: a `bound` on their loss, and
    planes.

    A plane is a level and prices: no decisions lose less than `level + prices @ counts`.
    """

    def __init__(self, D: F64, limits: Limits, rows: _Rows, start: Limited) -> None:
        self._D = D
        self._limits = limits
        self._rows = rows
        self._bound = 0.0
        self._duals = np.zeros(len(rows.bounds))
        self._prices = np.zeros(len(D))
        self._planes: list[tuple[float, F64]] = []
        self._price(rows.join(start))
        counts = np.bincount(start.choice, minlength=len(D))
        self._mixed = [(_total(D, start.choice), counts)]
        self._mean = counts.astype(np.float64)
        self._column = start.choice
        self._loss = np.inf
        self._counts = counts
        self._evaluate(counts_within(D.shape[1], limits, counts))
        if not np.isfinite(self._loss):
            raise ArithmeticError("no decisions within limits that are feasible")
        self._mixed.append((self._loss, self._counts))

    def relax(self, end: float) -> None:
        """Solve the linear program over mixtures of decisions: find its bound and its prices."""
        scale = self._loss or 1.0
        smoothing = _SMOOTHING
        for _ in range(_MAX_PRICES):
            losses = np.array([loss for loss, _ in self._mixed])
            counts = np.array([counts for _, counts in self._mixed])
            mixture = linprog(
                losses / scale,
                self._rows.uses @ counts.T,
                self._rows.bounds,
                np.ones((1, len(losses))),
                [1.0],
            )
            if mixture.x is None:
                return
            marginals = (1.0 - smoothing) * scale * mixture.ineqlin.marginals
            column = self._price(smoothing * self._duals - marginals)
            self._mean = mixture.x @ counts
            if mixture.fun * scale - self._bound <= _EXACT * scale or monotonic() > end:
                return
            loss, count = (
                _total(self._D, column),
                np.bincount(column, minlength=len(self._D)),
            )
            repeated = (counts == count).all(axis=1)
            if smoothing == 0.0 and (repeated & (losses == loss)).any():
                return  # the mixture contains these decisions
            smoothing = 0.0 if repeated.any() else _SMOOTHING
            self._mixed.append((loss, count))

    def _price(self, duals: F64) -> I64:
        """The best columns under these prices of the limits; they may be the best prices so far."""
        prices = -duals @ self._rows.uses
        level, column = _best(self._D, prices)
        bound = level - float(duals @ self._rows.bounds)
        if bound >= self._bound:
            self._bound = bound
            self._duals = duals
            self._prices = prices
        self._planes.append((level, prices))
        return column

    def round(self, end: float) -> None:
        """Evaluate the counts that are the best according to the planes, until they are proven to
        be the best.
        """
        if monotonic() < end:
            self._evaluate(_nearest(self._mean))
        seen = {self._counts.tobytes()}
        for _ in range(int(np.clip(_WORK // self._D.size, 5, 200))):
            solved = self._program(max(end - monotonic(), 0.1))
            if solved.x is None:
                return
            bound = self._loss + solved.mip_dual_bound * self._unit() / _SIZE
            self._bound = max(self._bound, bound)
            counts = self._counts + np.rint(solved.x[:-1]).astype(np.int64)
            if counts.tobytes() in seen or not self._gap() or monotonic() > end:
                return
            seen.add(counts.tobytes())
            self._evaluate(counts)

    def result(self) -> Limited:
        """The best decisions, and the shadow prices."""
        duals = np.where(self._duals > _ZERO * self._duals.max(), self._duals, 0.0)
        lower, upper, available = self._rows.split(duals)
        return Limited(self._column, self._gap(), lower, upper, available)

    def _evaluate(self, counts: I64) -> None:
        """Find the best decisions with these counts, and the plane that touches F there."""
        reduced = self._D - self._prices[:, None]
        column = reduced.argmin(axis=0)
        reduced -= reduced.min(axis=0)
        assign(reduced, column, counts, counts)
        counts = np.bincount(column, minlength=len(counts))
        prices = self._prices + distances(arcs(reduced, column), np.zeros(len(counts)))
        self._planes.append((_best(self._D, prices)[0], prices))
        loss = _total(self._D, column)
        if self._rows.allow(counts) and loss < self._loss:
            self._column = column
            self._loss = loss
            self._counts = counts

    def _program(self, seconds: float) -> OptimizeResult:
        """The integer program: the changes of the counts that minimise the largest of all planes,
        which is the last variable.
        """
        unit = self._unit()
        m = len(self._counts)
        steepest = _MAX_RATIO * unit
        near = [plane for plane in self._planes if np.abs(plane[1]).max() <= steepest]
        levels = np.array(
            [level + prices @ self._counts - self._loss for level, prices in near]
        )
        levels *= _SIZE / unit
        slopes = np.array([prices for _, prices in near]) * (_SIZE / unit)
        planes = LinearConstraint(
            np.hstack([-slopes, np.ones((len(near), 1))]), levels, np.inf
        )
        equal_sum = LinearConstraint(np.append(np.ones(m), 0), 0, 0)
        within = _within(self._limits, self._D.shape[1], 1)
        within.ub = within.ub - within.A[:, :m] @ self._counts
        lower, upper = (
            self._limits.lower - self._counts,
            self._limits.upper - self._counts,
        )
        return milp(
            np.append(np.zeros(m), 1),
            integrality=np.append(np.ones(m), 0),
            bounds=Bounds(np.append(lower, -np.inf), np.append(upper, np.inf)),
            constraints=[planes, equal_sum, within],
            options={"time_limit": seconds, "mip_rel_gap": 0.0},
        )

    def _unit(self) -> float:
        return float(np.abs(self._prices).max()) or self._loss or 1.0

    def _gap(self) -> float:
        gap = self._loss - self._bound
        return gap if gap > _EXACT * self._unit() else 0.0


class _Rows:
    """All limits as rows `uses @ counts <= bounds`: the upper ones, the lower ones and the
    resources.
    """

    def __init__(self, limits: Limits, n: int) -> None:
        unit = np.eye(len(limits.lower))
        upper = np.flatnonzero(limits.upper < n)
        # Column 0 has no row: its losses are infinite where it must be empty.
        self._upper = upper[upper > 0]
        self._lower = np.flatnonzero(limits.lower > 0)
        self._size = _sizes(limits)
        self.uses = np.vstack(
            [unit[self._upper], -unit[self._lower], limits.uses / self._size[:, None]]
        )
        self.bounds = np.concatenate(
            [
                limits.upper[self._upper],
                -limits.lower[self._lower],
                limits.available / self._size,
            ]
        )

    def allow(self, counts: I64) -> bool:
        """Whether the counts are within the limits."""
        return bool((self.uses @ counts <= self.bounds + _SMALL).all())

    def join(self, prices: Limited) -> F64:
        """The shadow prices of limits on counts as duals; those of the resources are 0."""
        known = np.nan_to_num([prices.upper, prices.lower])
        return np.concatenate(
            [known[0, self._upper], -known[1, self._lower], np.zeros(len(self._size))]
        )

    def split(self, duals: F64) -> tuple[F64, F64, F64]:
        """The duals as shadow prices of `lower` (m,), `upper` (m,) and `available` (R,)."""
        lower, upper = np.zeros((2, self.uses.shape[1]))
        a = len(self._upper)
        b = a + len(self._lower)
        upper[self._upper] = duals[:a]
        lower[self._lower] = 0.0 - duals[a:b]
        return lower, upper, duals[b:] / self._size


def _best(D: F64, prices: F64) -> tuple[float, I64]:
    """The level of the plane `level + prices @ counts` below the loss, and the best columns under
    the prices.
    """
    reduced = D - prices[:, None]
    column = reduced.argmin(axis=0)
    return _total(reduced, column), column


def _total(D: F64, column: I64) -> float:
    return float(D[column, np.arange(len(column))].sum())


def _nearest(counts: F64) -> I64:
    """Counts rounded to integers of the same sum."""
    rounded = np.floor(counts).astype(np.int64)
    missing = round(counts.sum()) - rounded.sum()
    rounded[np.argsort(rounded - counts, kind="stable")[:missing]] += 1
    return rounded


def _sizes(limits: Limits) -> F64:
    """The largest use of each resource."""
    sizes = limits.uses.max(axis=1)
    return np.where(sizes > 0, sizes, 1.0)


def _within(limits: Limits, n: int, extra: int) -> LinearConstraint:
    """The scaled constraints of the resources; so many `extra` variables follow the counts.

    Their bounds are at most twice what n rows can use.
    """
    scale = _SIZE / _sizes(limits)
    uses = np.hstack([limits.uses * scale[:, None], np.zeros((len(scale), extra))])
    return LinearConstraint(
        uses, -np.inf, np.minimum(limits.available * scale, 2.0 * n * _SIZE)
    )
