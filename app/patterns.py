"""Patterns of names, such as `heart-*`, in memory and in SQL: `*` stands for any text and `?` for any character."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, false, or_

_PATTERN = re.compile(r"[a-z0-9_*?-]{1,64}")


def is_pattern(text: str) -> bool:
    """Whether the text can match a name of a model or alias at all."""
    return _PATTERN.fullmatch(text) is not None


def compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    """What fully matches the names that one of the patterns does."""
    return re.compile("|".join(re.escape(text).replace(r"\*", ".*").replace(r"\?", ".") for text in patterns))


def matches(column: ColumnElement[Any], patterns: Iterable[str]) -> ColumnElement[bool]:
    """The same of a column of names, which are of lower case: SQLite's LIKE does not tell the cases apart."""
    translated = (text.replace("_", r"\_").replace("*", "%").replace("?", "_") for text in patterns)
    return or_(false(), *(column.like(text, escape="\\") for text in translated))
