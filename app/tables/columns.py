"""Whole columns of a table: their values, and advice where a column looks like something else than
it was read as.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b, sha256
from itertools import chain
from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from app.tables.dataset import ColumnReport
from app.tables.notations import BOOLEAN, ISO, candidates, reader, shown, without_unit
from app.tables.source import Kind, Location
from app.tables.text import (
    MAX_CATEGORY,
    MAX_SHOWN,
    names_identifier,
    refused_character,
    spelling,
)
from app.tables.values import is_number
from payoff.errors import Flaw

_SHARE_OF_NUMBERS = 0.5  # of the distinct values of a column that is nearly a number
_MOST_WORDS_TRIED = 200  # whether they are numbers
_PLAIN = "number"  # without separators or units, as `types` orders it
_SHARE_OF_DISTINCT_WORDS = 0.9  # of the words of an identifier
# n measured integers out of a range of n * n / 10 would hold some five pairs of equal ones.
_RANGE_DIVISOR = 10
EXACT = 2.0**53  # from here on float64 cannot represent every integer

CELLS = (
    1 << 21
)  # of a Parquet row group, and of the columns that are read together: at most 16 MB
_MOST_EXAMPLES = 3
_FEWEST_WORDS_OF_IDENTIFIER = 20  # with fewer rows distinct words mean nothing
_FEWEST_INTEGERS_OF_IDENTIFIER = 100
MOST_WORDS_KEPT = 200  # of a column that is no feature; of more it has codes alone
_SPARE_BITS = 64 - 53
DICTIONARY = pa.dictionary(pa.int32(), pa.string())


class Words:
    """The `distinct` words of a column whose batches are read one by one, cut where they are longer
    than `max_characters`.

    Once there are more than `max_words` the column is not scanned any further, for it is refused.
    """

    def __init__(self, max_words: int, max_characters: int) -> None:
        self.distinct: set[str] = set()
        self.missing = 0
        self._max_words = max_words
        self._max_characters = max_characters

    @property
    def are_too_many(self) -> bool:
        """Whether no more of the column is kept."""
        return len(self.distinct) > self._max_words

    def take(self, array: pa.Array) -> pa.DictionaryArray:
        """A batch of strings, as it is to be stored: its dictionary has no other words than those
        that occur.
        """
        self.missing += array.null_count
        if self.are_too_many:
            return pa.nulls(len(array), DICTIONARY)
        codes, words = _encoded(array, self._max_words + 1)
        words = pc.utf8_slice_codeunits(words, 0, self._max_characters + 1)
        self.distinct.update(words.to_pylist())
        return pa.DictionaryArray.from_arrays(codes, words)


class Codes:
    """Codes in place of the words of a column that is no feature, read batch by batch: equal words
    have equal codes, in each data set.

    `words` are those that occur, up to `MOST_WORDS_KEPT`, and none where there are more.
    """

    def __init__(self) -> None:
        self._distinct: set[str] = set()

    @property
    def words(self) -> tuple[str, ...]:
        """The words in order; none where they are too many."""
        if len(self._distinct) > MOST_WORDS_KEPT:
            return ()
        return tuple(sorted(self._distinct))

    def take(self, array: pa.Array) -> pa.DoubleArray:
        """The codes of a batch of strings, as they are stored; null where a word is missing."""
        codes, words = _encoded(array, len(array))
        texts = words.to_pylist()
        if len(self._distinct) <= MOST_WORDS_KEPT:
            self._distinct.update(text[:MAX_CATEGORY] for text in texts)
        return pa.array(map(code_of, texts), pa.float64()).take(codes)


def code_of(word: str) -> float:
    """The code of a word in a kept column: 53 bits of a digest, which a float64 represents.

    Two of a million words have the same code with a probability of 5e-5.
    """
    digest = blake2b(word.encode(), digest_size=8).digest()
    return float(int.from_bytes(digest, "little") >> _SPARE_BITS)


def _encoded(array: pa.Array, most_words: int) -> tuple[pa.Array, pa.Array]:
    """The position of each word, null where it is missing, among the words that occur, of which
    there are so many at most.
    """
    encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
    used = np.unique(encoded.indices.fill_null(-1).to_numpy())
    used = pa.array(used[used >= 0][:most_words])
    codes = pc.index_in(encoded.indices, value_set=used)
    return codes, encoded.dictionary.take(used)


@dataclass(frozen=True)
class Column:
    """A whole column: float64 `values` (n,), NaN where missing; or the codes of `words`, -1 where
    a word is missing.
    """

    place: Location
    values: np.ndarray
    words: list[str] | None = None
    # the words that were counted while the column was written
    scanned: Words | None = None

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
        """The column with one spelling of words that differ in case and spaces alone: the most
        frequent one, or that of JSON for booleans.
        """
        words = self.words or []
        counts = np.bincount(self.values[~self.missing], minlength=len(words))
        by_count = np.argsort(counts, kind="stable")
        spellings = {spelling(words[code]): words[code] for code in by_count}
        if spellings.keys() <= {"true", "false"}:
            spellings = {word: word for word in spellings}
        order = [*spellings]
        codes = np.array([*(order.index(spelling(word)) for word in words), -1])[
            self.values
        ]
        return replace(self, values=codes, words=[*spellings.values()])

    @cached_property
    def digest(self) -> str:
        """Equal for equal values, however they were sent."""
        if self.words is None:
            return sha256(self.values.astype("<f8", copy=False).tobytes()).hexdigest()
        marks = [
            int.from_bytes(sha256(word.encode()).digest()[:8], "little") | 1
            for word in self.words
        ]
        return sha256(
            np.array([*marks, 0], dtype="<u8")[self.values].tobytes()
        ).hexdigest()

    def report(self, advice: str | None, notation: str | None) -> ColumnReport:
        """The report of the column, with the advice about it."""
        count = len(self.distinct)
        examples = (
            self.distinct[[0, count // 2, -1]]
            if count > _MOST_EXAMPLES
            else self.distinct
        )
        texts = [
            shown(value, notation)
            if self.words is None
            else self.words[value][:MAX_SHOWN]
            for value in examples
        ]
        missing = (
            self.scanned.missing
            if self.scanned
            else int(np.count_nonzero(self.missing))
        )
        distinct = None if self.scanned and self.scanned.are_too_many else count
        return ColumnReport(
            self.place.name,
            self.kind,
            tuple(texts),
            missing,
            distinct,
            advice,
            notation,
        )

    def flaws(self, max_words: int, decimal: str) -> Iterator[Flaw]:
        """The flaws that forbid the column as a feature."""
        if self.missing.all():
            yield Flaw(
                self.place.loc,
                f"{self.place.name!r} is missing in every row; leave the column out",
            )
        elif self.words is None:
            yield from self.wrong(np.isinf(self.values), "{} is not a finite number")
        else:
            yield from self.flaws_of_words(max_words, MAX_CATEGORY, decimal)

    def flaws_of_words(
        self, max_words: int, max_characters: int, decimal: str
    ) -> Iterator[Flaw]:
        """Words that are too long or hold a refused character, or too many words; the first of
        these.
        """
        words = self.words or []
        loc = self.place.loc
        name = self.place.name
        refused = next(filter(None, map(refused_character, words)), None)
        if any(len(word) > max_characters for word in words):
            long = f"{name!r} has a value of more than {max_characters} characters"
            yield Flaw(loc, f"{long}; leave columns of text out")
        elif refused:
            yield self.place.flaw(self._first_row(refused_character), refused)
        elif len(words) > max_words:
            advice = (
                self.misread(decimal)
                or "it looks like an identifier or text: leave it out or group its values"
            )
            yield Flaw(
                loc, f"{name!r} has more than {max_words} distinct values; {advice}"
            )

    def wrong(self, bad: np.ndarray, msg: str) -> Iterator[Flaw]:
        """The rows that are `bad` (n,), by the value of the first."""
        rows = np.flatnonzero(bad)
        if rows.size:
            value = float(self.values[rows[0]])
            shown = int(value) if value.is_integer() else value
            yield self.place.flaw_of(rows, msg.format(repr(shown)))

    def looks(self, label: Self | None, decimal: str) -> str | None:
        """Advice about a feature that looks like something else than it was read as, beside the one
        `label`.
        """
        name = self.place.name
        if label is not None and self._is_copy(label):
            both = (
                f"{name!r} and the label {label.place.name!r} follow from one another"
            )
            return f"{both}; if it is a copy, leave it out"
        misread = self.misread(decimal)
        if misread:
            return misread
        if any("\n" in word for word in self.words or ()):
            return f"{name!r} has a value of several lines; is a quotation mark not closed?"
        return None

    def identifies(self, decimal: str) -> str | None:
        """Why the column is taken for an identifier of rows, which measures nothing.

        Nearly all of its words differ; or all of its integers do, and they are so dense that some
        measured ones would be equal, or the column has the name of an identifier.
        """
        name = self.place.name
        present = self.values[~self.missing]
        n = len(present)
        is_wordy = self.words is not None
        order = f'types={{"{name}": "{"category" if is_wordy else "number"}"}}'
        if (
            is_wordy
            and n >= _FEWEST_WORDS_OF_IDENTIFIER
            and len(self.distinct) >= _SHARE_OF_DISTINCT_WORDS * n
        ):
            text = f"{name!r} is left out: a different text in nearly every row"
            return self.misread(decimal) or f"{text}; {order} keeps it"
        if (
            is_wordy
            or n < _FEWEST_INTEGERS_OF_IDENTIFIER
            or (present != np.floor(present)).any()
        ):
            return None
        if np.abs(present).min() >= EXACT:
            long = f"{name!r} holds integers of more digits than numbers keep"
            return f"{long}; order a category if they are one"
        is_dense = present.max() - present.min() < n * n / _RANGE_DIVISOR
        if len(self.distinct) == n and (is_dense or names_identifier(name)):
            return (
                f"{name!r} is left out: a different integer in every row; "
                f"{order} keeps it"
            )
        return None

    def misread(self, decimal: str) -> str | None:
        """The first word that keeps a column from being numbers, and what to do; None for words."""
        words = self.words or []
        sample = words[:_MOST_WORDS_TRIED]
        notations = [_notations(word, decimal) for word in sample]
        if sum(map(bool, notations)) <= _SHARE_OF_NUMBERS * len(sample):
            return None
        counts = Counter(
            chain([_PLAIN], chain.from_iterable(notations))
        )  # plain in doubt
        highest = max(counts.values())
        frequent = [notation for notation in counts if counts[notation] == highest]
        if _PLAIN in frequent:
            frequent = [_PLAIN]
        orders = [
            f'types={{"{self.place.name}": "{without_unit(notation)}"}}'
            for notation in frequent
        ]
        order = " or ".join(dict.fromkeys(orders))

        def is_frequent(word: str) -> bool:
            if _PLAIN in frequent:
                return is_number(word, decimal)
            return any(reader(notation)(word) is not None for notation in frequent)

        if all(map(is_frequent, words)):
            if not (self.scanned and self.scanned.are_too_many):
                return None
            return (
                f"the first {len(words)} of them are numbers; "
                f"send {order} to leave other words out"
            )
        row = self._first_row(lambda word: not is_frequent(word))
        word = words[self.values[row]][:MAX_SHOWN]
        noun = "date" if frequent[0].startswith(ISO) else "number"
        advice = (
            f"{word!r} is not a {noun}, as most values are; "
            f"fix it, or send {order} to leave it out"
        )
        return self.place.flaw(row, advice).msg

    def _first_row(self, condition: Callable[[str], object]) -> int:
        """The first row with a word that satisfies the `condition`."""
        codes = [code for code, word in enumerate(self.words or ()) if condition(word)]
        return int(np.isin(self.values, codes).argmax())

    def _is_copy(self, label: Self) -> bool:
        """Whether each value goes with one label and each label with one value, in several rows; or
        all are equal.
        """
        if self.digest == label.digest:
            return True
        values = self.distinct
        labels = label.distinct
        if (
            self.missing.any()
            or not 1 < len(values) == len(labels) < len(self.values) / 2
        ):
            return False
        codes = np.searchsorted(values, self.values)
        codes_of_labels = np.searchsorted(labels, label.values)
        return len(np.unique(codes * len(labels) + codes_of_labels)) == len(values)


def _notations(word: str, decimal: str) -> list[str]:
    """The notations in which a word may be a number; that of booleans is none of these."""
    plain = [_PLAIN] if is_number(word, decimal) else []
    return [
        notation
        for notation in plain + candidates(word, decimal)
        if notation != BOOLEAN
    ]


def stored_columns(
    file: pq.ParquetFile, positions: range
) -> Iterator[tuple[np.ndarray, list[str] | None]]:
    """The `values` and `words` of the stored columns at these positions, as `Column` has them; read
    some at a time.
    """
    at_once = max(CELLS // max(file.metadata.num_rows, 1), 1)
    for begin in range(positions.start, positions.stop, at_once):
        indices = list(range(begin, min(begin + at_once, positions.stop)))
        # Columns are read by position, as two may have the same name.
        for column in file.reader.read_all(
            column_indices=indices, use_threads=False
        ).columns:
            if not pa.types.is_dictionary(column.type):
                yield column.to_numpy(), None
                continue
            chunks = column.unify_dictionaries().chunks
            codes = [chunk.indices.fill_null(-1).to_numpy() for chunk in chunks]
            yield np.concatenate(codes), chunks[0].dictionary.to_pylist()
