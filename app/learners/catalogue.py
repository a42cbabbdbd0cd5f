"""The kinds of learner that can be trained, by name."""

from __future__ import annotations

from app.learners.compiled_kinds import COMPILED
from app.learners.kinds import KINDS, Kind, resolve
from app.learners.plain_kinds import PLAIN, SCORE_CALIBRATOR

__all__ = ["INTERNAL", "KINDS", "Kind", "kind_of", "resolve"]

INTERNAL = {kind.name: kind for kind in (SCORE_CALIBRATOR,)}
"""Kinds that no request names: other routes than `/train` build them."""

KINDS.update((kind.name, kind) for kind in sorted((*PLAIN, *COMPILED), key=lambda kind: kind.name))


def kind_of(name: str) -> Kind:
    """The kind of this name, internal ones included."""
    return KINDS.get(name) or INTERNAL[name]
