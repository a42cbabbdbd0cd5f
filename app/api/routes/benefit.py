"""`POST /models/{ref}/benefit` and `POST /benefit`: what a benefit matrix would have earned on rows with a truth."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Path, Request, Response
from pydantic import BaseModel, Field, StrictBool, StrictInt, WithJsonSchema

from app.api.bodies.rankings import ContenderResult, Lead
from app.api.budget import share
from app.api.charts.reports import SVG_CONTENT, benefit_chart, svg, wants_svg
from app.api.codecs.json import parsed
from app.api.codecs.media_types import JSON, NPY, TABULAR, media_type_of_body
from app.api.codecs.npy import array_of_npy
from app.api.codecs.tables import DIALECT_FIELDS, LABEL, DialectFields, Sheet, TableFields, unpacked
from app.api.deps import loaded_by_path, naming, with_saved
from app.api.errors import problems
from app.api.limiters import limiters
from app.api.permits import PREDICT_OR_TRAIN, needs
from app.api.routing import DirectRoute, StrictRoute, checked, read_query, refuse_query_of_json
from app.decisions.rules import RuleName
from app.errors import Invalid
from app.registry.loaded import Loaded
from app.usecases import benefit as usecase
from app.usecases.fields import PROBABILITIES, ByClass, ClassNames, ModelVersion, Text
from app.usecases.matrices import NamedMatrixFields
from app.usecases.probabilities import as_probabilities
from app.usecases.saved_matrices import as_named

router = APIRouter(tags=["models"], route_class=StrictRoute)


class BenefitRequest(NamedMatrixFields):
    """What is at stake."""

    priors: ByClass | None = Field(
        default=None, description="class priors where the model is used; by default those of the hold-out"
    )
    points: int = Field(default=200, ge=2, le=10_000, strict=True, description="of the curve")


class GivenQuestion(BenefitRequest):
    """What is at stake, and all about the rows to judge on but their probabilities."""

    classes: ClassNames
    labels: Annotated[list[StrictInt | Text] | None, Field(fail_fast=True)] = Field(
        default=None, description="the true class of each row; required unless a table has the column `label`"
    )
    normalize: StrictBool = Field(default=False, description="divide each row by its sum, which need not be 1")


class GivenTable(GivenQuestion, DialectFields):
    """The same, and how a CSV file is written."""


class GivenBenefitRequest(GivenQuestion):
    """What is at stake, and the rows to judge on."""

    probabilities: Annotated[Any, WithJsonSchema(PROBABILITIES)] = Field(
        description="a row per instance, a column for each of `classes`"
    )


class EarningDocument(BaseModel):
    """What one rule earned per row, and how often each class (row) met each action (column)."""

    benefit: float
    mu: float | None = Field(description="benefit / upper_bound; null where the bound is not positive")
    confusion: list[list[int]]


class CurvePoint(BaseModel):
    """The mean benefit at one threshold."""

    threshold: float
    benefit: float


class RuleResult(ContenderResult):
    """What one rule earned, its own figures, and how to ask for it."""

    figures: dict[str, int | float | None] = Field(
        description="the rule's threshold, or beta and delta, or the column of the action for all; null where undefined"
    )
    request: dict[str, Any] | None = Field(
        description="the fields that ask `/predict` for this rule, beside benefits; null where none do"
    )


class NamedRule(BaseModel):
    """A rule."""

    rule: RuleName


class RuleLead(Lead, NamedRule):
    """The rule that earned most."""

    same: list[RuleName] = Field(description="rules that earned the same on every row")
    runner_up: RuleName | None


class BenefitReport(EarningDocument):
    """The best that the scores allow with one threshold (two classes, two actions), else the expected-benefit rule."""

    model: ModelVersion | None = Field(default=None, description="absent where the request sent probabilities")
    classes: list[int | str]
    actions: list[str] | None = Field(description="names of the columns; null where the matrix had none")
    rows: int = Field(description="that were evaluated")
    evaluation: Literal["hold-out", "cross-validation", "request"] = Field(
        description="of the model on rows that it did not see, or of the probabilities in the request"
    )
    priors: dict[str, float] = Field(description="weight of each class")
    upper_bound: float = Field(description="mean benefit of someone who knows every class")
    threshold: float | None = Field(default=None, description="the best cut on the hold-out's scores")
    posterior_threshold: float | None = Field(default=None, description="the cut t* that the matrix alone gives")
    curve: list[CurvePoint] | None = None
    expected_benefit: EarningDocument
    cost_blind: EarningDocument = Field(description="acting on the most probable class")
    rules: list[RuleResult] = Field(description="every rule that the matrix allows, and the best action for all")
    best: RuleLead
    warnings: list[str]


_EXAMPLE = {"benefits": [[0, -1], [-10, 5]], "points": 20}


_GIVEN = {
    "probabilities": [[0.9, 0.1], [0.4, 0.6], [0.7, 0.3], [0.2, 0.8]],
    "classes": ["healthy", "ill"],
    "labels": ["healthy", "ill", "ill", "ill"],
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
    "points": 20,
}


@router.post(
    "/models/{ref}/benefit",
    summary="What a benefit matrix would have earned on the hold-out",
    response_model=BenefitReport,
    responses={200: {"content": SVG_CONTENT}, **problems(404, 409, 413, 422, 503)},
)
@needs(PREDICT_OR_TRAIN)
async def model_benefit(
    ref: Annotated[str, Path(openapi_examples={"the model above": {"value": "triage"}})],
    body: Annotated[BenefitRequest, Body(openapi_examples={"two actions": {"value": _EXAMPLE}})],
    request: Request,
) -> Response:
    """For two classes and two actions: the best threshold, the bound, mu and the curve B(t); for any others the same
    without thresholds; always beside what acting on the most probable class would have earned.

    `rules` has every rule that the matrix allows with a bootstrap interval: thresholds for two classes and two actions,
    beta_delta and hierarchical where the matrix states one cost each for confusing minority classes, for missing one,
    and for a false alarm; and last same_for_all, the one action that earns most without a model. The top-level
    threshold is the best one ON these rows, so what it earns flatters it; `threshold_holdout` among the rules is
    cross-validated within the hold-out. `best` says whether its lead is more than noise: whether the paired bootstrap's
    interval of the difference to the runner-up excludes 0, the two earned differently on 30 rows at least, and each
    class in which they can differ has 30 rows.

    With `Accept: image/svg+xml` the answer is a chart.
    """
    return await limiters(request).long.run(_answer, request, await loaded_by_path(request, ref), body)


@needs(PREDICT_OR_TRAIN)
async def benefit(request: Request) -> Response:
    """The report of `/models/{ref}/benefit` for the probabilities of any system, and the true classes.

    The probabilities also come as a NumPy array (`application/x-npy`, columns in the order of `classes`), or with a
    column for each class and `label` as CSV (`text/csv`), Parquet or an Arrow stream; then the other fields are
    query parameters, each as JSON.
    """
    kind = media_type_of_body(request, _TABLES)
    kind, body = await unpacked(request, kind, await request.body())
    return await limiters(request).long.run(_answer_given, request, kind, body)


_TABLES = (NPY, *TABULAR)
route = DirectRoute(
    "/benefit",
    benefit,
    body_type=GivenBenefitRequest,
    examples={"four cases": _GIVEN},
    others=_TABLES,
    query_type=GivenTable,
    tags=["models"],
    summary="What a benefit matrix would have earned with these probabilities",
    response_model=BenefitReport,
    responses={200: {"content": SVG_CONTENT}, **problems(413, 415, 422, 503)},
)


def _answer(request: Request, model: Loaded, body: BenefitRequest) -> Response:
    rows = usecase.evidence_of(model)
    body, saved = with_saved(request, body, model)
    with as_named(saved):
        return naming(_report(request, rows, body, model), saved)


def _answer_given(request: Request, kind: str, content: bytes) -> Response:
    reserve = share(request).reserve
    body: GivenQuestion
    if kind == JSON:
        refuse_query_of_json(request, GivenTable.model_fields)
        body = wire = checked(GivenBenefitRequest, parsed(content, reserve))
        P, labels = wire.probabilities, None
    else:
        body = asked = read_query(request, GivenTable, DIALECT_FIELDS)
        if kind == NPY:
            asked.refuse_dialect()
            P, labels = array_of_npy(content, reserve), None
        else:
            fields = TableFields(**asked.model_dump(include={*DIALECT_FIELDS}, exclude_unset=True))
            from app.api.codecs.columns import with_labels  # noqa: PLC0415 - with pyarrow

            P, labels = with_labels(Sheet(kind, content, fields, reserve), asked.classes)
    if body.labels is not None and labels is not None:
        raise Invalid.at("/labels", f"the table has the column {LABEL!r}; send one of the two")
    truth = labels if body.labels is None else body.labels
    if truth is None:
        raise Invalid.at("/labels", f"'labels' is required{'' if kind in (JSON, NPY) else f'; or a column {LABEL!r}'}")
    given = as_probabilities(P, body.classes, normalize=body.normalize)
    return _report(request, usecase.evidence_given(given, truth), body)


def _report(request: Request, rows: usecase.Evidence, body: BenefitRequest, model: Loaded | None = None) -> Response:
    share(request).reserve(usecase.extent_bytes(len(rows.y), len(rows.classes), body.width()))
    version = None if model is None else ModelVersion(**model.model)
    report = BenefitReport(model=version, **usecase.report(rows, body, body.priors, body.points))
    if wants_svg(request):
        return svg(benefit_chart(report.model_dump(), corrected=body.priors is not None))
    content = report.model_dump_json(by_alias=True, exclude={"model"} if model is None else None)
    return Response(content, media_type=JSON, headers={"Vary": "Accept"})
