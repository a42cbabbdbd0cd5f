"""Sets of classes, when exactly one class is true: the multinomial version (Natarajan et al. 2016, Theorem 2)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from app.errors import Invalid, pointer
from app.retrieval.batches import Selections
from app.retrieval.quadrature import UNIT
from app.retrieval.selection import NOTHING_WARNING, check_usable, table_error
from app.retrieval.terms import Terms


def select_class_set(P: np.ndarray, terms: Terms) -> Selections:
    """For each row of class probabilities the set of classes with the smallest expected loss.

    P: (rows, K) probabilities, not checked; a row is divided by its sum, which may miss 1 by rounding. One class is
    true, so a set has one true positive with the probability of its classes, else none; its expected recall is that
    probability. O(K log K) per row. The precision of an empty set is 1. Invalid at the name of the argument, naming the
    row where a constraint cannot be met.
    """
    loss, table = terms.loss, np.asarray(P, dtype=np.float64)
    table = table / table.sum(axis=1, keepdims=True)
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
