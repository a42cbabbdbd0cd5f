"""What one way to decide earned more than another on the same cases."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from app.evidence.means import FEWEST, Mean, MeanSums
from app.outcomes.terms import Label
from app.usecases.outcome_report.slices import Slice

THIN = f"there are fewer than {FEWEST} cases of a class in which the two can differ"


@dataclass
class Paired(MeanSums):
    """The differences, the cases by class, and the classes in which the two earned, or could have earned, differently.

    A rare large loss that did not occur yet is in no difference: with few cases of its class there is no interval.
    """

    by_class: dict[Label, int] = field(default_factory=dict)
    apart: set[Label] = field(default_factory=set)

    def compare(self, gains: np.ndarray, by_class: Mapping[Label, int], apart: set[Label]) -> None:
        self.add(gains)
        self.apart |= apart
        for label, count in by_class.items():
            self.by_class[label] = self.by_class.get(label, 0) + count

    @property
    def thin(self) -> bool:
        return any(self.by_class[label] < FEWEST for label in self.apart)

    def mean(self) -> Mean | None:
        found = super().mean()
        return Mean(found.mean, None, None) if found is not None and self.thin else found

    def __iadd__(self, other: MeanSums) -> Self:
        super().__iadd__(other)
        if isinstance(other, Paired):
            self.compare(np.empty(0), other.by_class, other.apart)
        return self


def by_class(part: Slice, rows: np.ndarray) -> dict[Label, int]:
    """The cases of each class, of rows (n,) with known truth."""
    stack, counts = part.stack, dict[Label, int]()
    for code, labels in enumerate(stack.class_sets):
        truth = part.truth[rows] if len(stack.class_sets) == 1 else part.truth[rows[_set_of(part, rows) == code]]
        for label, count in zip(labels, np.bincount(truth, minlength=len(labels)).tolist(), strict=True):
            counts[label] = counts.get(label, 0) + count
    return counts


def apart(part: Slice, rows: np.ndarray, first: np.ndarray, second: Any = None) -> set[Label]:
    """The classes in which some row (n,) earns differently with the action `first` than with `second`, both (n,) or
    one for all; None for the best action of each class.
    """
    M, A = part.stack.matrices, part.stack.matrices.shape[2]
    term, one, other = _distinct((part.term[rows], first, 0 if second is None else second), (len(M), A, A))
    own = M[term, :, one]
    rival = np.where(np.isnan(M), -np.inf, M).max(axis=2)[term] if second is None else M[term, :, other]
    differ, sets = (own != rival) & ~np.isnan(own), part.stack.class_set[term]
    return {
        part.stack.class_sets[code][k]
        for code in np.unique(sets)
        for k in np.flatnonzero(differ[sets == code].any(axis=0))
    }


def _set_of(part: Slice, rows: np.ndarray) -> np.ndarray:
    return np.asarray(part.stack.class_set[part.term[rows]])


def _distinct(columns: tuple[Any, ...], sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The distinct rows of columns of indices, below their sizes."""
    code = np.ravel_multi_index(np.broadcast_arrays(*columns), sizes)
    few = math.prod(sizes) <= 4 * len(code)  # counting is then faster than sorting
    return np.unravel_index(np.flatnonzero(np.bincount(code)) if few else np.unique(code), sizes)
