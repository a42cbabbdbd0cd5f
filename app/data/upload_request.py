"""What an upload asks for, besides its file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from app.data.dialect import PLAIN, Dialect
from app.errors import Invalid, pointer
from app.text import MAX_NAME, check_text

ColumnType = Literal["number", "category", "ignore"]


@dataclass(frozen=True)
class UploadRequest:
    """The columns named `labels` are to be predicted; with `numbers` integers are to be regressed on, not classes."""

    labels: tuple[str, ...]
    name: str | None = None
    numbers: bool = False
    types: dict[str, ColumnType] = field(default_factory=dict)
    dialect: Dialect = PLAIN
    owner: str = ""

    def named(self, kind: ColumnType) -> set[str]:
        """The columns that are ordered to be of this type."""
        return {name for name, each in self.types.items() if each == kind}

    def check(self) -> None:
        """Invalid at `/name` or `/types`; the labels are checked beside the columns of the file."""
        if self.name is not None and not 0 < len(self.name.strip()) <= MAX_NAME:
            raise Invalid.at("/name", f"a name has 1 to {MAX_NAME} characters")
        check_text(self.name or "", "/name")
        for label in self.named("ignore").intersection(self.labels):
            raise Invalid.at(pointer("types", label), f"{label!r} is the label")
