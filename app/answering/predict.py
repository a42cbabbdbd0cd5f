"""Decide what to do for each instance of a model, or predict its number."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, NamedTuple

import numpy as np
import orjson
from pydantic import BaseModel, Field, RootModel, WithJsonSchema

from app.access.caller import Caller
from app.answering.decide import (
    Answer,
    RuleFields,
    RuleOfModel,
    check_fields,
    decide_by,
)
from app.answering.explain import Explanation, contributions
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
from app.requests.matrices import best_in_training, named_matrix
from app.requests.prepared_matrices import PreparedMatrices
from app.requests.quantities import Quantities, banded, quantities
from app.requests.rows import RowPacker, Rows
from app.stores import Stores
from app.tables.features import NO_FEATURES, Schema
from payoff.decisions.benefit import Prepared
from payoff.decisions.case_benefits import by_case
from payoff.errors import Flaw, Invalid, TooLarge, pointer, reject

LARGEST_ANSWER = 5_000_000  # numbers: about 90 MB of JSON, or 40 MB as an array
# How many numbers a cell of an explanation counts for, by the longest time that one takes.
_EXPLAINED = 25
# How many numbers an instance counts for whose distribution is computed, by the longest time.
_DISTRIBUTION = 100
# The same where its quantity is limited together with the others', at 33 levels.
_DISTRIBUTION_IN_SUM = 400
# values in memory for each feature of an instance that is explained or recorded
_KEPT = 2
_RECORDED = 12  # values in memory for each recorded decision
# with more probabilities NumPy's sum is faster than a list's
_MAX_NUMBERS_OF_LIST_SUM = 100
_MAX_KEY = 2_000  # bytes of fields that are not checked again


BY_REWARDS = "learned from rewards; only `POST /predict` answers by it"


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
    """A request to `/predict`: its fields, a saved matrix in place of its name, and its rows.

    Questions to a model with the same `key` have the same fields.
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
        expected = model.estimator.posterior(rows.X)
        check_finite(expected)
        return decide_by_rewards(model, fields, rows, expected)
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


def decide(
    model: Loaded, fields: RuleFields, rows: Rows, key: bytes | None = None
) -> Answer:
    """The decisions for rows by a model of classes, with explanations where they are asked for.

    Requests with the same `key` have the same fields, whose matrix is prepared once. Raises Invalid
    with the place of a field that does not fit the model or the rule. O(n K A) beside the model's
    own work.
    """
    matrices = model.once(PreparedMatrices)
    matrix = matrices.get(key)
    is_new = matrix is None
    if matrix is None:
        check_classes(model)
        check_fields(fields, model)
        matrix = named_matrix(
            fields, model.classes, len(rows.X), model.once(best_in_training)
        )
        matrices.keep(key, matrix)
    posterior = (
        model.once(RowPacker).posterior if rows.in_bounds else model.estimator.posterior
    )
    scores = posterior(rows.X)
    check_finite(scores)
    warnings = [*model.card.warnings, *rows.warnings]
    row_matrices = _of_rows(matrix, rows, model.schema)
    answer = decide_by(fields, model.classes, scores, warnings, row_matrices, model)
    if matrix is not None and (is_new or fields.explain):
        answer = answer._replace(matrix_in_words=matrix.in_words)
    if not answer.explanations:
        return answer
    contributed, notes = contributions(model, rows.X, answer.probabilities)
    answer = answer._replace(warnings=[*answer.warnings, *notes])
    if not contributed:
        return answer
    pairs = zip(answer.explanations or (), contributed, strict=True)
    return answer._replace(
        explanations=[explanation | more for explanation, more in pairs]
    )


def decide_by_probabilities(
    classes: Sequence[int | str],
    P: np.ndarray,
    fields: RuleFields,
    rows: Rows,
    schema: Schema = NO_FEATURES,
) -> Answer:
    """The decisions by probabilities (n, K) for rows of a schema; the fields are checked."""
    matrix = named_matrix(fields, classes, len(P))
    answer = decide_by(
        fields, classes, P, rows.warnings, _of_rows(matrix, rows, schema)
    )
    return (
        answer if matrix is None else answer._replace(matrix_in_words=matrix.in_words)
    )


def _of_rows(matrix: Prepared | None, rows: Rows, schema: Schema) -> Prepared | None:
    """The matrix, or a matrix for each row where a cell depends on the case."""
    return matrix and by_case(
        matrix, schema, rows.X, rows.columns, partial(rows.place, schema)
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


def key_of(document: dict[str, Any]) -> bytes | None:
    """A key of all fields but `instances`: their JSON, in which 1, 1.0, true and -0.0 differ.

    None where it is long, or has ids or columns: no other request has the same, and they are not to
    be kept in memory.
    """
    if (
        "ids" in document
        or "columns" in document
        or isinstance(document.get("record"), dict)
    ):
        return None
    fields = document.copy()
    del fields["instances"]
    try:
        key = orjson.dumps(fields)
    except orjson.JSONEncodeError:  # nested too deep
        return None
    return key if len(key) <= _MAX_KEY else None


def check_classes(model: Loaded) -> None:
    """Invalid at /model unless it predicts one of several classes, for which actions are."""
    if model.regression:
        raise Invalid.at(
            "/model", f"{model.name!r} predicts numbers; this needs a model of classes"
        )
    if model.rewarded:
        raise Invalid.at("/model", f"{model.name!r} {BY_REWARDS}")
    if model.multilabel:
        raise Invalid.at(
            "/model",
            f"{model.name!r} has several labels; `POST /retrieve` says which of them to retrieve",
        )


def extent(model: Loaded | None, fields: PredictFields, n_instances: int) -> int:
    """How many numbers the answer will hold: one for each class and action of each instance.

    An explanation counts as the work that it takes. TooLarge for more than `LARGEST_ANSWER`, which
    few bytes can ask for.
    """
    classes = (fields.classes or ()) if model is None else model.classes
    n_classes = len(classes) or len(fields.bands or ()) + 1
    n_actions = fields.width(n_classes)
    # An instance may have a matrix of its own; an explanation tries all changes of the matrix.
    arrays_per_action = bool(fields.case_columns) + _EXPLAINED * fields.explain
    numbers = n_instances * (
        n_classes + n_actions + arrays_per_action * n_classes * n_actions
    )
    work = numbers
    if fields.of_numbers and not classes:
        work *= _DISTRIBUTION if fields.sum_at_most is None else _DISTRIBUTION_IN_SUM
    if work > LARGEST_ANSWER:
        raise TooLarge(
            f"the answer would hold {work:,} numbers, more than {LARGEST_ANSWER:,}; send fewer"
            " instances"
        )
    return numbers


def extent_in_memory(model: Loaded | None, fields: PredictFields, rows: Rows) -> int:
    """About how many values in memory the work and its answer take; TooLarge as `extent`."""
    records = fields.record is not None
    numbers = extent(model, fields, len(rows.X))
    return (
        numbers
        + rows.X.size * _KEPT * (fields.explain or records)
        + len(rows.X) * _RECORDED * records
    )


def check_finite(P: np.ndarray) -> None:
    """Reject non-finite probabilities."""
    # Summing a short list is ten times faster than NumPy.
    total = sum(P.ravel().tolist()) if P.size <= _MAX_NUMBERS_OF_LIST_SUM else P.sum()
    if not math.isfinite(total):
        rows = np.flatnonzero(~np.isfinite(P).all(axis=1))
        reject(
            Flaw(
                pointer("instances", i),
                "the model gives no probabilities for this instance",
            )
            for i in rows
        )
