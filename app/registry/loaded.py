"""Models in memory, bounded by the bytes of their files, each loaded once for all its requests."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from threading import Lock
from time import monotonic
from typing import Any, Literal, Self, TypeVar

import numpy as np

from app.registry.card import Card
from app.registry.snapshot import Key
from app.tables.features import Schema

_Made = TypeVar("_Made")
Segment = tuple[np.ndarray, Sequence[str]]
"""The codes (n,) of a column, NaN where missing, and its words."""


@dataclass(frozen=True, eq=False)
class Holdout:
    """Probabilities for rows by models that were not fitted on them, and the truth: held out, or
    cross-validated.

    `scores` is float64 (n, K), columns in the order of the card's classes. `y` holds codes:
    positions in those classes, (n,); for several labels 0 or 1 each, (n, K). For regression
    `scores` (n, 1) are the predicted numbers, and `y` (n,) the true ones. `columns` reads those
    (n,) that cells of benefit matrices may name: they are as large as the table, and few requests
    need them. `groups` (n,) are codes of the groups by which rows were held out, if they were, and
    `weights` (n,) those of the rows; None where all are equal. `segments` reads the columns by
    which the rows can be divided.
    """

    scores: np.ndarray
    y: np.ndarray
    columns: Callable[[], Mapping[str, np.ndarray]] = dict
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None
    segments: Callable[[], Mapping[str, Segment]] = dict

    @property
    def row_weights(self) -> np.ndarray:
        """How much each row counts (n,)."""
        return np.ones(len(self.y)) if self.weights is None else self.weights


@dataclass(frozen=True, eq=False)
class Loaded:
    """A version of a model with all that a request needs; shared by requests, so it must not be
    changed.
    """

    card: Card
    schema: Schema
    estimator: Any
    holdout: Holdout | None
    _made: dict[Callable[[Self], Any], Any] = field(
        default_factory=dict, init=False, repr=False
    )

    def once(self, make: Callable[[Self], _Made]) -> _Made:
        """The result of `make` for this model: computed once, and kept as long as the model."""
        if make not in self._made:
            self._made[make] = make(self)
        return self._made[make]

    @cached_property
    def name(self) -> str:
        return self.card.name

    @cached_property
    def version(self) -> int:
        return self.card.version

    @cached_property
    def classes(self) -> tuple[int | str, ...]:
        """In the order of the probabilities; empty for regression."""
        return tuple(self.card.classes or ())

    @property
    def evaluation(self) -> Literal["hold-out", "cross-validation"]:
        """Where the scores of `holdout` come from."""
        evaluation = self.card.data.evaluation
        return "hold-out" if evaluation is None else evaluation.method

    @cached_property
    def inline(self) -> bool:
        """Whether few rows take so little time that the event loop may answer them; not so of
        foreign models.
        """
        return self.card.learner.kind != "imported"

    @cached_property
    def multilabel(self) -> bool:
        """Whether each of the `classes` applies or not, and not exactly one of them."""
        return self.card.classes == self.card.labels

    @cached_property
    def rewarded(self) -> bool:
        """Whether it expects the rewards of actions, which then are its `classes`."""
        return self.card.rewarded

    @cached_property
    def regression(self) -> bool:
        """Whether it predicts numbers, and has no classes."""
        return self.card.classes is None

    @cached_property
    def priors(self) -> np.ndarray:
        """Class priors in training, float64 (K,) in the order of `classes`, or of none of them."""
        priors = self.card.priors()
        priors.flags.writeable = False
        return priors

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """The lower and upper bound (m,) of each feature, outside of which a value is far from its
        values in training: infinite where nothing is known.

        The range is widened by its own width on both sides. The lower bound of positive numbers is
        as many times below the range as its ends differ, which is nearer: a number in the wrong
        unit is a thousand times too small.
        """
        bounds = np.array(
            [_far_bounds(part.low, part.high) for part in self.card.features]
        )
        return bounds[:, 0], bounds[:, 1]

    @cached_property
    def complete(self) -> np.ndarray:
        """The features (m,) of which no row in training lacked a value."""
        return np.array([part.missing == 0 for part in self.card.features])

    @cached_property
    def named(self) -> dict[str, Any]:
        """The field `model` of answers."""
        return {"name": self.card.name, "version": self.card.version}


def _far_bounds(low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds outside of which a value is far from a range."""
    if low is None or high is None:
        return -np.inf, np.inf
    width = high - low
    return low * (low / high) if low > 0 else low - width, high + width


@dataclass
class _Entry:
    value: Loaded
    size: int
    used: float


class Cache:
    """Evicts the least recently used model first; requests that hold it go on with it.

    The latest model stays even when it alone is larger than the limit: loading it anew for every
    request would need the same memory and far more time. One model is loaded at a time, so at most
    max(limit, largest model) bytes are kept, those included that are being loaded.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.versions: Mapping[str, Key] = {}  # by references, in this process
        self.loads = 0
        self.failures = 0
        self.evictions = 0
        self._entries: dict[Key | None, _Entry] = {}
        self._loading = Lock()

    def get(self, reference: str) -> Loaded | None:
        """The model that `reference` means, if it is in memory; without waiting, as look-ups in a
        dict are atomic and take no lock.
        """
        entry = self._entries.get(self.versions.get(reference))
        if entry is None:
            return None
        entry.used = monotonic()
        return entry.value

    def load(self, key: Key, size: int, loader: Callable[[], Loaded]) -> Loaded:
        """The model `key` in memory, or what `loader` returns, which stands for `size` bytes; a
        failure is not kept.
        """
        entry = self._entries.get(key)
        if entry is not None:
            return entry.value
        with self._loading:
            entry = self._entries.get(key)
            if entry is not None:  # another caller loaded it meanwhile
                return entry.value
            self._make_room(size)
            try:
                value = loader()
            except BaseException:
                self.failures += 1
                raise
            self.loads += 1
            self._entries[key] = _Entry(value, size, monotonic())
            return value

    def _make_room(self, size: int) -> None:
        """Evict models until `size` more bytes fit, or none is left."""
        entries = list(self._entries.items())
        while entries and self.size + size > self.limit:
            oldest, _ = min(entries, key=lambda item: item[1].used)
            self._entries.pop(oldest, None)
            self.evictions += 1
            entries = list(self._entries.items())

    def retain(self, keys: Collection[Key]) -> None:
        """Drop everything but `keys`; waits for no load."""
        for key in self._entries.keys() - set(keys):
            self._entries.pop(key, None)

    @property
    def size(self) -> int:
        """Bytes that the kept values stand for."""
        return sum(entry.size for entry in list(self._entries.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)
