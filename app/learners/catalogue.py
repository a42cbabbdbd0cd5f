"""The kinds of learner that can be trained: the `KIND` of each module of this package, and the compiled kinds."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from app import learners
from app.learners.compiled_kinds import COMPILED
from app.learners.kinds import KINDS, Kind, resolve
from app.learners.score_calibrator import SCORE_CALIBRATOR

__all__ = ["INTERNAL", "KINDS", "Kind", "kind_of", "resolve"]

INTERNAL = {kind.name: kind for kind in (SCORE_CALIBRATOR,)}
"""Kinds that no request names: other routes than `/train` build them."""

_APART = {"catalogue", "stepwise", *(kind.module.split(".")[2] for kind in COMPILED)}  # they would load the compiler


def _declared() -> Iterator[Kind]:
    for found in iter_modules(learners.__path__):
        if not found.name.startswith("_") and found.name not in _APART:
            module = import_module(f"{learners.__name__}.{found.name}")
            if (kind := getattr(module, "KIND", None)) is not None:
                yield kind


KINDS.update((kind.name, kind) for kind in sorted((*_declared(), *COMPILED), key=lambda kind: kind.name))


def kind_of(name: str) -> Kind:
    """The kind of this name, internal ones included."""
    return KINDS.get(name) or INTERNAL[name]
