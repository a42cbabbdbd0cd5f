"""A model in memory, ready to answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

import numpy as np

from app.features import Schema
from app.registry.card import Card

_Made = TypeVar("_Made")


@dataclass(frozen=True, eq=False)
class Holdout:
    """Probabilities for rows by models that were not fitted on them, and the truth: held out, or cross-validated.

    `scores` is float64 (n, K), columns in the order of the card's classes. `y` holds codes: positions in those
    classes, (n,); for several labels 0 or 1 each, (n, K). For regression `scores` (n, 1) are the predicted numbers, and
    `y` (n,) the true ones.
    """

    scores: np.ndarray
    y: np.ndarray


@dataclass(frozen=True, eq=False)
class Loaded:
    """A version of a model with all that a request needs; shared by requests, so it must not be changed."""

    card: Card
    schema: Schema
    estimator: Any
    holdout: Holdout | None
    _made: dict[Callable[[Loaded], Any], Any] = field(default_factory=dict, init=False, repr=False)

    def once(self, make: Callable[[Loaded], _Made]) -> _Made:
        """What `make` returns for this model: computed once, and kept as long as the model."""
        if make not in self._made:
            self._made[make] = make(self)
        made: _Made = self._made[make]
        return made

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
        """Whether few rows take so little time that the event loop may answer them; not so of foreign models."""
        return getattr(self.estimator, "inline", True)

    @cached_property
    def multilabel(self) -> bool:
        """Whether each of the `classes` applies or not, and not exactly one of them."""
        return self.card.classes == self.card.labels

    @cached_property
    def regression(self) -> bool:
        """Whether it predicts numbers, and has no classes."""
        return self.card.classes is None

    @cached_property
    def priors(self) -> np.ndarray:
        """Class priors in training, float64 (K,) in the order of `classes`; empty for regression."""
        priors = self.card.priors()
        priors.flags.writeable = False
        return priors

    @cached_property
    def bounds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Beyond which values (m,) each feature is far from what it was in training: the range, widened by its own
        width on both sides. Infinite where nothing is known, None where that is so of every feature.
        """
        ranges = [(part.low, part.high) for part in self.card.features]
        widened = [
            (-np.inf, np.inf) if low is None or high is None else (low - (high - low), high + (high - low))
            for low, high in ranges
        ]
        bounds = np.array(widened, dtype=np.float64).T
        return (bounds[0], bounds[1]) if np.isfinite(bounds).any() else None

    @cached_property
    def named(self) -> dict[str, Any]:
        """What answers carry as `model`."""
        return {"name": self.card.name, "version": self.card.version}
