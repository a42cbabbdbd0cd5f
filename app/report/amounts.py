"""Parts of the documents of reports and of replays: amounts, verdicts, selection and maturity."""

from datetime import date
from typing import Literal

from pydantic import BaseModel, Field


class Basis(BaseModel):
    """The cases that an amount is about."""

    basis: str = Field(
        description="the decisions that it is about, and what it takes for granted"
    )


class Amount(Basis):
    """A mean benefit per decision with an interval; null where there is none."""

    mean: float | None
    low: float | None = None
    high: float | None = None
    level: float = Field(description="of the interval", examples=[0.95])


class Gain(Amount):
    """A mean difference to what the decisions earned on the same cases."""

    cases: int
    differing: int = Field(
        description="cases in which it is not 0; an interval needs 30, and 30 of each class in"
        " which the two can differ"
    )


class Earned(Basis):
    """What was earned, or would have been; or what was expected. `cases` have a benefit matrix."""

    mean: float | None = Field(description="null without any case")
    total: float
    cases: int


class Bounds(Basis):
    """Between which means a mean is, whatever the unknown truths are."""

    low: float
    high: float


class Versus(BaseModel):
    """Whether something is better than what was decided."""

    verdict: (
        Literal["better", "worse", "same", "undecided", "cannot_be_judged"] | None
    ) = Field(
        default=None, description="`cannot_be_judged` is of decisions by rewards alone"
    )
    reason: str | None = Field(default=None, description="why it is undecided")


class ActionCoverage(BaseModel):
    """How often the truth is known after an action."""

    action: str | int
    decisions: int
    known: int
    coverage: float


class Selective(BaseModel):
    """Whether truth is known more often after some actions than after others."""

    is_: bool = Field(alias="is")
    p_value: float | None
    actions: list[ActionCoverage]


class Maturing(BaseModel):
    """Truths that are not used yet, as many of the same days are still to come."""

    since: date | None = Field(description="the first of these days; null: none")
    known_left_out: int = Field(description="truths of these days that are known")
    lags_by_class_differ: bool | None = Field(
        description="some classes become known later than others; null: nothing shows it"
    )
    p_value: float | None
    reason: str | None = Field(
        description="why no day can be called mature, and all verdicts are open"
    )
