"""What the client reads of the service's documents; they may have more.

A shape is a type (`float` takes finite numbers), None, a tuple of alternatives, `[shape]` of a list's items,
`{str: shape}` of values by any name, or shapes by name; `name?` may be absent or null.
"""

from __future__ import annotations

import sys
from typing import Any

Shape = Any
_KINDS = {str: "text", int: "an integer", float: "a number", bool: "true or false", dict: "an object", list: "a list"}


def check(found: Any, shape: Shape, place: str = "") -> Any:
    """The value, which has the shape; ValueError with the place otherwise."""
    if isinstance(shape, tuple):
        for each in shape[:-1]:
            try:
                return check(found, each, place)
            except ValueError:
                continue
        check(found, shape[-1], place)
    elif isinstance(shape, dict):
        _of_kind(found, dict, place)
        _members(found, shape, place)
    elif isinstance(shape, list):
        _of_kind(found, list, place)
        for i, item in enumerate(found):
            check(item, shape[0], f"{place}/{i}")
    elif shape is not None:
        _of_kind(found, shape, place)
    elif found is not None:
        raise ValueError(f"{place} is not null")
    return found


def _members(found: dict[str, Any], shape: dict[Any, Shape], place: str) -> None:
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
EXPLANATION = {"runner_up": (*NAME, None), "margin": (float, None), "contributions?": {str: (float, None)}}
DECIDED = {
    "model?": dict,
    "classes?": [NAME],
    "actions?": [NAME],
    "ids?": [NAME],
    "explanations?": [EXPLANATION],
    "propensities?": [float],
    **WARNED,
}
PART = {"limits?": [dict], **WARNED}  # of a file
DATASET = {"id": str, **WARNED}
FROM_OUTCOMES = {"from": WARNED, **PERHAPS_WARNED}
CASE = {
    "status": str,
    "next?": {"feature": str, "cost": float},
    "spent?": float,
    "probabilities?": {str: float},
    **PERHAPS_WARNED,
}
CASES = {"results": [dict]}
SETS = {"sets": [dict], **PERHAPS_WARNED}
COUNTS = {"accepted": int, "unchanged": int, "open": int, "unknown": list, "conflicts": list, **PERHAPS_WARNED}
MATRICES = {"matrices": [dict]}
MATRIX = {"version": int}
MATRIX_IN_WORDS = {"version": int, "benefits": {str: {str: float}}}
JOB = {"id": str, "status": str, "progress": float, "stage?": str, "warnings?": [str]}
TRAINED = {"model": {"version": int}, **WARNED}
COMPARED = {"result": {"table?": [dict], **PERHAPS_WARNED}}
_AMOUNT = {"mean": (float, None), "low?": float, "high?": float}
OUTCOMES = {
    "promised": _AMOUNT,
    "realised": _AMOUNT,
    "difference": _AMOUNT,
    "verdict": str,
    "advice": [str],
    **PERHAPS_WARNED,
}
REPORT = {"rules?": [dict], "table?": [dict], **PERHAPS_WARNED}
