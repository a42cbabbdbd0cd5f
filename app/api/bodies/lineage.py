"""Where a data set of recorded decisions comes from."""

from __future__ import annotations

from pydantic import BaseModel, Field


class LeftOut(BaseModel):
    """How many recorded decisions have no row, by the reason."""

    without_instance: int
    without_truth: int
    of_acquire: int = Field(description="of which only some features were known")


class Lineage(BaseModel):
    """The recorded decisions that the rows are made of."""

    model: str
    versions: list[int] = Field(description="those that decided")
    since: float | None = Field(description="seconds since 1970; null: from the first on")
    until: float | None = Field(description="before this; null: to the last")
    rows: int
    left_out: LeftOut
    warnings: list[str] = Field(default_factory=list, description="why the rows are no fair sample of all decisions")
