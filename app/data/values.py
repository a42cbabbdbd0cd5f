"""Columns of Arrow as numbers and as words: what text is a number, and what says that a value is missing.

Files, lists and the tables of requests are read by these functions alone, so that no value is read in two ways.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.errors import Invalid
from app.text import MISSING, NUMBER

_NO_NUMBER = pa.scalar(None, pa.float64())
_NO_WORD = pa.scalar(None, pa.string())


def holds_text(kind: pa.DataType) -> bool:
    """Whether a column holds strings, or a dictionary of them."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def holds_numbers(kind: pa.DataType) -> bool:
    """Whether a column can be read as float64; one of nulls alone can."""
    tests = pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal, pa.types.is_null
    return any(test(kind) for test in tests)


def clean(column: Any, words: Collection[str] = ()) -> Any:
    """Strings without the spaces around them, null where the value is missing: a word such as NA, if not of `words`."""
    trimmed = pc.utf8_trim_whitespace(column)
    absent = [word for word in MISSING if not word or word not in words]
    return pc.if_else(pc.is_in(trimmed, value_set=pa.array(absent)), _NO_WORD, trimmed)


def floats(column: Any) -> Any:
    """A column of numbers as float64; decimals are read as their digits are, which is exact to the last bit."""
    if pa.types.is_decimal(column.type):
        column = column.cast(pa.string())
    return column.cast(pa.float64(), safe=False)


def as_numbers(column: Any, decimal: str = ".") -> tuple[Any, Any]:
    """A column as float64, and where words stand that are no numbers, which are null; None where there are none.

    Numbers are as they are; cleaned text is read to the last bit, a point being no part of a number where the `decimal`
    sign is a comma. NaN is null.
    """
    if not holds_text(column.type):
        found, strange = floats(column), None
    else:
        words = column.cast(pa.string())
        plain = words if decimal == "." else pc.replace_substring(pc.replace_substring(words, ".", "?"), ",", ".")
        try:
            found, strange = plain.cast(pa.float64()), None
        except pa.ArrowInvalid:
            fits = pc.match_substring_regex(plain, f"^{NUMBER}$")
            found, strange = pc.if_else(fits, plain, _NO_WORD).cast(pa.float64()), pc.invert(fits).fill_null(False)
    return pc.if_else(pc.is_nan(found), _NO_NUMBER, found), strange


def as_words(column: Any) -> Any:
    """A column as strings, or a dictionary of them; integers are written without a point.

    Invalid for bytes that are not UTF-8, which a damaged file can hold.
    """
    if holds_numbers(column.type):
        numbers = floats(column)
        whole = pc.and_(pc.equal(pc.floor(numbers), numbers), pc.less(pc.abs(numbers), 2.0**53))
        integers = pc.if_else(whole, numbers, _NO_NUMBER).cast(pa.int64()).cast(pa.string())
        return pc.if_else(whole, integers, numbers.cast(pa.string()))
    try:
        if not pa.types.is_dictionary(column.type):
            return column.cast(pa.string())
        words = column.dictionary.cast(pa.string())
        words.validate(full=True)
        return pa.DictionaryArray.from_arrays(column.indices.cast(pa.int32()), words)
    except pa.ArrowInvalid as error:
        raise Invalid.at("", f"there are bytes that are not text in UTF-8 ({error})") from error
