"""Decisions about quantities, by a model of numbers: those that cost least, intervals, and bands
that are classes.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field, field_validator

from app.registry.loaded import Loaded
from app.requests.fields import Number, WireModel, limit_entries
from payoff.decisions.quantities import Distribution
from payoff.decisions.quantity_limits import within_sum
from payoff.errors import Flaw, Invalid, below, pointer, reject

_MAX_CUTS = 1_000  # between bands
# of a unit: reports add up the costs of quantities and truths up to 1e50
_MAX_COST = 1e50
_DIGITS = 10  # of a sum, and of a shadow price: later digits are rounding errors
_FIELDS = ("unit_costs", "coverage", "bands", "sum_at_most")
_FOR_CLASSES = (
    *("rule", "benefits", "cost_matrix", "actions", "threshold", "costs", "priors"),
    *("limits", "resources", "explain", "explore"),
)

Cost = Annotated[Number, Field(gt=0, le=_MAX_COST)]


class UnitCosts(WireModel):
    """What each unit costs by which a quantity is larger (`over`) or smaller than the number turns
    out to be.
    """

    over: Cost
    under: Cost


class QuantityFields(WireModel):
    """The fields for models of numbers."""

    unit_costs: UnitCosts | None = Field(
        default=None,
        description="of a model of numbers: decide on the quantities that cost least in"
        " expectation",
        examples=[{"over": 1, "under": 4}],
    )
    coverage: Annotated[Number, Field(gt=0, lt=1)] | None = Field(
        default=None,
        description="of a model of numbers: `intervals` that hold this share of them",
    )
    bands: (
        Annotated[
            list[Number], limit_entries(_MAX_CUTS, "numbers"), Field(min_length=1)
        ]
        | None
    ) = Field(
        default=None,
        description="of a model of numbers: where the bands begin that are the classes of the"
        " matrix; [0, 10] makes `below 0`, `from 0 to below 10` and `from 10`",
    )
    sum_at_most: Number | None = Field(
        default=None, description="of all quantities together, with `unit_costs`"
    )

    @field_validator("bands")
    @classmethod
    def _rising(cls, bands: list[float] | None) -> list[float] | None:
        if bands is not None and any(
            cut >= following for cut, following in pairwise(bands)
        ):
            raise ValueError("each band begins at a larger number than the one before")
        return bands

    @cached_property
    def of_numbers(self) -> list[str]:
        """Those of the fields that were sent."""
        return [name for name in _FIELDS if getattr(self, name) is not None]


class Quantities(NamedTuple):
    """The numbers (n,) that a model predicts; where they were asked for the quantities (n,) that
    cost least, what these cost in expectation (n,), the ends of intervals (n, 2), and the figures
    of a limit.
    """

    values: np.ndarray
    warnings: Sequence[str]
    chosen: np.ndarray | None = None
    expected_costs: np.ndarray | None = None
    intervals: np.ndarray | None = None
    figures: Mapping[str, Any] = {}


def quantities(
    model: Loaded, fields: QuantityFields, X: np.ndarray, warnings: Sequence[str]
) -> Quantities:
    """The numbers for rows X (n, m) that the model's schema encoded, and the cheapest quantities.

    Raises Invalid at each field that needs classes, or that does not fit.
    """
    reject(_flaws(model, fields))
    distribution = _distribution(model, X) if fields.of_numbers else None
    values = np.asarray(
        model.estimator.values(X) if distribution is None else distribution.expected,
        dtype=np.float64,
    )
    reject(
        Flaw(pointer("instances", i), "the model gives no number for this instance")
        for i in np.flatnonzero(~np.isfinite(values))
    )
    answer = Quantities(values, warnings)
    if distribution is None:
        return answer
    unit_costs = fields.unit_costs or UnitCosts(over=1.0, under=1.0)
    over = unit_costs.over
    under = unit_costs.under
    tail = (1 - (fields.coverage or 0.0)) / 2
    levels = np.array([under / (over + under), tail, 1 - tail])
    chosen, low, high = np.ascontiguousarray(distribution.quantiles(levels).T)
    if fields.coverage is not None:
        answer = answer._replace(intervals=np.column_stack((low, high)))
    if fields.unit_costs is None:
        return answer
    costs = distribution.costs(chosen, over, under)
    figures = dict[str, Any]()
    if fields.sum_at_most is not None:
        figures["unlimited_total"] = float(costs.sum())
        with below("/sum_at_most"):
            chosen, price = within_sum(distribution, over, under, fields.sum_at_most)
        costs = distribution.costs(chosen, over, under)
        used, price = (
            float(f"{number:.{_DIGITS}g}") for number in (chosen.sum(), price)
        )
        limit = {
            "name": "sum",
            "used": used,
            "at_most": fields.sum_at_most,
            "shadow_price": price,
        }
        figures |= {"limits": [limit], "total": float(costs.sum())}
    return answer._replace(chosen=chosen, expected_costs=costs, figures=figures)


def _flaws(model: Loaded, fields: QuantityFields) -> Iterator[Flaw]:
    for name in _FOR_CLASSES:
        if name in fields.model_fields_set and getattr(fields, name) not in (
            None,
            False,
        ):
            yield Flaw(
                pointer(name),
                f"{model.name!r} predicts numbers: {name} is for classes, such as 'bands' make",
            )
    if fields.sum_at_most is not None and fields.unit_costs is None:
        yield Flaw(
            "/sum_at_most",
            "this limits the quantities that 'unit_costs' ask for; send them, too",
        )


def _distribution(model: Loaded, X: np.ndarray) -> Distribution:
    """Of the numbers of rows X (n, m); Invalid at /model where the model does not know it."""
    distribution: Distribution | None = model.estimator.distribution(X)
    if distribution is None:
        able = 'train auto with "task": "regression"'
        raise Invalid.at(
            "/model",
            f"{model.name!r} ({model.card.learner.kind}) predicts numbers alone; {able}",
        )
    return distribution


def banded(
    model: Loaded, cuts: Sequence[float], X: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """The names of the bands, and their probabilities (n, bands) for rows X (n, m)."""
    words = [
        str(int(cut)) if cut.is_integer() and abs(cut) < 1e15 else str(cut)
        for cut in cuts
    ]
    names = [
        f"below {words[0]}",
        *(f"from {a} to below {b}" for a, b in pairwise(words)),
        f"from {words[-1]}",
    ]
    return names, _distribution(model, X).shares(np.array(cuts))
