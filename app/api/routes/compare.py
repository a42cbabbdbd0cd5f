"""Comparisons of learners and rules over HTTP."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body
from pydantic import BaseModel, Field, StrictBool, StrictInt, WithJsonSchema

from app.api.bodies.rankings import ContenderResult, Lead
from app.api.errors import problems
from app.api.jobs import JobState, Order, accepted_response, ordering
from app.api.permits import TRAIN, needs
from app.api.routes.datasets import EXAMPLE_ID
from app.api.routes.train import Learner
from app.api.routing import StrictRoute
from app.decisions.rules import RuleName
from app.errors import Flaw, Invalid, pointer, reject
from app.usecases import compare as usecase
from app.usecases.fields import PROBABILITIES, ClassNames, Text
from app.usecases.matrices import MatrixFields
from app.usecases.specs import FOLDS, SEED

router = APIRouter(prefix="/compare", tags=["compare"], route_class=StrictRoute)


class CompareRequest(MatrixFields):
    """What to compare, on what, and what is at stake."""

    dataset: Text | None = Field(default=None, examples=[EXAMPLE_ID], description="with `learners`")
    learners: Annotated[list[Learner], Field(min_length=1, max_length=20)] | None = Field(
        default=None, description="or `probabilities`, of which the rules alone are compared"
    )
    probabilities: Annotated[Any, WithJsonSchema(PROBABILITIES)] = Field(
        default=None,
        description="in place of data set and learners: a row per instance, a column for each of `classes`",
    )
    classes: ClassNames | None = Field(default=None, description="with `probabilities`")
    labels: Annotated[list[StrictInt | Text] | None, Field(fail_fast=True)] = Field(
        default=None, description="with `probabilities`: the true class of each row"
    )
    normalize: StrictBool = Field(default=False, description="with `probabilities`: divide each row by its sum")
    folds: int = Field(
        default=FOLDS, ge=2, le=20, strict=True, description="each is evaluated by models fitted on the others"
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)

    def order(self) -> dict[str, Any]:
        """The order; Invalid unless it has a data set and learners, or probabilities, classes and labels."""
        forms = ("dataset", "learners"), ("probabilities", "classes", "labels")
        needed, others = forms if self.probabilities is None else forms[::-1]
        reject(Flaw(pointer(name), f"{name!r} is required") for name in needed if getattr(self, name) is None)
        either = "send 'dataset' and 'learners', or 'probabilities', 'classes' and 'labels', not both"
        reject(Flaw(pointer(name), either) for name in others if getattr(self, name) is not None)
        if self.normalize and self.probabilities is None:
            raise Invalid.at("/normalize", "this goes with 'probabilities'")
        return dict(self) | {"matrix": self}


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

    name: str = Field(description="its kind, and the parameters that are not the defaults")
    kind: str
    parameters: dict[str, Any]
    fit_seconds: float | None = Field(description="mean of the folds; null where it failed")
    converged: list[bool] | None = Field(
        default=None, description="whether the fit on each fold's rows did; null where that is no question"
    )
    error: str | None = Field(default=None, description="why it could not be fitted, and has no rows in the table")


class SameForAll(BaseModel):
    """The best that can be had without a model: one action for every row."""

    action: int = Field(description="its column")
    benefit: float


class Comparison(BaseModel):
    """What every learner earned with every rule, on the same rows, none of which its model was fitted on."""

    dataset: str
    classes: list[int | str]
    rows: int
    upper_bound: float = Field(description="mean benefit of someone who knows every class")
    table: list[ComparedContender]
    best: CompareLead
    same_for_all: SameForAll
    learners: list[ComparedLearner]
    warnings: list[str]


class CompareDocument(JobState):
    """A comparison, as it stands."""

    result: Comparison | None = Field(description="once it has succeeded")


EXAMPLE_KEY = "docs-comparison"
_EXAMPLE = {
    "dataset": EXAMPLE_ID,
    "learners": [{"kind": "logistic"}, {"kind": "cost_naive_bayes"}],
    "benefits": [[0, -1], [-10, 5]],
    "folds": 3,
}


@router.post(
    "",
    summary="Start a job that compares learners and rules",
    status_code=202,
    response_model=CompareDocument,
    responses={**accepted_response(CompareDocument), **problems(404, 413, 422)},
)
@needs(TRAIN)
async def compare(
    body: Annotated[CompareRequest, Body(openapi_examples={"the data set above": {"value": _EXAMPLE}})],
    job_of: Annotated[Order, ordering(EXAMPLE_KEY)],
) -> CompareDocument:
    """Every learner is fitted on the same folds, and every rule that the benefits allow decides the rows outside.

    A learner that cannot be fitted is listed with its `error`, and the others are compared; the job fails where none is
    left. The best action for all, which needs no model, is the table's last row. With `probabilities`,
    `classes` and `labels` in place of `dataset` and `learners`, the rules are compared on those of another system.
    """
    return CompareDocument.of(await job_of(usecase.submit, body.order()))
