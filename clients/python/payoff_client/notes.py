"""Warnings of a table that was sent in parts, as those of the whole."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

_COUNT = re.compile(r"\b(\d{1,15}) of \d+ (?=values of|instances)")
_PLACES = re.compile(r" \(positions? (\d{1,15}(?:, \d{1,15})*)(?:, …)?\)")
_EXAMPLE = re.compile(r" \(for example .*\)")
_SHOWN = 5  # positions, as the service names


@dataclass
class _Note:
    """A warning: the text before its count and after it, and before and after its positions."""

    before: str
    after: str
    rest: str
    count: int = 0
    places: list[int] = field(default_factory=list)

    def text(self, rows: int) -> str:
        """The warning of the whole table."""
        where = ""
        if self.places:
            shown = ", ".join(map(str, self.places[:_SHOWN]))
            more = ", …" if self.count > min(len(self.places), _SHOWN) else ""
            where = f" (position{'' if self.count == 1 else 's'} {shown}{more})"
        return f"{self.before}{self.count} of {rows} {self.after}{where}{self.rest}"


class Notes:
    """Collects the warnings of the parts in their order: counts are added up, and positions are of the whole."""

    def __init__(self) -> None:
        self.rows = 0
        self._found: dict[str, _Note | None] = {}

    def add(self, warnings: Sequence[str], rows: int) -> None:
        """The warnings of the next part, which has so many rows."""
        for text in warnings:
            count = _COUNT.search(text)
            if count is None:
                self._found[text] = None
                continue
            places = _PLACES.search(text, count.end())
            end, start = (len(text), len(text)) if places is None else (places.start(), places.end())
            parts = text[: count.start()], text[count.end() : end], text[start:]
            key = _EXAMPLE.sub("", "\0".join(parts))
            note = self._found.setdefault(key, _Note(*parts))
            assert note is not None
            note.count += int(count[1])
            note.places += [self.rows + int(place) for place in places[1].split(", ")] if places is not None else []
        self.rows += rows

    def texts(self) -> list[str]:
        """The warnings of all parts so far."""
        return [text if note is None else note.text(self.rows) for text, note in self._found.items()]
