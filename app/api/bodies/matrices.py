"""The benefit matrix in a request."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from app.api.bodies.documents import COSTS, Matrix, Names, WireModel
from app.usecases.matrices import Stated


class WireMatrix(WireModel):
    """A request with a benefit matrix."""

    benefits: Matrix | None = Field(
        default=None, description="a row per actual class, a column per action", examples=[[[0, -1], [-10, 5]]]
    )
    cost_matrix: Matrix | None = Field(default=None, description=COSTS)
    actions: Annotated[Names, Field(min_length=1)] | None = Field(
        default=None,
        description="names of the columns; without them `/acquire` and its simulation take these for the classes",
    )

    def stated(self) -> Stated:
        """The matrix as sent."""
        return Stated(self.benefits, self.cost_matrix, self.actions)
