"""Moments in requests, and periods between two of them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import Query
from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo, WithJsonSchema, field_validator

from app import numbers_in_text
from app.api.bodies.documents import WireModel
from app.errors import Invalid

TIME_FORM = "a time is ISO 8601, such as 2026-03-01T12:00:00Z, or seconds since 1970"

_LOST_PLUS = re.compile(r":\d\d(\.\d+)? \d\d(:?\d\d)?$")  # in a query it stands for a blank


def seconds(sent: Any) -> float | None:
    """A time as seconds since 1970, UTC where it names no zone; ValueError for what is none."""
    if sent is None or type(sent) in (int, float):
        return None if sent is None else float(sent)
    try:
        if numbers_in_text.is_number(sent):
            return float(sent)
        time = datetime.fromisoformat(sent)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError) as error:
        lost = isinstance(sent, str) and _LOST_PLUS.search(sent)
        raise ValueError(f"{TIME_FORM}; in a URL the + of a time zone is written %2B" if lost else TIME_FORM) from error


_SCHEMA = {"oneOf": [{"type": "string", "format": "date-time"}, {"type": "number"}, {"type": "null"}]}
Moment = Annotated[float | None, BeforeValidator(seconds), WithJsonSchema(_SCHEMA)]

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
