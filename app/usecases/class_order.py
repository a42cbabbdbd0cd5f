"""Whether the classes of a foreign model were named in its own order."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.errors import Invalid
from app.text import listing

_CLEAR = 4.0  # standard errors
_ROUNDING = 1e-9


def check_order(P: np.ndarray, y: np.ndarray, classes: Sequence[int | str], sent: Sequence[int | str]) -> None:
    """Invalid at /classes where rows of a class clearly have lower probabilities of it than all rows have on average.

    P (n, K) and codes y (n,) are in the order of `classes`, `sent` has the order of the caller. Names in another order
    than the model's turn decisions into their opposite. O(n K + K^3).
    """
    members = np.eye(len(classes))[y]
    sizes = np.maximum(members.sum(axis=0), 1)
    lifts = members.T.dot(P) / sizes[:, None] - P.mean(axis=0)
    wrong = np.flatnonzero(np.diagonal(lifts) < -_CLEAR * P.std(axis=0) / np.sqrt(sizes) - _ROUNDING)
    if not len(wrong):
        return
    from scipy.optimize import linear_sum_assignment  # noqa: PLC0415 - 20 MB for a rare error

    _, fitting = linear_sum_assignment(lifts.T, maximize=True)  # the class of each column
    meant = {str(name): repr(classes[k]) for name, k in zip(classes, fitting, strict=True)}
    first = repr(classes[wrong[0]])
    raise Invalid.at(
        "/classes",
        f"the model gives {first} lower probabilities where {first} is true than elsewhere: its classes have another"
        f" order; {listing([meant[str(name)] for name in sent])} fit the labels best",
    )
