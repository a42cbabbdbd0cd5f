"""The features of a table: their names, their types, and rows turned into numbers.

A row becomes a line of float64: numbers as they are, a category as its position in the feature's
`categories`, a missing value as NaN. Every estimator of this service takes such lines, with the
positions of its categorical columns.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Self

import numpy as np

from app.tables.notations import BOOLEAN, reader
from app.tables.text import (
    MAX_POSITIONS,
    MAX_SHOWN,
    is_number,
    normal,
    refused_category,
    with_normal_names,
)
from payoff.errors import (
    Flaw,
    Invalid,
    described,
    pointer,
    positions,
    reject,
    unknown_at,
)

NUMBERS: set[type] = {float, int, type(None)}  # types of the cells of a numeric feature
WORDS: set[type] = {str, type(None)}
OUTSIDE = "the number is outside the range of a 64-bit float"
_EXACT = 2**53  # below it a float that is an integer has its digits


@dataclass(frozen=True)
class Feature:
    """A column: `categories` are the values a categorical one had in training, in order; `form`
    is the notation of text that stands for numbers, if it does (`app.tables.notations`).
    """

    name: str
    type: Literal["numeric", "categorical"]
    categories: tuple[str, ...] = ()
    form: str = ""


class Spellings(NamedTuple):
    """Other ways to write the categories of a feature, each with the code of the only one it fits.

    `texts` are booleans in another case, and integers with `.0` or without; `numbers` are values
    that come as numbers, by `text_of` them.
    """

    texts: dict[str, float]
    numbers: dict[str, float]

    @classmethod
    def of(cls, categories: Sequence[str]) -> Self:
        texts: dict[str, set[int]] = defaultdict(set)
        numbers: dict[str, set[int]] = defaultdict(set)
        for code, word in enumerate(categories):
            if word.lower() in ("true", "false"):
                for text in (word.lower(), word.title(), word.upper()):
                    texts[text].add(code)
            elif is_number(word):
                value = text_of(
                    int(word) if word.lstrip("+-").isdigit() else float(word)
                )
                numbers[value].add(code)
                if word in (value, f"{value}.0"):
                    texts[value].add(code)
                    texts[f"{value}.0"].add(code)
        categories_by_word = {word: {code} for code, word in enumerate(categories)}
        return cls(
            *(_unambiguous(codes, categories_by_word) for codes in (texts, numbers))
        )

    @property
    def cells(self) -> set[type]:
        """The types that values have."""
        booleans = {bool} if self.texts.keys() & {"true", "false"} else set()
        return WORDS | booleans | (NUMBERS if self.numbers else set())

    def code(self, value: Any) -> float | None:
        """The code of a value that is no category itself; None where there is none."""
        return (self.numbers if type(value) in NUMBERS else self.texts).get(
            text_of(value)
        )


def _unambiguous(
    codes: dict[str, set[int]], categories: dict[str, set[int]]
) -> dict[str, float]:
    """The code of each text that fits one category, or that is one."""
    fitting = {text: categories.get(text, several) for text, several in codes.items()}
    return {
        text: float(min(codes)) for text, codes in fitting.items() if len(codes) == 1
    }


def text_of(value: Any) -> str:
    """A value as text: a boolean as in JSON, a number that is an integer without a point."""
    if type(value) is float and value.is_integer() and abs(value) < _EXACT:
        value = int(value)
    return str(value).lower() if type(value) is bool else str(value)


def _normal(value: Any) -> Any:
    return (normal(value) or None) if type(value) is str else value


class Schema:
    """An ordered list of features that turns instances into a matrix; objects may have `ignored`
    columns, too. Among these are `values` for `with_numbers`, by name with their notation.
    """

    def __init__(
        self,
        features: Sequence[Feature],
        ignored: Iterable[str] = (),
        values: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.features = tuple(features)
        self.ignored = frozenset(ignored)
        self.values = values
        self.names = tuple(feature.name for feature in self.features)
        self.categorical = tuple(
            j
            for j, feature in enumerate(self.features)
            if feature.type == "categorical"
        )
        self.readers = {
            j: reader(feature.form)
            for j, feature in enumerate(self.features)
            if feature.form
        }
        self._allowed = self.ignored.union(self.names)
        self._position = {name: j for j, name in enumerate(self.names)}
        self._codes = {
            j: {
                word: float(code)
                for code, word in enumerate(self.features[j].categories)
            }
            for j in self.categorical
        }
        self._spellings: dict[int, Spellings] = {}
        self._pick = (
            itemgetter(*self.names)
            if len(self.names) > 1
            else lambda row: (row[self.names[0]],)
        )

    def with_numbers(self, names: Sequence[str]) -> Schema:
        """The schema with more columns, of numbers, after its features."""
        if not names:
            return self
        more = (
            Feature(name, "numeric", form=self.values.get(name, "")) for name in names
        )
        return Schema((*self.features, *more), self.ignored.difference(names))

    def with_ignored(self, names: Collection[str]) -> Schema:
        """The schema with more columns that instances may have, and that are not used."""
        if self._allowed.issuperset(names):
            return self
        return Schema(self.features, self.ignored.union(names), self.values)

    def encode(
        self, instances: Sequence[Any], *, booleans_possible: bool = True
    ) -> tuple[np.ndarray, list[str]]:
        """Rows (lists in feature order, or objects by feature name) as a float64 matrix, and
        warnings.

        Shapes: n instances of m features give (n, m), C-contiguous; n may be 0.
        `booleans_possible=False` spares the check that no number is a boolean, where the caller
        knows it. A category never seen in training counts as missing and is warned about. Raises
        Invalid with the place, `/row/column` or `/row/name`, of every value of a wrong type and of
        every unknown or absent name. O(n m).
        """
        try:
            return self._encoded(instances, booleans_possible=booleans_possible)
        except Invalid:  # of a category
            raise
        except (KeyError, ValueError, OverflowError):
            renamed = list(map(with_normal_names, instances))
            if renamed != list(instances):
                return self.encode(renamed, booleans_possible=booleans_possible)
            flaws = self._flaws(self.without_ignored(instances))
            raise Invalid(
                "the instances do not fit the model's features", flaws
            ) from None

    def without_ignored(self, instances: Sequence[Any]) -> Sequence[Any]:
        """The instances, those that are objects without the columns that are ignored."""
        ignored = self.ignored
        if not ignored or all(
            type(row) is not dict or ignored.isdisjoint(row) for row in instances
        ):
            return instances
        return [
            {k: row[k] for k in row if k not in ignored} if type(row) is dict else row
            for row in instances
        ]

    def in_order(self, instance: Any) -> Sequence[Any] | None:
        """The values of one instance in feature order; None where they are not one for each
        feature.
        """
        if type(instance) is dict:
            try:
                return (
                    self._pick(instance) if len(instance) == len(self.names) else None
                )
            except KeyError:
                return None
        return (
            instance
            if type(instance) is list and len(instance) == len(self.names)
            else None
        )

    def _encoded(
        self, instances: Sequence[Any], *, booleans_possible: bool
    ) -> tuple[np.ndarray, list[str]]:
        """As `encode`; KeyError, ValueError or OverflowError where an instance does not fit."""
        kinds = set(map(type, instances))
        lengths = {len(self.names)}
        rows = instances
        if kinds == {dict}:
            rows = list(map(self._pick, instances))
            if set(map(len, instances)) != lengths and not self._allowed.issuperset(
                chain.from_iterable(instances)
            ):
                raise ValueError
        elif not kinds <= {list, tuple} or not set(map(len, instances)) <= lengths:
            raise ValueError
        if self.categorical or not rows:
            return self._encode_columns(rows)
        is_checked = booleans_possible or self.readers
        if is_checked and not NUMBERS.issuperset(map(type, chain.from_iterable(rows))):
            return self._encode_columns(rows)
        X = np.array(rows)  # ValueError: lists of different lengths among the values
        if X.dtype.kind == "O" and NUMBERS.issuperset(map(type, X.flat)):
            X = X.astype(
                np.float64
            )  # OverflowError: an integer outside the range of floats
        if X.dtype.kind not in "fiu" or X.ndim != 2:
            raise ValueError
        return np.ascontiguousarray(X, dtype=np.float64), []

    def _encode_columns(
        self, rows: Sequence[Sequence[Any]]
    ) -> tuple[np.ndarray, list[str]]:
        X = np.empty((len(rows), len(self.names)))
        warnings: list[str] = []
        for j, column in enumerate(zip(*rows, strict=True)):
            expected = WORDS if j in self._codes else NUMBERS
            # Checking the usual types without a set of those that occur is twice as fast.
            is_usual = expected.issuperset(map(type, column))
            if not (is_usual or self.takes(j, set(map(type, column)))):
                raise ValueError
            if j in self._codes or j in self.readers:
                X[:, j], notes = self.codes(j, column)
                warnings += notes
            else:
                X[:, j] = column
        return X, warnings

    def takes(self, j: int, kinds: set[type]) -> bool:
        """Whether values of feature `j` may have these types."""
        if j in self._codes:
            return kinds <= WORDS or kinds <= self.spellings(j).cells
        if j in self.readers:
            is_boolean = self.features[j].form == BOOLEAN
            return kinds <= NUMBERS | WORDS | ({bool} if is_boolean else set())
        return kinds <= NUMBERS

    def spellings(self, j: int) -> Spellings:
        """Other ways to write the categories of feature `j`."""
        if j not in self._spellings:
            self._spellings[j] = Spellings.of(self.features[j].categories)
        return self._spellings[j]

    def _numbers(self, j: int, values: Sequence[Any]) -> np.ndarray:
        """Values (n,) of feature `j`, of which text is empty or written in its notation; ValueError
        for other text.
        """
        read = self.readers[j]
        values = [*map(_normal, values)]
        numbers = [read(value) if type(value) is str else value for value in values]
        if numbers.count(None) > values.count(None):
            raise ValueError
        return np.array(numbers, dtype=np.float64)

    def unread(self, j: int, values: Iterable[Any]) -> Iterator[Flaw]:
        """The flaws, at `/row`, of text of feature `j` that is not written in its notation."""
        expected = f"is not written as {self.names[j]!r} was in training: {self.features[j].form}"
        for i, value in enumerate(values):
            text = _normal(value)
            if type(text) is str and self.readers[j](text) is None:
                yield Flaw(pointer(i), f"{value[:MAX_SHOWN]!r} {expected}")

    def word(self, j: int, value: Any) -> str:
        """The category of feature `j` that a value stands for, or its text where there is none."""
        code = self._code(j, value)
        return (
            text_of(value) if code is None else self.features[j].categories[int(code)]
        )

    def _code(self, j: int, value: Any) -> float | None:
        code = self._codes[j].get(value)
        return self.spellings(j).code(value) if code is None else code

    def codes(self, j: int, words: Sequence[Any]) -> tuple[np.ndarray, list[str]]:
        """The codes (n,) of words of feature `j`, NaN where one is missing or unseen, and a warning
        about the unseen words; the numbers of a feature with a notation.

        Words may be booleans and numbers where the feature takes these. Invalid at `/row/column`
        of each word that no category may be.
        """
        if j in self.readers:
            return self._numbers(j, words), []
        known: dict[Any, float] = self._codes[j]
        codes = np.array(list(map(known.get, words)), dtype=np.float64)
        if np.isnan(codes).sum() == words.count(None):
            return codes, []
        words = [word if word in known else _normal(word) for word in words]
        matches = [self._code(j, word) for word in words]
        codes = np.array(matches, dtype=np.float64)
        unseen = [
            i for i, word in enumerate(words) if word is not None and matches[i] is None
        ]
        if not unseen:
            return codes, []
        texts = {i: text_of(words[i]) for i in unseen}
        odd = ((i, refused_category(text)) for i, text in texts.items())
        reject(Flaw(pointer(i, j), message) for i, message in odd if message)
        at = unseen[:MAX_POSITIONS]
        return codes, [self.unseen(j, at, len(unseen), len(words), texts[unseen[0]])]

    def unseen(
        self, j: int, at: Iterable[int], count: int, rows: int, word: str
    ) -> str:
        """The warning that `count` of `rows` values of feature `j` were never seen in training.

        `at` are their first positions, and `word` is one of them.
        """
        return (
            f"{count} of {rows} values of {self.names[j]!r} {positions(at, count)}"
            f" were never seen in training (for example {word[:40]!r}) and count as missing"
        )

    def _flaws(self, instances: Sequence[Any]) -> Iterator[Flaw]:
        """Slow path: build detailed errors."""
        first = instances[0]
        mixed = {list, dict} - {type(first)} if type(first) in (list, dict) else ()
        for i in islice(
            (i for i, instance in enumerate(instances) if type(instance) in mixed), 1
        ):
            words = f"instance {i} is {described(instances[i])}, the first is {described(first)}"
            yield Flaw(pointer(i), f"{words}: send lists or objects alone")
        for i, instance in enumerate(instances):
            yield from self.flaws_of(pointer(i), instance)

    def flaws_of(
        self, loc: str, instance: Any, *, complete: bool = True, hint: str = ""
    ) -> Iterator[Flaw]:
        """The flaws of one instance at `loc`, which has a value for each feature where it has to be
        `complete`.

        The `hint` completes the message about an unknown name.
        """
        if isinstance(instance, dict):
            unknown = (name for name in instance if name not in self._position)
            yield from (
                unknown_at(loc + pointer(name), "feature", name, self.names, hint)
                for name in unknown
            )
            absent = (name for name in self.names if complete and name not in instance)
            yield from (
                Flaw(loc, f"feature {name!r} is absent; send null where it is missing")
                for name in absent
            )
            cells = [
                (pointer(name), self._position[name], instance[name])
                for name in self.names
                if name in instance
            ]
        elif not isinstance(instance, list | tuple):
            yield Flaw(
                loc,
                "an instance is a list in feature order or an object by feature name",
            )
            return
        elif len(instance) != len(self.names):
            yield Flaw(loc, f"{len(instance)} values for {len(self.names)} features")
            return
        else:
            cells = [(pointer(j), j, value) for j, value in enumerate(instance)]
        for place, j, value in cells:
            if not self.takes(j, {type(value)}):
                needed = "a string" if j in self._codes else "a number"
                yield Flaw(loc + place, f"{self.names[j]!r} takes {needed} or null")
            elif type(value) is int and not is_float(value):
                yield Flaw(loc + place, OUTSIDE)
            elif type(value) is str and j in self.readers:
                yield from (
                    Flaw(loc + place, flaw.msg) for flaw in self.unread(j, [value])
                )
            elif type(value) is str and value not in self._codes[j]:
                message = refused_category(value)
                if message:
                    yield Flaw(loc + place, message)


NO_FEATURES = Schema(())


def is_float(value: float) -> bool:
    """Whether a number is finite, and no integer outside the range of a 64-bit float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
