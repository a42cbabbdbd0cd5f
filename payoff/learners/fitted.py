"""Learners as dataclasses, and what a fitted one answers: classes, probabilities, numbers, and the
contributions of features.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, dataclass_transform

import numpy as np

from payoff.decisions.calibration import Calibrator, is_flat
from payoff.decisions.explanations import Contributions, mean_contributions
from payoff.decisions.quantities import Distribution
from payoff.learners import loading
from payoff.learners.background import Background, Gaps
from payoff.stored import OLDER, Stored


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class Dataclass(Stored):
    """Its subclasses are dataclasses."""

    def __init_subclass__(cls) -> None:
        dataclass(kw_only=True, eq=False)(cls)
        # Format 1 had no background, whose default is None.
        OLDER[cls.__qualname__, 1] = dict


class Scorer(Protocol):
    """A fitted model without its calibration."""

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) for rows (n, m), NaN where missing; checks nothing."""


class Fitted(Dataclass):
    """A learner once it is fitted: its `model_`, the `calibrator_` of that or None, and the
    `Background` of values that no row in training lacked, or None.
    """

    classes_: np.ndarray = field(init=False, repr=False)
    n_features_in_: int = field(init=False, repr=False)
    model_: Any = field(init=False, repr=False)
    calibrator_: Calibrator | None = field(init=False, repr=False)
    _background: Background | None = field(default=None, init=False, repr=False)

    @property
    def regresses(self) -> bool:
        """Whether it predicts a number, and not a class."""
        return getattr(self, "task", "") == "regression"

    @property
    def predict_proba(self) -> Callable[[np.ndarray], np.ndarray]:
        """Probabilities (n, K) in the order of `classes_`, for rows (n, m), NaN where missing.

        A property, as a regression must not have the attribute.
        """
        if self.regresses:
            raise AttributeError("a regression has no predict_proba")
        return lambda X: self.posterior(self._validated(X))

    def predict(self, X: np.ndarray) -> np.ndarray:
        """The most probable class of each row (n, m), ties to the first class; or its number."""
        rows = self._validated(X)
        if self.regresses:
            return self.values(rows)
        return np.asarray(self.classes_[self.posterior(rows).argmax(axis=1)])

    def values(self, X: np.ndarray) -> np.ndarray:
        """`predict` of numbers (n,) without any check, for float64 C-contiguous rows (n, m)."""
        return self._averaged(self.complete_values, X)

    def complete_values(self, X: np.ndarray) -> np.ndarray:
        """`values` of rows without gaps (see `Background.gaps`)."""
        return np.asarray(self.model_.values(X))

    def distribution(self, X: np.ndarray) -> Distribution | None:
        """The distribution of each row's number, as for `values`; None where the model has none."""
        distribution: Callable[..., Distribution] | None
        distribution = getattr(self.model_, "distribution", None)
        gaps = self.gaps(X)
        if distribution is None or gaps is None:
            return None if distribution is None else distribution(X)
        return Distribution(self.values(X), lambda: gaps.mixtures(distribution))

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """`predict_proba` without any check, for float64 C-contiguous rows (n, m)."""
        return self._averaged(self.complete_posterior, X)

    def complete_posterior(self, X: np.ndarray) -> np.ndarray:
        """`posterior` of rows without gaps (see `Background.gaps`)."""
        P = self.model_.posterior(X)
        return P if self.calibrator_ is None else self.calibrator_.apply(P)

    def _averaged(
        self, answer: Callable[[np.ndarray], np.ndarray], X: np.ndarray
    ) -> np.ndarray:
        """The answers (n, …) to rows (n, m), averaged where a row has gaps (see `Background`)."""
        gaps = self.gaps(X)
        return answer(X) if gaps is None else gaps.averaged(answer)

    def gaps(self, X: np.ndarray) -> Gaps | None:
        """What rows (n, m) lack that no row in training lacked; None where answers do without."""
        return None if self._background is None else self._background.gaps(X)

    @property
    def plain_posterior(self) -> Callable[[np.ndarray], np.ndarray]:
        """`posterior` for rows of numbers that are neither missing nor huge.

        Models that can do so save the search for such numbers.
        """
        if type(self).complete_posterior is not Fitted.complete_posterior:
            return self.complete_posterior
        model, calibrator = self.model_, self.calibrator_
        raw: Callable[[np.ndarray], np.ndarray]
        raw = getattr(model, "plain_posterior", model.posterior)
        return raw if calibrator is None else lambda X: calibrator.apply(raw(X))

    def contributions(self, X: np.ndarray, chosen: np.ndarray) -> Contributions | None:
        """The contribution of each feature of rows (n, m) to a score of the `chosen` classes (n,).

        With two classes to the score of the second class. None where the model cannot explain.
        Where the answer to a row is an average (`Background`), so are these, and add up to the mean
        score. Raises TooLarge for more rows than it takes.
        """
        explain: Callable[..., Contributions | None] | None
        explain = getattr(self.model_, "contributions", None)
        gaps = self.gaps(X)
        if explain is None or gaps is None:
            return None if explain is None else explain(X, chosen)
        parts = [explain(rows, chosen) for rows in gaps.draws()]
        return mean_contributions([part for part in parts if part is not None])

    def ranks(self) -> bool:
        """Whether the probabilities differ from row to row, as far as the calibration knows."""
        return not is_flat(getattr(self, "calibrator_", None))

    def _validated(self, X: np.ndarray) -> np.ndarray:
        return loading.scikit.checked_rows(self, X)
