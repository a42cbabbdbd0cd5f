"""What `auto` tries, and what it reports of each candidate."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from payoff.decisions.benefit import LARGEST
from payoff.learners.base import Learner
from payoff.learners.budget_forest import BudgetForest
from payoff.learners.cost_naive_bayes import CostNaiveBayes
from payoff.learners.forest_chain import ForestChain
from payoff.learners.gradient_boosting import GradientBoosting
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic
from payoff.learners.random_forest import FreeForest, RandomForest
from payoff.learners.ridge import Ridge
from payoff.stored import Stored

CANDIDATES: dict[type[Learner], float] = {
    CostNaiveBayes: 1e-6,
    Logistic: 2e-6,
    RandomForest: 2e-5,
    GradientBoosting: 2e-5,
    KernelLogistic: 3e-5,
}
"""The candidates in the order in which they are tried, the quick ones first.

With the seconds of work for each number of the table and fit: an estimate, so that a busy machine
tries the same candidates as an idle one.
"""
REGRESSORS: dict[type[Learner], float] = {
    Ridge: 4e-6,
    RandomForest: 1e-4,
    GradientBoosting: 4e-5,
}
"""The candidates where labels are numbers."""
PRICED_CANDIDATES: dict[str, tuple[Learner, float]] = {
    learner.name: (learner, seconds)
    for learner, seconds in (
        (ForestChain(), 6e-5),
        (RandomForest(n_estimators=40, max_features=None), 6e-5),
        (BudgetForest(), 4e-5),
        (FreeForest(n_estimators=40), 3e-5),
    )
}
"""The candidates where features have prices.

The last one asks for nothing. `priced.best_of` chooses; ties go to the first, the chain, which was
the best, or as good, in nearly all cells of benchmarks/acquisition.md.
"""
PRICED_NUMBERS = 100_000
"""The numbers of a table that are enough to compare these: each fit takes seconds."""


class UnitCosts(BaseModel):
    """What each unit costs by which a quantity is larger (`over`) or smaller than the number."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, allow_inf_nan=False
    )

    over: Annotated[float, Field(gt=0, le=LARGEST)]
    under: Annotated[float, Field(gt=0, le=LARGEST)]


@dataclass(frozen=True)
class Tried(Stored):
    """A candidate's `score` per row and its standard error, or None with the `reason`.

    `weight` is its part in the model. `benefit` per row is reported where benefits did not choose.
    """

    kind: str
    score: float | None = None
    standard_error: float | None = None
    reason: str | None = None
    benefit: float | None = None
    weight: float = 0.0
