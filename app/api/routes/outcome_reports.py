"""`GET /models/{ref}/outcomes`: the benefits of recorded decisions, against those expected."""

from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from pydantic import BaseModel, Field, TypeAdapter

from app.api.codecs.media_types import JSON
from app.api.dependencies import only_own_models
from app.api.errors import problems
from app.api.gate import TRAIN, needs
from app.api.routing import StrictRoute
from app.api.service import Service
from app.registry.card import NAME
from app.registry.snapshot import NUMBER
from app.report.amounts import Amount, Earned, Gain, Maturing, Selective, Versus
from app.report.guarantees import KeptGuarantee
from app.report.report import By, report
from app.requests.fields import Period
from app.stores import Stores

router = APIRouter(
    prefix="/models",
    tags=["models"],
    route_class=StrictRoute,
    dependencies=[Depends(only_own_models)],
)

Verdict = Literal["within_10_percent", "over_promises", "under_promises", "undecided"]


class Overrides(Gain):
    """Other actions that were really taken, less the decisions."""

    right: Literal["people", "decisions", "undecided"]
    reason: str | None = Field(description="why it is undecided who was right")


class Realised(Amount, Earned):
    """What was earned, with an interval of the mean."""


class Difference(Amount):
    """What the decisions earn by their matrix, less what was expected of them."""

    cases: int
    reason: str | None = Field(description="why there is no interval")
    p_value: float | None = Field(
        description="of the difference being 0; null without an interval"
    )
    dispersion: float | None = Field(description="observed over promised variance")
    day_inflation: float | None = Field(
        description="variance by the sums of days, over that of independent cases; null: of one day"
    )
    tolerance: float | None = Field(
        description="a tenth of the mean absolute expected benefit;"
        " `within_10_percent` excludes more"
    )


class Earnings(BaseModel):
    """Decisions, and what became of them."""

    promised: Earned = Field(
        description="of those with known truth, which `realised` is to be compared with"
    )
    realised: Realised
    difference: Difference
    verdict: Verdict
    decisions: int
    known: int = Field(description="decisions whose truth is known")
    coverage: float | None
    expected: Earned = Field(description="of all decisions")


class ActionShare(BaseModel):
    """How often a group had an action."""

    action: str | int
    share: float
    interval: tuple[float, float] = Field(description="95 %, of the share")


class Calibrated(Amount):
    """By how much more often classes occurred than their probabilities said, with known truth: the
    second of two classes, of more the most probable one of each decision.
    """

    stated: float | None = Field(description="mean of the probabilities")
    occurred: float | None
    p_value: float | None
    adjusted_p_value: float | None = Field(description="corrected as of the difference")
    reason: str | None = Field(description="why there is no interval")


class Group(Earnings):
    """What decisions of a day, a week (its Monday), an action, a version, a key or a segment
    earned; `other` are segments of few decisions, null those without the segment.
    """

    actions: list[ActionShare]
    calibration: Calibrated

    group: str | int | None
    adjusted_p_value: float | None = Field(
        description="of the difference being 0, corrected for the number of groups (Holm);"
        " null without an interval"
    )


class Challenger(Versus):
    """A version that decided in the background."""

    challenger: str = Field(examples=["triage:2"])
    cases: int
    differing: int = Field(description="cases in which it decided otherwise")
    gain: Amount


class QuantityReport(BaseModel):
    """What recorded quantities cost, or rewards brought; of a model without other decisions."""

    model: dict[str, Any] = Field(description="`name`, and `version`, null for all")
    since: datetime | None
    until: datetime | None
    maturing: Maturing
    quantities: dict[str, Any] | None = Field(
        description="expected and realised cost, and the share of numbers within their intervals;"
        " null without any"
    )
    rewards: dict[str, Any] | None = Field(
        default=None,
        description="of decisions by rewards: promised and realised, also by `groups`; less costs"
        " the `policy` without exploration beside the log and single actions, and `challengers`;"
        " null without any",
    )
    warnings: list[str]


class OutcomeReport(QuantityReport, Earnings):
    """What recorded decisions earned, against what was expected of them."""

    advice: list[str] = Field(description="what to do about what the report found")
    by: By | None
    selective: Selective
    bounds: dict[str, Any] = Field(description="of all decisions, known or not")
    exploration: dict[str, Any] | None = Field(
        description="estimates by recorded propensities; null without any"
    )
    alternatives: dict[str, Any] | None = Field(
        description="what else would have been earned on the same cases"
    )
    overrides: Overrides
    told_benefits: Gain = Field(description="benefits told, less those of the matrix")
    priors: dict[str, Any] = Field(
        description="classes that occurred against those of training"
    )
    drift: dict[str, list[dict[str, Any]]] = Field(description="of scores and features")
    shadow: list[Challenger] = Field(
        description="challengers against what was decided, by confidence sequences"
    )
    guarantees: list[KeptGuarantee] = Field(description="those in use")
    groups: list[Group] | None
    series: dict[str, list[Any]] | None = Field(
        default=None,
        description="with `series`, columns: `day`, and up to it `promised` and `realised` added"
        " up, with the band of its interval from `low` to `high`",
    )


_REPORT: TypeAdapter[OutcomeReport | QuantityReport] = TypeAdapter(
    OutcomeReport | QuantityReport
)


class ReportQuery(Period):
    """Which decisions."""

    by: By | None = Field(default=None, description="also in groups")
    series: bool = Field(default=False, description="also added up by day")


@router.get(
    "/{ref}/outcomes",
    summary="What recorded decisions earned, against what was expected of them",
    response_model=OutcomeReport | QuantityReport,
    responses=problems(404, 413, 422, 503),
)
@needs(TRAIN)
async def outcome_report(
    ref: Annotated[
        str,
        Path(
            pattern=f"^{NAME}(:{NUMBER}|@{NAME})?$",
            description="`name` is all versions",
            examples=["triage"],
        ),
    ],
    request: Request,
    query: Annotated[ReportQuery, Query()],
) -> Response:
    """Realised against expected benefit, with an interval that holds for rare large losses, and a
    verdict; what other ways to decide would have earned on the same cases; whether classes, scores
    and features have changed; who was right where a person decided otherwise.

    Where truth is known more often after some actions, `selective` says so, and every amount names
    its `basis`.
    """
    service: Service = request.app.state.service
    content = await service.limiters.long.run(
        request, _content, service.stores, ref, query
    )
    return Response(content, media_type=JSON)


def _content(stores: Stores, ref: str, query: ReportQuery) -> bytes:
    document = report(
        stores,
        ref,
        since=query.since,
        until=query.until,
        by=query.by,
        series=query.series,
    )
    return _REPORT.dump_json(_REPORT.validate_python(document), by_alias=True)
