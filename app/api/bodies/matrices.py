"""The benefit matrix in a request."""

from __future__ import annotations

from typing import Annotated, Final, TypeVar

from fastapi import Request, Response
from pydantic import Field

from app.api.bodies.documents import COSTS, Matrix, NamedMatrix, Names, WireModel
from app.api.deps import ports
from app.registry.loaded import Loaded
from app.registry.saved_matrices import Saved
from app.usecases.matrices import Stated
from app.usecases.saved_matrices import meant

HEADER: Final = "payoff-matrix"  # of the answer


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


class WireNamedMatrix(WireMatrix):
    """A request to a model, which may name one of its saved matrices."""

    benefits: NamedMatrix | None = Field(
        default=None,
        description="a row per actual class, a column per action; or the name of a saved matrix",
        examples=[[[0, -1], [-10, 5]]],
    )


_Wire = TypeVar("_Wire", bound=WireMatrix)


def with_saved(request: Request, wire: _Wire, model: Loaded) -> tuple[_Wire, Saved | None]:
    """The request with the saved matrix that it names, and that matrix; Invalid at /benefits where there is none."""
    sent, saved = meant(ports(request), wire.stated(), model.name, model.classes)
    if saved is None:
        return wire, None
    return wire.model_copy(update={"benefits": sent.benefits, "actions": sent.actions}), saved


def naming(response: Response, saved: Saved | None) -> Response:
    """The answer, with the version of the saved matrix that was used."""
    if saved is not None:
        response.headers[HEADER] = saved.reference
    return response
