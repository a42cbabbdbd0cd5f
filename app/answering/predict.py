"""Decide what to do for each instance of a model, or predict its number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, Field, RootModel, WithJsonSchema

from app.access.caller import Caller
from app.answering.decide import (
    Answer,
    decide,
    decide_by_probabilities,
    extent,
)
from app.answering.explain import Explanation
from app.answering.reasons import add_texts
from app.answering.record import (
    RecordField,
    explored,
    ids_of,
    predicted_batch,
)
from app.answering.rewards import decide_by_rewards
from app.answering.segments import segment_texts
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.requests.fields import (
    COLUMNS,
    PROBABILITIES,
    CaseColumns,
    ClassNames,
    IdsField,
    Instances,
    ModelVersion,
    Text,
)
from app.requests.limits import LimitAnswer
from app.requests.quantities import Quantities, banded, quantities
from app.requests.reasons import ReasonsFields
from app.requests.rows import Rows
from app.requests.rules import RuleFields, RuleOfModel, check_fields
from app.stores import Stores
from payoff.errors import Invalid

# values in memory for each feature of an instance that is explained or recorded
_KEPT = 2
_RECORDED = 12  # values in memory for each recorded decision


class PredictFields(RuleFields, RecordField):
    """All of a request but its instances or probabilities."""

    model: Text | None = Field(
        default=None,
        description="name, name:version or name@alias; or send `probabilities`",
        examples=["triage"],
    )
    classes: ClassNames | None = Field(
        default=None, description="with `probabilities`: the names of their columns"
    )
    columns: CaseColumns = Field(default=None, description=COLUMNS, examples=[None])


class PredictRequest(PredictFields, IdsField):
    """Instances of a model, or probabilities of classes, and what is at stake."""

    instances: Instances | None = Field(
        default=None,
        description="rows in the model's feature order, or objects by feature name; null where"
        " missing",
    )
    probabilities: Annotated[list[Any], WithJsonSchema(PROBABILITIES)] | None = Field(
        default=None,
        description="in place of model and instances: a row per instance, a column for each of"
        " `classes`",
    )


class AnswerFields(BaseModel):
    """What answers by models of classes and of numbers have in common."""

    model: ModelVersion | None = Field(
        default=None, description="absent where the request sent probabilities"
    )
    ids: list[int | float | str | None] | None = Field(
        default=None,
        description="with `ids`, `id` or `record`, in the order of the instances",
    )
    kept: dict[str, list[Any]] | None = Field(
        default=None, description="with `keep`: the columns that were named"
    )
    limits: list[LimitAnswer] | None = Field(
        default=None,
        description="with `limits`, `resources` or `sum_at_most`, whose price is what a unit more"
        " would save",
    )
    total: float | None = Field(
        default=None,
        description="sum of the expected benefits, or costs, of the decisions",
    )
    unlimited_total: float | None = Field(
        default=None, description="the same without limits"
    )
    warnings: list[str]


class DecisionsAnswer(AnswerFields):
    """Columns with one entry per instance; `expected_benefits` has a column per action."""

    rule: RuleOfModel
    classes: list[int | str] | None = Field(
        default=None, description="absent where the rule is `expected_reward`"
    )
    actions: list[int | str]
    matrix_in_words: list[str] | None = Field(
        default=None,
        description="what the benefits mean, such as `ill: wait costs 10, treat brings 5`: in"
        " answers for which the matrix was read, which of equal requests is the first of a process;"
        " with `explain` always",
    )
    decisions: list[int | str]
    probabilities: list[list[float]] | None = Field(
        default=None, description="absent where the rule is `expected_reward`"
    )
    expected_benefits: list[list[float]] | None = None
    uplift: list[list[float]] | None = Field(
        default=None,
        description="with `baseline`: what each action earns more than it, expected",
    )
    threshold: float | None = Field(
        default=None,
        description="where the second action begins (rules with a threshold)",
    )
    guarantee: str | None = Field(
        default=None,
        description="the version of the guarantee that held back an action",
    )
    beta: float | None = None
    delta: float | None = None
    gap: float | None = Field(
        default=None,
        description="by how much at most other decisions earn more; 0: none do",
    )
    propensities: list[float] | None = Field(
        default=None, description="with `explore`: the chance of each decision"
    )
    explanations: list[Explanation] | None = Field(
        default=None, description="with `explain`: one for each instance"
    )


class ValuesAnswer(AnswerFields):
    """What a model of numbers (regression) predicts, and which quantities cost least."""

    decisions: list[float] | None = Field(
        default=None, description="with `unit_costs`: the quantities"
    )
    expected_costs: list[float] | None = Field(default=None, description="of these")
    intervals: list[tuple[float, float]] | None = Field(
        default=None, description="with `coverage`: low and high"
    )
    values: list[float] = Field(description="one for each instance")


class PredictAnswer(RootModel[DecisionsAnswer | ValuesAnswer]):
    """Decisions by a model of classes, `values` by one of numbers."""


class PredictQuestion(NamedTuple):
    """A request to `/predict`: its fields, with any saved matrix filled in, and its rows.

    Questions to a model with the same `key`, unless that is None, have the same fields.
    """

    fields: PredictFields
    rows: Rows
    key: bytes | None = None


def predict(
    stores: Stores, caller: Caller, model: Loaded | None, question: PredictQuestion
) -> tuple[Answer | Quantities, Batch | None]:
    """The decisions or numbers of a model, or decisions by probabilities without one; and with
    `record` the decisions that are to be stored before they are answered.

    Raises Invalid with the place of what does not fit.
    """
    fields = question.fields
    answer = _answer(model, question)
    if isinstance(fields.explain, ReasonsFields) and model is not None:
        assert isinstance(answer, Answer)
        explanations = answer.explanations or []
        if any("reasons" not in explanation for explanation in explanations):
            raise Invalid.at("/explain", answer.warnings[-1])
        add_texts(stores, model.name, explanations)
    if fields.record is None:
        if fields.explore is not None:
            raise Invalid.at(
                "/explore", 'exploration is for recorded decisions: send "record": true'
            )
        return answer, None
    if model is None:
        raise Invalid.at(
            "/record", "decisions are recorded by model, and this request has none"
        )
    rows = question.rows
    ids = ids_of(stores, caller, fields.record, len(rows.X), rows.carried.request_ids)
    if fields.explore is not None and isinstance(answer, Answer):
        answer = explored(answer, model.name, ids.ids, fields.explore)
    texts = rows.texts(model.schema) if fields.record.instances else None
    segments = segment_texts(rows, model.schema, fields.segments)
    return answer, predicted_batch(model, fields, answer, ids, caller, texts, segments)


def _answer(model: Loaded | None, question: PredictQuestion) -> Answer | Quantities:
    """The decisions by a model of classes, by bands of numbers or by probabilities, or numbers."""
    fields, rows, key = question
    if model is None:
        check_fields(fields, model)
        return decide_by_probabilities(fields.classes or (), rows.X, fields, rows)
    if model.rewarded:
        return decide_by_rewards(model, fields, rows)
    if not model.regression:
        return decide(model, fields, rows, key)
    warnings = [*model.card.warnings, *rows.warnings]
    if fields.bands is None:
        return quantities(model, fields, rows.X, warnings)
    check_fields(fields, model)
    names, P = banded(model, fields.bands, rows.X)
    return decide_by_probabilities(
        names, P, fields, rows._replace(warnings=warnings), model.schema
    )


def check_one_source(
    model: str | None, *, probabilities: bool, instances: bool
) -> None:
    """Invalid unless there are either a model with instances or probabilities."""
    if probabilities and (model is not None or instances):
        place = "/model" if model is not None else "/instances"
        raise Invalid.at(
            place, "send 'model' and 'instances', or 'probabilities', not both"
        )
    if not probabilities and model is None:
        raise Invalid.at("/model", "'model' is required; or send 'probabilities'")
    if not (probabilities or instances):
        raise Invalid.at("/instances", "'instances' is required")


def check_source(
    fields: PredictFields, *, probabilities: bool, instances: bool
) -> None:
    """Invalid unless there is one source, and `classes` name the columns of probabilities."""
    check_one_source(fields.model, probabilities=probabilities, instances=instances)
    if probabilities and fields.classes is None:
        raise Invalid.at("/classes", "'classes' are required with 'probabilities'")
    if not probabilities and fields.classes is not None:
        raise Invalid.at(
            "/classes", "this goes with 'probabilities'; a model knows its classes"
        )


def classes_of(model: Loaded | None, fields: PredictFields) -> Sequence[int | str]:
    """The classes of the model, or those that the request names; none of a model of numbers."""
    return (fields.classes or ()) if model is None else model.classes


def extent_in_memory(model: Loaded | None, fields: PredictFields, rows: Rows) -> int:
    """About how many values in memory the work and its answer take; TooLarge as `extent`."""
    records = fields.record is not None
    numbers = extent(fields, classes_of(model, fields), len(rows.X))
    return (
        numbers
        + rows.X.size * _KEPT * bool(fields.explain or records)
        + len(rows.X) * _RECORDED * records
    )
