"""What plain requests to `POST /predict` have in common, prepared once for a model and its usual matrices."""

from __future__ import annotations

import math
import struct
from operator import gt, lt
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.decisions.benefit import decide_prepared, least_of, losses
from app.errors import PayoffError
from app.registry.loaded import Loaded
from app.registry.saved_matrices import Saved
from app.text import MAX_NAME
from app.usecases.matrices import Stated, best_in_training, known_oddities, read_matrix
from app.usecases.ranges import strange_values

_MAX_MATRICES = 256  # that are kept for a model
_MAX_BYTES = 2_000  # of a matrix that is kept
_NUMBER_BYTES = 25  # of the longest float64 in JSON, and a comma
_ROW_BYTES = 5  # of brackets and commas
_HUGE = 1e100  # bounds below it keep sums and products far from overflow


class Prepared(NamedTuple):
    """A benefit matrix that was checked: `head` and `tail` are what every answer with it begins and ends with, in JSON.

    A row of the answer takes at most `row_bytes`.
    """

    benefits: np.ndarray
    losses: np.ndarray
    actions: tuple[int | str, ...]
    head: bytes
    tail: bytes
    row_bytes: int


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
        self._matrices: dict[bytes, Prepared] = {}
        self._bounds: tuple[list[float], list[float]] | None = None
        if model.bounds is not None and np.abs(model.bounds).max() < _HUGE:
            self._bounds = (model.bounds[0].tolist(), model.bounds[1].tolist())
            self._pack = struct.Struct(f"{len(model.schema.names)}d").pack_into  # half the time of `np.array`
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
        return self._matrices.get(key) or self._prepare(model, key, benefits, actions)

    def saved(self, model: Loaded, saved: Saved) -> Prepared | None:
        """The same for a saved matrix, whose content is the key."""
        return self._matrices.get(saved.content) or self._prepare(model, saved.content, *saved.checked)

    def _prepare(self, model: Loaded, key: bytes, benefits: Any, actions: Any) -> Prepared | None:
        found = _prepared(model, benefits, actions) if len(key) <= _MAX_BYTES else None
        if found is not None:
            if len(self._matrices) >= _MAX_MATRICES:
                del self._matrices[next(iter(self._matrices))]  # the oldest
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
            self._pack(row := bytearray(8 * len(least)), 0, *values)
        except (TypeError, struct.error, OverflowError):  # a null, text, a list, a huge integer
            return None
        return np.ndarray((1, len(least)), buffer=row)

    def _decide_one(self, X: np.ndarray, matrix: Prepared) -> Decided | None:
        """The same arithmetic for one row, with as few arrays as possible."""
        P = self._posterior(X)
        probabilities = P.tolist()
        if not math.isfinite(sum(probabilities[0])):
            return None
        regrets = matrix.losses.T.dot(P.T).ravel().tolist()
        return Decided([least_of(regrets, self._n_classes)], probabilities, P.dot(matrix.benefits).tolist())


def _prepared(model: Loaded, benefits: Any, actions: Any) -> Prepared | None:
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
    row_bytes = _NUMBER_BYTES * (len(model.classes) + len(columns)) + max(len(orjson.dumps(name)) for name in columns)
    about = orjson.dumps(head)[:-1], orjson.dumps(warnings)
    return Prepared(B, losses(B), columns, *about, row_bytes + _ROW_BYTES)


def _are_names(actions: Any) -> bool:
    texts = isinstance(actions, list) and bool(actions) and all(isinstance(name, str) for name in actions)
    return texts and max(map(len, actions)) <= MAX_NAME


def written(matrix: Prepared, decided: Decided) -> bytes:
    """The answer in JSON, as `app.api.codecs.answers.to_json` writes it for all other requests."""
    columns = {
        "decisions": [matrix.actions[a] for a in decided.choice],
        "probabilities": decided.probabilities,
        "expected_benefits": decided.expected_benefits,
    }
    return b'%b,%b,"warnings":%b}' % (matrix.head, orjson.dumps(columns)[1:-1], matrix.tail)
