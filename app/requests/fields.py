"""What requests have in common: their base class, and the types of their fields."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    SkipValidation,
    StrictInt,
    ValidationInfo,
    WithJsonSchema,
    field_validator,
)
from pydantic_core import CoreSchema
from typing_extensions import TypeAliasType

from app.known_fields import KnownFields
from app.tables.text import is_number
from payoff.decisions.benefit import refused_benefit
from payoff.errors import MAX_NAME

_MAX_CASE_COLUMNS = 100  # of the field `columns`
_MAX_CLASSES = 10_000  # of a field that has a value for each class

Name = Annotated[
    str,
    Field(
        pattern=r"^[a-z0-9][a-z0-9_-]{0,63}$",
        description="lower-case letters, digits, _ and -",
    ),
]
# An action, class or feature, or a reference to a model or data set.
Text = Annotated[str, Field(max_length=MAX_NAME)]


def limit_entries(max_entries: int, noun: str) -> BeforeValidator:
    """Refuse a list or object of more entries: a million wrong values would be so many errors."""

    def check(value: Any) -> Any:
        if isinstance(value, dict | list) and len(value) > max_entries:
            raise ValueError(
                f"there are {len(value):,} {noun}; at most {max_entries:,} are allowed"
            )
        return value

    return BeforeValidator(check)


Number = Annotated[float, Field(strict=True)]


def _benefit(value: Any) -> Any:
    message = refused_benefit(value)
    if message:
        raise ValueError(message)
    return value


class WireModel(KnownFields):
    """A document on the wire: NaN and Infinity are refused."""

    model_config = ConfigDict(allow_inf_nan=False)


class CaseCell(WireModel):
    """`plus + times * value`, by the value that the case has in the column."""

    column: Annotated[Text, Field(min_length=1)]
    times: Annotated[float, BeforeValidator(_benefit)] = 1.0
    plus: Annotated[float, BeforeValidator(_benefit)] = 0.0


@dataclass(frozen=True)
class Described:
    """The type that the document describes, where the values are checked later.

    Generators of clients make a class of each name, and read a list by the first alternative that
    is one: so no two alternatives are lists.
    """

    kind: Any

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return handler.generate_schema(Annotated[self.kind, SkipValidation])


_Cell = float | CaseCell
_MAX_ACTIONS_OF_COSTS = 100
CostsByAction = TypeAliasType(
    "CostsByAction",
    Annotated[
        dict[Text, Annotated[float, BeforeValidator(_benefit)] | CaseCell],
        limit_entries(_MAX_ACTIONS_OF_COSTS, "costs"),
        Field(description="costs by action"),
    ],
)
_RowByNumber = list[_Cell]
RowByName = TypeAliasType(
    "RowByName",
    Annotated[dict[str, _Cell], Field(description="benefits or costs by action")],
)
MatrixByName = TypeAliasType(
    "MatrixByName",
    Annotated[dict[str, RowByName], Field(description="rows of a matrix by class")],
)
_Saved = Annotated[
    Text, Field(description="a saved matrix of the model, or a version of one")
]
_OneOrMany = list[list[_Cell | _RowByNumber] | MatrixByName] | MatrixByName
Matrix = Annotated[Any, Described(list[_RowByNumber] | MatrixByName)]
NamedMatrix = Annotated[Any, Described(list[_RowByNumber] | MatrixByName | _Saved)]
Matrices = Annotated[Any, Described(_OneOrMany)]
NamedMatrices = Annotated[Any, Described(_OneOrMany | _Saved)]
COSTS = "costs in place of benefits, in the same forms"
COLUMNS = (
    "values of the columns that cells of the matrix name, a number for each instance, where these"
    " have none"
)
_COLUMNS = {
    "type": "object",
    "additionalProperties": {"type": "array", "items": {"type": ["number", "null"]}},
}
CaseColumns = (
    Annotated[
        dict[Text, Any],
        WithJsonSchema(_COLUMNS),
        limit_entries(_MAX_CASE_COLUMNS, "columns"),
    ]
    | None
)
PROBABILITIES = {
    "type": "array",
    "items": {"type": "array", "items": {"type": "number", "minimum": 0}},
}
_Value = bool | float | str | None
Case = TypeAliasType(
    "Case", Annotated[dict[str, _Value], Field(description="values by feature name")]
)
KnownCase = Annotated[Any, Described(Case)]
Instances = list[Annotated[Any, Described(list[_Value] | Case)]]
ClassNames = Annotated[
    list[StrictInt | Text], Field(fail_fast=True, min_length=1, max_length=_MAX_CLASSES)
]
Names = Annotated[list[Text], Field(fail_fast=True)]
ByClass = Annotated[dict[Text, Number], limit_entries(_MAX_CLASSES, "classes")]

TIME_FORM = (
    "a time is ISO 8601, such as 2026-03-01T12:00:00Z (in a URL + is %2B), "
    "or seconds since 1970"
)


def seconds(value: Any) -> float | None:
    """A time as seconds since 1970, UTC where it names no zone; ValueError for what is none."""
    if value is None or type(value) in (int, float):
        return None if value is None else float(value)
    try:
        if is_number(value):
            return float(value)
        time = datetime.fromisoformat(value)
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(TIME_FORM) from error


_SCHEMA = {
    "oneOf": [
        {"type": "string", "format": "date-time"},
        {"type": "number"},
        {"type": "null"},
    ]
}
Moment = Annotated[float | None, BeforeValidator(seconds), WithJsonSchema(_SCHEMA)]


class ModelVersion(BaseModel):
    """A published version of a model."""

    name: str
    version: int


class IdsField(WireModel):
    """Ids that come back with the answer."""

    ids: (
        Annotated[
            list[Any],
            WithJsonSchema({"type": "array", "items": {"type": ["string", "integer"]}}),
        ]
        | None
    ) = Field(
        default=None,
        description="one for each instance, in their order; they come back",
    )


_YEAR_1 = -62_135_596_800.0
_YEAR_10_000 = 253_402_300_800.0
SINCE = f"decided from then on; {TIME_FORM}"
UNTIL = "decided before"


def _in_years(time: float | None) -> float | None:
    if time is not None and not _YEAR_1 <= time < _YEAR_10_000:
        raise ValueError("the time must be within the years 1 to 9999, UTC")
    return time


Bound = Annotated[Moment, AfterValidator(_in_years)]


class Period(WireModel):
    """A period in which decisions were made, in seconds since 1970; null where an end is open."""

    since: Bound = Field(default=None, description=SINCE)
    until: Bound = Field(default=None, description=UNTIL)

    @field_validator("until")
    @classmethod
    def _later(cls, until: float | None, known: ValidationInfo) -> float | None:
        since = known.data.get("since")
        if since is not None and until is not None and since >= until:
            raise ValueError("until must be after since")
        return until
