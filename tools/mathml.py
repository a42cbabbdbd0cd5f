"""Formulas of the documentation as MathML, which browsers show without a script: a hook of MkDocs."""

from __future__ import annotations

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(
    r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL
)


def on_page_content(content: str, **_: Any) -> str:
    """Replace each formula that arithmatex marked."""
    return _FORMULA.sub(_mathml, content)


def _mathml(formula: re.Match[str]) -> str:
    return convert(
        html.unescape(formula[2]), display="block" if formula[1] == "div" else "inline"
    )
