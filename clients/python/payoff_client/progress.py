"""Progress as a line of plain text, in terminals and notebooks."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Self, TextIO

_WIDTH = 30


def in_notebook() -> bool:
    """Whether IPython runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """A line that is written anew with each `show`; silent unless `wanted`, or None where somebody looks at it."""

    def __init__(self, title: str, wanted: bool | None) -> None:
        notebook = in_notebook()
        self._out: TextIO = sys.stdout if notebook else sys.stderr
        self._shown = (notebook or self._out.isatty()) if wanted is None else wanted
        self._title, self._last = title, ""

    def show(self, share: float, stage: str | None = None) -> None:
        """The share that is done, 0 to 1, and what is being done."""
        share = min(max(share, 0.0), 1.0)
        full = round(_WIDTH * share)
        line = f"{self._title} [{'#' * full}{' ' * (_WIDTH - full)}] {share:4.0%} {printable(stage or '')}".rstrip()
        if self._shown and line != self._last:
            self._out.write(f"\r{line.ljust(len(self._last))}")
            self._out.flush()
            self._last = line

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if self._last:
            self._out.write("\n")


def printable(text: str) -> str:
    """The text without what would move the cursor of a terminal."""
    return "".join(sign for sign in text if sign.isprintable())
