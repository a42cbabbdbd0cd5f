"""`POST /models/{ref}/benefit` and `POST /benefit`: what a benefit matrix would have earned on rows
with a truth.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path, Query, Request, Response
from pydantic import BaseModel, Field

from app.access.caller import Scope
from app.answering import benefit as usecase
from app.answering.benefit import (
    BenefitRequest,
    GivenBenefitRequest,
    ModelBenefitRequest,
    Source,
)
from app.answering.guarantees import CertifiedRule
from app.answering.new_rows import evidence_for
from app.answering.standings import ContenderResult, Lead
from app.api.bodies import with_matrix
from app.api.charts import SVG_CONTENT, benefit_chart, svg, wants_svg
from app.api.codecs.media_types import JSON
from app.api.errors import problems
from app.api.exchange import caller_of, charge_of
from app.api.gate import PREDICT_OR_TRAIN, needs
from app.api.limiters import limiters, loaded_by_path
from app.api.routing import StrictRoute
from app.api.service import Service
from app.registry.loaded import Loaded
from app.requests.fields import ModelVersion, Text
from app.requests.labelled_rows import as_probabilities
from app.requests.saved_matrices import with_saved
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE
from payoff.decisions.rules import RuleName

router = APIRouter(tags=["models"], route_class=StrictRoute)


class EarningDocument(BaseModel):
    """What one rule earned per row, and how often each class (row) met each action (column)."""

    benefit: float
    mu: float | None = Field(
        description="benefit / upper_bound; null where the bound is not positive"
    )
    confusion: list[list[int]]


class CurvePoint(BaseModel):
    """The mean benefit at one threshold."""

    threshold: float
    benefit: float


class CalibrationPoint(BaseModel):
    """How often the second of two classes, of more the most probable one, occurred among rows of
    about the same probability.
    """

    rows: int
    stated: float = Field(description="mean probability")
    occurred: float = Field(description="share of the rows")
    interval: tuple[float, float] = Field(description="95 %, of the share")


class RuleResult(ContenderResult):
    """What one rule earned, its own figures, and how to ask for it."""

    figures: dict[str, int | float | None] = Field(
        description="the rule's threshold, or the column of the action for all;"
        " null where undefined"
    )
    request: dict[str, Any] | None = Field(
        description="the fields that ask `/predict` for this rule, beside benefits;"
        " null where none do"
    )


class RuleLead(Lead):
    """The rule that earned most."""

    rule: RuleName
    same: list[RuleName] = Field(description="rules that earned the same on every row")
    runner_up: RuleName | None


class BenefitReport(EarningDocument):
    """The best that the scores allow with one threshold (two classes, two actions), else the
    expected-benefit rule.
    """

    model: ModelVersion | None = Field(
        default=None, description="absent where the request sent probabilities"
    )
    classes: list[int | str]
    actions: list[str] | None = Field(
        description="names of the columns; null where the matrix had none"
    )
    matrix_in_words: list[str] = Field(
        description="what the benefits mean, such as `ill: wait costs 10, treat brings 5`, for each"
        " class; empty for a large matrix"
    )
    rows: int = Field(description="that were evaluated")
    evaluation: Source = Field(
        description="of the model on rows that it did not see, or of the probabilities in the"
        " request"
    )
    rows_in_words: str | None = Field(
        description="which rows these are; null for those of the request"
    )
    groups: int | None = Field(
        description="of the rows, where they were held out by group: intervals count these"
    )
    priors: dict[str, float] = Field(description="weight of each class")
    upper_bound: float = Field(
        description="mean benefit of someone who knows every class"
    )
    threshold: float | None = Field(
        default=None, description="the best cut on the hold-out's scores"
    )
    posterior_threshold: float | None = Field(
        default=None, description="the cut t* that the matrix alone gives"
    )
    curve: list[CurvePoint] | None = Field(
        default=None, description="the decision curve B(t)"
    )
    calibration_curve: list[CalibrationPoint] = Field(
        description="of the probabilities as they are, in at most ten bins of about as many rows"
    )
    expected_benefit: EarningDocument
    cost_blind: EarningDocument = Field(description="acting on the most probable class")
    rules: list[RuleResult] = Field(
        description="every rule that the matrix allows, and the best action for all"
    )
    best: RuleLead
    guarantee: CertifiedRule | None = Field(
        default=None, description="with `guarantee`"
    )
    segments: list[dict[str, Any]] | None = Field(
        default=None,
        description="with `by`: for each value of the column, of at least"
        f" {MIN_ROWS_TO_COMPARE} rows, else `other`, what decisions by expected benefit promise"
        " and earn, with the share of each action, and by how much more often classes occurred"
        " than their probabilities said (the second of two, else the most probable)",
    )
    warnings: list[str]


_EXAMPLE = {
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
    "points": 20,
}


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
    ref: Annotated[
        str, Path(openapi_examples={"the model above": {"value": "triage"}})
    ],
    body: Annotated[
        ModelBenefitRequest,
        Body(openapi_examples={"two actions": {"value": _EXAMPLE}}),
    ],
    request: Request,
    by: Annotated[
        Text | None,
        Query(description="a column of few words, in training or left out of it"),
    ] = None,
) -> Response:
    """For two classes and two actions: the best threshold, the bound, mu and the curve B(t); for
    any others the same without thresholds; always beside what acting on the most probable class
    would have earned.

    `rules` has every rule that a matrix is enough for with a bootstrap interval: thresholds for two
    classes and two actions, and last same_for_all, the one action that earns most without a model.
    The top-level threshold is the best one ON these rows, so what it earns flatters it;
    `threshold_holdout` among the rules is cross-validated within the hold-out. `best` says whether
    its lead is more than noise: whether the paired bootstrap's interval of the difference to the
    runner-up excludes 0, the two earned differently on 30 rows at least, and each class in which
    they can differ has 30 rows.

    With `Accept: image/svg+xml` the answer is a chart.
    """
    model = await loaded_by_path(request, ref)
    return await limiters(request).long.run(request, _answer, request, model, body, by)


@router.post(
    "/benefit",
    summary="What a benefit matrix would have earned with these probabilities",
    response_model=BenefitReport,
    responses={200: {"content": SVG_CONTENT}, **problems(413, 415, 422, 503)},
)
@needs(PREDICT_OR_TRAIN)
async def benefit(
    body: Annotated[
        GivenBenefitRequest, Body(openapi_examples={"four cases": {"value": _GIVEN}})
    ],
    request: Request,
) -> Response:
    """The report of `/models/{ref}/benefit` for the probabilities of any system, and the true
    classes.
    """
    return await limiters(request).long.run(
        request, _answer_with_probabilities, request, body
    )


def _answer(
    request: Request, model: Loaded, body: ModelBenefitRequest, by: str | None
) -> Response:
    service: Service = request.app.state.service
    caller = caller_of(request)
    charge = charge_of(request)
    rows = evidence_for(
        service.stores,
        model,
        body.dataset,
        body.guarantee,
        caller=caller,
        charge=charge,
    )
    body = with_saved(service.stores, body, model.name, model.classes)
    # Many such reports together reveal the values of the columns.
    if body.case_columns or by is not None:
        caller.need(frozenset({Scope.TRAIN}))
    return with_matrix(_report(request, rows, body, model, by), body)


def _answer_with_probabilities(request: Request, body: GivenBenefitRequest) -> Response:
    P = as_probabilities(body.probabilities, body.classes)
    return _report(request, usecase.evidence_of_request(body, P), body)


def _report(
    request: Request,
    rows: usecase.Evidence,
    body: BenefitRequest,
    model: Loaded | None = None,
    by: str | None = None,
) -> Response:
    charge_of(request)(usecase.extent(len(rows.y), len(rows.classes), body))
    version = None if model is None else ModelVersion(**model.named)
    report = BenefitReport(
        model=version,
        **usecase.report(rows, body, body.priors, body.points, body.guarantee, by),
    )
    if wants_svg(request):
        return svg(
            benefit_chart(report.model_dump(), corrected=body.priors is not None)
        )
    content = report.model_dump_json(
        by_alias=True, exclude={"model"} if model is None else None
    )
    return Response(content, media_type=JSON, headers={"Vary": "Accept"})
