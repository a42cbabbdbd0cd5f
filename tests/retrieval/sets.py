"""Selected sets, one by one."""

from typing import NamedTuple

import numpy as np

from app.retrieval.losses import Terms
from app.retrieval.selection import Selections, select


class One(NamedTuple):
    expected_loss: float
    expected_precision: float
    expected_recall: float
    error_bound: float
    k: int
    indices: np.ndarray
    curve: np.ndarray | None
    warnings: tuple[str, ...]


def sets_of(many: Selections) -> list[One]:
    ends = np.cumsum(many.k)[:-1], np.cumsum(many.lengths)[:-1]
    indices = np.split(many.selected, ends[0])
    curves = [None] * len(many.k) if many.curves is None else np.split(many.curves, ends[1])
    columns = (*many.figures.tolist(), many.k.tolist(), indices, curves)
    return [One(*one, many.warnings) for one in zip(*columns, strict=False)]


def best(p: list[float] | np.ndarray, terms: Terms) -> One:
    (found,) = sets_of(select(p, terms))
    return found
