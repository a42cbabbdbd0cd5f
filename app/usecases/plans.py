"""What plain requests to `POST /predict` have in common, prepared once for a model and its usual matrices."""

from __future__ import annotations

import math
from operator import gt, lt
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.decisions.benefit import decide_prepared, least_of, losses
from app.errors import PayoffError
from app.registry.loaded import Loaded
from app.text import MAX_NAME
from app.usecases.matrices import Stated, best_in_training, known_oddities, read_matrix
from app.usecases.ranges import strange_values

_MAX_MATRICES = 256  # that are kept for a model
_MAX_BYTES = 2_000  # of a matrix that is kept
_HUGE = 1e100  # bounds below it keep sums and products far from overflow


class Prepared(NamedTuple):
    """A benefit matrix that was checked: `head` and `tail` are what every answer with it begins and ends with, in JSON.

    `colons` counts those of the matrix and of the actions' names as they were sent.
    """

    benefits: np.ndarray
    losses: np.ndarray
    actions: tuple[int | str, ...]
    colons: int
    head: bytes
    tail: bytes


class Decided(NamedTuple):
    """For each row: the position of the action, the probabilities, and the expected benefits."""

    choice: list[int]
    probabilities: list[list[float]]
    expected_benefits: list[list[float]]


class Plan:
    """The matrices that one model decided by. Use `Loaded.once(Plan)`; only the event loop may call it."""

    def __init__(self, model: Loaded) -> None:
        classes = bool(model.classes) and not model.multilabel
        self.applies = classes and not model.schema.categorical and model.inline
        self.colons = sum(name.count(":") + 1 for name in model.schema.names)  # of a row that is an object
        self._matrices: dict[bytes, Prepared] = {}
        self._bounds: tuple[list[float], list[float]] | None = None
        if model.bounds is not None and np.abs(model.bounds).max() < _HUGE:
            self._bounds = (model.bounds[0].tolist(), model.bounds[1].tolist())
        self._posterior = getattr(model.estimator, "plain_posterior", model.estimator.posterior)
        self._n_classes = len(model.classes)

    def matrix(self, model: Loaded, benefits: Any, actions: Any) -> Prepared | None:
        """The matrix and the actions as sent; None where they are not simple. O(size) for one that came before.

        Matrices are told apart by their JSON, in which 1, 1.0, true and -0.0 differ.
        """
        try:
            key = orjson.dumps((benefits, actions))
        except orjson.JSONEncodeError:  # nested too deep
            return None
        found = self._matrices.get(key)
        if found is None and len(key) <= _MAX_BYTES:
            found = _prepared(model, benefits, actions, key.count(b":"))
            if found is not None:
                if len(self._matrices) >= _MAX_MATRICES:
                    self._matrices.clear()
                self._matrices[key] = found
        return found

    def decide(
        self, model: Loaded, instances: list[Any], matrix: Prepared, *, booleans_possible: bool
    ) -> Decided | None:
        """Decisions for rows as sent, the same as `usecases.predict` has them.

        None where that would raise an error, or add a warning of these rows.
        """
        if len(instances) == 1 and self._bounds is not None and not booleans_possible:
            row = self._row(model, instances[0])
            if row is not None:
                return self._decide_one(row, matrix)
        try:
            X, _ = model.schema.encode(instances, booleans_possible=booleans_possible)
            if strange_values(model, X):
                return None
            P = model.estimator.posterior(X)
        except PayoffError:
            return None
        if not math.isfinite(P.sum()):
            return None
        choice, expected = decide_prepared(P, matrix.benefits, matrix.losses)
        return Decided(choice.tolist(), P.tolist(), expected.tolist())

    def _row(self, model: Loaded, instance: Any) -> np.ndarray | None:
        """One instance as a row (1, m) of numbers within the bounds; None where it is not, or needs a closer look."""
        assert self._bounds is not None
        values = model.schema.in_order(instance)
        if values is None:
            return None
        least, greatest = self._bounds
        try:
            if any(map(gt, least, values)) or any(map(lt, greatest, values)):
                return None
            X = np.array((values,), dtype=np.float64)
        except (TypeError, ValueError, OverflowError):  # a null, text, a list
            return None
        return X if X.shape[1:] == (len(least),) else None

    def _decide_one(self, X: np.ndarray, matrix: Prepared) -> Decided | None:
        """The same arithmetic for one row, with as few arrays as possible."""
        P = self._posterior(X)
        probabilities = P.tolist()
        if not math.isfinite(sum(probabilities[0])):
            return None
        regrets = matrix.losses.T.dot(P.T).ravel().tolist()
        return Decided([least_of(regrets, self._n_classes)], probabilities, P.dot(matrix.benefits).tolist())


def _prepared(model: Loaded, benefits: Any, actions: Any, colons: int) -> Prepared | None:
    if not (actions is None or _are_names(actions)):
        return None
    try:
        stakes = read_matrix(Stated(benefits, None, actions), model.classes, named=True)
    except PayoffError:
        return None
    if stakes is None:
        return None
    B, names = stakes
    columns = model.classes if names is None else tuple(names)
    warnings = [*model.card.warnings, *known_oddities(B, columns, model.classes, best_in_training(model))]
    head = {"model": model.model, "rule": "expected_benefit", "classes": model.classes, "actions": columns}
    return Prepared(B, losses(B), columns, colons, orjson.dumps(head)[:-1], orjson.dumps(warnings))


def _are_names(actions: Any) -> bool:
    texts = isinstance(actions, list) and bool(actions) and all(isinstance(name, str) for name in actions)
    return texts and max(map(len, actions)) <= MAX_NAME
