"""What requests to a model have in common, prepared once: its usual rows, and the benefit matrices that come again."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import gt, lt
from threading import Lock
from typing import Any

import numpy as np

from app.decisions.benefit import Decision, decide, decide_prepared, losses
from app.registry.loaded import Loaded
from app.usecases.matrices import HasMatrix, known_oddities, read_matrix

_MAX_MATRICES = 256  # that are kept for a model
_MAX_CELLS = 1_000  # of a matrix that is kept
_FEW_ROWS = 16  # with more an array is faster
_HUGE = 1e100  # bounds below it keep sums and products far from overflow


@dataclass(frozen=True)
class Prepared:
    """A benefit matrix (K, A), or one for each instance (n, K, A), that was checked.

    `actions` name its columns; they are the classes where it is not `is_named`. `best` are the actions that were best
    for the classes in training.
    """

    benefits: np.ndarray
    actions: Sequence[int | str]
    is_named: bool
    classes: Sequence[int | str]
    best: Sequence[object] = ()

    @cached_property
    def warnings(self) -> list[str]:
        """What looks like a mistake in it."""
        return known_oddities(self.benefits, self.actions, self.classes, self.best)

    @cached_property
    def notes(self) -> dict[str, Any]:
        """What others keep as long as it."""
        return {}

    @cached_property
    def _losses(self) -> np.ndarray:
        return losses(self.benefits)

    def decide(self, P: np.ndarray) -> Decision:
        """The best action for each row of posteriors P (n, K)."""
        if self.benefits.ndim == 3:
            return decide(P, self.benefits)
        return decide_prepared(P, self.benefits, self._losses)


def prepared(
    sent: HasMatrix, classes: Sequence[int | str], n_instances: int | None, best: Sequence[object] = ()
) -> Prepared | None:
    """The matrix of a request, checked; None without one, Invalid with the place of each flaw. O(size)."""
    stakes = read_matrix(sent, classes, n_instances=n_instances, named=True)
    if stakes is None:
        return None
    named = stakes.actions is not None
    return Prepared(stakes.benefits, classes if stakes.actions is None else tuple(stakes.actions), named, classes, best)


class Usual:
    """The matrices that one model decided by, and its rows of usual numbers. Use `Loaded.once(Usual)`."""

    def __init__(self, model: Loaded) -> None:
        self._model = model
        self._matrices: dict[bytes, Prepared] = {}
        self._lock = Lock()
        self._bounds: tuple[list[float], list[float]] | None = None
        numbers = not model.schema.categorical and bool(model.classes) and model.inline
        if numbers and model.bounds is not None and np.abs(model.bounds).max() < _HUGE:
            self._bounds = (model.bounds[0].tolist(), model.bounds[1].tolist())
            self._pack = struct.Struct(f"{len(model.schema.names)}d").pack_into  # half the time of `np.array`
            self.posterior = getattr(model.estimator, "plain_posterior", model.estimator.posterior)

    def rows(self, instances: Sequence[Any]) -> np.ndarray | None:
        """A few instances as rows (n, m) for `posterior`: numbers that are all within the bounds of those in training.

        None where they are not, or need a closer look. The caller knows that they hold no booleans.
        """
        if self._bounds is None or not 1 <= len(instances) <= _FEW_ROWS:
            return None
        if len(instances) > 1 and len(set(map(type, instances))) > 1:
            return None
        least, greatest = self._bounds
        width = 8 * len(least)
        packed = bytearray(width * len(instances))
        for i, instance in enumerate(instances):
            values = self._model.schema.in_order(instance)
            if values is None:
                return None
            try:
                if any(map(gt, least, values)) or any(map(lt, greatest, values)):
                    return None
                self._pack(packed, width * i, *values)
            except (TypeError, struct.error, OverflowError):  # a null, text, a list, a huge integer
                return None
        return np.ndarray((len(instances), len(least)), buffer=packed)

    def known(self, key: bytes | None) -> Prepared | None:
        """The matrix of fields that were asked before, and so need no check; `key` tells these from all others."""
        return None if key is None else self._matrices.get(key)

    def keep(self, key: bytes, matrix: Prepared) -> None:
        """Have `known` find it, unless it is large."""
        if matrix.benefits.ndim > 2 or matrix.benefits.size > _MAX_CELLS:
            return
        with self._lock:
            if len(self._matrices) >= _MAX_MATRICES:
                del self._matrices[next(iter(self._matrices))]  # the oldest
            self._matrices[key] = matrix
