"""Columns of Arrow: whether they hold text or numbers, which text is a number, and which text is a
missing value.

Files, lists and the tables of requests are read by these functions alone, so that no value is read
in two ways.
"""

import json
from collections.abc import Callable, Collection
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.tables.notations import reader
from app.tables.text import MAX_CATEGORY, MISSING, NUMBER, normal
from app.tables.text import is_number as is_number_with_point
from payoff.errors import Invalid, TooLarge, pointer

_NO_NUMBER = pa.scalar(None, pa.float64())
_NO_WORD = pa.scalar(None, pa.string())
_TICKS = {"s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6}  # of a day
_NANOSECONDS = 1000  # of a microsecond, the finest part of a moment that text has
_EXACT = 2**53  # up to this number float64 represents every integer
_PART = 1 << 16  # rows that are converted to Python's integers at a time
_MIDNIGHT_OR_ZEROS = r"(?: 00:00:00)?(?:\.0+)?$"
_COMMAS = str.maketrans({".": "?", ",": "."})
_TEXT = pa.large_string()  # a column may hold more than 2 GB
# a length in four bytes, then the text, or a prefix and the place of the text
_BYTES_PER_VIEW = 16
_MOST_BYTES_OF_CELL = 4 * MAX_CATEGORY  # a character takes four bytes at most
_FREE_ROWS = 100_000  # rows that may take no bytes
LARGEST_TEXT = (
    64 * 2**20
)  # bytes of a column in full, and of all that comes back with an answer
_OFFSET_BYTES = 8  # of each text
_COPIES = 2  # of views in memory while they are converted


def _value_type(kind: pa.DataType) -> pa.DataType:
    """The type of the values of a column, which may come as a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings, or a dictionary of them."""
    tests = pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view
    return any(test(_value_type(kind)) for test in tests)


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a column can be read as float64; one of nulls alone can."""
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def clean(column: Any, words: Collection[str] = ()) -> Any:
    """Strings without the spaces around them, null where the value is missing: a word such as NA,
    if not of `words`.
    """
    trimmed = pc.utf8_trim_whitespace(column)
    absent = [word for word in MISSING if not word or word not in words]
    return pc.if_else(pc.is_in(trimmed, value_set=pa.array(absent)), _NO_WORD, trimmed)


def normal_words(column: Any) -> Any:
    """Strings, or a dictionary of them, as `app.tables.text.normal` has them, null where nothing is
    left of one.
    """
    is_coded = pa.types.is_dictionary(column.type)
    words = column.dictionary if is_coded else pc.unique(column)
    texts = pa.array(
        [normal(word or "") or None for word in words.to_pylist()], words.type
    )
    if not is_coded:
        return texts.take(pc.index_in(column, words))
    known = texts.unique().drop_null()
    codes = pc.index_in(texts, known).take(column.indices)
    return pa.DictionaryArray.from_arrays(codes, known)


def floats(column: Any) -> Any:
    """A column of numbers as float64; decimals are read as their digits are, which is exact to the
    last bit.
    """
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=False)


def as_numbers(column: Any, decimal: str = ".") -> tuple[Any, Any]:
    """A column as float64, and a mask of the words that are no numbers, which are null; the mask is
    None where there are none.

    Numbers are as they are; cleaned text is read to the last bit, a point being no part of a number
    where the `decimal` sign is a comma. NaN is null.
    """
    unread = None
    if not holds_text(column.type):
        numbers = floats(column)
    else:
        plain = column.cast(pa.string())
        if decimal == ",":
            plain = pc.replace_substring(
                pc.replace_substring(plain, ".", "?"), ",", "."
            )
        try:
            numbers = plain.cast(pa.float64())
        except pa.ArrowInvalid:
            fits = pc.match_substring_regex(plain, f"^{NUMBER}$")
            numbers = pc.if_else(fits, plain, _NO_WORD).cast(pa.float64())
            unread = pc.invert(fits).fill_null(False)
    return pc.if_else(pc.is_nan(numbers), _NO_NUMBER, numbers), unread


def holds_moments(kind: pa.DataType) -> bool:
    """Whether a column holds dates, or moments with or without a zone."""
    return bool(pa.types.is_date(kind) or pa.types.is_timestamp(kind))


def by_notation(column: Any, notation: str) -> tuple[Any, Any]:
    """As `as_numbers`, with words that are written in a notation; moments are days since 1970,
    as `app.tables.notations` has them.
    """
    if holds_moments(column.type):
        return _days(column), None
    if not holds_text(column.type):
        return as_numbers(column)
    texts = column.cast(pa.string())
    words = pc.unique(texts).drop_null()
    numbers_of_words = pa.array(map(reader(notation), words.to_pylist()), pa.float64())
    numbers = numbers_of_words.take(pc.index_in(texts, value_set=words))
    unread = pc.and_(texts.is_valid(), numbers.is_null())
    return numbers, unread if pc.any(unread).as_py() else None


def _days(column: Any) -> Any:
    """Days since 1970 of moments of any year, to the last bit as `app.tables.notations` reads them
    from text.
    """
    if pa.types.is_date(column.type):
        column = column.cast(pa.timestamp("ms"))
    ticks = column.cast(pa.int64())
    unit = column.type.unit
    if unit == "ns":
        sign = pc.if_else(pc.less(ticks, 0), -1, 0)
        microseconds = pc.divide(pc.bit_wise_xor(ticks, sign), _NANOSECONDS)
        ticks = pc.bit_wise_xor(microseconds, sign)  # rounded down
        unit = "us"
    bounds = pc.min_max(ticks).as_py().values()
    if max(abs(bound or 0) for bound in bounds) <= _EXACT:
        return pc.divide(ticks.cast(pa.float64()), float(_TICKS[unit]))
    parts = (
        ticks.slice(begin, _PART).to_pylist() for begin in range(0, len(ticks), _PART)
    )
    exact = (
        None if tick is None else tick / _TICKS[unit]
        for tick in chain.from_iterable(parts)
    )
    return pa.array(exact, pa.float64(), size=len(ticks))


def is_number(word: str, decimal: str) -> bool:
    """Whether `as_numbers` reads this text as a number."""
    return bool(
        is_number_with_point(word if decimal == "." else word.translate(_COMMAS))
    )


def as_words(column: Any) -> Any:
    """A column as strings, or a dictionary of them; integers are written without a point, NaN is
    null, a moment has its time in UTC where that is not midnight.

    Invalid for bytes that are not UTF-8, which a damaged file can hold.
    """
    if pa.types.is_boolean(column.type) or pa.types.is_integer(column.type):
        return column.cast(pa.string())
    if pa.types.is_timestamp(column.type):
        texts = column.cast(pa.timestamp(column.type.unit)).cast(pa.string())
        return pc.replace_substring_regex(texts, _MIDNIGHT_OR_ZEROS, "")
    if holds_numbers(column.type):
        numbers, _ = as_numbers(column)
        is_integer = pc.and_(
            pc.equal(pc.floor(numbers), numbers),
            pc.less(pc.abs(numbers), float(_EXACT)),
        )
        integers = (
            pc.if_else(is_integer, numbers, _NO_NUMBER)
            .cast(pa.int64())
            .cast(pa.string())
        )
        return pc.if_else(is_integer, integers, numbers.cast(pa.string()))
    try:
        if not pa.types.is_dictionary(column.type):
            return column.cast(pa.string())
        words = column.dictionary.cast(pa.string())
        words.validate(full=True)
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), words)
    except pa.ArrowInvalid as error:
        raise Invalid.at(
            "", f"there are bytes that are not text in UTF-8 ({error})"
        ) from error


# Streams of requests


def plain(table: pa.Table, size: int, charge: Callable[[int, int], None]) -> pa.Table:
    """The table of a stream of `size` bytes checked in full, with text as strings.

    Views may all point at the same bytes, and dictionaries repeat long words, so a small body can
    stand for gigabytes: `charge` is called with the bytes that their text takes before it is
    converted. Raises Invalid at a column that cannot be read, TooLarge for more values than so many
    bytes can stand for, and what pyarrow raises for a table that is not valid.
    """
    table.validate()
    _check_extent(table, size)
    names = table.column_names
    columns = [
        _plain(column, name, charge)
        for name, column in zip(names, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(columns, names).replace_schema_metadata(
        table.schema.metadata
    )


def _check_extent(table: pa.Table, size: int) -> None:
    """TooLarge where a valid stream of `size` bytes states more rows, or longer dictionaries, than
    it has bits.

    Columns of nulls, and of texts of a fixed length of 0, take no bytes: a few would stand for any
    number of rows.
    """
    chunks = (
        chunk
        for column in table.columns
        for chunk in column.chunks
        if pa.types.is_dictionary(chunk.type)
    )
    longest = max([table.num_rows, *(len(chunk.dictionary) for chunk in chunks)])
    if longest > max(_FREE_ROWS, 8 * size):
        raise TooLarge(f"the stream states {longest:,} values in {size:,} bytes")


def _plain(
    column: pa.ChunkedArray, name: str, charge: Callable[[int, int], None]
) -> pa.ChunkedArray:
    kind = _value_type(column.type)
    coded = pa.types.is_dictionary(column.type)
    # Views within lists and structures could not be measured.
    if kind.num_fields or isinstance(kind, pa.BaseExtensionType):
        unsupported = "lists, structures and extensions are not supported"
        raise Invalid.at(
            pointer(name), f"the type of {name!r} is '{column.type}'; {unsupported}"
        )
    arrays = [chunk.dictionary if coded else chunk for chunk in column.chunks]
    texts = {_place_of(array): array for array in arrays}
    if pa.types.is_string_view(kind):
        size = sum(map(_view_bytes, texts.values()))
        _check_text(name, size)
        charge(size, _COPIES)
        charge(len(column), _OFFSET_BYTES)
    column.validate(full=True)
    if not holds_text(kind):
        return column.cast(kind)
    if not coded:
        return column.cast(_TEXT)
    words = {place: array.cast(_TEXT) for place, array in texts.items()}
    lengths = {place: pc.binary_length(array) for place, array in words.items()}
    parts = [(_place_of(chunk.dictionary), chunk.indices) for chunk in column.chunks]
    sizes = pa.chunked_array(
        [lengths[place].take(codes) for place, codes in parts], pa.int64()
    )
    row = pc.index(pc.greater(sizes, _MOST_BYTES_OF_CELL), True).as_py()
    if row >= 0:
        raise Invalid.at(
            pointer(name, row), f"{name!r} has at most {MAX_CATEGORY} characters a cell"
        )
    size = pc.sum(sizes).as_py() or 0
    _check_text(name, size)
    charge(size, 1)
    charge(len(column), _OFFSET_BYTES)
    return pa.chunked_array([words[place].take(codes) for place, codes in parts], _TEXT)


def _check_text(name: str, size: int) -> None:
    """TooLarge for a column whose text takes too much once each cell has its own."""
    if size > LARGEST_TEXT:
        raise TooLarge(
            f"the text of the column {name!r} takes {size:,} bytes in full;"
            f" at most {LARGEST_TEXT:,} are supported"
        )


def _place_of(array: pa.Array) -> tuple[int, ...]:
    """A key that is equal for arrays with the same buffers, such as the dictionary of a stream."""
    return (
        array.offset,
        len(array),
        *(part.address for part in array.buffers() if part),
    )


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


def first_longer(column: pa.Array | pa.ChunkedArray, max_characters: int) -> int:
    """The first row whose text has more than so many characters; -1 where there is none."""
    return int(
        pc.index(pc.greater(pc.utf8_length(column), max_characters), True).as_py()
    )


def index_columns(schema: pa.Schema) -> set[str]:
    """The columns that hold the index of the pandas table that a table was written from."""
    try:
        columns = json.loads((schema.metadata or {})[b"pandas"])["index_columns"]
        return {name for name in columns if isinstance(name, str)}
    except (KeyError, TypeError, ValueError, RecursionError):
        return set()
