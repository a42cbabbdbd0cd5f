"""CSV files, read twice: once for the kinds of the columns, once for their values; never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from app.data.csv_text import FIRST_ROW, CsvText, clean, numbers
from app.data.dataset import DataLimits
from app.data.location import FILE, Location, check_names
from app.data.source import Kind, check_columns, check_rows
from app.data.upload_request import UploadRequest
from app.errors import Invalid, pointer, reject


class CsvFile:
    """A CSV file as a source: a column is numeric if each of its values that is not missing is a number.

    Raises Invalid for a file that is not such a table, and TooLarge beyond `limits`, before more than a block of it is
    in memory.
    """

    def __init__(self, content: BinaryIO, limits: DataLimits, request: UploadRequest) -> None:
        self._limits = limits
        self._decimal = request.dialect.decimal
        ignored = request.named("ignore")
        try:
            self._text = CsvText(content, request.dialect.delimiter)
            self.names = self._text.names
            check_columns(len(self.names), limits)
            reject(check_names(self.names, "", numbered=False))
            self._chosen = [j for j, name in enumerate(self.names) if name not in ignored]
            kinds = self._find_kinds()
        except Invalid as error:
            raise error.under(FILE) from error
        names = [self.names[j] for j in self._chosen]
        self.places = [Location(name, FILE + pointer(name), first_row=FIRST_ROW) for name in names]
        words = request.named("category")  # as they are written: 007 is not 7
        self.kinds: list[Kind] = [
            "categorical" if name in words else kind for name, kind in zip(names, kinds, strict=True)
        ]

    def batches(self) -> Iterator[list[Any]]:
        for columns in self._text.blocks():
            cleaned = [clean(columns[j]) for j in self._chosen]
            yield [
                numbers(column, self._decimal) if kind == "numeric" else column
                for column, kind in zip(cleaned, self.kinds, strict=True)
            ]

    def _find_kinds(self) -> list[Kind]:
        """Read everything once: kinds, and the number of rows."""
        numeric = [True] * len(self._chosen)
        rows = 0
        for columns in self._text.blocks():
            rows += len(columns[0])
            check_rows(rows, self._limits)
            numeric = [
                known and numbers(clean(columns[j]), self._decimal) is not None
                for known, j in zip(numeric, self._chosen, strict=True)
            ]
        if not rows:
            raise Invalid.at("", "there is a header, but no row of values")
        return ["numeric" if known else "categorical" for known in numeric]
