"""Columns read as what the caller says they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.data.csv_text import in_points
from app.data.misread import is_written
from app.data.source import Kind, Source
from app.data.upload_request import UploadRequest
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.numbers_in_text import NUMBER


class Typed:
    """A source of which some columns are numbers or words by order.

    In a column of numbers a word that is none is left out (`left_out`: how many by column, the first with its row),
    unless it is a number written in another way: Invalid, for it would be lost.
    """

    def __init__(self, source: Source, request: UploadRequest) -> None:
        reject(
            Flaw(pointer("types", name), unknown("column", name, source.names))
            for name in request.types
            if name not in source.names
        )
        self._source, self._request = source, request
        self.names, self.places = source.names, source.places
        asked = [request.types.get(place.name) for place in source.places]
        self._kinds = source.kinds
        forced: dict[str | None, Kind] = {"number": "numeric", "category": "categorical"}
        self.kinds = [forced.get(each, kind) for each, kind in zip(asked, source.kinds, strict=True)]
        self.left_out: dict[str, tuple[int, int, str]] = {}

    def batches(self) -> Iterator[list[Any]]:
        rows = 0
        for arrays in self._source.batches():
            yield [
                array if self.kinds[j] == self._kinds[j] else self._as(array, j, rows) for j, array in enumerate(arrays)
            ]
            rows += len(arrays[0])

    def _as(self, array: Any, j: int, rows: int) -> Any:
        return _as_words(array) if self.kinds[j] == "categorical" else self._as_numbers(array, j, rows)

    def _as_numbers(self, array: Any, j: int, rows: int) -> Any:
        words = array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
        point = in_points(words, self._request.dialect.decimal)
        fits = pc.match_substring_regex(point, f"^{NUMBER}$").fill_null(False)
        bad = np.flatnonzero(pc.and_not(words.is_valid(), fits).to_numpy(zero_copy_only=False))
        place = self.places[j]
        if len(bad):
            texts = words.take(pa.array(bad)).to_pylist()
            wrong = next(((row, word) for row, word in zip(bad.tolist(), texts, strict=True) if is_written(word)), None)
            if wrong is not None:
                msg = f"{wrong[1]!r} is a number in another way of writing; write it in digits with a decimal point"
                raise Invalid.of([place.flaw(rows + wrong[0], msg)])
            count, row, word = self.left_out.get(place.name, (0, rows + int(bad[0]), texts[0]))
            self.left_out[place.name] = count + len(bad), row, word
        return pc.if_else(fits, point, pa.scalar(None, pa.string())).cast(pa.float64())


def _as_words(array: Any) -> Any:
    """Numbers as text, integers without a point."""
    whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), 2.0**53))
    integers = pc.if_else(whole, array, pa.scalar(None, pa.float64())).cast(pa.int64()).cast(pa.string())
    return pc.if_else(whole, integers, array.cast(pa.string()))
