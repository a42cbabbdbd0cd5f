"""What rules, alone or with learners, earned on the same rows, and the lead of the best of them."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any

from pydantic import BaseModel, Field

from payoff.decisions.benefit import mu
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE, Ranking
from payoff.decisions.rules import (
    Ruled,
    RuleName,
)

Interval = Annotated[
    tuple[float, float],
    Field(
        description="95 %, low and high: percentiles of resamples of the same rows, up to"
        " a tenth wider where these are cross-validated"
    ),
]


class ContenderResult(BaseModel):
    """What one contender earned per row, and how far that is from the best one."""

    rule: RuleName
    benefit: float
    mu: float | None = Field(
        description="benefit / upper_bound; null where the bound is not positive"
    )
    interval: Interval
    behind: float = Field(description="by how much the best one's benefit is larger")
    behind_interval: Interval
    cross_validated: bool = Field(
        description="whether the rule is tuned on such rows, and so each fold of them was decided"
        " as the others advise"
    )


class Lead(BaseModel):
    """Is the lead more than noise?"""

    difference: float | None = Field(
        description="to the runner-up; null where all earned the same on every row"
    )
    interval: Interval | None = Field(
        description="of the difference; allows for the choice of the best on the same rows"
    )
    differing_rows: int = Field(
        description="on which the best and the runner-up earned differently"
    )
    significant: bool = Field(
        description="whether the interval of the difference excludes 0, there are at least"
        f" {MIN_ROWS_TO_COMPARE} differing rows, and at least {MIN_ROWS_TO_COMPARE} rows of each"
        " class in which the two can differ: among fewer, a rare large loss may be missing"
    )


def standings_of(
    ruled: Iterable[Ruled], ranking: Ranking, bound: float
) -> list[dict[str, Any]]:
    """The benefits of each contender, in their order; `bound` is the upper bound of the benefit."""
    return [
        {
            "rule": rule.rule,
            "benefit": standing.mean,
            "mu": mu(standing.mean, bound),
            "interval": standing.interval,
            "behind": standing.behind,
            "behind_interval": standing.behind_interval,
            "cross_validated": rule.cross_validated,
        }
        for rule, standing in zip(ruled, ranking.standings, strict=True)
    ]


def lead_of(ranking: Ranking, name: Callable[[int], Any]) -> dict[str, Any]:
    """The lead of the best contender; `name` gives the name of the contender at a position."""
    second = None if ranking.runner_up is None else ranking.standings[ranking.runner_up]
    return {
        "same": [name(j) for j in ranking.same],
        "runner_up": None if ranking.runner_up is None else name(ranking.runner_up),
        "difference": None if second is None else second.behind,
        "interval": None if second is None else second.behind_interval,
        "differing_rows": ranking.differing,
        "significant": ranking.significant,
    }
