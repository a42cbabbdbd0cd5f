"""Comparisons of learners and rules over HTTP."""

from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel, Field

from app.answering.standings import ContenderResult, Lead
from app.api.gate import TRAIN, needs
from app.api.jobs import JobState, Order, ordering, starting
from app.api.routing import StrictRoute
from app.requests.datasets import EXAMPLE_ID
from app.training import compare as usecase
from app.training.compare import CompareRequest
from payoff.decisions.rules import RuleName

router = APIRouter(prefix="/compare", tags=["compare"], route_class=StrictRoute)


class Contender(BaseModel):
    """A learner with a rule."""

    learner: str | None = Field(description="null for `same_for_all`, which needs none")
    rule: RuleName


class ComparedContender(ContenderResult, Contender):
    """A row of the table."""


class CompareLead(Lead, Contender):
    """Who earned most."""

    same: list[Contender] = Field(description="who earned the same on every row")
    runner_up: Contender | None


class ComparedLearner(BaseModel):
    """A learner as it was compared."""

    name: str = Field(
        description="its kind, and the parameters that are not the defaults"
    )
    kind: str
    parameters: dict[str, Any]
    fit_seconds: float | None = Field(
        description="mean of the folds; null where it failed"
    )
    converged: list[bool] | None = Field(
        default=None,
        description="whether the fit on each fold's rows did; null where that is no question",
    )
    error: str | None = Field(
        default=None,
        description="why it could not be fitted, and has no rows in the table",
    )


class SameForAll(BaseModel):
    """The best that can be had without a model: one action for every row."""

    action: int | float = Field(description="its column, or the quantity")
    benefit: float


class Comparison(BaseModel):
    """What every learner earned with every rule, on the same rows, none of which its model was
    fitted on.
    """

    dataset: str
    classes: list[int | str]
    rows: int
    rows_in_words: str = Field(description="which rows of the data set these are")
    groups: int | None = Field(
        description="of the rows, where folds have whole groups: intervals count these"
    )
    upper_bound: float = Field(
        description="mean benefit of someone who knows every class"
    )
    table: list[ComparedContender]
    best: CompareLead
    same_for_all: SameForAll
    learners: list[ComparedLearner]
    warnings: list[str]


class CompareDocument(JobState):
    """A comparison, as it stands."""

    result: Comparison | None = Field(description="once it has succeeded")


_EXAMPLE = {
    "dataset": EXAMPLE_ID,
    "learners": [{"kind": "logistic"}, {"kind": "cost_naive_bayes"}],
    "benefits": {
        "healthy": {"healthy": 0, "ill": -1},
        "ill": {"healthy": -10, "ill": 5},
    },
    "folds": 3,
}


@router.post(
    "",
    summary="Start a job that compares learners and rules",
    **starting(CompareDocument, 404, 413, 422),
)
@needs(TRAIN)
async def compare(
    body: Annotated[
        CompareRequest,
        Body(openapi_examples={"the data set above": {"value": _EXAMPLE}}),
    ],
    job_of: Annotated[Order, ordering("docs-comparison")],
) -> CompareDocument:
    """Every learner is fitted on the same folds, and every rule that the benefits allow decides the
    rows outside.

    A learner that cannot be fitted is listed with its `error`, and the others are compared; the job
    fails where none is left. The best action for all, which needs no model, is the table's last
    row. `POST /benefit` compares the rules on the probabilities of another system.
    """
    return CompareDocument.of(await job_of(usecase.submit, body))
