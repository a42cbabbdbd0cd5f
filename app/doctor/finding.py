"""What a check finds."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is: `wrong` keeps the service from doing its work, a `warning` may do so later."""

    OK = "ok"
    WARNING = "warning"
    WRONG = "wrong"


@dataclass(frozen=True)
class Finding:
    """What one check says, and what mends it where something is to be mended."""

    check: str
    level: Level
    text: str
    mend: str = ""

    def as_dict(self) -> dict[str, str]:
        return {"check": self.check, "level": self.level.value, "text": self.text, "mend": self.mend}

    def line(self) -> str:
        """For a terminal."""
        head = f"{self.level.value:<9}{self.check:<10}"
        return f"{head}{self.text}" + (f"\n{'':19}mend: {self.mend}" if self.mend else "")


def ok(check: str, text: str) -> Finding:
    return Finding(check, Level.OK, text)


def warning(check: str, text: str, mend: str) -> Finding:
    return Finding(check, Level.WARNING, text, mend)


def wrong(check: str, text: str, mend: str) -> Finding:
    return Finding(check, Level.WRONG, text, mend)
