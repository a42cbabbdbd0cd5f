"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """`wrong` keeps the service from working, a `warning` may do so later."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """The result of one check, and how to fix it unless it is `ok`."""

    check: str
    level: Level
    text: str
    fix: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"check": self.check, "level": self.level.value, "text": self.text, "fix": self.fix}

    def line(self) -> str:
        """For a terminal."""
        head = f"{self.level.value:<9}{self.check:<10}"
        return f"{head}{self.text}" + (f"\n{'':19}fix: {self.fix}" if self.fix else "")


def ok(check: str, text: str) -> Finding:
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, fix: str) -> Finding:
    return Finding(check, Level.WARNING, text, fix)


def wrong(check: str, text: str, fix: str) -> Finding:
    return Finding(check, Level.WRONG, text, fix)
