"""Columns of a table, each as a whole: what it holds, and what it looks like where that is not how it was read."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.data.dataset import ColumnReport
from app.data.source import Kind, Location
from app.data.values import is_number
from app.errors import MAX_ERRORS, Flaw
from app.text import MAX_CATEGORY, refused_character

MAX_SHOWN = 40  # characters of a word
_MOST = 0.5  # of the distinct values of a column that is nearly a number
_AMOUNT = re.compile(r"[+-]?[$€£]?\s?\d[\d.,'\s]*[%$€£]?")
_DATE = re.compile(r"\d{1,4}([-/.])\d{1,2}\1\d{1,4}([ T]\d.*)?")
_IN_THOUSANDS = re.compile(r"[+-]?\d{1,3}([.,]\d{3})+")  # 1,100 may be 1100 or 1.1

CELLS = 1 << 21  # of a Parquet row group, and of the columns that are read together: at most 16 MB
_EXAMPLES = 3
_FEW = 20  # rows below which distinct words mean nothing
_FEW_INTEGERS = 100
DICTIONARY = pa.dictionary(pa.int32(), pa.string())


def is_written(word: str, decimal: str) -> bool:
    """Whether a word is a date, or a number in a way of writing that is not read as one: 2026-01-31, 1,234, 12 %."""
    return bool(_AMOUNT.fullmatch(word) or _DATE.fullmatch(word)) and not is_number(word, decimal)


class Words:
    """The words that are `found` in a column while its batches flow by, cut where they are longer than `longest`.

    Once there are more than `most` the column is not looked at any further, for it is refused.
    """

    def __init__(self, most: int, longest: int) -> None:
        self.found: set[str] = set()
        self.missing = 0
        self._most = most
        self._longest = longest

    @property
    def are_too_many(self) -> bool:
        """Whether no more of the column is kept."""
        return len(self.found) > self._most

    def take(self, array: pa.Array) -> pa.DictionaryArray:
        """A batch of strings, as it is to be stored: its dictionary has no other words than those that occur."""
        self.missing += array.null_count
        if self.are_too_many:
            return pa.nulls(len(array), DICTIONARY)
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        used = np.unique(encoded.indices.fill_null(-1).to_numpy())
        used = pa.array(used[used >= 0][: self._most + 1])
        words = pc.utf8_slice_codeunits(encoded.dictionary.take(used), 0, self._longest + 1)
        self.found.update(words.to_pylist())
        return pa.DictionaryArray.from_arrays(pc.index_in(encoded.indices, value_set=used), words)


@dataclass(frozen=True)
class Column:
    """A whole column: float64 `values` (n,), NaN where missing; or the codes of `words`, -1 where missing."""

    place: Location
    values: np.ndarray
    words: list[str] | None = None
    met: Words | None = None  # while the column was read

    @cached_property
    def missing(self) -> np.ndarray:
        """Where no value is (n,)."""
        return np.isnan(self.values) if self.words is None else self.values < 0

    @cached_property
    def distinct(self) -> np.ndarray:
        """The values that occur, each once, in order."""
        return np.unique(self.values[~self.missing])

    @property
    def kind(self) -> Kind:
        return "numeric" if self.words is None else "categorical"

    @cached_property
    def digest(self) -> str:
        """Equal for equal values, however they were sent."""
        if self.words is None:
            return hashlib.sha256(self.values.astype("<f8", copy=False).tobytes()).hexdigest()
        marks = [int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little") | 1 for word in self.words]
        return hashlib.sha256(np.array([*marks, 0], dtype="<u8")[self.values].tobytes()).hexdigest()

    def report(self, advice: str | None) -> ColumnReport:
        """How it was read, and what to change."""
        count = len(self.distinct)
        some = self.distinct[[0, count // 2, -1]] if count > _EXAMPLES else self.distinct
        texts = [f"{value:.12g}" if self.words is None else self.words[value][:MAX_SHOWN] for value in some]
        missing = self.met.missing if self.met else int(np.count_nonzero(self.missing))
        distinct = None if self.met and self.met.are_too_many else count
        return ColumnReport(self.place.name, self.kind, tuple(texts), missing, distinct, advice)

    def flaws(self, most: int, decimal: str) -> Iterator[Flaw]:
        """What forbids the column as a feature."""
        if self.missing.all():
            yield Flaw(self.place.loc, f"{self.place.name!r} is missing in every row; leave the column out")
        elif self.words is None:
            yield from self.wrong(np.isinf(self.values), "{} is not a finite number")
        else:
            yield from self.flaws_of_words(most, MAX_CATEGORY, decimal)

    def flaws_of_words(self, most: int, longest: int, decimal: str) -> Iterator[Flaw]:
        """Words that are too long or hold a refused character, or too many words; the first of these."""
        words, loc, name = self.words or [], self.place.loc, self.place.name
        if any(len(word) > longest for word in words):
            yield Flaw(loc, f"{name!r} has a value of more than {longest} characters; leave columns of text out")
        elif refused := next(filter(None, map(refused_character, words)), None):
            yield self.place.flaw(self._first_row(refused_character), refused)
        elif len(words) > most:
            advice = self.misread(decimal) or "it looks like an identifier or text: leave it out or group its values"
            yield Flaw(loc, f"{name!r} has more than {most} distinct values; {advice}")

    def wrong(self, bad: np.ndarray, msg: str) -> Iterator[Flaw]:
        """The first rows that are `bad` (n,)."""
        for i in np.flatnonzero(bad)[:MAX_ERRORS].tolist():
            value = float(self.values[i])
            shown = int(value) if value.is_integer() else value
            yield self.place.flaw(i, msg.format(repr(shown)))

    def looks(self, label: Column | None, decimal: str) -> str | None:
        """What a feature looks like where that is not how it was read, beside the one `label`."""
        name = self.place.name
        if label is not None and self._is_copy(label):
            return f"{name!r} and the label {label.place.name!r} follow from one another; if it is a copy, leave it out"
        if misread := self.misread(decimal):
            return misread
        if any("\n" in word for word in self.words or ()):
            return f"{name!r} has a value of several lines; is a quotation mark not closed?"
        what, few = ("text", _FEW) if self.words is not None else ("integer", _FEW_INTEGERS)
        is_whole = self.words is not None or ((self.values == np.floor(self.values)) | self.missing).all()
        if is_whole and len(self.values) >= few and len(self.distinct) == np.count_nonzero(~self.missing):
            return f"{name!r} holds a different {what} in every row; if it is an identifier, leave it out"
        return None

    def misread(self, decimal: str) -> str | None:
        """The first word that keeps a column from being numbers, or dates, and what to do; None for words."""
        words = self.words or []
        written = sum(is_written(word, decimal) for word in words)
        numbers = sum(is_number(word, decimal) for word in words)
        if numbers == len(words) or numbers + written <= _MOST * len(words):
            return None
        row = self._first_row(lambda word: not is_number(word, decimal))
        word, other = words[self.values[row]], "." if decimal == "," else ","
        if not is_written(word, decimal):
            order = f'types={{"{self.place.name}": "number"}}'
            advice = f"is not a number, as most values are; fix it, or send {order} to leave it out"
        elif is_number(word, other) and not _IN_THOUSANDS.fullmatch(word):
            advice = f"is read as a word: send decimal={other} or write digits with {decimal!r}"
        elif _DATE.fullmatch(word):
            advice = "is read as a word: write days since a date as a number"
        else:
            advice = f"is read as a word: write digits with {decimal!r} alone, without thousands, currencies and %"
        return self.place.flaw(row, f"{word[:MAX_SHOWN]!r} {advice}").msg

    def _first_row(self, chosen: Callable[[str], object]) -> int:
        """The first row that has one of the words that are `chosen`."""
        return int(np.isin(self.values, [code for code, word in enumerate(self.words or ()) if chosen(word)]).argmax())

    def _is_copy(self, label: Column) -> bool:
        """Whether each value goes with one label and each label with one value, in several rows; or all are equal."""
        if self.digest == label.digest:
            return True
        mine, theirs = self.distinct, label.distinct
        if self.missing.any() or not 1 < len(mine) == len(theirs) < len(self.values) / 2:
            return False
        pairs = np.searchsorted(mine, self.values) * len(theirs) + np.searchsorted(theirs, label.values)
        return len(np.unique(pairs)) == len(mine)


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
