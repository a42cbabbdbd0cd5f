"""What is sent, and what the client reads of the service's answers, which may have more."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NotRequired, Protocol, cast

import numpy as np
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from payoff_client.errors import PayoffWarning


class Frame(Protocol):
    """A frame of pandas; of benefits with a row per class and a column per action."""

    @property
    def index(self) -> Any: ...

    @property
    def columns(self) -> Any: ...


Words = Mapping[Any, Mapping[Any, float]]  # {class: {action: number}}
Rows = Sequence[Sequence[float]]
Benefits = Words | Rows | np.ndarray | Frame | str | Sequence[Words | Rows]  # a name is that of a saved matrix
Record = bool | str | Mapping[str, Any] | None


class Written(TypedDict, total=False):
    """How a CSV file is written; by default with commas, decimal points, and in UTF-8."""

    delimiter: str
    decimal: str
    encoding: str


class UploadOptions(Written, total=False):
    """How a file is read: also `number`, `category` or `ignore` by column, and the type of the label."""

    types: Mapping[str, str]
    label_type: str


class MatrixOptions(TypedDict, total=False):
    """A benefit or cost matrix."""

    benefits: Benefits
    cost_matrix: Benefits
    actions: Sequence[str]


class Stakes(MatrixOptions, total=False):
    """What decides: a matrix, or a rule, and what limits the decisions, as in `/predict`."""

    rule: str
    threshold: str | float
    costs: Mapping[str, Any]
    priors: Mapping[str, float]  # by class
    limits: Mapping[str, Any]
    resources: Sequence[Mapping[str, Any]]
    explore: float


class FileStakes(Stakes, Written, total=False):
    """What decides the cases of a file, and how a CSV file is written."""


class PricedMatrix(MatrixOptions, total=False):
    """A matrix, and what features cost."""

    feature_costs: Mapping[str, Any] | Sequence[Mapping[str, Any]]


class TrainOptions(PricedMatrix, UploadOptions, total=False):
    """The other fields of `/train`, and how a file is read."""

    holdout: float
    refit: bool
    seed: int


class CompareOptions(UploadOptions, total=False):
    """The other fields of `/compare`, and how a file is read."""

    actions: Sequence[str]
    folds: int
    seed: int


class RetrieveOptions(TypedDict, total=False):
    """The other fields of `/retrieve`."""

    empty: int
    k_min: int
    k_max: int
    curve: bool
    marginals: bool
    method: str
    positive: str | int


class AcquireOptions(PricedMatrix, total=False):
    """The other fields of `/acquire`."""

    budget: float


class BenefitOptions(TypedDict, total=False):
    """The other fields of a report on a matrix."""

    actions: Sequence[str]
    priors: Mapping[str, float]
    points: int


class Period(TypedDict, total=False):
    """Of which recorded decisions, by moments in ISO 8601."""

    since: str
    until: str


Name = str | int | float | bool  # of a class or an action
Object = dict[str, Any]


@with_config(ConfigDict(extra="allow", strict=True, allow_inf_nan=False))
class Document(TypedDict):
    """Any answer."""

    warnings: NotRequired[list[str] | None]


class Feature(Document):
    name: str
    type: str


class Card(Document):
    """A version of a model."""

    name: str
    version: int
    classes: NotRequired[list[Name] | None]
    metrics: NotRequired[Object | None]
    features: list[Feature]


class Description(Document):
    """A model with its versions."""

    versions: list[Object]
    aliases: Object
    latest: int | None


class Decided(Document):
    """An answer of `/predict`, without its numbers and decisions."""

    model: NotRequired[Object | None]
    classes: NotRequired[list[Name] | None]
    actions: NotRequired[list[Name] | None]
    ids: NotRequired[list[Name] | None]
    explanations: NotRequired[list[Object] | None]
    propensities: NotRequired[list[float] | None]


class Stored(Document):
    """A data set."""

    id: str


class Case(Document):
    """What is known about a case, and what to learn next."""

    status: str
    next: NotRequired[Object | None]


class Counts(Document):
    """What became of outcomes that were sent."""

    accepted: int
    unchanged: int
    open: int
    unknown: list[Any]
    conflicts: list[Any]


class Matrix(Document):
    """A saved benefit matrix."""

    version: int
    benefits: NotRequired[dict[str, dict[str, float]]]


class Job(Document):
    id: str
    status: str
    progress: float
    stage: NotRequired[str | None]


adapter = cast(Callable[[Any], TypeAdapter[Any]], cache(TypeAdapter))  # what reads documents of a kind, and checks them


def warn(notes: Sequence[str] | None) -> None:
    """Each warning of an answer as a Python warning, at the line that called the client."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("payoff_client"):
        level, frame = level + 1, frame.f_back
    for note in notes or ():
        warnings.warn(note, PayoffWarning, stacklevel=level)


class Report(dict[str, Any]):
    """A JSON document of the service, with its chart (`svg`) where that was asked for; notebooks draw it."""

    svg: str | None = None

    def _repr_svg_(self) -> str | None:
        return self.svg

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows of a comparison, or the rules of a benefit report; the best first."""
        found: list[dict[str, Any]] = self.get("table", self.get("rules", []))
        return found
