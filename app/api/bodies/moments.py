"""Periods between two moments in requests."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from app.errors import Invalid
from app.usecases.fields import TIME_FORM, Moment, WireModel

_FIRST, _END = -62_135_596_800.0, 253_402_300_800.0  # the years 1 to 9999
_SINCE = f"decided from then on; {TIME_FORM}"
_UNTIL = "decided before"
_ORDER = "until must be after since"


def _in_years(time: float | None) -> float | None:
    if time is not None and not _FIRST <= time < _END:
        raise ValueError("the time must be within the years 1 to 9999, UTC")
    return time


_Bound = Annotated[Moment, AfterValidator(_in_years)]


def _is_empty(since: float | None, until: float | None) -> bool:
    return since is not None and until is not None and since >= until


class Period(WireModel):
    """From when until before when decisions were made, in seconds since 1970; null where that is open."""

    since: _Bound = Field(default=None, description=_SINCE)
    until: _Bound = Field(default=None, description=_UNTIL)

    @field_validator("until")
    @classmethod
    def _later(cls, until: float | None, known: ValidationInfo) -> float | None:
        if _is_empty(known.data.get("since"), until):
            raise ValueError(_ORDER)
        return until


def period_of_query(
    since: Annotated[_Bound, Query(description=_SINCE)] = None,
    until: Annotated[_Bound, Query(description=_UNTIL)] = None,
) -> Period:
    """The same as query parameters."""
    if _is_empty(since, until):
        raise Invalid.at("/until", _ORDER)
    return Period(since=since, until=until)
