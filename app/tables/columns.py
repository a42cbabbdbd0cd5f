"""Columns of a table, each as a whole: what it holds, and what it looks like where that is not how
it was read.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.tables.dataset import ColumnReport
from app.tables.notations import BOOLEAN, candidates, shown
from app.tables.source import Kind, Location
from app.tables.text import MAX_CATEGORY, MAX_SHOWN, refused_character, spelling
from app.tables.values import is_number
from payoff.errors import Flaw

_MOST = 0.5  # of the distinct values of a column that is nearly a number
_NAMED_ID = re.compile(
    r"(.*[\W_])?((?i:id|nr|no|key|uuid|guid|number|nummer))|(?i:.*nummer)|.*[a-z](Id|ID|Nr|Key)"
)
_LOOKED_AT = 200  # words
_NEARLY_ALL = 0.9  # of the words of an identifier differ
# so many integers n out of n * n / 10 would hold some five pairs of equal ones, had they been
# measured
_MET = 10
EXACT = 2.0**53  # from here on float64 cannot represent every integer

CELLS = 1 << 21  # of a Parquet row group, and of the columns that are read together: at most 16 MB
_EXAMPLES = 3
_FEW = 20  # rows below which distinct words mean nothing
_FEW_INTEGERS = 100
DICTIONARY = pa.dictionary(pa.int32(), pa.string())


class Words:
    """The words that are `found` in a column while its batches flow by, cut where they are longer
    than `longest`.

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
        """A batch of strings, as it is to be stored: its dictionary has no other words than those
        that occur.
        """
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
    """A whole column: float64 `values` (n,), NaN where missing; or the codes of `words`, -1 where
    missing.
    """

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

    def respelt(self) -> Self:
        """With words that differ in case and spaces alone as the most frequent of them; truths as
        JSON has them.
        """
        words = self.words or []
        counts = np.bincount(self.values[~self.missing], minlength=len(words))
        usual = {spelling(words[code]): words[code] for code in np.argsort(counts, kind="stable")}
        usual = {word: word for word in usual} if usual.keys() <= {"true", "false"} else usual
        order = [*usual]
        codes = np.array([*(order.index(spelling(word)) for word in words), -1])[self.values]
        return replace(self, values=codes, words=[*usual.values()])

    @cached_property
    def digest(self) -> str:
        """Equal for equal values, however they were sent."""
        if self.words is None:
            return hashlib.sha256(self.values.astype("<f8", copy=False).tobytes()).hexdigest()
        marks = [
            int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little") | 1
            for word in self.words
        ]
        return hashlib.sha256(np.array([*marks, 0], dtype="<u8")[self.values].tobytes()).hexdigest()

    def report(self, advice: str | None, form: str | None) -> ColumnReport:
        """How it was read, and what to change."""
        count = len(self.distinct)
        some = self.distinct[[0, count // 2, -1]] if count > _EXAMPLES else self.distinct
        texts = [
            shown(value, form) if self.words is None else self.words[value][:MAX_SHOWN]
            for value in some
        ]
        missing = self.met.missing if self.met else int(np.count_nonzero(self.missing))
        distinct = None if self.met and self.met.are_too_many else count
        return ColumnReport(
            self.place.name, self.kind, tuple(texts), missing, distinct, advice, form
        )

    def flaws(self, most: int, decimal: str) -> Iterator[Flaw]:
        """What forbids the column as a feature."""
        if self.missing.all():
            yield Flaw(
                self.place.loc, f"{self.place.name!r} is missing in every row; leave the column out"
            )
        elif self.words is None:
            yield from self.wrong(np.isinf(self.values), "{} is not a finite number")
        else:
            yield from self.flaws_of_words(most, MAX_CATEGORY, decimal)

    def flaws_of_words(self, most: int, longest: int, decimal: str) -> Iterator[Flaw]:
        """Words that are too long or hold a refused character, or too many words; the first of
        these.
        """
        words, loc, name = self.words or [], self.place.loc, self.place.name
        if any(len(word) > longest for word in words):
            yield Flaw(
                loc,
                f"{name!r} has a value of more than {longest} characters; leave columns of text out",
            )
        elif refused := next(filter(None, map(refused_character, words)), None):
            yield self.place.flaw(self._first_row(refused_character), refused)
        elif len(words) > most:
            advice = (
                self.misread(decimal)
                or "it looks like an identifier or text: leave it out or group its values"
            )
            yield Flaw(loc, f"{name!r} has more than {most} distinct values; {advice}")

    def wrong(self, bad: np.ndarray, msg: str) -> Iterator[Flaw]:
        """The rows that are `bad` (n,), by the value of the first."""
        rows = np.flatnonzero(bad)
        if rows.size:
            value = float(self.values[rows[0]])
            shown = int(value) if value.is_integer() else value
            yield self.place.flaw_of(rows, msg.format(repr(shown)))

    def looks(self, label: Self | None, decimal: str) -> str | None:
        """What a feature looks like where that is not how it was read, beside the one `label`."""
        name = self.place.name
        if label is not None and self._is_copy(label):
            return f"{name!r} and the label {label.place.name!r} follow from one another; if it is a copy, leave it out"
        if misread := self.misread(decimal):
            return misread
        if any("\n" in word for word in self.words or ()):
            return f"{name!r} has a value of several lines; is a quotation mark not closed?"
        return None

    def identifies(self, decimal: str) -> str | None:
        """Why the column is taken to tell the rows apart, and to measure nothing.

        Nearly all of its words differ; or all of its integers do, and they are so near one another
        that measured ones would have met, or are called an identifier.
        """
        name, present = self.place.name, self.values[~self.missing]
        n, is_wordy = len(present), self.words is not None
        order = f'types={{"{name}": "{"category" if is_wordy else "number"}"}}'
        if is_wordy and n >= _FEW and len(self.distinct) >= _NEARLY_ALL * n:
            text = f"{name!r} holds another text in nearly every row, as identifiers do; {order} keeps it"
            return self.misread(decimal) or text
        if is_wordy or n < _FEW_INTEGERS or (present != np.floor(present)).any():
            return None
        if np.abs(present).min() >= EXACT:
            return f"{name!r} holds integers of more digits than numbers keep; order a category if they are one"
        is_dense = present.max() - present.min() < n * n / _MET
        if len(self.distinct) == n and (is_dense or _NAMED_ID.fullmatch(name)):
            return (
                f"{name!r} holds another integer in every row, as identifiers do; {order} keeps it"
            )
        return None

    def misread(self, decimal: str) -> str | None:
        """The first word that keeps a column from being numbers, and what to do; None for words."""
        words = self.words or []
        some = words[:_LOOKED_AT]
        read = sum(
            is_number(word, decimal) or candidates(word, decimal) not in ([], [BOOLEAN])
            for word in some
        )
        if read <= _MOST * len(some):
            return None
        order = f'types={{"{self.place.name}": "number"}}'
        if all(is_number(word, decimal) for word in words):
            if not (self.met and self.met.are_too_many):
                return None
            return (
                f"the first {len(words)} of them are numbers; send {order} to leave other words out"
            )
        row = self._first_row(lambda word: not is_number(word, decimal))
        word = words[self.values[row]][:MAX_SHOWN]
        advice = (
            f"{word!r} is not a number, as most values are; fix it, or send {order} to leave it out"
        )
        return self.place.flaw(row, advice).msg

    def _first_row(self, chosen: Callable[[str], object]) -> int:
        """The first row that has one of the words that are `chosen`."""
        return int(
            np.isin(
                self.values, [code for code, word in enumerate(self.words or ()) if chosen(word)]
            ).argmax()
        )

    def _is_copy(self, label: Self) -> bool:
        """Whether each value goes with one label and each label with one value, in several rows; or
        all are equal.
        """
        if self.digest == label.digest:
            return True
        mine, theirs = self.distinct, label.distinct
        if self.missing.any() or not 1 < len(mine) == len(theirs) < len(self.values) / 2:
            return False
        pairs = np.searchsorted(mine, self.values) * len(theirs) + np.searchsorted(
            theirs, label.values
        )
        return len(np.unique(pairs)) == len(mine)


def stored_columns(
    file: pq.ParquetFile, positions: range
) -> Iterator[tuple[np.ndarray, list[str] | None]]:
    """The `values` and `words` of the stored columns at these positions, as `Column` has them; read
    some at a time.
    """
    at_once = max(CELLS // max(file.metadata.num_rows, 1), 1)
    for begin in range(positions.start, positions.stop, at_once):
        some = list(range(begin, min(begin + at_once, positions.stop)))
        # names may be there twice
        for column in file.reader.read_all(column_indices=some, use_threads=False).columns:
            if not pa.types.is_dictionary(column.type):
                yield column.to_numpy(), None
                continue
            chunks = column.unify_dictionaries().chunks
            codes = [chunk.indices.fill_null(-1).to_numpy() for chunk in chunks]
            yield np.concatenate(codes), chunks[0].dictionary.to_pylist()
