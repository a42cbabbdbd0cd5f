"""Label columns: what a learner predicts, and whether it can."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.data.columns import Column
from app.data.source import Location
from app.errors import MAX_ERRORS, Flaw, Invalid, reject

Classes = tuple[int | str, ...] | None

AS_NUMBER = "(to regress on it: upload it with label_type number, or send rows along with an order of task regression)"
_EXACT = 2.0**53  # from here on float64 cannot represent every integer
_MISSING = "the label is missing; leave the row out"


def classes_of(labels: Sequence[Column], most: int, *, several: bool, numbers: bool) -> Classes:
    """The classes in order, those of `several` labels their names, or None for a number to regress on.

    Integers are classes unless they are `numbers`, at most `most`. Raises Invalid for what cannot be predicted.
    """
    for label in labels:
        reject(label.place.flaw(i, _MISSING) for i in np.flatnonzero(label.missing).tolist())
        if label.words is None:
            reject(label.wrong(np.isinf(label.values), "{} is not a finite number"))
    if several:
        for label in labels:
            other = (label.values != 0) & (label.values != 1)
            reject(label.wrong(other, "{} is neither 0 nor 1, as each of several labels must be"))
        constant = [label for label in labels if label.values.min() == label.values.max()]
        reject(Flaw(label.place.loc, _always(label)) for label in constant)
        return tuple(label.place.name for label in labels)
    values, words, place = labels[0].values, labels[0].words, labels[0].place
    if words is not None:
        found = dict(zip(words, np.bincount(values, minlength=len(words)).tolist(), strict=True))
        return _checked({word: found[word] for word in sorted(words)}, place)
    if numbers or (values != np.floor(values)).any():
        return None
    reject(labels[0].wrong(np.abs(values) >= _EXACT, "{} is too large for a class; use strings"))
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > most:
        many = f"{place.name!r} has more than {most} distinct integers, too many for classes"
        raise Invalid.at(place.loc, f"{many} {AS_NUMBER}")
    return _checked(dict(zip(distinct.astype(np.int64).tolist(), counts.tolist(), strict=True)), place, AS_NUMBER)


def _always(label: Column) -> str:
    return f"the label {label.place.name!r} is {int(label.values[0])} in every row; leave it out"


def _checked(counts: dict[int, int] | dict[str, int], place: Location, otherwise: str = "") -> tuple[int | str, ...]:
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
