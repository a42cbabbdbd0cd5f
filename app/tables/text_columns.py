"""Columns of text while they are scanned: the notations that read all of their words; where several
do, the one that other columns of the file show.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from app.tables.conventions import decided_by_others
from app.tables.notations import (
    BOOLEAN,
    COMMA,
    ISO,
    POINT,
    candidates,
    reader,
    shown,
    without_unit,
)
from app.tables.source import Held, Kind, Source
from app.tables.text import MAX_SHOWN
from app.tables.upload_request import UploadRequest
from app.tables.values import as_numbers, as_words, is_number

# orders of columns whose words may be in a notation
_ORDERS_WITH_NOTATION = {None, "number", POINT, COMMA}
_NOTATIONS = {"moment": ISO, "truth": BOOLEAN}
_MOST_WORDS_TRIED = 1000  # that are no numbers, in search of one that has a notation
# 1.899 or 899: if all words are written so, the point may separate thousands
_THOUSANDS = r"^(0|[1-9]\d{0,2}(\.\d{3})?)$"


@dataclass
class TextColumn:
    """A column of text while it is scanned: the notations that read all its words, and a word of
    which they give different numbers.

    Of a column that is `ordered` to be numbers the words that neither a notation nor the `decimal`
    sign reads are missing.
    """

    ordered: str | None
    decimal: str
    is_plain: bool = True  # every word is a number
    are_thousands: bool = True  # every word may have a point that separates thousands
    has_point: bool = False
    notations: list[str] = field(default_factory=list)
    ambiguous_word: str | None = None

    def begin(self, array: Any) -> None:
        """Take the notations of the first word that is no number; if ordered, of the first word
        that has a notation.
        """
        if not self.is_plain and (self.notations or not self.ordered):
            return
        unread = as_numbers(array, self.decimal)[1]
        if unread is not None:
            self.is_plain = False
            words = words_of(array.filter(unread))[
                : _MOST_WORDS_TRIED if self.ordered else 1
            ]
            self.notations = next(filter(None, map(self.fitting, words)), [])
        elif self.are_thousands:
            words = as_words(array).cast(
                pa.string()
            )  # of a Parquet file it may be a dictionary
            self.are_thousands = (
                pc.all(pc.match_substring_regex(words, _THOUSANDS)).as_py() is not False
            )
            self.has_point |= bool(pc.any(pc.match_substring(words, ".")).as_py())

    def fitting(self, word: str) -> list[str]:
        """The notations of the word that the order allows."""
        if self.ordered in (None, "number"):
            return candidates(word, self.decimal)
        return [
            notation
            for notation in candidates(word)
            if without_unit(notation) == self.ordered
        ]

    def narrow(self, words: Iterable[str]) -> None:
        """Keep the notations that read these words, too."""
        for word in words:
            numbers = {notation: reader(notation)(word) for notation in self.notations}
            fitting = [
                notation for notation, number in numbers.items() if number is not None
            ]
            if fitting or not self.ordered or is_number(word, self.decimal):
                self.notations = fitting
            if not self.notations:
                return
            if len({numbers[notation] for notation in fitting}) > 1:
                self.ambiguous_word = self.ambiguous_word or word

    def ambiguity(self, name: str) -> str | None:
        """The meanings that the column may have, and the orders that decide; None if it has one."""
        word = self.ambiguous_word
        if word is None or len(self.notations) < 2:
            return None
        ways = []
        for notation in self.notations:
            value = shown(reader(notation)(word) or 0.0, notation)
            ways.append(f'{value} (types={{"{name}": "{without_unit(notation)}"}})')
        meanings = f"{word[:MAX_SHOWN]!r} of {name!r} may be {' or '.join(ways)}"
        return f"{meanings}; one of these orders decides"

    @property
    def evidence(self) -> Sequence[str]:
        """The notations that show how the file is written."""
        has_decimals = self.is_plain and self.has_point and not self.are_thousands
        return [POINT] if has_decimals and self.decimal == "." else self.notations

    def type(self, held: Held, *, is_class: bool) -> tuple[Kind, str]:
        """Numeric or categorical, and the notation of the numbers."""
        if self.ordered == "category" or (held == "truth" and is_class):
            return "categorical", ""
        order = "" if self.ordered in (None, "number") else self.ordered
        notation = "|".join(self.notations) or order or _NOTATIONS.get(held, "")
        is_numeric = (
            notation
            or self.ordered
            or held not in ("text", "words")
            or (held == "text" and self.is_plain)
        )
        return ("numeric", notation) if is_numeric else ("categorical", "")


def scanned(
    source: Source, kept: Sequence[int], request: UploadRequest
) -> dict[int, TextColumn]:
    """The columns of text whose words may be in a notation, scanned."""
    names = {
        j: source.places[j].name for j in kept if source.kinds[j] in ("text", "words")
    }
    texts = {
        j: TextColumn(
            request.reads(name),
            request.decimal,
            are_thousands=source.kinds[j] == "text",
        )
        for j, name in names.items()
        if request.reads(name) in _ORDERS_WITH_NOTATION
    }
    for arrays in source.batches() if texts else ():
        for j, text in texts.items():
            text.begin(arrays[j])
    for j, text in texts.items():
        if not text.is_plain and request.is_class(names[j]):
            text.notations.clear()
        elif text.is_plain and text.are_thousands and text.has_point:
            text.notations = text.fitting("1.000")
    readable = {j: text for j, text in texts.items() if text.notations}
    for arrays in source.batches() if readable else ():
        for j, text in readable.items():
            if text.notations:
                text.narrow(words_of(arrays[j]))
    return texts


def decide_by_others(texts: Mapping[str, TextColumn]) -> dict[str, str]:
    """Read columns that could be read in two ways as the others of the file, and say so by name."""
    ambiguous = {name: text for name, text in texts.items() if text.ambiguity(name)}
    decided = decided_by_others(
        {name: text.evidence for name, text in texts.items() if name not in ambiguous},
        {name: text.notations for name, text in ambiguous.items()},
    )
    notes = {}
    for name, reading in decided.items():
        meanings = ambiguous[name].ambiguity(name)
        ambiguous[name].notations = list(reading.notations)
        notes[name] = f"read as {reading.example!r} is written; {meanings}"
    return notes


def words_of(array: Any) -> list[str]:
    """The words that occur, each once."""
    return pc.unique(as_words(array)).drop_null().to_pylist()
