"""Probabilities of being relevant."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from app.errors import Invalid, pointer

RANGE = "must be a number from 0 to 1"
_MANY = 5000  # numbers from which a radix sort is faster, four times with a million


def check_probabilities(given: ArrayLike) -> np.ndarray:
    """A one-dimensional contiguous float64 array within [0, 1]; Invalid names the first bad place, such as `/3`."""
    try:
        p = np.require(given, np.float64, ["C", "A", "W"])  # a read-only array would compile the kernels anew
    except (TypeError, ValueError) as error:
        raise Invalid.at("", "probabilities must be a flat list of numbers") from error
    if np.ndim(given) != 1:
        raise Invalid.at("", f"probabilities must be a flat list of numbers; these have {np.ndim(given)} dimensions")
    good = (p >= 0.0) & (p <= 1.0)
    if not good.all():
        at = int(np.argmin(good))
        raise Invalid.at(pointer(at), f"a probability is {p[at]}; it {RANGE}")
    return p


def descending(p: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The positions of checked probabilities (n,), largest first, equal ones in their order; and p in this order."""
    if len(p) >= _MANY and (p[1:] > p[:-1]).any():
        from app.retrieval import _ranking  # noqa: PLC0415 - numba takes 60 MB, and every service checks probabilities

        order, ranked = np.empty(len(p), dtype=np.int64), np.empty(len(p))
        if _ranking.descending(p, (p + 0.0).view(np.uint64), order, ranked):  # + 0.0 makes 0.0 of -0.0
            return order, ranked
    order = np.argsort(-p, kind="stable")
    return order, p[order]
