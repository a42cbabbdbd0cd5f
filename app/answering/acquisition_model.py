"""A published model made ready to ask: its prices, its probabilities, and what asking on is worth."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np

from app.registry.loaded import Loaded
from app.requests.costs import parse_prices
from app.requests.matrices import MatrixFields, check_few_actions, named_matrix, refuse_actions
from payoff.acquisition.prices import Prices
from payoff.acquisition.states import StepwiseModel
from payoff.acquisition.stopping import Experience, Worth, state_probabilities
from payoff.decisions.benefit import Prepared
from payoff.decisions.calibration import Calibrator
from payoff.errors import Invalid, below
from payoff.learners.catalogue import ACQUIRES, KINDS

_MAX_MATRICES = 500  # of cases: what asking is worth takes some milliseconds for each,
_MAX_CELLS = 50_000  # and for each of their cells a tenth of one
_REMEMBERED = (
    64  # matrices and prices whose worth is kept for each model: computing one takes up to 20 ms
)
_STALE = 3.0  # factor of two neighbours' price ratio from which another order would have been found


@dataclass(frozen=True, eq=False)
class AcquisitionModel:
    """A model that can be asked feature by feature; without `classes` it predicts numbers.

    `columns` (m,) marks the features that it may ask for; `learns` says whether its kind learns when to stop.
    """

    names: Sequence[str]
    classes: Sequence[int | str]
    model: StepwiseModel
    prices: Prices
    columns: np.ndarray
    calibrator: Calibrator | None
    experience: Experience | None
    learns: bool
    _kept: OrderedDict[bytes, Worth] = field(default_factory=OrderedDict)

    @classmethod
    def of(
        cls, estimator: Any, names: Sequence[str], classes: Sequence[int | str], prices: Prices
    ) -> AcquisitionModel:
        """Around a fitted learner that asks, or that chose one."""
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

    def priced(self, feature_costs: Any) -> Prices:
        """The request's prices over the card's; Invalid at /feature_costs."""
        if feature_costs is None:
            return self.prices
        with below("/feature_costs"):
            return parse_prices(feature_costs, self.names, base=self.prices)

    def stale(self, prices: Prices) -> list[str]:
        """A warning if these prices would have asked in another order; a model without an order has none."""
        order = getattr(self.model, "order", None)
        if order is None or prices is self.prices:
            return []
        before, now = self.prices.cost[order], prices.cost[order]
        crossed = np.flatnonzero(
            (now[:-1] * before[1:] > _STALE * now[1:] * before[:-1])
            | (now[1:] * before[:-1] > _STALE * now[:-1] * before[1:])
        )
        if not crossed.size:
            return []
        one, other = (self.names[order[crossed[0] + offset]] for offset in (0, 1))
        changed = f"since training the price of {one!r} has changed more than threefold against that of {other!r}"
        return [
            f"{changed}; the order of the features is still that of training: train with these prices"
        ]

    def stakes(self, sent: MatrixFields) -> Prepared | None:
        """The request's matrix, whose cells may depend on the case; without names its actions are the classes."""
        classes = self.classes
        if not classes and sent.stated:
            raise Invalid.at(
                sent.place, "a benefit matrix is for classes, and this model predicts a number"
            )
        stakes = named_matrix(sent, classes)
        if stakes is None:
            refuse_actions(sent)
        else:
            check_few_actions(sent, len(stakes.actions))
        return stakes

    def probabilities(self, P: np.ndarray, known: np.ndarray, finished: np.ndarray) -> np.ndarray:
        """Calibrated probabilities (n, K) for the model's P (n, K): as `/predict` says where a case is `finished`,
        else by the experience of states with as many `known` features (n,).
        """
        return state_probabilities(P, known, finished, self.calibrator, self.experience)

    def most_matrices(self, n_actions: int) -> int:
        """Of how many matrices with so many actions one call computes the `worth`; 0 where one is too large."""
        return min(_MAX_MATRICES, _MAX_CELLS // (len(self.classes) * n_actions))

    def worth(self, B: np.ndarray, prices: Prices, budget: float | None) -> Worth:
        """What asking on is worth with these benefits and prices, for a model with `experience` of it."""
        assert self.experience is not None
        key = sha256(f"{B.shape} {budget}".encode())
        for array in (B, *prices.arrays):
            key.update(array.tobytes())
        digest = key.digest()
        worth = self._kept.get(digest)
        if worth is None:
            worth = self._kept[digest] = self.experience.worth(B, prices, budget)
            while (
                len(self._kept) > _REMEMBERED
            ):  # another thread may remove this one before it is returned
                self._kept.popitem(last=False)
        return worth


def asker(model: Loaded) -> AcquisitionModel:
    """The model made ready (use `Loaded.once`); Invalid at /model where its kind cannot be asked feature by feature."""
    kind, fitted = model.card.learner.kind, model.card.fitted
    if fitted.get("acquire") != ACQUIRES:
        all_able = " or ".join(name for name, other in KINDS.items() if other.asks)
        able = "cost_tree, of numbers alone" if model.regression else all_able
        chosen = fitted.get("chosen")  # of several learners, by one that compares them
        advice = (
            f"train {chosen} itself" if chosen in KINDS and KINDS[chosen].asks else f"train {able}"
        )
        raise Invalid.at(
            "/model",
            f"the learner {kind!r} of {model.name!r} cannot say what to ask next; {advice}",
        )
    names = model.schema.names
    prices = parse_prices(model.card.feature_costs, names)
    return AcquisitionModel.of(model.estimator, names, model.classes, prices)
