"""The fields of requests, and those of answers that the client reads; answers may have more."""

import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NotRequired, Protocol, cast

import numpy as np
from pydantic import ConfigDict, TypeAdapter, with_config
from typing_extensions import TypedDict

from payoff_client.errors import PayoffWarning
from payoff_client.policies import PICTURES
from payoff_client.showing import html_of


class Tabular(Protocol):
    """A frame of pandas, polars or pyarrow."""

    @property
    def columns(self) -> Any: ...


class Frame(Tabular, Protocol):
    """A frame of pandas; of benefits with a row per class and a column per action."""

    @property
    def index(self) -> Any: ...


Fields = Mapping[str, object]  # a JSON object
Cases = Tabular | Fields | Sequence[Fields] | Sequence[Sequence[object]] | np.ndarray
Data = Cases | Path | str  # also a file, or the id or name of a data set


class Cell(TypedDict):
    """A benefit that depends on the case: `plus` (0) + `times` (1) · the value in the column."""

    column: str
    times: NotRequired[float]
    plus: NotRequired[float]


Words = Mapping[Any, Mapping[Any, float | Cell]]  # {class: {action: number}}
Rows = Sequence[Sequence[float | Cell]]
# A name is that of a saved matrix; a sequence has a matrix for each row.
Benefits = Words | Rows | np.ndarray | Frame | str | Sequence[Words | Rows]
Name = str | int | float | bool  # of a class or an action
Record = bool | str | Fields | None
Explain = bool | Fields
Probabilities = np.ndarray | Sequence[float] | Sequence[Sequence[float]]


class Written(TypedDict, total=False):
    """How a CSV file is written; by default with commas, decimal points, and in UTF-8."""

    delimiter: str
    decimal: str
    encoding: str


class UploadOptions(Written, total=False):
    """How a file is read: the types of columns and of the label, line 1, and the rows left out."""

    types: Mapping[str, str]
    label_type: str
    header: str
    drop_unlabelled: bool
    drop_classes: Sequence[str]


class MatrixOptions(TypedDict, total=False):
    """A benefit or cost matrix."""

    benefits: Benefits
    cost_matrix: Benefits
    actions: Sequence[str]


class CaseMatrix(MatrixOptions, total=False):
    """A matrix, and the columns that its cells name where the rows have none."""

    columns: Mapping[str, Sequence[float] | np.ndarray]


class Stakes(CaseMatrix, total=False):
    """The matrix or rule that decides, and the limits of the decisions, as in `/predict`."""

    rule: str
    guarantee: str  # the name of a saved one, for the rule guaranteed
    threshold: str | float
    costs: Fields  # of classes, or by action of a model that learned from rewards
    baseline: str
    priors: Mapping[str, float]  # by class
    limits: Fields
    resources: Sequence[Fields]
    explore: float
    unit_costs: Fields  # this and the following fields are for models of numbers
    coverage: float
    bands: Sequence[float]
    sum_at_most: float


class FileStakes(Stakes, Written, total=False):
    """The stakes for the cases of a file, and how a CSV file is written."""


class PricedMatrix(MatrixOptions, total=False):
    """A matrix, and the prices of features."""

    feature_costs: Fields | Sequence[Fields]


class TrainOptions(PricedMatrix, UploadOptions, total=False):
    """The other fields of `/train`, and how a file is read."""

    holdout: float | Fields  # a part, or an object of `part`, `by` and `column`
    refit: bool
    seed: int
    unit: str


class CompareOptions(UploadOptions, total=False):
    """The other fields of `/compare`, and how a file is read."""

    actions: Sequence[str]
    unit_costs: Fields
    folds: int
    holdout: Fields  # in place of `folds`: `part`, `by` and `column`
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
    average: str


class ImportOptions(PricedMatrix, total=False):
    """The other fields of an import."""

    calibration: str
    classes: Sequence[Name]


class CalibrateOptions(TypedDict, total=False):
    """The other fields of `/calibrate`."""

    method: str
    holdout: float
    weights: Sequence[float] | np.ndarray


class AcquireOptions(PricedMatrix, CaseMatrix, total=False):
    """The other fields of `/acquire`."""

    budget: float


class BenefitOptions(TypedDict, total=False):
    """The other fields of a report on a matrix."""

    actions: Sequence[str]
    priors: Mapping[str, float]
    points: int
    guarantee: Fields
    dataset: str


class Period(TypedDict, total=False):
    """The period of recorded decisions, as moments in ISO 8601."""

    since: str
    until: str


class ReplayOptions(MatrixOptions, Period, total=False):
    """The versions, rules or matrix to replay, and the period of recorded decisions."""

    models: Sequence[str]
    rules: Sequence[Fields]


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
    learner: NotRequired[Object]
    labels: NotRequired[list[str]]
    data: NotRequired[Object]
    benefits: NotRequired[list[list[float]] | None]
    actions: NotRequired[list[Name] | None]
    created_at: NotRequired[str]


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
    """A data set; `columns` report how each was read, with `advice` on what to change."""

    id: str
    rows: NotRequired[int]
    labels: NotRequired[list[str]]
    classes: NotRequired[list[Name] | None]
    columns: NotRequired[list[Object]]


class Case(Document):
    """The state of a case, and the feature to acquire next."""

    status: str
    next: NotRequired[Object | None]


class FileDecisions(Document):
    """The report on the decisions for a file, with the figures of limits."""

    rows: int
    model: str
    matrix_in_words: NotRequired[list[str]]
    limits: NotRequired[list[Object]]
    total: NotRequired[float]
    unlimited_total: NotRequired[float]
    gap: NotRequired[float]


class Counts(Document):
    """The numbers of outcomes that were stored, unchanged, open, unknown and in conflict."""

    accepted: int
    unchanged: int
    open: int
    unknown: list[Name]
    conflicts: list[Object]


class Matrix(Document):
    """A saved benefit matrix."""

    version: int
    benefits: NotRequired[dict[str, dict[str, float | Cell]]]


class Job(Document):
    id: str
    status: str
    progress: float
    stage: NotRequired[str | None]


adapter = cast(Callable[[Any], TypeAdapter[Any]], cache(TypeAdapter))
"""The adapter that reads and checks documents of a type."""


def warn(notes: Sequence[str] | None) -> None:
    """Each warning of an answer as a Python warning, at the line that called the client."""
    level = 1
    frame = sys._getframe()
    while frame.f_globals.get("__name__", "").startswith("payoff_client"):
        if frame.f_back is None:
            break
        level += 1
        frame = frame.f_back
    for note in notes or ():
        warnings.warn(note, PayoffWarning, stacklevel=level)


class Report(dict[str, Any]):
    """A JSON document of the service, with its chart (`svg`) if requested; notebooks show them, and
    pictures of what was promised and earned, of decision curves and of calibration.

    `dataset` describes the upload of a comparison, with a report on its columns.
    """

    svg: str | None = None
    dataset: Stored | None = None

    def _repr_svg_(self) -> str | None:
        return self.svg

    def _repr_html_(self) -> str | None:
        shown = [draw(self) for name, draw in PICTURES.items() if self.get(name)]
        fields = {name: value for name, value in self.items() if name not in PICTURES}
        # A notebook shows the HTML alone, and no chart beside it.
        is_chart = self.svg is not None and not shown
        return None if is_chart else "\n".join([*shown, html_of("Report", fields)])

    @property
    def table(self) -> list[dict[str, Any]]:
        """The rows of a comparison, or the rules of a benefit report; the best first."""
        rows: list[dict[str, Any]] = self.get("table", self.get("rules", []))
        return rows
