"""What joblib files of models contain: each object's attributes in a dict, with the number of its
class's format.

A class whose attributes change gets the next number, and `OLDER` gets an entry that turns the dict
of the former format into the new one. So files outlive a change, and a file of a newer version is
refused instead of misread.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar

_FORMAT = "format"

OLDER: dict[tuple[str, int], Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""By class and format: from the attributes in that format to those in the next."""


class NewerFormat(ValueError):
    """A file was written by a newer version of Payoff."""


class Stored:
    """Base of all classes that joblib files of models contain, without values of
    `cached_property`.
    """

    stored_format: ClassVar[int] = 1

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        attributes = {
            name: value
            for name, value in vars(self).items()
            if not isinstance(getattr(kind, name, None), cached_property)
        }
        return {_FORMAT: kind.stored_format, **attributes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kind = type(self)
        vars(self).update(attributes_of(kind.__qualname__, kind.stored_format, state))


def attributes_of(kind: str, current: int, state: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a class in its `current` format, from a stored dict.

    NewerFormat where the dict has a later format.
    """
    attributes = dict(state)
    number = attributes.pop(_FORMAT)
    if number > current:
        raise NewerFormat(
            f"the file has format {number} of {kind!r}, and this version of Payoff reads formats"
            f" up to {current}: install the version that wrote it, or a later one"
        )
    for older in range(number, current):
        attributes = OLDER[kind, older](attributes)
    return attributes


def with_format(current: int, attributes: dict[str, Any]) -> dict[str, Any]:
    """A dict as `attributes_of` reads it, for objects that cannot have the base `Stored`."""
    return {_FORMAT: current, **attributes}
