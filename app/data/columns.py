"""Columns that are checked, digested and summed up while they flow by, a batch at a time.

A batch is an Arrow array, float64 or (dictionary-encoded) string, null where a value is missing.
"""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

from app.data.location import Location
from app.data.misread import misread
from app.errors import Flaw, Invalid, TooLarge
from app.features import Feature
from app.text import MAX_CATEGORY, refused_character

DICTIONARY = pa.dictionary(pa.int32(), pa.string())


class _Column:
    """What is known of a column of either kind so far."""

    def __init__(self, place: Location) -> None:
        self.place = place
        self.rows = 0
        self.missing = 0
        self._digest = hashlib.sha256()

    @property
    def constant(self) -> bool:
        """Whether all values are the same, and none is missing."""
        return self.rows > 1 and not self.missing and self._is_single()

    def flaws(self) -> list[Flaw]:
        """What is wrong with the column as a feature, now that it is complete."""
        if self.missing < self.rows:
            return []
        return [Flaw(self.place.loc, f"{self.place.name!r} is missing in every row; leave the column out")]

    def digest(self) -> str:
        """The same for the same values, however they were sent and cut into batches."""
        return self._digest.hexdigest()

    def _is_single(self) -> bool:
        """Whether there is one value, besides missing ones."""
        raise NotImplementedError


class NumericColumn(_Column):
    """A column of finite numbers."""

    stored_as = pa.float64()

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self.values = np.empty(0)  # of the last batch
        self._least, self._most = np.inf, -np.inf

    def add(self, array: Any) -> Any:
        """Take a float64 batch in and give it back as it is to be stored; Invalid where a number is not finite."""
        values = array.to_numpy(zero_copy_only=False)
        finite = np.isfinite(values)
        if len(values) - np.count_nonzero(finite) > array.null_count:
            valid = array.is_valid().to_numpy(zero_copy_only=False)
            self._refuse(values, valid & ~finite, "{} is not a finite number")
        self._check(array, values)
        self._digest.update(values.astype("<f8", copy=False).tobytes())
        self.values = values
        self._least = np.fmin.reduce(values, initial=self._least)
        self._most = np.fmax.reduce(values, initial=self._most)
        self.rows += len(values)
        self.missing += array.null_count
        return array

    def feature(self) -> Feature:
        return Feature(self.place.name, "numeric")

    def _is_single(self) -> bool:
        return bool(self._least == self._most)

    def _check(self, array: Any, values: np.ndarray) -> None:
        """What a kind of column asks for beyond finite numbers."""

    def _refuse(self, values: np.ndarray, bad: np.ndarray, msg: str) -> None:
        positions = np.flatnonzero(bad)
        raise Invalid.of(self.place.flaw(self.rows + int(i), msg.format(_shown(values[i]))) for i in positions)


class Vocabulary:
    """The words of all categorical columns together, bounded: every model's card holds them."""

    def __init__(self, most_words: int, most_characters: int) -> None:
        self._most_words = most_words
        self._most_characters = most_characters
        self._words = 0
        self._characters = 0

    def add(self, word: str) -> None:
        """Count a word that is new in its column; TooLarge where there are too many, or too long ones."""
        self._words += 1
        self._characters += len(word)
        if self._words > self._most_words or self._characters > self._most_characters:
            raise TooLarge(
                f"the columns have too many categories together: at most {self._most_words:,}, of"
                f" {self._most_characters:,} characters, are supported; leave columns of text and identifiers out"
            )


class CategoricalColumn(_Column):
    """A column of words, and how often each occurs."""

    stored_as = DICTIONARY
    longest = MAX_CATEGORY

    def __init__(self, place: Location, most: int, vocabulary: Vocabulary) -> None:
        super().__init__(place)
        self.most = most
        self.counts: dict[str, int] = {}
        self.first: dict[str, int] = {}  # the row of each word's first occurrence
        self.values = np.empty(0, dtype="<u8")  # of the last batch, the same number for the same word
        self._vocabulary = vocabulary
        self._marks: dict[str, int] = {}

    def add(self, array: Any) -> Any:
        """Take a batch of strings in and give it back dictionary-encoded; Invalid where there are too many words."""
        encoded = array if pa.types.is_dictionary(array.type) else array.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
        counts = np.bincount(codes + 1, minlength=len(encoded.dictionary) + 1)
        used = np.flatnonzero(counts[1:])
        dictionary = encoded.dictionary.take(pa.array(used[: self.most + 1]))
        words = dictionary.to_pylist()
        self._check_words(words, codes, used)
        if any(word not in self.first for word in words):
            self._note_first(words, codes, used)
        self._count(words, counts[1:][used[: self.most + 1]])
        marks = np.zeros(len(counts), dtype="<u8")  # position 0, before all words, is the missing value's
        marks[used + 1] = [self._marks[word] for word in words]
        self.values = marks[codes + 1]
        self._digest.update(self.values.tobytes())
        self._check(codes)
        self.rows += len(codes)
        self.missing += int(counts[0])
        positions = np.zeros(len(counts), dtype=np.int32)
        positions[used + 1] = np.arange(len(used))
        return pa.DictionaryArray.from_arrays(pa.array(positions[codes + 1], mask=codes < 0), dictionary)

    def feature(self) -> Feature:
        return Feature(self.place.name, "categorical", tuple(sorted(self.counts)))

    def _is_single(self) -> bool:
        return len(self.counts) == 1

    def _check(self, codes: np.ndarray) -> None:
        """What a kind of column asks for beyond a bounded number of words; -1 is the missing value's code."""

    def _note_first(self, words: list[str], codes: np.ndarray, used: np.ndarray) -> None:
        present = np.flatnonzero(codes >= 0)[::-1]
        first = np.zeros(int(used.max()) + 1, dtype=np.int64)
        first[codes[present]] = present  # of several rows the last one assigned stays: the first of the file
        for word, code in zip(words, used.tolist(), strict=False):
            self.first.setdefault(word, self.rows + int(first[code]))

    def _check_words(self, words: list[str], codes: np.ndarray, used: np.ndarray) -> None:
        """Invalid where a new word is too long, or at the first row whose word no text may hold."""
        for word, code in zip(words, used, strict=False):
            if word in self.counts:
                continue
            if len(word) > self.longest:
                msg = f"{self.place.name!r} has a value of {len(word)} characters; leave columns of text out"
                raise Invalid.at(self.place.loc, msg)
            if message := refused_character(word):
                flaw = self.place.flaw(self.rows + int(np.argmax(codes == code)), message)
                raise Invalid(flaw.msg, [flaw])

    def _count(self, words: list[str], counts: np.ndarray) -> None:
        for word, count in zip(words, counts.tolist(), strict=True):
            if word not in self.counts:
                self._vocabulary.add(word)
                self._marks[word] = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "little") | 1
            self.counts[word] = self.counts.get(word, 0) + count
        self._check_number(len(self.counts))

    def _check_number(self, distinct: int) -> None:
        if distinct <= self.most:
            return
        msg = f"{self.place.name!r} has more than {self.most} distinct values"
        if looks := misread(self.first, self.place.name):
            raise Invalid.at(self.place.loc, f"{msg}; {self.place.flaw(*looks).msg}")
        raise Invalid.at(
            self.place.loc, f"{msg}; it looks like an identifier or text: leave it out or group its values"
        )


def _shown(value: float) -> str:
    return repr(int(value)) if np.isfinite(value) and value == int(value) else repr(float(value))
