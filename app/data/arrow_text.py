"""Text in Arrow tables as polars, DuckDB and pandas write it: views, dictionaries, large types and bytes.

All views of a column may point at the same bytes, so a small body can stand for gigabytes. Their lengths are added up
before anything reads them.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.errors import Invalid, TooLarge, pointer

_BYTES_PER_VIEW = 16  # a length in four bytes, then a prefix and where the rest is, or the text itself
_FREE_ROWS = 100_000  # that may take no bytes
_OFFSET_BYTES = 12  # of 32 and 64 bits, for each text that is cast
_TEXT = pa.large_string()  # a column may hold more than 2 GB
_COPIES = 2  # of the text in memory while it is converted


def _check_extent(table: pa.Table, size: int) -> None:
    """TooLarge where a valid stream of `size` bytes states more rows, or longer dictionaries, than it has bits.

    Columns of nulls, and of texts of a fixed length of 0, take no bytes: a few would stand for any number of rows.
    """
    most = max(_FREE_ROWS, 8 * size)
    chunks = (chunk for column in table.columns for chunk in column.chunks if pa.types.is_dictionary(chunk.type))
    longest = max((len(chunk.dictionary) for chunk in chunks), default=0)
    if max(table.num_rows, longest) > most:
        raise TooLarge(f"the stream states {max(table.num_rows, longest):,} values in {size:,} bytes")


def plain(table: pa.Table, size: int, charge: Callable[[int, int], None]) -> pa.Table:
    """The table of a stream of `size` bytes checked in full, with text as strings or dictionaries of strings.

    `charge` is told how many of what bytes the text of a column takes that has to be converted, before it is. Raises
    Invalid at a column that cannot be text, TooLarge for more values than so many bytes can stand for, and what pyarrow
    raises for a table that is not valid.
    """
    table.validate()
    _check_extent(table, size)
    names = table.column_names
    columns = [_plain(column, name, charge) for name, column in zip(names, table.columns, strict=True)]
    return pa.Table.from_arrays(columns, names).replace_schema_metadata(table.schema.metadata)


def _plain(column: pa.ChunkedArray, name: str, charge: Callable[[int, int], None]) -> pa.ChunkedArray:
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if kind.num_fields:  # views within it could not be measured
        raise Invalid.at(
            pointer(name), f"the type of {name!r} is '{column.type}'; lists and structures are not supported"
        )
    if is_bytes(kind):
        texts = {place_of(array): array for array in map(_values, column.chunks)}
        measure = _view_bytes if _is_view(kind) else lambda array: array.nbytes
        charge(sum(map(measure, texts.values())), _COPIES)
        charge(len(column), _OFFSET_BYTES)
    column.validate(full=True)
    if not is_bytes(kind):
        return column
    try:
        if not pa.types.is_dictionary(column.type):
            return column.cast(_TEXT)
        cast = {place: array.cast(_TEXT) for place, array in texts.items()}
    except pa.ArrowInvalid as error:
        raise Invalid.at(pointer(name), f"{name!r} holds bytes that are not text in UTF-8") from error
    chunks = [pa.DictionaryArray.from_arrays(c.indices, cast[place_of(c.dictionary)]) for c in column.chunks]
    return pa.chunked_array(chunks, pa.dictionary(column.type.index_type, _TEXT))


def index_columns(schema: pa.Schema) -> set[str]:
    """The columns that hold the index of the pandas table that a table was written from."""
    try:
        found = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return {name for name in found if isinstance(name, str)}
    except (KeyError, TypeError, ValueError, RecursionError):
        return set()


def lengths(column: pa.ChunkedArray, of: Callable[[Any], Any] = pc.binary_length) -> pa.ChunkedArray:
    """The bytes of each text of a column, null where there is none; of a dictionary without spelling it out."""
    if not pa.types.is_dictionary(column.type):
        return of(column).cast(pa.int64())
    known = {}
    parts = []
    for chunk in column.chunks:
        place = place_of(chunk.dictionary)
        if place not in known:
            known[place] = of(chunk.dictionary).cast(pa.int64())
        parts.append(known[place].take(chunk.indices))
    return pa.chunked_array(parts, pa.int64())


def first_longer(column: pa.ChunkedArray, most: int) -> int:
    """The first row whose text has more than so many characters; -1 where there is none."""
    return int(pc.index(pc.greater(lengths(column, pc.utf8_length), most), True).as_py())


def decoded_bytes(column: pa.ChunkedArray) -> int:
    """How many bytes the text of a column takes when a dictionary is spelt out."""
    if not pa.types.is_dictionary(column.type):
        return sum(chunk.nbytes for chunk in column.chunks)
    return pc.sum(lengths(column)).as_py() or 0


def _is_view(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether a column holds bytes, which are text where they are UTF-8, or views of text."""
    tests = pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, _is_view
    return any(test(kind) for test in tests)


def _values(chunk: pa.Array) -> pa.Array:
    return chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk


def place_of(array: pa.Array) -> tuple[int, ...]:
    """Equal for arrays that share all their buffers."""
    return (array.offset, len(array), *(part.address for part in array.buffers() if part))


def _view_bytes(array: pa.Array) -> int:
    if not len(array):
        return 0
    count = array.offset + len(array)
    views = np.frombuffer(array.buffers()[1], np.int32, count * _BYTES_PER_VIEW // 4)
    lengths = views[:: _BYTES_PER_VIEW // 4][array.offset :].astype(np.int64)
    lengths = lengths[array.is_valid().to_numpy(zero_copy_only=False)]
    if (lengths < 0).any():
        raise Invalid.at("", "the stream has text of negative length")
    return int(lengths.sum())
