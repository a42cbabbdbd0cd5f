"""What plain requests to `POST /predict` have in common, prepared once for a model and its usual matrices."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.decisions.benefit import Decision, decide_prepared, losses
from app.errors import PayoffError
from app.registry.loaded import Loaded
from app.text import MAX_NAME
from app.usecases.matrices import Stated, best_in_training, known_oddities, read_matrix
from app.usecases.ranges import strange_values

_MAX_MATRICES = 256  # that are kept for a model
_MAX_BYTES = 2_000  # of a matrix that is kept


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


class Plan:
    """The matrices that one model decided by. Use `Loaded.once(Plan)`; only the event loop may call it."""

    def __init__(self, model: Loaded) -> None:
        classes = bool(model.classes) and not model.multilabel
        self.applies = classes and not model.schema.categorical and model.inline
        self.colons = sum(name.count(":") + 1 for name in model.schema.names)  # of a row that is an object
        self._matrices: dict[bytes, Prepared] = {}

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


def decide_plainly(
    model: Loaded, instances: list[Any], matrix: Prepared, *, booleans_possible: bool
) -> tuple[np.ndarray, Decision] | None:
    """Probabilities (n, K) and decisions for rows as sent, the same as `usecases.predict` has them.

    None where that would raise an error, or add a warning of these rows.
    """
    try:
        X, _ = model.schema.encode(instances, booleans_possible=booleans_possible)
        if strange_values(model, X):
            return None
        P = model.estimator.posterior(X)
    except PayoffError:
        return None
    return (P, decide_prepared(P, matrix.benefits, matrix.losses)) if math.isfinite(P.sum()) else None


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
