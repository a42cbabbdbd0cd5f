"""Orders to train: checked here, and accepted as jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import Discriminator, Field, StrictBool, Tag, WithJsonSchema
from typing_extensions import TypeAliasType

from app.access.caller import Caller
from app.data.dataset import Dataset
from app.data.store import Draft
from app.errors import Invalid
from app.jobs.job import Job
from app.learners import catalogue
from app.usecases import jobs
from app.usecases.datasets import EXAMPLE_ID, find_named
from app.usecases.feature_costs import FeatureCosts, parse_prices
from app.usecases.fields import Name, Names, Text, WireModel
from app.usecases.learner_schema import learner_schema
from app.usecases.matrices import MatrixFields, Stakes, read_matrix
from app.usecases.ports import Ports
from app.usecases.specs import HOLDOUT, SEED, LearnerSpec, TrainSpec
from app.usecases.train_job import built, placed

KIND = "train"

Cell = Annotated[Any, WithJsonSchema({"type": ["number", "string", "null"]})]
Label = Annotated[
    Any,
    WithJsonSchema({"oneOf": [{"type": ["number", "string"]}, {"type": "array", "items": {"type": "string"}}]}),
]
Learner = TypeAliasType("Learner", Annotated[dict[str, Any], WithJsonSchema(learner_schema())])  # one schema, by name


class StoredData(WireModel):
    """A data set that was uploaded before."""

    dataset: Text = Field(examples=[EXAMPLE_ID])


class InlineData(WireModel):
    """A small table sent along: kept as a data set like any other."""

    features: Names = Field(examples=[["age", "pain"]])
    rows: Annotated[list[list[Cell]], Field(fail_fast=True)] = Field(examples=[[[63, "mild"], [41, "none"]]])
    labels: Annotated[list[Label], Field(fail_fast=True)] = Field(
        description="one for each row: a class (word or integer) or a number; a list of labels for each row when"
        " multi-label"
    )


def _form(sent: Any) -> str:
    """Which of the two has more of the fields that were sent: errors are about that one."""
    names = sent.keys() if isinstance(sent, dict) else ()
    more = len(InlineData.model_fields.keys() & names) > len(StoredData.model_fields.keys() & names)
    return "InlineData" if more else "StoredData"


Data = Annotated[
    Annotated[StoredData, Tag("StoredData")] | Annotated[InlineData, Tag("InlineData")], Discriminator(_form)
]


class TrainRequest(MatrixFields):
    """What to train, on which data, and how to evaluate it."""

    model: Name = Field(examples=["triage"])
    learner: Learner = Field(examples=[{"kind": "logistic"}])
    data: Data
    feature_costs: FeatureCosts = Field(default=None, description="what it costs to learn each feature's value")
    holdout: float = Field(
        default=HOLDOUT, ge=0, le=0.9, strict=True, description="part held out to evaluate the model; 0: none"
    )
    refit: StrictBool = Field(
        default=True,
        description="whether to fit again on all rows after the evaluation; false publishes the evaluated model",
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)


def submit(ports: Ports, asked: TrainRequest, *, key: str | None, caller: Caller) -> Job:
    """Accept an order to train, checked as far as possible beforehand; the same `key` answers with the first job.

    Raises Invalid with the place of what cannot work, NotFound for an unknown data set, Forbidden for a model that the
    key is not for.
    """
    caller.need_model(asked.model)
    kind, parameters = _learner(asked.learner)
    dataset, draft = _dataset(ports, asked.data, caller, numbers=kind.regresses(parameters))
    spec = _specification(asked, kind, parameters, dataset)
    if draft is not None:
        ports.datasets.keep(draft)  # last of all: what is refused leaves nothing behind
        spec = spec.model_copy(update={"dataset": draft.content})  # the same when the order is repeated with its key
    return jobs.submit(ports, caller, KIND, spec, model=spec.model, dataset=dataset.id, key=key)


def _learner(sent: Mapping[str, Any]) -> tuple[catalogue.Kind, dict[str, Any]]:
    try:
        return catalogue.resolve(sent)
    except Invalid as error:
        raise error.under("/learner") from error


def _specification(
    asked: TrainRequest, kind: catalogue.Kind, parameters: Mapping[str, Any], dataset: Dataset
) -> TrainSpec:
    _check_labels(kind, dataset)
    _check_task(kind, parameters, dataset)
    classes = () if kind.regresses(parameters) else dataset.classes or ()
    stakes = _stakes(asked, classes, kind, square=kind.needs_square(parameters))
    B, actions = (None, None) if stakes is None else stakes
    try:
        parameters = built(kind, parameters, B, classes)
    except Invalid as error:
        raise placed(error) from error
    return TrainSpec(
        model=asked.model,
        learner=LearnerSpec(kind=kind.name, parameters=parameters),
        dataset=dataset.id,
        benefits=None if B is None else B.tolist(),
        actions=actions,
        feature_costs=listed_costs(asked.feature_costs, [feature.name for feature in dataset.features]),
        holdout=asked.holdout,
        refit=asked.refit,
        seed=asked.seed,
    )


def _check_labels(kind: catalogue.Kind, dataset: Dataset) -> None:
    if dataset.multilabel == (kind.labels == "several"):
        return
    able = " or ".join(other.name for other in catalogue.KINDS.values() if other.labels != kind.labels)
    one, there = ("one label", str(len(dataset.labels))) if dataset.multilabel else ("several labels", "one")
    raise Invalid.at("/learner/kind", f"{kind.name} predicts {one}, and this data set has {there}: choose {able}")


def _check_task(kind: catalogue.Kind, parameters: Mapping[str, Any], dataset: Dataset) -> None:
    """Numbers are regressed on, words are classes, and integers can be either."""
    if kind.regresses(parameters):
        if isinstance((dataset.classes or (0,))[0], str):
            raise Invalid.at("/learner/task", "regression needs numbers, and the labels are words: take classification")
    elif dataset.classes is None and len(kind.tasks) > 1:
        raise Invalid.at("/learner/task", "the labels of this data set are numbers, not classes: take regression")
    elif dataset.classes is None:
        able = " or ".join(other.name for other in catalogue.KINDS.values() if "regression" in other.tasks)
        what = f"{kind.name} predicts classes, and the labels of this data set are numbers"
        raise Invalid.at("/learner/kind", f"{what}: choose {able} with task regression")


def _dataset(
    ports: Ports, data: StoredData | InlineData, caller: Caller, *, numbers: bool
) -> tuple[Dataset, Draft | None]:
    """The data set that is meant, and what is to be kept of it where it came along: its labels as `numbers`, or not."""
    try:
        if isinstance(data, StoredData):
            return find_named(ports, data.dataset, "/data/dataset", caller), None
        draft = ports.datasets.draft_inline(data.features, data.rows, data.labels, numbers=numbers, owner=caller.owner)
    except Invalid as error:
        raise error.under("/data") from error
    return draft.dataset, draft


def _stakes(sent: TrainRequest, classes: Sequence[object], kind: catalogue.Kind, *, square: bool) -> Stakes | None:
    """The matrix as sent; what trains with it (`square`) needs the classes for columns. Numbers have no classes."""
    if not sent.stated:
        if kind.needs_benefits:
            raise Invalid.at("/benefits", f"{kind.name} trains with a benefit matrix; send one")
        if sent.actions is not None:
            raise Invalid.at("/actions", "actions are the columns of benefits; send benefits, too")
        return None
    if not classes:
        raise Invalid.at(
            sent.place, "a benefit matrix is for classes, and this learner predicts a number; leave it out"
        )
    if kind.labels == "several":
        raise Invalid.at(sent.place, "a benefit matrix is for one label; leave it out, and ask `POST /retrieve` later")
    return read_matrix(sent, classes, square=square)


def listed_costs(sent: Any, names: Sequence[str]) -> list[dict[str, Any]] | None:
    """Prices in the long form; Invalid below /feature_costs."""
    if sent is None:
        return None
    try:
        return parse_prices(sent, names).listed(names)
    except Invalid as error:
        raise error.under("/feature_costs") from error
