"""What an upload asks for, besides its file; and how a CSV file is written."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from app.errors import Invalid, pointer
from app.text import MAX_NAME, check_text

Delimiter = Literal[",", ";", "\t", "|"]
Decimal = Literal[".", ","]
Encoding = Literal["utf-8", "utf-16", "latin-1"]

ColumnType = Literal["number", "category", "ignore"]


class Dialect(BaseModel):
    """How a CSV file is written: spreadsheets and databases write other ones than the default."""

    model_config = ConfigDict(extra="forbid")

    delimiter: Delimiter = ","
    decimal: Decimal = "."
    encoding: Encoding = "utf-8"


class UploadRequest(Dialect):
    """The columns named `label` are to be predicted; with `label_type` number integers are to be regressed on, and are
    no classes. `owner` is the name of the key.
    """

    model_config = ConfigDict(frozen=True)

    label: tuple[str, ...] = Field(description="label columns, the part repeated")
    name: str | None = None
    label_type: Literal["auto", "number"] = Field(
        default="auto",
        description="auto: words and integers are classes, other numbers to be regressed on; number: all are",
    )
    types: dict[str, ColumnType] = Field(default_factory=dict)
    owner: str = ""

    @property
    def numbers(self) -> bool:
        return self.label_type == "number"

    def named(self, kind: ColumnType) -> set[str]:
        """The columns that are ordered to be of this type."""
        return {name for name, each in self.types.items() if each == kind}

    def check(self) -> None:
        """Invalid at `/name`, `/types` or `/label_type`; the labels are checked beside the columns of the file."""
        if self.name is not None and not 0 < len(self.name.strip()) <= MAX_NAME:
            raise Invalid.at("/name", f"a name has 1 to {MAX_NAME} characters")
        check_text(self.name or "", "/name")
        for label in self.named("ignore").intersection(self.label):
            raise Invalid.at(pointer("types", label), f"{label!r} is the label")
        if self.numbers and len(self.label) > 1:
            raise Invalid.at("/label_type", "a number to regress on is one label; of several, each applies or not")
