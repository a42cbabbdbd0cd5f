"""Columns of a table, each as a whole: what it holds, and what it looks like where that is not how it was read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.data.source import LeftOut, Location
from app.errors import MAX_ERRORS, Flaw
from app.features import Feature
from app.text import MAX_CATEGORY, is_number, refused_character, some_of

MAX_SHOWN = 40  # characters of a word
_MOST = 0.5  # of the distinct values of a column that is nearly a number
_WRITTEN = re.compile(
    r"[+-]?[$€£]?\s?\d{1,3}([, '\u00a0\u202f]\d{3})+(\.\d+)?\s?[%$€£]?|[+-]?[$€£]?\s?\d+([.,]\d+)?\s?[%$€£]?"
)
_DATE = re.compile(
    r"(\d{4}-\d{1,2}-\d{1,2}|\d{4}/\d{1,2}/\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](\d{4}|\d{2}))([ T]\d{1,2}:\d{2}.*)?"
)
_COMMA = re.compile(r"[+-]?\d+,\d+")
_THOUSANDS = re.compile(r"[+-]?\d+,\d{3}")

CELLS = 1 << 21  # of a Parquet row group, and of the columns that are read together: at most 16 MB
_LOOKED_AT = 1000  # rows that tell whether looking at all of them can be worth it
_MAX_LABELS = 1000  # of a label whose copies in other words are looked for
_FEW = 20  # rows below which distinct values mean nothing
_FEW_INTEGERS = 100


def is_written(word: str) -> bool:
    """Whether a word is a number in a way of writing that is not read as one: 1,234 or 12 %."""
    return bool(_WRITTEN.fullmatch(word)) and not is_number(word)


def misread(first: Mapping[str, int], name: str) -> tuple[int, str] | None:
    """The row of the first word that keeps a column from being numbers, or dates, and what to do; None for words.

    `first` has the row of each distinct word.
    """
    odd = [word for word in first if not is_number(word)]
    if not odd:
        return None
    word = min(odd, key=first.__getitem__)
    written = [each for each in odd if is_written(each)]
    if all(map(_DATE.fullmatch, first)):
        advice = "looks like a date; dates are read as words: write a number, such as days, or leave it out"
    elif len(first) - len(odd) + len(written) <= _MOST * len(first):
        return None
    elif written and all(map(_COMMA.fullmatch, written)) and not all(map(_THOUSANDS.fullmatch, written)):
        advice = "is not read as a number; send decimal=, if the comma is a decimal one, else leave it out"
    elif word in written:
        advice = "is not read as a number; write it in digits with a decimal point"
    else:
        advice = f'is not a number, as most values are; fix it, or send types={{"{name}": "number"}} to leave it out'
    return first[word], f"{word[:MAX_SHOWN]!r} {advice}"


class Words:
    """The words of a column while its batches flow by: the row of the first of each, and what forbids the column.

    There may be `most` words of at most `longest` characters. A column with a flaw is not looked at any further.
    """

    def __init__(self, place: Location, most: int, *, longest: int = MAX_CATEGORY) -> None:
        self.first: dict[str, int] = {}
        self.flaw: Flaw | None = None
        self._place = place
        self._most = most
        self._longest = longest
        self._rows = 0

    def take(self, array: pa.Array) -> pa.DictionaryArray:
        """A batch of strings, as it is to be stored: its dictionary has no other words than those that occur."""
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        used, first = np.unique(encoded.indices.fill_null(-1).to_numpy(), return_index=True)
        used, first = used[used >= 0], first[used >= 0]
        kept = 0 if self.flaw else self._most + 1
        dictionary = encoded.dictionary.take(pa.array(used[:kept]))
        for word, row in zip(dictionary.to_pylist(), first.tolist(), strict=False):
            if self.flaw is None and word not in self.first:
                self._add(word, self._rows + row)
        self._rows += len(array)
        if self.flaw:
            return pa.nulls(len(array), pa.dictionary(pa.int32(), pa.string()))
        codes = pc.index_in(encoded.indices, value_set=pa.array(used))
        return pa.DictionaryArray.from_arrays(codes, dictionary)

    def _add(self, word: str, row: int) -> None:
        place, name = self._place, self._place.name
        if len(word) > self._longest:
            self.flaw = Flaw(place.loc, f"{name!r} has a value of {len(word)} characters; leave columns of text out")
        elif message := refused_character(word):
            self.flaw = place.flaw(row, message)
        elif len(self.first) == self._most:
            looks = misread(self.first | {word: row}, name)
            advice = "it looks like an identifier or text: leave it out or group its values"
            self.flaw = Flaw(
                place.loc,
                f"{name!r} has more than {self._most} distinct values; {place.flaw(*looks).msg if looks else advice}",
            )
        else:
            self.first[word] = row


@dataclass(frozen=True)
class Column:
    """A whole column: float64 `values` (n,), NaN where missing; or the codes of `words`, -1 where missing."""

    place: Location
    values: np.ndarray
    words: list[str] | None = None
    met: Words | None = None  # while the column was read

    @property
    def missing(self) -> np.ndarray:
        """Where no value is (n,)."""
        return np.isnan(self.values) if self.words is None else self.values < 0

    @property
    def feature(self) -> Feature:
        return Feature(self.place.name, "numeric" if self.words is None else "categorical")

    def digest(self) -> str:
        """Equal for equal values, however they were sent."""
        if self.words is None:
            return hashlib.sha256(self.values.astype("<f8", copy=False).tobytes()).hexdigest()
        marks = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little") | 1 for word in self.words]
        return hashlib.sha256(np.array([*marks, 0], dtype="<u8")[self.values].tobytes()).hexdigest()

    def flaws(self) -> Iterator[Flaw]:
        """What forbids the column as a feature."""
        if self.met and self.met.flaw:
            yield self.met.flaw
        elif self.missing.all():
            yield Flaw(self.place.loc, f"{self.place.name!r} is missing in every row; leave the column out")
        if self.words is None:
            yield from self.wrong(np.isinf(self.values), "{} is not a finite number")

    def wrong(self, bad: np.ndarray, msg: str) -> Iterator[Flaw]:
        """The first rows that are `bad` (n,)."""
        for i in np.flatnonzero(bad)[:MAX_ERRORS].tolist():
            value = float(self.values[i])
            shown = int(value) if value.is_integer() else value
            yield self.place.flaw(i, msg.format(repr(shown)))

    def looks(self, label: Column | None, left_out: LeftOut | None) -> Iterator[str]:
        """What a feature looks like where that is not how it was read, beside the one `label`."""
        name = self.place.name
        if left_out is not None:
            msg = f"{left_out.word!r} is not a number; such values count as missing: {left_out.count:,}"
            yield self.place.flaw(left_out.row, msg).msg
        if len(self.values) > 1 and (self.values == self.values[0]).all() and not self.missing[0]:
            yield f"{name!r} has the same value in every row; leave it out"
        elif label is not None and self._is_copy(label):
            yield f"{name!r} and the label {label.place.name!r} follow from one another; if it is a copy, leave it out"
        elif self.met and (found := misread(self.met.first, name)):
            yield self.place.flaw(*found).msg
        elif self.met and self._is_distinct(_FEW):
            shown = some_of([repr(word[:MAX_SHOWN]) for word in self.met.first], 2)
            yield f"{name!r} holds a different text in every row ({shown}); if it is an identifier, leave it out"
        elif self.words is None and self._is_distinct(_FEW_INTEGERS) and self._is_whole():
            yield f"{name!r} holds a different integer in every row; if it is an identifier, leave it out"

    def _is_whole(self) -> bool:
        present = self.values[~self.missing]
        return bool((present == np.floor(present)).all())

    def _is_distinct(self, few: int) -> bool:
        """Whether no value occurs twice, in `few` rows or more."""
        present = self.values[~self.missing]
        return len(self.values) >= few and all(len(np.unique(some)) == len(some) for some in _sooner(present))

    def _is_copy(self, label: Column) -> bool:
        """Whether different labels have different values, too, and each several rows; or all are the same."""
        if (self.words is None) == (label.words is None) and self.digest() == label.digest():
            return True
        if self.missing.any():
            return False
        for mine, theirs in zip(_sooner(self.values), _sooner(label.values), strict=True):
            labels, places, codes = np.unique(theirs, return_index=True, return_inverse=True)
            values = mine[places]  # of one row of each label
            if not (values[codes] == mine).all() or len(np.unique(values)) < len(labels):
                return False
        return 1 < len(labels) <= _MAX_LABELS and len(self.values) > 2 * len(labels)


def stored_columns(file: pq.ParquetFile, positions: range) -> Iterator[tuple[np.ndarray, list[str] | None]]:
    """The `values` and `words` of the stored columns at these positions, as `Column` has them; read some at a time."""
    at_once = max(CELLS // max(file.metadata.num_rows, 1), 1)
    for begin in range(positions.start, positions.stop, at_once):
        some = list(range(begin, min(begin + at_once, positions.stop)))
        for column in file.reader.read_all(column_indices=some, use_threads=False).columns:  # names may be there twice
            if not pa.types.is_dictionary(column.type):
                yield column.to_numpy(), None
                continue
            chunks = column.unify_dictionaries().chunks
            codes = [chunk.indices.fill_null(-1).to_numpy() for chunk in chunks]
            yield np.concatenate(codes), chunks[0].dictionary.to_pylist()


def _sooner(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first rows, and all: what fails in the first costs no look at all of them."""
    return values[:_LOOKED_AT], values
