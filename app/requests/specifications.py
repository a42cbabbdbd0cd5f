"""What a job is to do, as the queue stores it: typed when it is written and when it is read."""

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from app.requests.costs import parse_prices
from app.requests.matrices import matrices_of_cases
from payoff.acquisition.prices import Prices
from payoff.decisions.case_benefits import Columns

HOLDOUT = 0.25
FOLDS = 5
SEED = 0
_STAKES = {"classes", "benefits", "case_benefits", "actions", "feature_costs", "unit"}
_SETTINGS = {"holdout", "split", "refit", "folds", "seed", "forms"}


class Spec(BaseModel):
    """A frozen document; an unknown field is an error, since without it the job would do something
    else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    def requested(self) -> dict[str, Any]:
        """What a job's document shows of it: all but matrices, prices, names of classes and
        settings.
        """
        return self.model_dump(exclude=_STAKES | _SETTINGS)


class LearnerSpec(Spec):
    """A learner with all its parameters."""

    kind: str
    parameters: dict[str, Any] = {}


class SplitSpec(Spec):
    """By what rows are held out and split; `form` is how text stands for a moment."""

    by: Literal["time", "group"]
    column: str
    form: str = ""


class StakesSpec(Spec):
    """What is at stake: `benefits` (K, A) and the names of their columns, or None.

    `case_benefits` (K, A) have cells that depend on the case; the job puts their means in place of
    `benefits`.
    """

    benefits: list[list[float]] | None = None
    case_benefits: list[list[Any]] | None = None
    actions: list[str] | None = None

    @property
    def benefit_matrix(self) -> np.ndarray | None:
        """The benefits as float64 (K, A)."""
        return (
            None if self.benefits is None else np.array(self.benefits, dtype=np.float64)
        )

    def over_cases(
        self, columns: Columns, weights: np.ndarray
    ) -> tuple[Self, np.ndarray | None]:
        """The specification with the mean of `case_benefits` over rows with these columns (n,) and
        weights (n,) as its `benefits`, and the matrices (n, K, A) of the rows; itself and None
        where no cell depends on the case.
        """
        matrices = matrices_of_cases(self.case_benefits, len(weights), columns)
        if matrices is None:
            return self, None
        means = np.average(matrices, axis=0, weights=weights)
        return self.model_copy(update={"benefits": means.tolist()}), matrices


class TrainSpec(StakesSpec):
    """What to train; `feature_costs` in the long form, or None. `split` is None for random rows."""

    model: str
    learner: LearnerSpec
    dataset: str
    feature_costs: list[dict[str, Any]] | None = None
    holdout: float = HOLDOUT
    split: SplitSpec | None = None
    refit: bool = True
    seed: int = SEED
    unit: str | None = None

    def prices(self, features: Sequence[str]) -> Prices | None:
        """The prices of these features; None where the order has none."""
        return (
            None
            if self.feature_costs is None
            else parse_prices(self.feature_costs, features)
        )


class CompareSpec(StakesSpec):
    """A comparison: by the benefits, or for learners of numbers by the costs (over, under) of a
    unit.
    """

    dataset: str
    learners: list[LearnerSpec]
    unit_costs: tuple[float, float] | None = None
    folds: int = FOLDS
    holdout: float = HOLDOUT
    split: SplitSpec | None = None
    seed: int = SEED


class ReplaySpec(Spec):
    """What to replay: decisions of `model`, of all `versions` where there are none, from `since` to
    before `until`.

    `models` are `name:version`; `rules` as requests have them, none of models that learned from
    rewards, whose `classes` are actions. `benefits` (K, A) count in place of
    the recorded ones; where cells depend on the case, `forms` say how text stands for the numbers
    of features.
    """

    model: str
    classes: list[int | str]
    versions: list[int] | None = None
    models: list[str] = []
    rules: list[dict[str, Any]] = []
    benefits: list[list[Any]] | None = None
    actions: list[str] | None = None
    forms: dict[str, str] = {}
    since: float | None = None
    until: float | None = None
