"""Limits over a batch on the wire."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Discriminator, Field, StrictInt, Tag, model_validator

from app.usecases.fields import Number, Text, WireModel
from app.usecases.limits import MAX_LIMITS, Constraints, constraints_of

_MOST = 10**9  # of a count; a batch has fewer instances
_LARGEST = 1e150  # of a resource: products with counts stay far from overflow
Count = Annotated[StrictInt, Field(ge=0, le=_MOST)]
Amount = Annotated[Number, Field(ge=0, le=_LARGEST)]


def _few(sent: Any) -> Any:
    """A million wrong values would each be worded as an error."""
    if isinstance(sent, dict | list) and len(sent) > MAX_LIMITS:
        raise ValueError(f"there are {len(sent):,}; at most {MAX_LIMITS} are allowed")
    return sent


class LimitDocument(WireModel):
    """The least and most instances for which an action may be chosen."""

    at_least: Count | None = None
    at_most: Count | None = None

    @model_validator(mode="after")
    def _any(self) -> LimitDocument:
        if self.at_least is None and self.at_most is None:
            raise ValueError("a limit has 'at_least', 'at_most' or both")
        return self


class ResourceDocument(WireModel):
    """What actions use together, each instance so much."""

    name: Text
    use: Annotated[dict[Text, Amount], BeforeValidator(_few)] = Field(
        min_length=1, description="by action; the others use nothing"
    )
    at_most: Amount


class LimitAnswer(BaseModel):
    """A limit and what was used of it."""

    name: str
    used: float
    at_most: float | None = None
    at_least: float | None = None
    shadow_price: float | None = Field(description="change of the total per unit more; null where that is infeasible")


def _form(sent: Any) -> str:
    return "object" if isinstance(sent, dict | LimitDocument) else "number"


_Limit = Annotated[Annotated[Count, Tag("number")] | Annotated[LimitDocument, Tag("object")], Discriminator(_form)]
LimitDocuments = Annotated[dict[Text, _Limit], BeforeValidator(_few), Field(min_length=1)]
ResourceDocuments = Annotated[list[ResourceDocument], BeforeValidator(_few), Field(min_length=1)]


def constraints(
    limits: Mapping[str, int | LimitDocument] | None, resources: Sequence[ResourceDocument] | None
) -> Constraints | None:
    """Both as the use case takes them; None where there is neither."""
    counts = {name: limit if isinstance(limit, int) else dict(limit) for name, limit in (limits or {}).items()}
    return constraints_of(counts, [dict(each) for each in resources or ()])
