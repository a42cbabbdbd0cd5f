"""`POST /models/{ref}/benefit`: what a benefit matrix would have earned on a version's hold-out."""

from __future__ import annotations

from typing import Annotated, Self

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, Field

from app.api.deps import PortsDep
from app.api.errors import problems
from app.api.wire import ModelVersion, StrictRoute, WireModel
from app.registry.loaded import Loaded
from app.usecases import benefit as usecase

router = APIRouter(prefix="/models", tags=["models"], route_class=StrictRoute)


class BenefitRequest(WireModel):
    """What is at stake."""

    benefits: list[list[Annotated[float, Field(strict=True)]]] = Field(
        description="a row per actual class, a column per action", examples=[[[0, -1], [-10, 5]]]
    )
    priors: dict[str, Annotated[float, Field(strict=True)]] | None = Field(
        default=None, description="class priors where the model is used; by default those of the hold-out"
    )
    points: int = Field(default=200, ge=2, le=10_000, strict=True, description="of the curve")


class EarningDocument(BaseModel):
    """What one rule earned per row, and how often each class (row) met each action (column)."""

    benefit: float
    mu: float | None = Field(description="benefit / upper_bound; null where the bound is not positive")
    confusion: list[list[int]]

    @classmethod
    def of(cls, earning: usecase.Earning) -> Self:
        return cls(benefit=earning.benefit, mu=earning.mu, confusion=earning.confusion.tolist())


class CurvePoint(BaseModel):
    """The mean benefit at one threshold."""

    threshold: float
    benefit: float


class BenefitReport(EarningDocument):
    """The best that the scores allow with one threshold (two classes, two actions), else the expected-benefit rule."""

    model: ModelVersion
    classes: list[int | str]
    rows: int = Field(description="of the hold-out")
    priors: dict[str, float] = Field(description="what each class weighs here")
    upper_bound: float = Field(description="mean benefit of someone who knows every class")
    threshold: float | None = Field(default=None, description="the best cut on the hold-out's scores")
    posterior_threshold: float | None = Field(default=None, description="the cut t* that the matrix alone gives")
    curve: list[CurvePoint] | None = None
    expected_benefit: EarningDocument
    cost_blind: EarningDocument = Field(description="acting on the most probable class")
    warnings: list[str]

    @classmethod
    def about(cls, model: Loaded, report: usecase.Report) -> Self:
        cutting = report.cutting
        earned = EarningDocument.of(cutting.earning if cutting else report.expected_benefit)
        return cls(
            **earned.model_dump(),
            model=ModelVersion(name=model.name, version=model.version),
            classes=list(model.classes),
            rows=report.rows,
            priors=dict(zip(map(str, model.classes), report.priors.tolist(), strict=True)),
            upper_bound=report.upper_bound,
            threshold=cutting and cutting.threshold,
            posterior_threshold=cutting and cutting.posterior_threshold,
            curve=cutting and [CurvePoint(threshold=t, benefit=value) for t, value in cutting.curve],
            expected_benefit=EarningDocument.of(report.expected_benefit),
            cost_blind=EarningDocument.of(report.cost_blind),
            warnings=report.warnings,
        )


_EXAMPLE = {"benefits": [[0, -1], [-10, 5]], "points": 20}


@router.post(
    "/{ref}/benefit",
    summary="What a benefit matrix would have earned on the hold-out",
    responses=problems(404, 409, 422),
)
def benefit(
    ref: Annotated[str, Path(openapi_examples={"the model above": {"value": "triage"}})],
    body: Annotated[BenefitRequest, Body(openapi_examples={"two actions": {"value": _EXAMPLE}})],
    ports: PortsDep,
) -> BenefitReport:
    """For two classes and two actions: the best threshold, the bound, mu and the curve B(t); for any others the same
    without thresholds; always beside what acting on the most probable class would have earned.
    """
    model = ports.registry.load(ref)
    return BenefitReport.about(model, usecase.report(model, body.benefits, body.priors, body.points))
