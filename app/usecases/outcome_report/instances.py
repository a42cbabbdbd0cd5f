"""Recorded instances of earlier and of later days."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import orjson

from app.outcomes.identity import DAY
from app.usecases.ports import Ports

_KEPT = 50_000  # of all days
_OF_SIDE = 5_000


def sides(
    ports: Ports, model: str, days: Sequence[int], versions: Sequence[int] | None
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Instances of the first and of the last half of the days that have any, at most 5,000 of each; none of one day.

    Drawn at random, with the same chance for each instance of a side: rows of a day in the order in which they are
    stored, or as many of a quiet day as of a busy one, would differ where nothing has changed.
    """
    day, texts = _drawn(_recorded(ports, model, days, versions))
    found = np.unique(day)
    if len(found) < 2:
        return [], []
    is_late = day >= found[len(found) // 2]
    before, after = ([orjson.loads(text) for text in texts[own][:_OF_SIDE]] for own in (~is_late, is_late))
    return before, after


def _drawn(recorded: Iterator[tuple[int, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """The days and texts of those with the least random numbers, in the order of these."""
    rng, limit = np.random.default_rng(0), 1.0
    number, day, text = np.empty(0), np.empty(0, dtype=np.int64), np.empty(0, dtype=object)
    for own, texts in recorded:
        numbers = rng.random(len(texts))
        near = numbers < limit
        number = np.append(number, numbers[near])
        day, text = np.append(day, np.full(near.sum(), own)), np.append(text, texts[near])
        if len(number) > 2 * _KEPT:
            least = np.argpartition(number, _KEPT)[:_KEPT]
            number, day, text = number[least], day[least], text[least]
            limit = float(number.max())
    order = np.argsort(number)[:_KEPT]
    return day[order], text[order]


def _recorded(
    ports: Ports, model: str, days: Sequence[int], versions: Sequence[int] | None
) -> Iterator[tuple[int, np.ndarray]]:
    """Days, and instances of them as JSON (n,)."""
    for day in days:
        found = ports.archive.cases(
            model,
            since=float(day * DAY),
            until=float((day + 1) * DAY),
            versions=versions,
            with_instances=True,
            arrivals_only=True,
        )
        for cases in found:
            texts = np.array(cases.instances or (), dtype=object)
            yield day, texts[texts != None]  # noqa: E711 - of each element
