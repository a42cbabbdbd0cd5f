"""The terminal: progress and results are printed; matrices, probabilities and answers are read."""

import argparse
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from payoff_client.documents import warn
from payoff_client.showing import printable

_SAVED = re.compile(
    r"[a-z0-9][a-z0-9_-]{0,63}(:\d+)?", re.ASCII
)  # the name of a saved matrix


def in_notebook() -> bool:
    """Whether IPython runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """A line that each `show` rewrites, if `is_shown`; None is for terminals and notebooks only."""

    def __init__(self, title: str, is_shown: bool | None) -> None:
        self._out = sys.stdout if in_notebook() else sys.stderr
        if is_shown is None:
            is_shown = in_notebook() or self._out.isatty()
        self._is_shown = is_shown
        self._title = title
        self._last = ""

    def show(self, share: float, stage: str | None = None) -> None:
        """Show the share of the work that is done, 0 to 1, and the stage of the work."""
        line = f"{self._title} {share:4.0%} {printable(stage or '')}".rstrip()
        if self._is_shown and line != self._last:
            self._out.write(f"\r{line.ljust(len(self._last))}")
            self._out.flush()
            self._last = line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._last:
            self._out.write("\n")


def document_of(path: str) -> Any:
    """The content of a JSON file; ValueError otherwise."""
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error


def stakes_of(path: str | None) -> dict[str, Any]:
    """The fields in a file, which may be a matrix alone; `path` may name a saved matrix."""
    if path is None:
        return {}
    if not Path(path).exists():
        if not _SAVED.fullmatch(path):
            raise FileNotFoundError(f"there is no file {path}")
        return {"benefits": path}
    document = document_of(path)
    if not isinstance(document, Mapping | list) or not document:
        raise ValueError(
            f"{path}: expected benefits by class and action, or an object with 'benefits' and other"
            " fields"
        )
    fields = {"benefits", "cost_matrix", "unit_costs", "costs", "baseline"}
    if isinstance(document, Mapping) and not fields.isdisjoint(document):
        return dict(document)
    return {"benefits": document}


def value_of(feature: Mapping[str, Any], text: str) -> Any:
    """A value of the feature; None where it is missing, ValueError where it must be a number."""
    if not text or feature.get("type") != "numeric":
        return text or None
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{text[:40]!r} is not a number") from error


def probabilities_of(path: str) -> Any:
    """The numbers of a .npy file, or of a CSV file, whose first line may be a header."""
    try:
        if path.endswith(".npy"):
            return np.load(path, allow_pickle=False)
        with Path(path).open(encoding="utf-8-sig") as file:
            lines = file.read().splitlines()
        has_header = any(character.isalpha() for character in "".join(lines[:1]))
        return np.loadtxt(lines[1:] if has_header else lines, delimiter=",")
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def ask(feature: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """The value of the next feature of a case, from the user; None where it is unavailable."""
    low, high = feature.get("low"), feature.get("high")
    hint = ", ".join((feature.get("categories") or [])[:12])
    if feature["type"] == "numeric":
        hint = "a number" if low is None or high is None else f"{low:g} to {high:g}"
    costs = f"costs {state['next']['cost']:g}, spent {state.get('spent') or 0:g}"
    prompt = f"{feature['name']} ({hint}; {costs}; empty: unknown): "
    while True:
        # Standard output is for the result.
        print(printable(prompt), end="", file=sys.stderr, flush=True)
        answer = input().strip()
        try:
            return value_of(feature, answer)
        except ValueError as error:
            print_to_stderr(str(error))


def show(chosen: argparse.Namespace, document: Any, text: str) -> None:
    """Print the document as JSON with `--json`, else the text; its warnings to standard error."""
    if isinstance(document, Mapping):
        warn(document.get("warnings") or ())
    print(
        json.dumps(document, ensure_ascii=False, indent=1)
        if chosen.json
        else _lines(text)
    )


def print_to_stderr(text: str) -> None:
    """Print to standard error."""
    print(_lines(text), file=sys.stderr)


def _lines(text: str) -> str:
    """The printable characters of each line: names from a service may contain control codes."""
    return "\n".join(map(printable, text.split("\n")))
