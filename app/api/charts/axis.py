"""From numbers to places on paper, with ticks at round numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

_NARROWEST = 1e-9  # relative; a range below it is widened: its ticks could not be told apart
_LEAST = 1e-300  # the same, absolute: below it a sixth of a range, or a twentieth, may be 0


@dataclass(frozen=True)
class Axis:
    """The range from `low` to `high` drawn from pixel `start` to `end` (which may be the smaller one)."""

    low: float
    high: float
    start: float
    end: float

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float, room: float = 0.05) -> Self:
        """A range that holds all finite `values` (at least one) and a little `room` on both sides."""
        listed = list(values)
        low, high = min(listed), max(listed)
        size = max(abs(low), abs(high))
        alike = high - low <= max(_NARROWEST * size, _LEAST)
        margin = (size * room if size > _LEAST else 1.0) if alike else (high - low) * room
        return cls(low - margin, high + margin, start, end)

    def at(self, value: float) -> float:
        """The pixel of a value; values outside the range are put on its edge."""
        inside = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * ((inside - self.low) / (self.high - self.low))

    def ticks(self, about: int = 6) -> list[tuple[float, str]]:
        """Some `about` round numbers within the range, with their labels."""
        raw = (self.high - self.low) / about
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= raw * (1 - 1e-9))
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [count * step for count in range(first, last + 1)]
        largest = max(abs(self.low), abs(self.high))
        decimals = max(0, -math.floor(math.log10(step) + 1e-9))
        plain = decimals <= 6 and largest < (1e6 if decimals else 1e9)
        labels = [number(value, decimals) for value in values] if plain else _brief(values)
        return list(zip(values, labels, strict=True))


def number(value: float, decimals: int) -> str:
    """With that many decimals, commas between thousands, and a real minus sign."""
    written = f"{value:,.{decimals}f}"
    return written.lstrip("-") if not float(written.replace(",", "")) else written.replace("-", "\N{MINUS SIGN}")


def _brief(values: list[float]) -> list[str]:
    """In one notation, with at least three digits and as many as tell all apart."""
    for digits in range(3, 18):
        labels = [f"{value:.{digits}g}".replace("-", "\N{MINUS SIGN}") for value in values]
        if len(set(labels)) == len(labels):
            break
    return labels


def short(value: float) -> str:
    """With three significant digits: 0.123, 1,230,000, 1.23e+09."""
    rounded = float(f"{value:.3g}")
    return number(rounded, 0) if 1e3 <= abs(rounded) < 1e9 else f"{value:.3g}".replace("-", "\N{MINUS SIGN}")
