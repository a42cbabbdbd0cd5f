"""What an upload asks for, besides its file."""

from __future__ import annotations

from dataclasses import dataclass

from app.errors import Invalid
from app.text import MAX_NAME, check_text


@dataclass(frozen=True)
class UploadRequest:
    """The columns named `labels` are to be predicted; with `numbers` integers are to be regressed on, not classes."""

    labels: tuple[str, ...]
    name: str | None = None
    numbers: bool = False

    def check(self) -> None:
        """Invalid at `/name`; the labels are checked beside the columns of the file."""
        if self.name is not None and not 0 < len(self.name.strip()) <= MAX_NAME:
            raise Invalid.at("/name", f"a name has 1 to {MAX_NAME} characters")
        check_text(self.name or "", "/name")
