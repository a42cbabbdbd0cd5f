"""What decides, and the other keyword arguments that methods share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

Benefits = Any  # {class: {action: number}}, rows of numbers, a NumPy array, a frame of pandas; costs the same
# Of benefits also the name of a saved matrix.


class Written(TypedDict, total=False):
    """How a CSV file is written; by default with commas, decimal points, and in UTF-8."""

    delimiter: str
    decimal: str
    encoding: str


def refuse_written(options: Mapping[str, Any], what: str) -> None:
    """ValueError where what is no CSV file is said to be written in some way, which would have no effect."""
    for name in Written.__annotations__:
        if options.get(name) is not None:
            raise ValueError(f"{name} is for CSV files; {what} is none")


class Matrix(TypedDict, total=False):
    """A benefit or cost matrix."""

    benefits: Benefits
    cost_matrix: Benefits
    actions: Sequence[str]


class Stakes(Matrix, total=False):
    """What decides: a matrix, or a rule, and what limits the decisions, as in `/predict`."""

    rule: str
    threshold: str | float
    costs: Mapping[str, Any]
    priors: Any  # by class, or `estimate`
    limits: Mapping[str, Any]
    resources: Sequence[Mapping[str, Any]]
    explore: float


class FileStakes(Stakes, Written, total=False):
    """The same, and how a CSV file is written."""


class PricedMatrix(Matrix, total=False):
    """A matrix, and what features cost."""

    feature_costs: Mapping[str, Any] | Sequence[Mapping[str, Any]]


class TrainOptions(PricedMatrix, Written, total=False):
    """The other fields of `/train`, and how a CSV file is written."""

    holdout: float
    refit: bool
    seed: int


class CompareOptions(Written, total=False):
    """The other fields of `/compare`, and how a CSV file is written."""

    actions: Sequence[str]
    folds: int
    seed: int


class RetrieveOptions(TypedDict, total=False):
    """The other fields of `/retrieve`."""

    empty: int
    k_min: int
    k_max: int
    min_recall: float
    min_precision: float
    curve: bool
    marginals: bool
    method: str
    positive: str | int


class AcquireOptions(PricedMatrix, total=False):
    """The other fields of `/acquire`."""

    budget: float
    target: Mapping[str, Any] | str


class BenefitOptions(TypedDict, total=False):
    """The other fields of a report on a matrix."""

    actions: Sequence[str]
    priors: Mapping[str, float]
    points: int


class Period(TypedDict, total=False):
    """Of which recorded decisions, by moments in ISO 8601."""

    since: str
    until: str
