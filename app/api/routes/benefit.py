"""`POST /models/{ref}/benefit` and `POST /benefit`: what a benefit matrix would have earned on rows
with a truth.
"""

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Request, Response

from app.access.caller import Scope
from app.answering import benefit as usecase
from app.answering.benefit import BenefitReport, BenefitRequest, GivenBenefitRequest
from app.answering.guarantees import check_evaluated
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

router = APIRouter(tags=["models"], route_class=StrictRoute)


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
        BenefitRequest, Body(openapi_examples={"two actions": {"value": _EXAMPLE}})
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
    request: Request, model: Loaded, body: BenefitRequest, by: str | None
) -> Response:
    if body.guarantee is not None:
        check_evaluated(model)
    rows = usecase.evidence_of(model)
    service: Service = request.app.state.service
    body = with_saved(service.stores, body, model.name, model.classes)
    # Many such reports together reveal the values of the columns.
    if body.case_columns or by is not None:
        caller_of(request).need(frozenset({Scope.TRAIN}))
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
