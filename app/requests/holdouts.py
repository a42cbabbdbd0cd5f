"""The rows that are held out to evaluate a model: a random part, the last in time, or groups."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.requests.fields import Text, WireModel
from app.requests.specifications import HOLDOUT, SplitSpec
from app.tables.dataset import ColumnReport, Dataset
from payoff.errors import Flaw, Invalid, counted, unknown_at

PLACE = "/holdout/column"
OTHERWISE = "choose another column, or send a number for a random part"


class HoldoutBy(WireModel):
    """The last rows in the order of a column, or whole groups: all rows with some of its values."""

    part: float = Field(
        default=HOLDOUT, gt=0, le=0.9, strict=True, description="of the rows, about"
    )
    by: Literal["time", "group"]
    column: Text = Field(
        description="a feature, or a column that the data set has `kept`; no value is missing",
        examples=["customer_id"],
    )


def _tag(holdout: Any) -> str:
    return "HoldoutBy" if isinstance(holdout, dict | HoldoutBy) else "part"


Holdout = Annotated[
    Annotated[float, Field(ge=0, le=0.9, strict=True), Tag("part")]
    | Annotated[HoldoutBy, Tag("HoldoutBy")],
    Discriminator(_tag),
]


def read_holdout(
    holdout: float | HoldoutBy, dataset: Dataset
) -> tuple[float, SplitSpec | None]:
    """The part of the rows to hold out, and by what, if not at random; Invalid at `PLACE` where the
    column cannot serve.
    """
    if not isinstance(holdout, HoldoutBy):
        return holdout, None
    name = holdout.column
    forms = dataset.forms
    if name not in forms:
        raise Invalid.of([_flaw_of_absent(name, dataset)])
    for report in dataset.columns:
        reason = _unsuitable(report, holdout.by) if report.name == name else None
        if reason:
            raise Invalid.at(PLACE, reason)
    split = SplitSpec(by=holdout.by, column=name, form=forms[name])
    return holdout.part, split


def _flaw_of_absent(name: str, dataset: Dataset) -> Flaw:
    """Why the table has no such column beside its labels."""
    if name in dataset.labels:
        return Flaw(PLACE, f"{name!r} is the label; {OTHERWISE}")
    if name in dataset.ignored:
        reason = dataset.ignored[name]
        return Flaw(PLACE, f"the data set does not have {name!r} ({reason})")
    return unknown_at(PLACE, "column", name, dataset.forms)


def _unsuitable(report: ColumnReport, by: str) -> str | None:
    """Why no rows can be held out by the column."""
    name = report.name
    if report.missing == 0 and report.distinct == 1:
        return f"all rows have the same value of {name!r}; {OTHERWISE}"
    if report.distinct == 0:
        return f"{name!r} is missing in every row; {OTHERWISE}"
    if report.missing:
        rows = counted(report.missing, "row")
        return f"{name!r} is missing in {rows}; fill it in, or leave these rows out"
    if by == "time" and report.type == "categorical":
        return f"{name!r} holds words, and a time is a date or a number; {OTHERWISE}"
    return None
