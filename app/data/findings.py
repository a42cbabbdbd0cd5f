"""What an upload looks like it means, where that is not how it was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from app.data.columns import CategoricalColumn, NumericColumn
from app.data.misread import MAX_SHOWN, misread
from app.text import some_of

_MAX_WARNINGS = 50
_MAX_KEPT = 4_000_000  # integers of all columns together that are kept to find out whether they repeat
_MAX_LABELS = 1000  # of a label whose copies in other words are looked for
_FEW = 20  # rows below which distinct values mean nothing
_FEW_INTEGERS = 100


class Findings:
    """Watches columns while they are read; memory is bounded whatever their length."""

    def __init__(self, features: Sequence[NumericColumn | CategoricalColumn], labels: Sequence[Any]) -> None:
        self._features = features
        self._label = labels[0] if len(labels) == 1 else None
        self._copies: dict[int, dict[Any, Any]] = {j: {} for j in range(len(features) if self._label else 0)}
        self._integers: dict[int, list[np.ndarray]] = {
            j: [] for j, feature in enumerate(features) if isinstance(feature, NumericColumn)
        }
        self._kept = 0

    def add(self) -> None:
        """Look at the batch that all columns have just taken. O(rows log rows) for each column still watched."""
        if self._label is not None and self._copies and len(self._label.values):
            values, places, codes = np.unique(self._label.values, return_index=True, return_inverse=True)
            if len(values) > _MAX_LABELS:
                self._copies = {}
            for j in list(self._copies):
                if not _follows(self._features[j].values, places, codes, values, self._copies[j]):
                    del self._copies[j]
        for j in list(self._integers):
            self._keep(j, self._features[j].values)

    def warnings(self, left_out: Mapping[str, tuple[int, int, str]]) -> list[str]:
        """What the columns look like, each with its first row where one is at fault.

        `left_out`: of columns of numbers, how many words count as missing, and the row of the first and the word.
        """
        found = list(self._all(left_out))
        more = len(found) - _MAX_WARNINGS
        return [*found[:_MAX_WARNINGS], *([f"and {more:,} more such warnings"] if more > 0 else [])]

    def _all(self, left_out: Mapping[str, tuple[int, int, str]]) -> Iterator[str]:
        for j, feature in enumerate(self._features):
            name = feature.place.name
            if name in left_out:
                count, row, word = left_out[name]
                yield feature.place.flaw(row, f"{word!r} is not a number; such values count as missing: {count:,}").msg
            if feature.constant:
                yield f"{name!r} has the same value in every row; leave it out"
            elif self._label is not None and self._is_copy(j):
                label = self._label.place.name
                yield f"{name!r} and the label {label!r} follow from one another; if it is a copy, leave it out"
            elif isinstance(feature, CategoricalColumn):
                yield from self._of_words(feature)
            elif j in self._integers and feature.rows >= _FEW_INTEGERS and self._distinct(j):
                yield f"{name!r} holds a different integer in every row; if it is an identifier, leave it out"

    def _of_words(self, feature: CategoricalColumn) -> Iterator[str]:
        if looks := misread(feature.first, feature.place.name):
            yield feature.place.flaw(*looks).msg
        elif feature.rows >= _FEW and len(feature.counts) == feature.rows - feature.missing:
            shown = some_of([repr(word[:MAX_SHOWN]) for word in feature.first], 2)
            name = feature.place.name
            yield f"{name!r} holds a different text in every row ({shown}); if it is an identifier, leave it out"

    def _keep(self, j: int, values: np.ndarray) -> None:
        present = values[~np.isnan(values)]
        repeats = len(np.unique(present)) < len(present)
        if repeats or (present != np.floor(present)).any() or self._kept + len(present) > _MAX_KEPT:
            self._kept -= sum(map(len, self._integers.pop(j)))
            return
        self._integers[j].append(present)
        self._kept += len(present)

    def _distinct(self, j: int) -> bool:
        values = np.concatenate(self._integers[j])
        return len(values) > 0 and len(np.unique(values)) == len(values)

    def _is_copy(self, j: int) -> bool:
        """Whether different labels have different values, too, and each several rows."""
        if self._label is not None and self._features[j].digest() == self._label.digest():
            return True
        seen = list(self._copies.get(j, {}).values())
        return 1 < len(seen) == len(set(seen)) and self._features[j].rows > 2 * len(seen)


def _follows(
    column: np.ndarray, places: np.ndarray, codes: np.ndarray, values: np.ndarray, seen: dict[Any, Any]
) -> bool:
    """Whether the value of `column` is the same wherever the label is; `seen` collects the value for each label."""
    representative = column[places]
    if not np.array_equal(representative[codes], column):  # NaN equals nothing: a missing value is no copy
        return False
    pairs = zip(values.tolist(), representative.tolist(), strict=True)
    return all(seen.setdefault(label, value) == value for label, value in pairs)
