"""Orders of training: a request is checked as far as possible, and accepted as a job, which
`fitting.run` runs.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Discriminator, Field, StrictBool, StrictInt, Tag, WithJsonSchema
from typing_extensions import TypeAliasType

from app.access.caller import Caller
from app.jobs.job import Job
from app.requests.costs import FeatureCosts, parse_prices
from app.requests.datasets import EXAMPLE_ID, find_named
from app.requests.fields import Name, Names, Number, Text, WireModel, limit_entries
from app.requests.holdouts import Holdout, read_holdout
from app.requests.matrices import MatrixFields, Stakes, read_matrix, refuse_actions
from app.requests.specifications import HOLDOUT, SEED, LearnerSpec, TrainSpec
from app.stores import Stores
from app.tables.dataset import Dataset
from app.tables.features import Feature, Schema
from app.tables.store import Draft
from app.training import jobs
from app.training.failures import placed
from app.training.rewards import check_log, check_split
from payoff.decisions.case_benefits import CaseBenefits
from payoff.errors import Flaw, Invalid, below, counted, pointer, reject
from payoff.learners import catalogue
from payoff.learners.parameters import LearnerRequest, request_of
from payoff.learners.rewards.estimator import check_chances, check_rewards

KIND = "train"

Cell = Annotated[Any, WithJsonSchema({"type": ["number", "string", "boolean", "null"]})]
Label = Annotated[
    Any,
    WithJsonSchema(
        {
            "oneOf": [
                {"type": ["number", "string"]},
                {"type": "array", "items": {"type": "string"}},
            ]
        }
    ),
]
_KINDS = [request_of(kind).model_json_schema() for kind in catalogue.KINDS.values()]
Learner = TypeAliasType(
    "Learner",
    Annotated[
        dict[str, Any], limit_entries(100, "fields"), WithJsonSchema({"oneOf": _KINDS})
    ],
)
"""One schema, by name."""


WEIGHTS = Field(
    default=None,
    description="one positive number for each row: how much it counts, as far as ratios say so,"
    " such as 1 / P(the row was drawn)",
    examples=[None],
)


class StoredData(WireModel):
    """A data set that was uploaded before."""

    dataset: Text = Field(examples=[EXAMPLE_ID])


class InlineData(WireModel):
    """A small table in the request, kept as a data set."""

    features: Names = Field(examples=[["age", "pain"]])
    rows: Annotated[list[list[Cell]], Field(fail_fast=True)] = Field(
        examples=[[[63, "mild"], [41, "none"]]]
    )
    labels: Annotated[list[Label], Field(fail_fast=True)] = Field(
        description="one for each row: a class (word or integer) or a number;"
        " a list of labels for each row when multi-label"
    )
    weights: Annotated[list[Number], Field(fail_fast=True)] | None = WEIGHTS
    types: dict[Text, Literal["value", "weight", "ignore"]] = Field(
        default={},
        description="of columns that are no features: `value` for cells of matrices, `weight` for"
        " the weights of the rows, `ignore` for hold-outs alone",
        examples=[{}],
    )


class InlineRewards(WireModel):
    """A small log of actions and rewards in the request, kept as a data set."""

    features: Names = Field(examples=[["age", "pain"]])
    rows: Annotated[list[list[Cell]], Field(fail_fast=True)] = Field(
        examples=[[[63, "mild"], [41, "none"]]]
    )
    actions: Annotated[list[StrictInt | Text], Field(fail_fast=True)] = Field(
        description="the action that was taken in each row", examples=[["call", "mail"]]
    )
    rewards: Annotated[list[Number], Field(fail_fast=True)] = Field(
        description="what this action earned", examples=[[0, 12.5]]
    )
    propensities: Annotated[list[Number], Field(fail_fast=True)] | None = Field(
        default=None,
        description="the chance that this action had; null: chances are estimated",
        examples=[[0.5, 0.5]],
    )
    weights: Annotated[list[Number], Field(fail_fast=True)] | None = WEIGHTS

    def labelled(self) -> InlineData:
        """The log as columns `action` and `propensity` of a table, the rewards as its labels.

        Invalid at what does not fit, relative to this document.
        """
        beside: dict[str, list[Any]] = {"action": self.actions}
        if self.propensities is not None:
            check_chances(np.array(self.propensities))
            beside["propensity"] = self.propensities
        check_rewards(np.array(self.rewards))
        lists: dict[str, list[Any] | None] = {
            "actions": self.actions,
            "rewards": self.rewards,
            "propensities": self.propensities,
            "weights": self.weights,
        }
        reject(
            Flaw(f"/{name}", f"{len(column)} {name} for {len(self.rows)} rows")
            for name, column in lists.items()
            if column is not None and len(column) != len(self.rows)
        )
        reject(
            Flaw("/features", f"{name!r} is a column of the log: rename the feature")
            for name in beside
            if name in self.features
        )
        columns = zip(self.rows, *beside.values(), strict=True)
        return InlineData(
            features=[*self.features, *beside],
            rows=[[*row, *cells] for row, *cells in columns],
            labels=self.rewards,
            weights=self.weights,
        )


def _tag_of_data(data: Any) -> str:
    """The kind of data that errors are about."""
    names = data.keys() if isinstance(data, dict) else ()
    if not {"actions", "rewards", "propensities"}.isdisjoint(names):
        return "InlineRewards"
    return (
        "StoredData"
        if InlineData.model_fields.keys().isdisjoint(names)
        else "InlineData"
    )


Data = Annotated[
    Annotated[StoredData, Tag("StoredData")]
    | Annotated[InlineData, Tag("InlineData")]
    | Annotated[InlineRewards, Tag("InlineRewards")],
    Discriminator(_tag_of_data),
]


class TrainRequest(MatrixFields):
    """What to train, on which data, and how to evaluate it."""

    model: Name = Field(examples=["triage"])
    learner: Learner = Field(examples=[{"kind": "logistic"}])
    data: Data
    feature_costs: FeatureCosts = Field(
        default=None, description="what it costs to learn each feature's value"
    )
    holdout: Holdout = Field(
        default=HOLDOUT,
        description="part held out to evaluate the model, at random, by time or by group; 0: none",
    )
    refit: StrictBool = Field(
        default=True,
        description="whether to fit again on all rows after the evaluation;"
        " false publishes the evaluated model",
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)
    unit: Annotated[str, Field(max_length=16)] | None = Field(
        default=None, description="of all amounts, such as EUR"
    )


def submit(
    stores: Stores, request: TrainRequest, *, key: str | None, caller: Caller
) -> Job:
    """Accept a request to train, checked as far as possible beforehand; the same `key` answers with
    the first job.

    Raises Invalid at the fields that cannot work, NotFound for an unknown data set, Forbidden for a
    model that the key is not for.
    """
    caller.need_model(request.model)
    with below("/learner"):
        learner = catalogue.resolve(request.learner)
    data = request.data
    rewarded = learner.estimator.labels == "reward"
    if isinstance(data, InlineRewards):
        data, learner = _labelled(data, learner)
    dataset, draft = _dataset(
        stores, data, caller, numbers=rewarded or learner.regresses
    )
    learner = with_task(learner, dataset)
    if (
        learner.kind == "auto"
        and learner.regresses
        and request.feature_costs is not None
    ):
        # The cost tree is the only learner of numbers that asks for features.
        learner = catalogue.resolve({"kind": "cost_tree", "task": "regression"})
    spec = _specification(request, learner, dataset)
    if draft is not None:
        stores.datasets.keep(
            draft
        )  # after all checks: a refused request leaves nothing behind
        # The content's id is the same when the request is repeated with its key.
        spec = spec.model_copy(update={"dataset": draft.content})
    return jobs.submit(
        stores, caller, KIND, spec, model=spec.model, dataset=dataset.id, key=key
    )


def _specification(
    request: TrainRequest, learner: LearnerRequest, dataset: Dataset
) -> TrainSpec:
    with below("/learner"):
        check_labels(learner, dataset)
    rewarded = learner.estimator.labels == "reward"
    if rewarded and request.feature_costs is not None:
        message = "a model of rewards never asks for features; leave it out"
        raise Invalid.at("/feature_costs", message)
    classes = () if rewarded or learner.regresses else dataset.classes or ()
    stakes = _stakes(request, classes, learner)
    B, actions, _, cases = stakes or (None, None, (), None)
    if cases is not None:
        check_columns(cases, dataset)
    with placed():
        learner = built(learner, B, classes, dataset.features)
    holdout, split = read_holdout(request.holdout, dataset)
    if rewarded and split is not None:
        check_split(split, learner.parameters)
    return TrainSpec(
        model=request.model,
        learner=LearnerSpec(kind=learner.kind, parameters=learner.parameters),
        dataset=dataset.id,
        benefits=None if B is None else B.tolist(),
        case_benefits=None if cases is None else cases.cells(),
        actions=actions,
        feature_costs=listed_costs(request.feature_costs, dataset),
        holdout=holdout,
        split=split,
        refit=request.refit,
        seed=request.seed,
        unit=request.unit,
    )


def _labelled(
    data: InlineRewards, learner: LearnerRequest
) -> tuple[InlineData, LearnerRequest]:
    """The log as a table, and the learner with the names of its columns."""
    if learner.estimator.labels != "reward":
        raise Invalid.at(
            "/learner/kind", "actions and rewards are for the kind rewards"
        )
    lists = "of lists 'actions' and 'propensities' are the columns; leave it out"
    reject(
        Flaw(pointer("learner", name), f"{column!r} is for data sets: {lists}")
        for name, column in learner.parameters.items()
        if name != "baseline" and column not in (None, name)
    )
    with below("/data"):
        table = data.labelled()
    propensity = None if data.propensities is None else "propensity"
    columns = {"action": "action", "propensity": propensity}
    return table, learner.model_copy(update=columns)


def with_task(learner: LearnerRequest, dataset: Dataset) -> LearnerRequest:
    """The learner with the task that the labels ask for, where it has several and names none."""
    if len(learner.estimator.tasks) == 1 or getattr(learner, "task", None) is not None:
        return learner
    return learner.model_copy(
        update={"task": "regression" if dataset.classes is None else "classification"}
    )


def check_labels(learner: LearnerRequest, dataset: Dataset) -> None:
    """Numbers are regressed on, words are classes, and integers can be either; several labels need
    their learners.
    """
    labels = learner.estimator.labels
    kinds = catalogue.KINDS.values()
    if dataset.multilabel != (labels == "several"):
        needed = "several" if dataset.multilabel else "one"
        suitable = " or ".join(kind.name for kind in kinds if kind.labels == needed)
        predicted = "one label" if dataset.multilabel else "several labels"
        present = str(len(dataset.labels)) if dataset.multilabel else "one"
        raise Invalid.at(
            "/kind",
            f"{learner.kind} predicts {predicted}, and this data set has {present}:"
            f" choose {suitable}",
        )
    if labels == "reward":
        if isinstance((dataset.classes or (0,))[0], str):
            raise Invalid.at(
                "/kind",
                "rewards are numbers, and the labels of this data set are words",
            )
        check_log(learner.parameters, dataset)
    elif learner.regresses:
        if isinstance((dataset.classes or (0,))[0], str):
            raise Invalid.at(
                "/task",
                "regression needs numbers, and the labels are words: take classification",
            )
    elif dataset.classes is None and len(learner.estimator.tasks) > 1:
        raise Invalid.at(
            "/task",
            "the labels of this data set are numbers, not classes: take regression",
        )
    elif dataset.classes is None:
        suitable = " or ".join(
            kind.name for kind in kinds if "regression" in kind.tasks
        )
        message = f"{learner.kind} predicts classes, and the labels of this data set are numbers"
        raise Invalid.at("/kind", f"{message}: choose {suitable} with task regression")


def _dataset(
    stores: Stores, data: StoredData | InlineData, caller: Caller, *, numbers: bool
) -> tuple[Dataset, Draft | None]:
    """The data set of the request, and its draft where its rows are in the request: with its labels
    as `numbers`, or as classes.
    """
    with below("/data"):
        if isinstance(data, StoredData):
            return find_named(stores, data.dataset, "/data/dataset", caller), None
        draft = stores.datasets.draft_inline(
            data.features,
            data.rows,
            data.labels,
            numbers=numbers,
            types=data.types,
            weights=data.weights,
            owner=caller.owner,
        )
    return draft.dataset, draft


def _stakes(
    request: TrainRequest, classes: Sequence[object], learner: LearnerRequest
) -> Stakes | None:
    """The matrix of the request, if it has one; some learners need the classes as its columns.
    Numbers have no classes.
    """
    if not request.stated:
        refuse_actions(request)
        return None
    if not classes:
        raise Invalid.at(
            request.place,
            "a benefit matrix is for classes, and this learner predicts a number; leave it out",
        )
    if learner.estimator.labels == "several":
        raise Invalid.at(
            request.place,
            "a benefit matrix is for one label; leave it out, and ask `POST /retrieve` later",
        )
    return read_matrix(request, classes, square=learner.needs_square)


def check_columns(cases: CaseBenefits, dataset: Dataset) -> None:
    """Invalid at a cell whose column the data set does not have as numbers, or with rows without
    one.
    """
    schema = Schema(dataset.features)
    cases.values(
        schema,
        np.empty((0, len(schema.names))),
        dict.fromkeys(dataset.values, np.empty(0)),
    )
    gaps = {report.name: report.missing for report in dataset.columns if report.missing}
    reject(
        Flaw(
            f"{place}/column",
            f"{column!r} is missing in {counted(gaps[column], 'row')}; leave these rows out",
        )
        for _, _, column, _, place in cases.terms
        if column in gaps
    )


def listed_costs(prices: Any, dataset: Dataset) -> list[dict[str, Any]] | None:
    """Prices in the long form; Invalid below /feature_costs."""
    if prices is None:
        return None
    names = [feature.name for feature in dataset.features]
    with below("/feature_costs"):
        return parse_prices(prices, names, ignored=dataset.ignored).listed(names)


def built(
    learner: LearnerRequest,
    benefits: np.ndarray | None,
    classes: Sequence[int | str],
    features: Sequence[Feature],
) -> LearnerRequest:
    """The learner with its classes as the data set writes them, if its estimator can be built.

    Errors of building the estimator are raised now, not by a job that fails: Invalid at the
    learner's parameters, or at /benefits.
    """
    named = learner.naming(classes)
    schema = Schema(features)
    named.build(
        benefits=benefits,
        classes=classes,
        features=schema.names,
        categorical_features=schema.categorical,
    )
    return named
