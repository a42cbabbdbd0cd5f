"""What the client reads of the service's documents; they may have more.

A shape is a type (`float` takes finite numbers), None, the pattern of a text, a tuple of alternatives, `[shape]` of a
list's items, `{str: shape}` of values by any name, or shapes by name; `name?` may be absent or null.
"""

from __future__ import annotations

import re
import sys
from typing import Any

Shape = Any
_KINDS = {str: "text", int: "an integer", float: "a number", bool: "true or false", dict: "an object", list: "a list"}


def check(found: Any, shape: Shape, place: str = "") -> Any:
    """The value, which has the shape; ValueError with the place otherwise."""
    if isinstance(shape, tuple):
        return _any_of(found, shape, place)
    if isinstance(shape, dict):
        _object(found, shape, place)
    elif isinstance(shape, list):
        _of_kind(found, list, place)
        for i, item in enumerate(found):
            check(item, shape[0], f"{place}/{i}")
    elif isinstance(shape, re.Pattern):
        if not isinstance(found, str) or not shape.fullmatch(found):
            raise ValueError(f"{place} is not {shape.pattern}")
    elif shape is None:
        if found is not None:
            raise ValueError(f"{place} is not null")
    else:
        _of_kind(found, shape, place)
    return found


def _any_of(found: Any, shapes: tuple[Shape, ...], place: str) -> Any:
    for shape in shapes[:-1]:
        try:
            return check(found, shape, place)
        except ValueError:
            continue
    return check(found, shapes[-1], place)


def _object(found: Any, shape: dict[Any, Shape], place: str) -> None:
    _of_kind(found, dict, place)
    for name, each in shape.items():
        if name is str:
            for key, value in found.items():
                check(value, each, f"{place}/{key}")
        elif name.endswith("?"):
            if found.get(name[:-1]) is not None:
                check(found[name[:-1]], each, f"{place}/{name[:-1]}")
        elif name not in found:
            raise ValueError(f"{place}/{name} is missing")
        else:
            check(found[name], each, f"{place}/{name}")


def _of_kind(found: Any, kind: type, place: str) -> None:
    if kind is float:
        fits = isinstance(found, int | float) and abs(found) <= sys.float_info.max
    else:
        fits = isinstance(found, kind)
    if not fits or (isinstance(found, bool) and kind in (int, float)):
        raise ValueError(f"{place or 'the document'} is not {_KINDS[kind]}")


NAME = (str, int, float)  # of a class or an action
WARNED = {"warnings": [str]}
PERHAPS_WARNED = {"warnings?": [str]}
FEATURE = {"name": str, "type": str, "low?": float, "high?": float, "categories?": [str]}
CARD = {"name": str, "version": int, "classes?": [NAME], "metrics?": dict, "features": [FEATURE], **PERHAPS_WARNED}
DESCRIPTION = {"versions": [dict], "aliases": dict, "latest": (int, None), **PERHAPS_WARNED}
RECORDING = {"recording": {"record": bool}}
MODEL_OR_CARD = (DESCRIPTION, CARD)
DECIDED = {"model?": dict, "classes?": [NAME], "actions?": [NAME], **WARNED}
EXPLANATION = {"runner_up": (*NAME, None), "margin": (float, None), "contributions?": {str: (float, None)}}
PER_ROW = {"ids?": [NAME], "explanations?": [EXPLANATION], "propensities?": [float]}
PART = {"limits?": [dict], **WARNED}  # of a file
DATASET = {"id": str, **WARNED}
FROM_OUTCOMES = {"from": WARNED, **PERHAPS_WARNED}
_OFFERED = {"status": re.compile("acquire"), "next": {"feature": str, "cost": float}}
_ENDED = {"status": re.compile("(?!acquire$).*"), "next?": dict}
_CASE = {"spent?": float, "probabilities?": {str: float}, **PERHAPS_WARNED}
STATE = ({**_CASE, **_OFFERED}, {**_CASE, **_ENDED})
STATES = {"results": [dict]}
SETS = {"sets": [dict], **PERHAPS_WARNED}
COUNTS = {"accepted": int, "unchanged": int, "open": int, "unknown": list, "conflicts": list, **PERHAPS_WARNED}
MATRICES = {"matrices": [dict]}
MATRIX = {"version": int}
MATRIX_IN_WORDS = {"version": int, "benefits": {str: {str: float}}}
JOB = {
    "id": re.compile(r"\w[\w.-]*"),
    "kind": re.compile(r"\w+"),
    "status": re.compile("queued|running|succeeded|failed|cancelled"),
    "progress": float,
    "stage?": str,
    "warnings?": [str],
}
TRAINED = {"model": {"version": int}, **WARNED}
COMPARED = {"result": {"table?": [dict], **PERHAPS_WARNED}}
REPORT = {"rules?": [dict], "table?": [dict], **PERHAPS_WARNED}


def page_of(field: str, item: Shape) -> Shape:
    """A page of a list."""
    return {field: [item], "next_page_token?": str}
