"""The classes of the label columns, or that a number is to be regressed on."""

from collections.abc import Sequence

import numpy as np

from app.tables.columns import EXACT, Column
from app.tables.source import Location
from app.tables.text import some_of
from payoff.errors import MAX_ERRORS, MAX_NAME, Flaw, Invalid, reject

Classes = tuple[int | str, ...] | None

AS_NUMBER = (
    "(to regress on it: upload it with label_type number,"
    " or send rows along with an order of task regression)"
)
_MISSING = (
    "the label is missing; fill it in, or send drop_unlabelled to leave these rows out"
)


def classes_or_flaws(
    labels: Sequence[Column],
    max_classes: int,
    decimal: str,
    *,
    several: bool,
    numbers: bool,
) -> tuple[Classes, Sequence[Flaw]]:
    """The classes as of `_classes_of`, or what forbids the labels."""
    try:
        return _classes_of(
            labels, max_classes, decimal, several=several, numbers=numbers
        ), []
    except Invalid as error:
        return None, error.flaws


def _classes_of(
    labels: Sequence[Column],
    max_classes: int,
    decimal: str,
    *,
    several: bool,
    numbers: bool,
) -> Classes:
    """The classes in order, those of `several` labels their names, or None for a number to regress
    on.

    Integers are classes unless they are `numbers`, at most `max_classes`. Raises Invalid for a
    label that cannot be predicted.
    """
    reject(
        flaw
        for label in labels
        for flaw in label.flaws_of_words(max_classes, MAX_NAME, decimal)
    )
    for label in labels:
        if label.words is not None and (several or numbers):
            requirement = (
                "each of several labels must be a column of 0 and 1"
                if several
                else "a number is to be regressed on"
            )
            raise Invalid.at(
                label.place.loc, f"{label.place.name!r} holds words; {requirement}"
            )
        if label.missing.any():
            raise Invalid.of(
                [label.place.flaw_of(np.flatnonzero(label.missing), _MISSING)]
            )
        if label.words is None:
            reject(label.wrong(np.isinf(label.values), "{} is not a finite number"))
    if several:
        for label in labels:
            outside = (label.values != 0) & (label.values != 1)
            reject(
                label.wrong(
                    outside, "{} is neither 0 nor 1, as each of several labels must be"
                )
            )
        reject(
            Flaw(
                label.place.loc,
                f"{label.place.name!r} is {label.values[0]:g} in every row; leave the label out",
            )
            for label in labels
            if len(label.distinct) == 1
        )
        return tuple(label.place.name for label in labels)
    values = labels[0].values
    words = labels[0].words
    place = labels[0].place
    if words is not None:
        rows = dict(
            zip(words, np.bincount(values, minlength=len(words)).tolist(), strict=True)
        )
        return _checked({word: rows[word] for word in sorted(words)}, place)
    if numbers or (values != np.floor(values)).any():
        return None
    reject(
        labels[0].wrong(
            np.abs(values) >= EXACT, "{} is too large for a class; use strings"
        )
    )
    integers, sizes = np.unique(values, return_counts=True)
    if len(integers) > max_classes:
        many = f"{place.name!r} has more than {max_classes} distinct integers, too many for classes"
        raise Invalid.at(place.loc, f"{many} {AS_NUMBER}")
    return _checked(
        dict(zip(integers.astype(np.int64).tolist(), sizes.tolist(), strict=True)),
        place,
        AS_NUMBER,
    )


def _checked(
    counts: dict[int, int] | dict[str, int], place: Location, otherwise: str = ""
) -> tuple[int | str, ...]:
    """The classes, if there are two at least and each has two rows at least (one to learn from, one
    to hold out).

    `counts` are the rows of each class; `otherwise` is what else to do with classes of one row.
    """
    if len(counts) < 2:
        raise Invalid.at(
            place.loc,
            f"{place.name!r} has one class only, {next(iter(counts))!r}; two are needed",
        )
    single = [value for value, count in counts.items() if count == 1]
    if single:
        named = (
            f"class {single[0]!r}"
            if len(single) == 1
            else f"classes {some_of(list(map(repr, single)), MAX_ERRORS)}"
        )
        fix = "leave it out (drop_classes), merge it or add rows"
        msg = f"one row only has {named} of {place.name!r}; {fix} {otherwise}"
        raise Invalid.at(place.loc, msg.rstrip())
    return tuple(counts)
