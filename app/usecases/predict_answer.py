"""What `POST /predict` answers in JSON."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, Field, RootModel

from app.usecases.fields import ModelVersion
from app.usecases.rules import Rule


class LimitAnswer(BaseModel):
    """A limit and what was used of it."""

    name: str
    used: float
    at_most: float | None = None
    at_least: float | None = None
    shadow_price: float | None = Field(description="change of the total per unit more; null where that is infeasible")


class NearestFlip(BaseModel):
    """The nearest probabilities at which another action earns as much."""

    action: int | str
    probabilities: dict[str, float]


class MatrixFlip(BaseModel):
    """The smallest change of one benefit at which another action earns as much."""

    class_: int | str = Field(alias="class")
    action: int | str
    change: float = Field(description="to be added to the benefit of this action for this class")


class ContributionTarget(BaseModel):
    """The score that a base value and contributions add up to."""

    class_: int | str = Field(alias="class", description="the second of two classes, else the most probable one")
    score: Literal["log_odds", "log_ratio", "probability"] = Field(
        description="log_odds of the class against the others; log_ratio: the log of its probability less the mean log"
        " of all classes; or its probability"
    )
    calibrated: bool = Field(description="whether it is the calibrated score, or that before the calibration")


class Explanation(BaseModel):
    """What would change a decision; by a model, also what the features contribute to it."""

    runner_up: int | str
    margin: float = Field(description="expected benefit of the decision less that of the runner-up")
    flips_at: NearestFlip | None = Field(description="null where the decision is the same at all probabilities")
    matrix_flip: MatrixFlip
    contributions: dict[str, float] | None = Field(
        default=None, description="by feature; absent where the model has none, or for too many instances"
    )
    base_value: float | None = Field(default=None, description="the score without any feature")
    contributions_to: ContributionTarget | None = None


class DecisionsAnswer(BaseModel):
    """Columns with one entry per instance; `expected_benefits` has a column per action."""

    model: ModelVersion | None = Field(default=None, description="absent where the request sent probabilities")
    ids: list[int | float | str | None] | None = Field(
        default=None, description="with `ids`, `id` or `record`, in the order of the instances"
    )
    kept: dict[str, list[Any]] | None = Field(default=None, description="with `keep`: the columns that were named")
    rule: Rule
    classes: list[int | str]
    actions: list[int | str]
    decisions: list[int | str]
    probabilities: list[list[float]]
    expected_benefits: list[list[float]] | None = None
    threshold: float | None = Field(default=None, description="where the second action begins (rules with a threshold)")
    beta: float | None = None
    delta: float | None = None
    limits: list[LimitAnswer] | None = Field(default=None, description="with `limits` or `resources`")
    total: float | None = Field(default=None, description="sum of the expected benefits of the decisions")
    unlimited_total: float | None = Field(default=None, description="the same without limits")
    gap: float | None = Field(default=None, description="by how much at most other decisions earn more; 0: none do")
    propensities: list[float] | None = Field(default=None, description="with `explore`: the chance of each decision")
    explanations: list[Explanation] | None = Field(default=None, description="with `explain`: one for each instance")
    warnings: list[str]


class ValuesAnswer(BaseModel):
    """What a model of numbers (regression) predicts."""

    model: ModelVersion
    ids: list[int | float | str | None] | None = Field(default=None, description="with `ids` or `id`")
    kept: dict[str, list[Any]] | None = Field(default=None, description="with `keep`")
    values: list[float] = Field(description="one for each instance")
    warnings: list[str]


class PredictAnswer(RootModel[DecisionsAnswer | ValuesAnswer]):
    """Decisions by a model of classes, `values` by one of numbers."""
