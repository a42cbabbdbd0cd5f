"""Categories that come as columns of Arrow, looked up without a Python object for each row.

Import this module where it is used: pyarrow takes 40 MB of memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from app.data.arrow_text import place_of
from app.errors import Flaw, pointer, reject
from app.features import Schema
from app.text import MAX_POSITIONS, refused_character


def codes_of(column: pa.ChunkedArray, schema: Schema, j: int) -> tuple[np.ndarray, list[str]]:
    """A column of strings, plain or a dictionary, as what `Schema.encode` makes of feature `j`, and its warnings.

    A word of a dictionary is looked up once, however many rows have it. Raises Invalid at `/row/column`.
    """
    codes = np.full(len(column), np.nan)
    lookup = _Lookup(schema.features[j].categories)
    count, start, example = 0, 0, ""
    first: list[int] = []
    for chunk in column.chunks:
        found, unseen = lookup.rows(chunk)
        codes[start : start + len(chunk)] = found.cast(pa.float64()).to_numpy(zero_copy_only=False)
        if number := unseen.true_count:
            _check_words(chunk, unseen, start, j)
            example = example if count else str(chunk[unseen.index(True).as_py()].as_py())
            count += number
            if len(first) < MAX_POSITIONS:
                found_at = np.flatnonzero(unseen.to_numpy(zero_copy_only=False))[:MAX_POSITIONS]
                first += (start + found_at).tolist()
        start += len(chunk)
    return codes, [schema.unseen(j, first, count, len(column), example)] if count else []


class _Lookup:
    """Positions of words in a list of categories."""

    def __init__(self, categories: tuple[str, ...]) -> None:
        self._categories = categories
        self._known: dict[tuple[int, ...], tuple[Any, Any]] = {}

    def rows(self, chunk: Any) -> tuple[Any, Any]:
        """The position of each row's word, null where it is missing or unseen; and whether it is unseen."""
        if not pa.types.is_dictionary(chunk.type):
            return self._find(chunk)
        words = chunk.dictionary  # chunks may share a dictionary, which then is the same buffers
        place = place_of(words)
        if place not in self._known:
            self._known[place] = self._find(words)
        found, unseen = self._known[place]
        return found.take(chunk.indices), unseen.take(chunk.indices).fill_null(False)

    def _find(self, words: Any) -> tuple[Any, Any]:
        found = pc.index_in(words, value_set=pa.array(self._categories, words.type))
        return found, pc.and_(words.is_valid(), found.is_null())


def _check_words(chunk: Any, unseen: Any, start: int, j: int) -> None:
    """Invalid at the unseen words that no text may hold; `start` is the number of the chunk's first row."""
    coded = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    used = coded.indices.filter(unseen).unique()
    odd = [code for code, word in zip(used, coded.dictionary.take(used).to_pylist(), strict=True) if _odd(word)]
    if odd:
        rows = np.flatnonzero(pc.is_in(coded.indices, value_set=pa.array(odd, used.type)))
        reject(Flaw(pointer(start + i, j), _odd(chunk[int(i)].as_py()) or "") for i in rows)


def _odd(word: str) -> str | None:
    return refused_character(word) if word else None
