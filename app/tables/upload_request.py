"""The fields of an upload beside its file, and the dialect of a CSV file."""

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field

from app.known_fields import KnownFields
from app.tables.notations import check as check_notation
from app.tables.text import check_text, normal
from payoff.errors import MAX_NAME, Invalid, pointer

Delimiter = Literal[",", ";", "\t", "|"]
Decimal = Literal[".", ","]
Encoding = Literal["utf-8", "utf-16", "latin-1"]
Header = Literal["first", "none"]


def _column_type(ordered: str) -> str:
    if ordered not in {"number", "category", "ignore", "value", "weight"}:
        try:
            return check_notation(ordered)
        except ValueError as error:
            raise ValueError(
                f"number, category, value, weight, ignore or a form: {error}"
            ) from error
    return ordered


Normal = Annotated[str, AfterValidator(normal)]
ColumnType = Annotated[str, AfterValidator(_column_type)]


class Dialect(KnownFields):
    """How a CSV file is written: spreadsheets and databases write other ones than the default."""

    delimiter: Delimiter = ","
    decimal: Decimal = "."
    encoding: Encoding = "utf-8"
    header: Header = Field(
        default="first", description="none: columns are called column_1, column_2, …"
    )


class UploadRequest(Dialect):
    """The columns named `label` are to be predicted; with `label_type` number integers are to be
    regressed on, and are no classes. `owner` is the name of the key.
    """

    model_config = ConfigDict(frozen=True)

    label: tuple[Normal, ...] = Field(description="label columns, the part repeated")
    name: str | None = None
    label_type: Literal["auto", "number"] = Field(
        default="auto",
        description="auto: words and integers are classes, other numbers to be regressed on;"
        " number: all are",
    )
    types: dict[Normal, ColumnType] = Field(default_factory=dict)
    drop_unlabelled: bool = Field(
        default=False, description="leave rows without a label out"
    )
    drop_classes: tuple[Normal, ...] = Field(
        default=(),
        description="leave rows of this class out; the part repeated for several",
    )
    owner: str = ""

    def is_class(self, name: str) -> bool:
        """Whether the column is the one label, of classes that are named as they come."""
        return (
            self.label == (name,)
            and self.label_type == "auto"
            and name not in self.types
        )

    def reads(self, name: str) -> str | None:
        """The type that the column is ordered to be read as: a value is a number; one that is
        ignored is read by its content.
        """
        ordered = self.types.get(name)
        read_as = {"value": "number", "weight": "number", "ignore": None}
        return read_as.get(ordered or "", ordered)

    @property
    def weight(self) -> str | None:
        """The column that is ordered to be the weight of the rows."""
        return min(self.named("weight"), default=None)

    def named(self, kind: str) -> set[str]:
        """The columns that are ordered to be of this type."""
        return {name for name, column_type in self.types.items() if column_type == kind}

    def check(self) -> None:
        """Invalid at `/name`, `/types` or `/label_type`; the labels are checked beside the columns
        of the file.
        """
        if self.name is not None and not 0 < len(self.name.strip()) <= MAX_NAME:
            raise Invalid.at("/name", f"a name has 1 to {MAX_NAME} characters")
        check_text(self.name or "", "/name")
        weights = sorted(self.named("weight"))
        beside = self.named("ignore") | self.named("value") | set(weights)
        for label in beside.intersection(self.label):
            raise Invalid.at(pointer("types", label), f"{label!r} is the label")
        if len(weights) > 1:
            raise Invalid.at(
                pointer("types", weights[1]),
                f"{weights[0]!r} is the weight already; a data set has one",
            )
        if self.drop_classes and len(self.label) > 1:
            raise Invalid.at(
                "/drop_classes",
                "several labels have no classes; leave drop_classes out",
            )
        if self.label_type == "number" and len(self.label) > 1:
            raise Invalid.at(
                "/label_type",
                "a number to regress on is one label; of several, each applies or not",
            )
