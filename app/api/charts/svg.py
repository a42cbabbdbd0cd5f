"""SVG elements as strings: escaped, and styled for light and dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

CHARACTER = 7.3  # mean width of a character of a wide 12 pixel font; labels are laid out without measuring them
_WIDEST = 15.0  # pixels of a character, such as a bold W
_BASE = 14.0  # pixels above the base line that letters with accents take

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
