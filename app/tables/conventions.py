"""What the columns of a file tell about each other: one file follows one country.

A column that can be read in two ways is read as the columns of the same file that cannot.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from app.tables.notations import without_unit


class Reading(NamedTuple):
    """The notations that are left of a column's, and the column that decided."""

    notations: Sequence[str]
    example: str


def convention(notation: str) -> str | None:
    """What countries write differently: the sign before decimals, or whether the day comes first.

    None for a notation that has no counterpart.
    """
    if notation.startswith("number:"):
        return without_unit(notation)
    if notation.startswith(("date:%d", "date:%m")):
        return notation[: len("date:%d")]
    return None


def _conventions(notations: Iterable[str]) -> set[str | None]:
    return {convention(notation) for notation in notations}


def decided_by_others(
    clear: Mapping[str, Sequence[str]], ambiguous: Mapping[str, Sequence[str]]
) -> dict[str, Reading]:
    """The columns that others decide, by name.

    `clear` has the notations of each column that can be read in one way, `ambiguous` those of the
    others. Nothing is decided where clear columns contradict each other.
    """
    examples: dict[str | None, str] = {}
    for name, notations in clear.items():
        conventions = _conventions(notations)
        if len(conventions) == 1:
            examples.setdefault(conventions.pop(), name)
    decided = {}
    for name, notations in ambiguous.items():
        fitting = [
            notation for notation in notations if convention(notation) in examples
        ]
        conventions = _conventions(fitting) - {None}
        if len(conventions) == 1:
            decided[name] = Reading(fitting, examples[conventions.pop()])
    return decided
