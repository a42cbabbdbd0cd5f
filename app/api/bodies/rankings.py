"""What comparisons of rules have in common on the wire."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.decisions.rules import RuleName

Interval = Annotated[
    tuple[float, float], Field(description="95 %, low and high: percentiles of resamples of the same rows")
]


class ContenderResult(BaseModel):
    """What one contender earned per row, and how far that is from the best one."""

    rule: RuleName
    benefit: float
    mu: float | None = Field(description="benefit / upper_bound; null where the bound is not positive")
    interval: Interval
    behind: float = Field(description="by how much the best one's benefit is larger")
    behind_interval: Interval
    cross_validated: bool = Field(
        description="whether the rule is tuned on such rows, and so each fold of them was decided as the others advise"
    )


class Lead(BaseModel):
    """Is the lead more than noise?"""

    difference: float | None = Field(description="to the runner-up; null where all earned the same on every row")
    interval: Interval | None = Field(
        description="of the difference; allows for the choice of the best on the same rows"
    )
    differing_rows: int = Field(description="on which the best and the runner-up earned differently")
    significant: bool = Field(
        description="whether the interval of the difference excludes 0, there are at least 30 differing rows, and at"
        " least 30 rows of each class in which the two can differ: among fewer, a rare large loss may be missing"
    )
