"""What charts are drawn with: SVG elements, styled for light and dark; axes with their ticks and frames."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Self

CHARACTER = 7.3  # mean width of a character of a wide 12 pixel font; labels are laid out without measuring them
_WIDEST = 15.0  # pixels of a character, such as a bold W
_BASE = 14.0  # pixels above the base line that letters with accents take

MARGIN = 24.0
BELOW = 48.0  # pixels under the plot for labels and the axis' title
_ROW, _SAMPLE, _GAP = 18.0, 34.0, 24.0
_APART = 10.0  # pixels between labels
_NARROWEST = 1e-9  # relative; a range below it is widened: its ticks could not be told apart
_LEAST = 1e-300  # the same, absolute: below it a sixth of a range, or a twentieth, may be 0

_STYLE = """
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,Helvetica,Arial,sans-serif;fill:#1b1f24}
.heading{font-size:15px;font-weight:600}
.group{font-weight:600}.over{paint-order:stroke;stroke:#fff;stroke-width:4px}
.soft{fill:#5b6470}.best-text{fill:#0a58b5;font-weight:600}
.paper{fill:#fff}.grid{stroke:#e4e7eb}.axis{stroke:#8a939e}path{fill:none}.line{stroke:#0a58b5;stroke-width:2}
.bound{stroke:#008f6b;stroke-width:1.5;stroke-dasharray:6 4}.cut{stroke:#0a58b5;stroke-width:1.5;stroke-dasharray:2 3}
.posterior{stroke:#b34700;stroke-width:1.5;stroke-dasharray:8 3 2 3}
.plain{stroke:#8a939e;stroke-width:1.5;stroke-dasharray:2 3}
.dot{fill:#5b6470}.best{fill:#0a58b5}.posterior-dot{fill:#b34700}.whisker{stroke:#5b6470;stroke-width:1.5}
.best-whisker{stroke:#0a58b5;stroke-width:2}
@media (prefers-color-scheme:dark){
text{fill:#e6e9ed}.over{stroke:#15181c}.soft{fill:#9aa4b0}.best-text{fill:#6cb0ff}
.paper{fill:#15181c}.grid{stroke:#2a2f36}.axis{stroke:#6b7480}.line{stroke:#6cb0ff}
.bound{stroke:#3ddbb0}.cut{stroke:#6cb0ff}.posterior{stroke:#ff9a3c}.plain{stroke:#6b7480}
.dot{fill:#9aa4b0}.best{fill:#6cb0ff}.posterior-dot{fill:#ff9a3c}.whisker{stroke:#9aa4b0}.best-whisker{stroke:#6cb0ff}}
"""


_NOT_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # no escape makes them legal


def escaped(words: str) -> str:
    """Words for a place between tags or quotes; what XML cannot hold at all becomes U+FFFD."""
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", words))


def document(width: float, height: float, body: str, title: str, description: str) -> str:
    """A whole picture; `title` and `description` are what screen readers say: all that it shows."""
    heads = tag("title", escaped(title)) + tag("desc", escaped(description)) + tag("style", _STYLE)
    paper = tag("rect", width="100%", height="100%", cls="paper")
    size = {"width": f"{width:g}", "height": f"{height:g}", "viewBox": f"0 0 {width:g} {height:g}"}
    return tag("svg", heads + paper + body, xmlns="http://www.w3.org/2000/svg", role="img", **size)


def tag(element: str, content: str = "", **attributes: float | str) -> str:
    """An element; `content` is SVG already. Attribute `cls` is `class`, and `_` in a name stands for `-`."""
    listed = "".join(f' {_name(name)}="{_value(value)}"' for name, value in attributes.items())
    return f"<{element}{listed}>{content}</{element}>" if content else f"<{element}{listed}/>"


def text(x: float, y: float, words: str, *, cls: str = "", anchor: str = "start") -> str:
    return tag("text", escaped(words), x=x, y=y, cls=cls, text_anchor=anchor)


def fitted(x: float, y: float, width: float, words: str, most: int, *, cls: str = "") -> str:
    """Words on the line at `y`, cut after `most` characters, and after `width` pixels where these are wide; then the
    whole is what a pointer over them shows.
    """
    whole = tag("title", escaped(words)) if len(words) * _WIDEST > width else ""
    shown = tag("text", escaped(shortened(words, most)) + whole, x=0, y=_BASE, cls=cls)
    return tag("svg", shown, x=x, y=y - _BASE, width=width, height=_BASE + 6)  # an inner one shows nothing outside it


def line(x1: float, y1: float, x2: float, y2: float, cls: str) -> str:
    return tag("line", x1=x1, y1=y1, x2=x2, y2=y2, cls=cls)


def stacked(panels: Sequence[tuple[float, str]]) -> tuple[float, str]:
    """Panels with their heights one below the other, and the height of all."""
    parts, top = [], 0.0
    for height, body in panels:
        parts.append(tag("g", body, transform=f"translate(0 {top:g})"))
        top += height
    return top, "".join(parts)


def shortened(words: str, most: int) -> str:
    return words if len(words) <= most else words[: most - 1] + "…"


def _name(name: str) -> str:
    return "class" if name == "cls" else name.replace("_", "-")


def _value(value: float | str) -> str:
    return escaped(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


Points = Sequence[tuple[float, float]]


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


def heading(words: str, width: float) -> str:
    return fitted(MARGIN, 24, width - 2 * MARGIN, words, 200, cls="heading")


def plot(ys: Iterable[float], last: float, width: float, top: float, bottom: float) -> tuple[Axis, Axis]:
    """The axes x, from 0 to `last`, and y of a plot beside the labels of y."""
    y = Axis.around(ys, bottom, top)
    left = MARGIN + max(len(label) for _, label in y.ticks(5)) * CHARACTER + 8
    return Axis(0.0, last, left, width - MARGIN), y


def frame(x: Axis, y: Axis, across: str, up: str) -> str:
    """Grid and labels of both axes, with the title `across` of x below it and `up` of y above it."""
    parts = [text(MARGIN, y.end - 16, up, cls="soft")]
    for value, label in y.ticks(5):
        at = y.at(value)
        parts += [line(x.start, at, x.end, at, "grid"), text(x.start - 8, at + 4, label, cls="soft", anchor="end")]
    parts += [line(x.at(value), y.start, x.at(value), y.start + 4, "axis") for value, _ in spread(x, 10)]
    return "".join([*parts, scale(x, y.start, across)])


def scale(x: Axis, bottom: float, title: str) -> str:
    """The line of an axis at the bottom with labels that do not touch, and its title."""
    parts = [line(x.start, bottom, x.end, bottom, "axis")]
    for value, label in spread(x, 10):
        inside = x.end + MARGIN - len(label) * CHARACTER / 2
        parts.append(text(min(x.at(value), inside), bottom + 18, label, cls="soft", anchor="middle"))
    parts.append(text((x.start + x.end) / 2, bottom + 38, title, cls="soft", anchor="middle"))
    return "".join(parts)


def spread(x: Axis, most: int) -> list[tuple[float, str]]:
    """About `most` ticks, or as many fewer as their labels side by side leave room for."""
    for about in range(most, 0, -1):
        ticks = x.ticks(about)
        widest = max(len(label) for _, label in ticks) * CHARACTER + _APART
        if len(ticks) == 1 or x.at(ticks[1][0]) - x.at(ticks[0][0]) >= widest:
            return ticks
    return x.ticks(1)[:1]


def through(x: Axis, y: Axis, points: Points, cls: str, *, steps: bool = False) -> str:
    """A line through points from left to right; with `steps` each value holds up to the next point."""
    parts: list[str] = []
    height = ""
    for place, (across, up) in enumerate(points):
        at, before, height = f"{x.at(across):.1f}", height, f"{y.at(up):.1f}"
        if not place or not steps:
            parts.append(f"{'L' if place else 'M'}{at} {height}")
        elif height != before or place == len(points) - 1:
            parts.append(f"H{at}V{height}")
    return tag("path", d="".join(parts), cls=cls)


def key(entries: Sequence[tuple[str, str]], width: float, top: float) -> tuple[float, str]:
    """Samples of styles with their words, in as many rows as they need; and the height of these."""
    parts, left, row = [], MARGIN, 0
    for words, style in entries:
        room = min(len(words) * CHARACTER, width - 2 * MARGIN - _SAMPLE)
        if left > MARGIN and left + _SAMPLE + room > width - MARGIN:
            left, row = MARGIN, row + 1
        y = top + _ROW * row
        parts += [line(left, y - 4, left + 26, y - 4, style)]
        parts += [fitted(left + _SAMPLE, y, width - MARGIN - left - _SAMPLE, words, 200)]
        left += _SAMPLE + room + _GAP
    return _ROW * (row + 1), "".join(parts)
