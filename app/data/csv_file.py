"""CSV files, read twice: once for the kinds of the columns, once for their values; never whole in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO

from app.data.csv_text import FIRST_ROW, CsvText, clean, numbers
from app.data.dataset import DataLimits
from app.data.location import FILE, Location, check_names
from app.data.source import Kind, Source, check_columns, check_rows
from app.data.upload_request import UploadRequest
from app.errors import Invalid, pointer, reject


def csv_source(content: BinaryIO, limits: DataLimits, request: UploadRequest) -> Source:
    """The columns of a CSV file: one is numeric if each of its values that is not missing is a number.

    Raises Invalid for a file that is not such a table, and TooLarge beyond `limits`, before more than a block of it is
    in memory.
    """
    decimal, ignored, words = request.dialect.decimal, request.named("ignore"), request.named("category")
    try:
        text = CsvText(content, request.dialect)
        check_columns(len(text.names), limits)
        reject(check_names(text.names, "", numbered=False))
        chosen = {j: name for j, name in enumerate(text.names) if name not in ignored}
        numeric = _numeric(text, {j for j, name in chosen.items() if name not in words}, decimal, limits)
    except Invalid as error:
        raise error.under(FILE) from error
    kinds: list[Kind] = ["numeric" if j in numeric else "categorical" for j in chosen]

    def batches() -> Iterator[list[Any]]:
        for columns in text.blocks():
            cells = {j: clean(columns[j]) for j in chosen}
            yield [numbers(column, decimal) if j in numeric else column for j, column in cells.items()]

    places = [Location(name, FILE + pointer(name), first_row=FIRST_ROW) for name in chosen.values()]
    return Source(text.names, places, kinds, batches)


def _numeric(text: CsvText, candidates: set[int], decimal: str, limits: DataLimits) -> set[int]:
    """Those of the columns that hold numbers alone; all is read once, and the rows are counted."""
    rows = 0
    for columns in text.blocks():
        rows += len(columns[0])
        check_rows(rows, limits)
        candidates = {j for j in candidates if numbers(clean(columns[j]), decimal) is not None}
    if not rows:
        raise Invalid.at("", "there is a header, but no row of values")
    return candidates
