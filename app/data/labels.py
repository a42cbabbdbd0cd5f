"""Label columns: what a learner predicts, and whether it can."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from app.data.columns import CategoricalColumn, NumericColumn
from app.data.location import Location
from app.errors import MAX_ERRORS, Flaw, Invalid, reject
from app.text import MAX_NAME

Classes = tuple[int | str, ...] | None

_EXACT = 2.0**53  # from here on float64 cannot represent every integer
_AS_NUMBER = "(to regress on it: upload it with label_type number, or send rows along with an order of task regression)"
_MISSING = "the label is missing; leave the row out"


class NumberLabel(NumericColumn):
    """One label of numbers: classes if all are integers and it is not `regressed`, else a target to regress on."""

    def __init__(self, place: Location, most: int, *, regressed: bool = False) -> None:
        super().__init__(place)
        self.most = most
        self.regressed = regressed
        self.integers = True
        self.counts: Counter[float] = Counter()

    def classes(self) -> Classes:
        """The classes in ascending order, or None; Invalid if there is only one."""
        if self.regressed or not self.integers:
            return None
        if len(self.counts) > self.most:
            many = f"{self.place.name!r} has more than {self.most} distinct integers, too many for classes"
            raise Invalid.at(self.place.loc, f"{many} {_AS_NUMBER}")
        counts = {int(value): self.counts[value] for value in sorted(self.counts)}
        return checked_classes(counts, self.place, _AS_NUMBER)

    def _check(self, array: Any, values: np.ndarray) -> None:
        if array.null_count:
            self._refuse(values, np.isnan(values), _MISSING)
        if not self.integers:
            return
        self.integers = bool(np.all(values == np.floor(values)))
        if self.regressed:
            return
        if self.integers and len(values) and np.abs(values).max() >= _EXACT:
            self._refuse(values, np.abs(values) >= _EXACT, "{} is too large for a class; use strings")
        if self.integers and len(self.counts) <= self.most:
            distinct, counts = np.unique(values, return_counts=True)
            self.counts.update(dict(zip(distinct.tolist(), counts.tolist(), strict=True)))


class WordLabel(CategoricalColumn):
    """One label of words, each a class."""

    longest = MAX_NAME

    def classes(self) -> Classes:
        """The classes in alphabetical order; Invalid if there is only one."""
        return checked_classes({word: self.counts[word] for word in sorted(self.counts)}, self.place)

    def _check(self, codes: np.ndarray) -> None:
        reject(self.place.flaw(self.rows + int(i), _MISSING) for i in np.flatnonzero(codes < 0))


class RelevanceLabel(NumericColumn):
    """One of several labels: 1 where it applies, 0 where it does not."""

    def __init__(self, place: Location) -> None:
        super().__init__(place)
        self.ones = 0

    def relevance_flaws(self) -> list[Flaw]:
        """A label that always or never applies cannot be learnt."""
        if 0 < self.ones < self.rows:
            return []
        always = "0" if self.ones == 0 else "1"
        return [Flaw(self.place.loc, f"the label {self.place.name!r} is {always} in every row; leave it out")]

    def _check(self, array: Any, values: np.ndarray) -> None:
        if array.null_count:
            self._refuse(values, np.isnan(values), _MISSING)
        self._refuse_others(values)
        self.ones += int(np.count_nonzero(values))

    def _refuse_others(self, values: np.ndarray) -> None:
        bad = (values != 0) & (values != 1)
        if bad.any():
            self._refuse(values, bad, "{} is neither 0 nor 1, as each of several labels must be")


def checked_classes(
    counts: dict[int, int] | dict[str, int], place: Location, otherwise: str = ""
) -> tuple[int | str, ...]:
    """The classes, if there are two at least and each has two rows at least (one to learn from, one to hold out).

    `otherwise` says what else to do with classes of one row.
    """
    if len(counts) < 2:
        raise Invalid.at(place.loc, f"{place.name!r} has one class only, {next(iter(counts))!r}; two are needed")
    single = [value for value, count in counts.items() if count == 1]
    if single:
        named = ", ".join(map(repr, single[:MAX_ERRORS])) + (", …" if len(single) > MAX_ERRORS else "")
        one = "class {} of {} has one row only" if len(single) == 1 else "classes {} of {} have one row only"
        msg = one.format(named, repr(place.name)) + "; leave it out, merge it or add rows"
        raise Invalid.at(place.loc, f"{msg} {otherwise}".rstrip())
    return tuple(counts)
