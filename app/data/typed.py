"""Columns read as what the caller says they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.data.csv_text import in_points
from app.data.location import Location
from app.data.misread import is_written
from app.data.source import Kind, LeftOut, Source
from app.data.upload_request import UploadRequest
from app.errors import Flaw, Invalid, pointer, reject, unknown
from app.numbers_in_text import NUMBER


def typed(source: Source, request: UploadRequest) -> Source:
    """The source with some columns as numbers or words by order.

    In a column of numbers a word that is none is left out, unless it is a number written in another way: Invalid, for
    it would be lost.
    """
    reject(
        Flaw(pointer("types", name), unknown("column", name, source.names))
        for name in request.types
        if name not in source.names
    )
    forced: dict[str | None, Kind] = {"number": "numeric", "category": "categorical"}
    kinds = [
        forced.get(request.types.get(place.name), kind) for place, kind in zip(source.places, source.kinds, strict=True)
    ]
    decimal, left_out = request.dialect.decimal, source.left_out

    def batches() -> Iterator[list[Any]]:
        rows = 0
        for arrays in source.batches():
            yield [
                array
                if kinds[j] == source.kinds[j]
                else _as_words(array)
                if kinds[j] == "categorical"
                else _as_numbers(array, source.places[j], rows, decimal, left_out)
                for j, array in enumerate(arrays)
            ]
            rows += len(arrays[0])

    return replace(source, kinds=kinds, batches=batches)


def _as_numbers(array: Any, place: Location, rows: int, decimal: str, left_out: dict[str, LeftOut]) -> Any:
    """Words as numbers, those that are none as missing, which is noted; `rows` came before them."""
    words = array.cast(pa.string()) if pa.types.is_dictionary(array.type) else array
    point = in_points(words, decimal)
    fits = pc.match_substring_regex(point, f"^{NUMBER}$").fill_null(False)
    bad = np.flatnonzero(pc.and_not(words.is_valid(), fits).to_numpy(zero_copy_only=False))
    if len(bad):
        texts = words.take(pa.array(bad)).to_pylist()
        wrong = next(((row, word) for row, word in zip(bad.tolist(), texts, strict=True) if is_written(word)), None)
        if wrong is not None:
            msg = f"{wrong[1]!r} is a number in another way of writing; write it in digits with a decimal point"
            raise Invalid.of([place.flaw(rows + wrong[0], msg)])
        known = left_out.get(place.name, LeftOut(0, rows + int(bad[0]), texts[0]))
        left_out[place.name] = replace(known, count=known.count + len(bad))
    return pc.if_else(fits, point, pa.scalar(None, pa.string())).cast(pa.float64())


def _as_words(array: Any) -> Any:
    """Numbers as text, integers without a point."""
    whole = pc.and_(pc.equal(pc.floor(array), array), pc.less(pc.abs(array), 2.0**53))
    integers = pc.if_else(whole, array, pa.scalar(None, pa.float64())).cast(pa.int64()).cast(pa.string())
    return pc.if_else(whole, integers, array.cast(pa.string()))
