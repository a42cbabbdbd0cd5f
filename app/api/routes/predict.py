"""`POST /predict`. It is called most, so it reads and writes its bodies itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Request, Response
from pydantic import BaseModel, Field, RootModel, StrictInt, WithJsonSchema
from starlette.concurrency import run_in_threadpool

from app.api.bodies import instances, predicted_values
from app.api.bodies.documents import (
    COSTS,
    JSON,
    ByClass,
    DirectRoute,
    Matrices,
    ModelVersion,
    Names,
    Text,
    WireModel,
    checked,
    media_type_of_answer,
    media_type_of_body,
    read_query,
    refuse_query,
    run_sized,
)
from app.api.bodies.json_bodies import INLINE_BYTES, parsed
from app.api.deps import cached, loaded
from app.api.errors import problems
from app.api.middleware.limiters import limiters
from app.api.middleware.memory import share
from app.api.middleware.permits import PREDICT, needs
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases import predict as usecase
from app.usecases.predict_values import predict_values
from app.usecases.ranges import strange_values

_INLINE_NUMBERS = 10_000  # of an answer; one with more is computed in a thread, so that no other request waits
_LONG_NUMBERS = 500_000  # of an answer; one with more takes tenths of a second
_BYTES_PER_NUMBER = 70  # of memory, from the rows to the answer
_TEXT_FIELDS = ("model", "rule")

INSTANCES = {
    "oneOf": [
        {"type": "array", "items": {"type": "array", "items": {"type": ["number", "string", "null"]}}},
        {"type": "array", "items": {"type": "object"}},
    ]
}


class CostsDocument(WireModel):
    """Costs for the rules beta_delta and hierarchical: D are the minority classes, H is the majority."""

    majority: StrictInt | Text = Field(examples=["healthy"])
    C_HD: float = Field(ge=0, strict=True, description="taking the majority for a minority class")
    C_DH: float = Field(ge=0, strict=True, description="taking a minority class for the majority")
    C_DD: float | None = Field(default=None, ge=0, strict=True, description="taking one minority class for another")


class PredictQuestion(WireModel):
    """All of a request but its instances."""

    model: Text = Field(description="name, name:version or name@alias", examples=["triage", "triage:1"])
    benefits: Matrices | None = Field(
        default=None,
        description="a row per actual class, a column per action; one matrix, or one per instance",
        examples=[[[0, -1], [-10, 5]], {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}],
    )
    cost_matrix: Matrices | None = Field(default=None, description=COSTS)
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None, description="names of the columns; without them the columns are the classes"
    )
    rule: usecase.Rule = "expected_benefit"
    threshold: Literal["posterior", "holdout"] | Annotated[float, Field(strict=True)] | None = None
    costs: CostsDocument | None = None
    priors: ByClass | None = Field(default=None, description="class priors where the model is used, by class")

    def question(self) -> usecase.Question:
        costs = usecase.Costs(**dict(self.costs)) if self.costs else None
        rule = self.rule if "rule" in self.model_fields_set else None
        return usecase.Question(self.benefits, self.cost_matrix, self.actions, rule, self.threshold, costs, self.priors)


class PredictRequest(PredictQuestion):
    """Instances, and what is at stake."""

    instances: Annotated[list[Any], WithJsonSchema(INSTANCES)] = Field(
        description="rows in the model's feature order, or objects by feature name; null where missing"
    )


class DecisionsAnswer(BaseModel):
    """Columns with one entry per instance; `expected_benefits` has a column per action."""

    model: ModelVersion
    rule: usecase.Rule
    classes: list[int | str]
    actions: list[int | str]
    decisions: list[int | str]
    probabilities: list[list[float]]
    expected_benefits: list[list[float]] | None = None
    threshold: float | None = Field(default=None, description="where the second action begins (rules with a threshold)")
    beta: float | None = None
    delta: float | None = None
    warnings: list[str]


class ValuesAnswer(BaseModel):
    """What a model of numbers (regression) predicts."""

    model: ModelVersion
    values: list[float] = Field(description="one for each instance")
    warnings: list[str]


class PredictAnswer(RootModel[DecisionsAnswer | ValuesAnswer]):
    """Decisions by a model of classes, `values` by one of numbers."""


@needs(PREDICT)
async def predict(request: Request) -> Response:
    """Decide for every instance which action pays most; or, with a model of numbers, predict them.

    A model of numbers takes `model` and `instances` alone: rules, benefits, costs and priors are for classes.
    The instances come as JSON, or as a NumPy array (`application/x-npy`, rows in feature order) or an Arrow stream
    (`application/vnd.apache.arrow.stream`, columns by feature name); then the other fields are query parameters, each
    as JSON. `Accept` chooses the form of the answer in the same way.
    """
    kind = media_type_of_body(request, instances.READERS)
    body = await request.body()
    if len(body) > INLINE_BYTES:
        return await run_sized(request, len(body), lambda: _answer(request, _read(request, kind, body)))
    asked = _read(request, kind, body)
    model = cached(request, asked.model)
    if model is None:
        return await run_in_threadpool(_answer, request, asked)
    rows = asked.rows(model.schema)
    numbers = usecase.extent(model, asked.question, len(rows[0]))
    if numbers > _LONG_NUMBERS:
        return await limiters(request).long.run(_decide, request, asked.question, model, rows)
    if numbers > _INLINE_NUMBERS:
        return await run_in_threadpool(_decide, request, asked.question, model, rows)
    return _decide(request, asked.question, model, rows)


@dataclass(frozen=True)
class _Asked:
    """A request, read as far as possible without the model."""

    model: str
    question: usecase.Question
    rows: Callable[[Schema], instances.Rows]


def _answer(request: Request, asked: _Asked) -> Response:
    """In a thread: the model may have to be loaded, and the rows may be many."""
    model = loaded(request, asked.model)
    return _decide(request, asked.question, model, asked.rows(model.schema))


def _decide(request: Request, question: usecase.Question, model: Loaded, rows: instances.Rows) -> Response:
    form = media_type_of_answer(request, instances.WRITERS)
    X, warnings = rows
    numbers = usecase.extent(model, question, len(X))
    if numbers > _INLINE_NUMBERS:
        share(request).reserve(numbers * _BYTES_PER_NUMBER)
    if form == JSON:  # the other forms are for many rows, fast
        warnings += strange_values(model, X)
    if model.regression:
        answer = predicted_values.WRITERS[form](predict_values(model, X, question), model, warnings)
    else:
        answer = instances.WRITERS[form](usecase.predict(model, X, question, warnings), model)
    request.app.state.metrics.requests.decided(model.name, model.version, len(X))
    return answer


def _read(request: Request, kind: str, body: bytes) -> _Asked:
    reader = instances.READERS.get(kind)
    if reader is not None:
        query = read_query(request, PredictQuestion, _TEXT_FIELDS)
        return _Asked(query.model, query.question(), lambda schema: reader(body, schema, share(request).reserve))
    refuse_query(request)
    wire = checked(PredictRequest, parsed(body, share(request).reserve))
    booleans = b"true" in body or b"false" in body
    rows = partial(instances.rows_of_json, wire.instances, booleans_possible=booleans)
    return _Asked(wire.model, wire.question(), rows)


_EXAMPLE = {
    "model": "triage",
    "instances": [{"age": 58, "pressure": 141, "pain": "mild"}, {"age": 36, "pressure": 118, "pain": "none"}],
    "benefits": [[0, -1], [-10, 5]],
    "actions": ["wait", "treat"],
}
route = DirectRoute(
    "/predict",
    predict,
    body_type=PredictRequest,
    examples={"the model above": _EXAMPLE},
    others=instances.READERS,
    tags=["predict"],
    summary="Which action pays most, or which number is to be expected, for each instance?",
    response_model=PredictAnswer,
    responses=problems(404, 409, 413, 415, 422),
)
