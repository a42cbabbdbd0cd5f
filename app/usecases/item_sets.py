"""Sets of probabilities, and what was chosen from them, as columns with one entry per set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np

from app.errors import Invalid, TooLarge, pointer

if TYPE_CHECKING:  # with its compiler it takes 60 MB of memory that a service which retrieves nothing can spare
    from app.retrieval.batches import Selections
    from app.retrieval.selection import Selection

Setting = Literal["binary", "multilabel", "multiclass"]
Method = Literal["expected_loss", "sampled", "tuned_threshold", "half"]

RANGE = "must be a number from 0 to 1"
FIGURES = ("expected_loss", "expected_precision", "expected_recall", "error_bound")
SAMPLED = (*FIGURES, "gap", "vectors")
MAX_SETS = 1_000_000  # of one call
MAX_ITEMS = 20_000_000  # of one call


@dataclass(frozen=True)
class Sets:
    """Probabilities of items: `offsets` (sets + 1,) divide `p` (total,) into sets; None: they are one set."""

    p: np.ndarray
    offsets: np.ndarray | None = None

    @property
    def sizes(self) -> np.ndarray:
        return np.array([len(self.p)]) if self.offsets is None else np.diff(self.offsets)

    def check(self) -> None:
        """Invalid at the first value that is no probability."""
        good = (self.p >= 0.0) & (self.p <= 1.0)
        if not good.all():
            at = int(np.argmin(good))
            raise Invalid.at(self.place(at), f"a probability is {self.p[at]}; it {RANGE}")

    def place(self, item: int) -> str:
        """Where an item stands in the request."""
        if self.offsets is None:
            return pointer("probabilities", item)
        row = int(np.searchsorted(self.offsets, item, side="right")) - 1
        return pointer("probabilities", row, item - self.offsets[row])

    def some(self, rows: np.ndarray) -> Sets:
        """Those sets alone."""
        assert self.offsets is not None
        sizes = self.sizes[rows]
        return Sets(self.p[stretches(self.offsets[rows], sizes)], np.concatenate(([0], np.cumsum(sizes))))


def check_extent(sets: int, items: int) -> None:
    """TooLarge where a call would ask about more sets, or items in all of them, than it may; before they are made."""
    if sets > MAX_SETS:
        raise TooLarge(f"the request has {sets:,} sets; at most {MAX_SETS:,} are allowed")
    if items > MAX_ITEMS:
        raise TooLarge(f"the request has {items:,} items; at most {MAX_ITEMS:,} are allowed")


@dataclass(frozen=True)
class Choice:
    """What is retrieved from each of several sets.

    selected: the positions retrieved, best first, those of set i (k[i] of them) after those of the sets before it.
    figures: (4, sets), rows as in FIGURES; of the method 'sampled' (6, sets), as in SAMPLED.
    curves: L_0 … L_n of set after set, lengths[i] entries for set i.
    """

    selected: np.ndarray
    k: np.ndarray
    figures: np.ndarray
    lengths: np.ndarray
    curves: np.ndarray | None
    warnings: tuple[str, ...] = ()

    @classmethod
    def room(cls, k: np.ndarray, sizes: np.ndarray, *, curve: bool) -> Self:
        """A choice to be filled in with `put`."""
        curves = np.empty(int((sizes + 1).sum())) if curve else None
        return cls(np.empty(int(k.sum()), dtype=np.int64), k, np.empty((len(FIGURES), len(k))), sizes + 1, curves)

    @classmethod
    def of_one(cls, found: Selection) -> Self:
        figures = np.array([getattr(found, name) for name in FIGURES])[:, None]
        lengths = np.array([0 if found.curve is None else len(found.curve)])
        return cls(found.indices, np.array([found.k]), figures, lengths, found.curve, found.warnings)

    @classmethod
    def of_many(cls, found: Selections) -> Self:
        figures = np.array([getattr(found, name) for name in FIGURES])
        selected = found.order[stretches(found.offsets[:-1], found.k)]
        return cls(selected, found.k, figures, np.diff(found.offsets) + 1, found.curves, found.warnings)

    def put(self, rows: np.ndarray, part: Choice) -> None:
        """Write the choice for some of the sets into its place among all."""
        self.selected[stretches((np.cumsum(self.k) - self.k)[rows], part.k)] = part.selected
        self.figures[:, rows] = part.figures
        if self.curves is not None and part.curves is not None:
            begins = np.cumsum(self.lengths) - self.lengths
            self.curves[stretches(begins[rows], part.lengths)] = part.curves


def stretches(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The positions start, start + 1, … of each stretch, one stretch after the other."""
    shift = starts - (np.cumsum(lengths) - lengths)
    return np.asarray(np.repeat(shift, lengths) + np.arange(int(lengths.sum())))
