"""A published model that asks for features: its prices, probabilities, and worth of asking on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from app.registry.loaded import Loaded
from app.requests.costs import parse_prices
from app.requests.matrices import (
    MatrixFields,
    check_few_actions,
    named_matrix,
    refuse_actions,
)
from payoff.acquisition.prices import Prices
from payoff.acquisition.states import StepwiseModel
from payoff.acquisition.stopping import Experience, Worth, state_probabilities
from payoff.decisions.benefit import Prepared
from payoff.decisions.calibration import Calibrator
from payoff.errors import Invalid, below
from payoff.learners.catalogue import ACQUIRES, KINDS

# Matrices of the cases of one call, and their cells: the worth of asking on takes some milliseconds
# for a matrix, and a tenth of one for a cell.
_MAX_MATRICES = 500
_MAX_CELLS = 50_000
# Kept for a model, by matrix and prices: those of one call, as computing one takes up to 20 ms.
_MAX_WORTHS = _MAX_MATRICES
# A change of the price ratio of two neighbours in the order of questions by more than this factor
# would have led to another order.
_MAX_RATIO_CHANGE = 3.0


@dataclass(frozen=True, eq=False)
class AcquisitionModel:
    """A model that asks for one feature after the other; without `classes` it predicts numbers.

    `columns` (m,) marks the features that it may ask for; `learns`: whether its kind learns when to
    stop.
    """

    names: Sequence[str]
    classes: Sequence[int | str]
    model: StepwiseModel
    prices: Prices
    columns: np.ndarray
    calibrator: Calibrator | None
    experience: Experience | None
    learns: bool
    _worths: OrderedDict[bytes, Worth] = field(default_factory=OrderedDict)

    @classmethod
    def of(
        cls,
        estimator: Any,
        names: Sequence[str],
        classes: Sequence[int | str],
        prices: Prices,
    ) -> AcquisitionModel:
        """Of a fitted learner that asks for features, or that chose one that does."""
        estimator = estimator.asker
        columns = np.zeros(len(names), dtype=bool)
        columns[estimator.model_.columns] = True
        experience = getattr(estimator, "experience_", None)
        calibrator = getattr(estimator, "calibrator_", None)
        return cls(
            names,
            classes,
            estimator.model_,
            prices,
            columns,
            calibrator,
            experience,
            hasattr(estimator, "experience_"),
        )

    @property
    def votes(self) -> bool:
        """Whether several trees vote, so that a vote can be settled."""
        return self.model.can_settle

    def prices_of(self, feature_costs: Any) -> Prices:
        """The prices of the request in place of those of the card; Invalid at /feature_costs."""
        with below("/feature_costs"):
            return parse_prices(feature_costs, self.names, base=self.prices)

    def order_warnings(self, prices: Prices) -> list[str]:
        """A warning if training with these prices would have found another order of the features;
        none for a model without an order.
        """
        order = getattr(self.model, "order", None)
        if order is None or prices is self.prices:
            return []
        before = self.prices.cost[order]
        after = prices.cost[order]
        crossed = np.flatnonzero(
            (after[:-1] * before[1:] > _MAX_RATIO_CHANGE * after[1:] * before[:-1])
            | (after[1:] * before[:-1] > _MAX_RATIO_CHANGE * after[:-1] * before[1:])
        )
        if not crossed.size:
            return []
        first, second = (self.names[order[crossed[0] + offset]] for offset in (0, 1))
        warning = (
            f"since training the price of {first!r} has changed more than threefold against that of"
            f" {second!r}; the order of the features is still that of training: train with these"
            " prices"
        )
        return [warning]

    def matrix_of(self, fields: MatrixFields) -> Prepared | None:
        """The request's matrix, whose cells may depend on the case; without names its actions are
        the classes.
        """
        if not self.classes and fields.stated:
            raise Invalid.at(
                fields.place,
                "a benefit matrix is for classes, and this model predicts a number",
            )
        matrix = named_matrix(fields, self.classes)
        if matrix is None:
            refuse_actions(fields)
        else:
            check_few_actions(fields, len(matrix.actions))
        return matrix

    def probabilities(
        self, P: np.ndarray, known: np.ndarray, finished: np.ndarray
    ) -> np.ndarray:
        """Calibrated probabilities (n, K) for the model's P (n, K): those of `/predict` where a
        case is `finished`, else by the experience of states with as many `known` features (n,).
        """
        return state_probabilities(P, known, finished, self.calibrator, self.experience)

    def max_matrices(self, n_actions: int) -> int:
        """The number of matrices with so many actions of which one call computes the `worth`; 0
        where one is too large.
        """
        return min(_MAX_MATRICES, _MAX_CELLS // (len(self.classes) * n_actions))

    def worth(self, B: np.ndarray, prices: Prices, budget: float | None) -> Worth:
        """The worth of asking on with these benefits and prices, of a model with `experience`."""
        assert self.experience is not None
        key = sha256(f"{B.shape} {budget}".encode())
        for array in (B, *prices.arrays):
            key.update(array.tobytes())
        digest = key.digest()
        worth = self._worths.pop(digest, None)
        if worth is None:
            worth = self.experience.worth(B, prices, budget)
        self._worths[digest] = worth  # the latest; the first is the least recently used
        if len(self._worths) > _MAX_WORTHS:
            self._worths.popitem(last=False)
        return worth


def acquisition_model(model: Loaded) -> AcquisitionModel:
    """The model as one that asks for features (use `Loaded.once`); Invalid at /model where its kind
    cannot do that.
    """
    if model.card.fitted.get("acquire") != ACQUIRES:
        kind = model.card.learner.kind
        raise Invalid.at(
            "/model",
            f"the learner {kind!r} of {model.name!r} cannot say what to ask next; {_advice(model)}",
        )
    names = model.schema.names
    prices = parse_prices(model.card.feature_costs, names)
    return AcquisitionModel.of(model.estimator, names, model.classes, prices)


def _advice(model: Loaded) -> str:
    """The learner to train in place of the one of a model that cannot ask for features."""
    chosen = model.card.fitted.get(
        "chosen"
    )  # of several learners, by a kind that compares them
    if chosen in KINDS and KINDS[chosen].asks:
        return f"train {chosen} itself"
    if model.rewarded:
        return "it learned from rewards, where /acquire has nothing to go by"
    if model.regression:
        return "train cost_tree, of numbers alone"
    return (
        f"train {' or '.join(name for name, learner in KINDS.items() if learner.asks)}"
    )
