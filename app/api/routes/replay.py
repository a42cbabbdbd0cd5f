"""Jobs that replay recorded decisions, over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Body, Path
from pydantic import BaseModel, Field

from app.api.dependencies import CallerDep
from app.api.gate import TRAIN, needs
from app.api.jobs import JobState, Order, ordering, starting
from app.api.routing import StrictRoute
from app.report import replay as usecase
from app.report.amounts import (
    Amount,
    Bounds,
    Earned,
    Gain,
    Maturing,
    Selective,
    Versus,
)

router = APIRouter(tags=["outcomes"], route_class=StrictRoute)


class ReplayedAlternative(Versus):
    """What an alternative would have earned where the truth is known, beside what was done in the
    same cases.
    """

    model: str | None = Field(description="null: the recorded probabilities")
    rule: dict[str, Any]
    cases: int = Field(description="that it decided")
    known: int = Field(description="those of them whose truth is known")
    error: str | None = Field(default=None, description="why it has no figures")
    basis: str | None = Field(
        default=None, description="the cases that mean and total are about"
    )
    mean: float | None = None
    total: float | None = None
    done: Earned | None = Field(
        default=None, description="what was done, by the matrix"
    )
    difference: Gain | None = Field(
        default=None, description="to what was done; its interval is for this one alone"
    )
    bounds: Bounds | None = Field(
        default=None, description="of the mean difference over all cases"
    )
    adjusted_p_value: float | None = Field(
        default=None, description="corrected for the number of alternatives (Holm)"
    )


class ReplayedPolicy(Versus):
    """What a version that learned from rewards would have earned, less costs; `gain` and `verdict`
    are beside all that was decided.
    """

    model: str
    cases: int = Field(description="with a known reward, that it decided")
    left_out: dict[str, int] = Field(
        description="cases `without_instance`, and those that its data set was made of"
        " (`learned_from`)"
    )
    error: str | None = Field(default=None, description="why it has no figures")
    value: Amount | None = None
    gain: Amount | None = None
    effective: float | None = Field(
        default=None, description="cases of equal weight that say as much"
    )
    expected_effective: float | None = Field(
        default=None, description="those that the chances promise"
    )
    best_single: dict[str, Any] | None = Field(
        default=None,
        description="the `action` for all that would have earned most, and the `gain` over it",
    )
    over_policy: dict[str, Any] | None = Field(
        default=None,
        description="the gain over the recorded decisions without exploration, with a `verdict`;"
        " `differing` are cases in which it chose another action",
    )


class Replayed(BaseModel):
    """What others would have earned on recorded decisions."""

    model: str
    versions: list[int] | None = Field(description="null: all")
    decisions: int
    known: int
    left_out: dict[str, int] = Field(
        description="decisions that cannot be compared, by the reason"
    )
    maturing: Maturing
    selective: Selective
    alternatives: list[ReplayedAlternative | ReplayedPolicy]
    warnings: list[str]


class ReplayDocument(JobState):
    """A replay, as it stands."""

    result: Replayed | None = Field(description="once it has succeeded")


_EXAMPLE = {
    "models": ["triage:1"],
    "rules": [{"rule": "expected_benefit"}, {"rule": "most_probable"}],
}


@router.post(
    "/models/{ref}/replay",
    summary="Start a job that says what others would have earned on recorded decisions",
    **starting(ReplayDocument, 404, 413, 422),
)
@needs(TRAIN)
async def replay(
    ref: Annotated[
        str, Path(openapi_examples={"the model above": {"value": "triage"}})
    ],
    body: Annotated[
        usecase.ReplayRequest,
        Body(openapi_examples={"a version, and two rules": {"value": _EXAMPLE}}),
    ],
    job_of: Annotated[Order, ordering("docs-replay")],
    caller: CallerDep,
) -> ReplayDocument:
    """Other versions decide on the recorded instances, other rules on the recorded probabilities;
    each is paired with what was done. `benefits` decide and count in place of those of each
    request. Versions that learned from rewards take `models` alone.

    The interval of a difference is that of the report's gains. Where the truth is known more often
    after some actions than after others, the figures say so, and only `bounds` that exclude 0 make
    a verdict.
    """
    caller.need_model(ref)
    return ReplayDocument.of(await job_of(usecase.submit, ref, body))
