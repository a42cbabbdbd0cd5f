"""Sets of classes, when exactly one class is true: the multinomial version (Natarajan et al. 2016, Theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from app.errors import Invalid, pointer
from app.retrieval.batches import Selections
from app.retrieval.expected_loss import check_usable, table_error
from app.retrieval.probabilities import RANGE
from app.retrieval.quadrature import UNIT
from app.retrieval.selection import NOTHING_WARNING
from app.retrieval.terms import Terms

SUM_TOLERANCE = 1e-6  # a row of probabilities may miss 1 by the rounding of float32


def select_class_set(P: ArrayLike, terms: Terms) -> Selections:
    """For each row of class probabilities the set of classes with the smallest expected loss.

    P: (rows, K), each row summing to 1 (up to 1e-6; rows are normalised). One class is true, so a set has one true
    positive with the probability of its classes, else none; its expected recall is that probability. O(K log K) per
    row. The precision of an empty set is 1. Invalid at `/2/3` for a bad probability, at `/2` for a row that does not
    sum to 1 or where a constraint cannot be met, else at the name of the argument.
    """
    loss, table = terms.loss, _check_rows(P)
    rows, n = table.shape
    check_usable(loss, n)
    low, high = terms.sizes(n)
    order = np.argsort(-table, axis=1, kind="stable")
    inside = np.zeros((rows, n + 1))
    np.cumsum(np.take_along_axis(table, order, axis=1), axis=1, out=inside[:, 1:])
    inside[:, n] = 1.0
    outside = 1.0 - inside
    sizes = np.arange(n + 1)
    positives = np.ones(n + 1)
    hit = loss.of_counts(np.minimum(1, sizes), sizes, positives, n, empty=terms.empty)
    miss = loss.of_counts(np.maximum(0, sizes + 1 - n), sizes, positives, n, empty=terms.empty)
    curves = inside * hit + outside * miss
    precision = np.ones_like(inside)
    precision[:, 1:] = inside[:, 1:] / sizes[1:]
    k = _best(curves, inside, precision, (low, high), terms)
    pick = np.arange(rows), k
    error = np.full(rows, table_error(loss, n))
    warnings = terms.warnings(n) + ((NOTHING_WARNING,) if terms.min_precision and np.any(k == 0) else ())
    return Selections(
        order=order.ravel(), offsets=np.arange(rows + 1) * n, k=k, expected_loss=curves[pick],
        expected_precision=precision[pick], expected_recall=inside[pick], error_bound=error,
        curves=curves.ravel() if terms.curve else None, warnings=warnings,
    )  # fmt: skip


@dataclass(frozen=True)
class _Floor:
    """A minimum rate, and the rate of every set of best classes."""

    name: str
    rate: float | None
    values: np.ndarray


def _best(
    curves: np.ndarray, recall: np.ndarray, precision: np.ndarray, sizes: tuple[int, int], terms: Terms
) -> np.ndarray:
    """The allowed k with the least loss in each row."""
    low, high = sizes
    allowed = np.zeros_like(curves, dtype=bool)
    allowed[:, low : high + 1] = True
    slack = 4 * curves.shape[1] * UNIT
    for floor in (_Floor("recall", terms.min_recall, recall), _Floor("precision", terms.min_precision, precision)):
        if floor.rate:
            met = allowed & (floor.values >= floor.rate - slack)
            none = ~met.any(axis=1)
            if none.any():
                row = int(np.argmax(none))
                best = floor.values[row][allowed[row]].max()
                raise Invalid.at(
                    pointer(f"min_{floor.name}"),
                    f"no set of row {row} has an expected {floor.name} of {floor.rate}; the largest is {best:.6g}",
                )
            allowed = met
    return np.asarray(np.argmin(np.where(allowed, curves, np.inf), axis=1))


def _check_rows(given: ArrayLike) -> np.ndarray:
    try:
        table = np.array(given, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError) as error:
        raise Invalid.at("", "class probabilities must be a table of numbers with one row per instance") from error
    if table.ndim != 2 or table.shape[1] == 0:
        raise Invalid.at("", "class probabilities must be a table with one row per instance and one column per class")
    good = (table >= 0.0) & (table <= 1.0)
    if not good.all():
        row, column = (int(at) for at in np.unravel_index(np.argmin(good), good.shape))
        raise Invalid.at(pointer(row, column), f"a probability is {table[row, column]}; it {RANGE}")
    sums = table.sum(axis=1)
    off = np.abs(sums - 1.0) > SUM_TOLERANCE
    if off.any():
        row = int(np.argmax(off))
        raise Invalid.at(pointer(row), f"the probabilities of a row sum to {sums[row]:.8g}; they must sum to 1")
    return np.asarray(table / sums[:, None])
