"""The rows that are held out to evaluate a model: a random part, the last in time, or groups."""

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from app.requests.fields import Text, WireModel
from app.requests.specifications import HOLDOUT, SplitSpec
from app.tables.dataset import ColumnReport, Dataset
from payoff.errors import Flaw, Invalid, counted, reject, unknown_at

PLACE = "/holdout/column"
_OTHERWISE = "choose another column, or send a number for a random part"


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
    unusable = {**dataset.ignored, **dict.fromkeys(dataset.labels, "it is the label")}
    if name not in forms:
        flaw = unknown_at(PLACE, "column", name, forms)
        if name in unusable:
            reason = f"{name!r} cannot be used ({unusable[name]}); {_OTHERWISE}"
            flaw = Flaw(PLACE, reason)
        raise Invalid.of([flaw])
    split = SplitSpec(by=holdout.by, column=name, form=forms[name])
    for report in dataset.columns:
        if report.name == name:
            reject_column(split, report)
    return holdout.part, split


def reject_column(split: SplitSpec, report: ColumnReport) -> None:
    """Invalid at `PLACE` where no rows can be held out by the column of this report."""
    name = split.column
    is_wordy = split.by == "time" and report.type == "categorical"
    rows = counted(report.missing or 0, "row")
    flaws = {
        f"{name!r} is missing in {rows}; fill it in, or leave these rows out": report.missing,
        f"all rows have the same value of {name!r}; {_OTHERWISE}": report.distinct == 1,
        f"{name!r} holds words, and a time is a date or a number; {_OTHERWISE}": is_wordy,
    }
    reject(Flaw(PLACE, reason) for reason, is_flaw in flaws.items() if is_flaw)
