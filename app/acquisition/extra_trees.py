"""Forests of extremely randomised trees, several in one set of small arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from app.acquisition._extra_trees import MISSING_LEFT, answer, grow_extra
from app.acquisition.nodes import distinct_rows
from app.arrays import F32, F64, I16, I32, Ints
from app.progress import checkpoint


class Rule(NamedTuple):
    """How trees are grown: at least `least` rows in a leaf, `tries` random thresholds for each feature at a split."""

    least: int
    tries: int = 1


@dataclass(frozen=True, eq=False)
class ExtraTrees:
    """S forests of T trees each over columns 0, 1, …; `_extra_trees` describes the nodes.

    `value` (V, K): the distinct class shares of leaves; `roots` (S, T). A pickle holds about 5 bytes for each node.
    """

    feature: I16
    threshold: F32
    right: I32
    value: F32
    roots: I32

    @classmethod
    def beside(cls, parts: Sequence[Self], forests: int, n_classes: int) -> Self:
        """All trees of the parts, in this order, dealt to so many forests of the same size. O(nodes)."""
        sizes = np.cumsum([0, *(len(part.right) for part in parts)])
        values, which = distinct_rows(np.concatenate([np.empty((0, n_classes), np.float32), *(p.value for p in parts)]))
        known = np.cumsum([0, *(len(part.value) for part in parts)])
        right = [
            np.where(part.right >= 0, part.right + size, -1 - which[start - 1 - np.minimum(part.right, -1)])
            for part, size, start in zip(parts, sizes, known, strict=False)
        ]
        return cls(
            np.concatenate([np.empty(0, np.int16), *(part.feature for part in parts)]),
            np.concatenate([np.empty(0, np.float32), *(part.threshold for part in parts)]),
            np.concatenate([np.empty(0, np.int32), *right], dtype=np.int32, casting="same_kind"),
            values,
            np.concatenate([np.empty(0, np.int32), *(part.roots.ravel() + size for part, size in
                            zip(parts, sizes, strict=False))]).astype(np.int32).reshape(forests, -1),
        )  # fmt: skip

    def shares(self, X: F32, state: Ints) -> F64:
        """Mean class shares (n, K) of rows X (n, m) float32, NaN where missing, each from forest `state` - 1."""
        turn = np.argsort(state, kind="stable")  # rows of one forest together: its nodes stay in the processor's cache
        rows, chosen = np.ascontiguousarray(X[turn], dtype=np.float32), state[turn].astype(np.int32)
        P, found = np.zeros((len(X), self.value.shape[1])), np.empty((len(X), self.value.shape[1]))
        answer(self.feature, self.threshold, self.right, self.value, self.roots, rows, chosen, P)
        found[turn] = P
        return found

    def __getstate__(self) -> dict[str, Any]:
        inner = self.right >= 0
        jump = self.right[inner] - np.flatnonzero(inner)
        left = self.feature[inner] >= MISSING_LEFT
        return {
            "size": len(inner),
            "inner": np.packbits(inner),
            "jump": _narrow(jump),
            "column": _narrow(self.feature[inner] & ~MISSING_LEFT),
            "missing_left": np.packbits(left),
            "threshold": self.threshold[inner],
            "leaf": _narrow(-1 - self.right[~inner]),
            "value": self.value,
            "roots": self.roots,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        inner = np.unpackbits(state["inner"], count=state["size"]).astype(bool)
        count = len(state["jump"])
        feature, threshold = np.zeros(len(inner), np.int16), np.zeros(len(inner), np.float32)
        right = np.empty(len(inner), np.int32)
        left = np.unpackbits(state["missing_left"], count=count).astype(np.int16)
        feature[inner] = state["column"].astype(np.int16) + left * np.int16(MISSING_LEFT)
        threshold[inner] = state["threshold"]
        right[inner] = np.flatnonzero(inner) + state["jump"]
        right[~inner] = -1 - state["leaf"].astype(np.int32)
        arrays = {"feature": feature, "threshold": threshold, "right": right}
        vars(self).update(arrays, value=state["value"], roots=state["roots"])


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """The same numbers >= 0 in the smallest type that holds them."""
    narrow: np.ndarray = numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))
    return narrow


def grow(
    X: F32, codes: np.ndarray, weights: np.ndarray, K: int, rule: Rule, seeds: Sequence[int]
) -> tuple[ExtraTrees, F64]:
    """One forest, a tree for each seed, of the columns X (m, n) float32, NaN where missing; and the importance (m,).

    `codes` (n,) class codes, `weights` (n,) > 0, leaves of at least `least` rows. O(trees n m depth).
    """
    trees, importance = [], np.zeros(len(X))
    y, w = codes.astype(np.int32), weights.astype(np.float64)
    for seed in seeds:
        feature, threshold, right, value, gained = grow_extra(X, y, w, K, rule.least, rule.tries, seed)
        trees.append(ExtraTrees(feature, threshold, right, value, np.zeros(1, np.int32)))
        importance += gained
        checkpoint()
    return ExtraTrees.beside(trees, 1, K), importance
