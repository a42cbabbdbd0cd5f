"""What is printed, and what the command line reads: progress, results, matrices, probabilities, answers."""

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

_SAVED = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(:\d+)?", re.ASCII)  # the name of a saved matrix


def in_notebook() -> bool:
    """Whether IPython runs in a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class Bar:
    """A line that is written anew with each `show`; silent unless `wanted`, or None where somebody looks at it."""

    def __init__(self, title: str, wanted: bool | None) -> None:
        self._out = sys.stdout if in_notebook() else sys.stderr
        self._shown = (in_notebook() or self._out.isatty()) if wanted is None else wanted
        self._title, self._last = title, ""

    def show(self, share: float, stage: str | None = None) -> None:
        """The share that is done, 0 to 1, and what is being done."""
        line = f"{self._title} {share:4.0%} {printable(stage or '')}".rstrip()
        if self._shown and line != self._last:
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
    """The fields in a file by name, or a benefit matrix alone; what is no file is the name of a saved matrix."""
    if path is None:
        return {}
    if not Path(path).exists():
        if not _SAVED.fullmatch(path):
            raise FileNotFoundError(f"there is no file {path}")
        return {"benefits": path}
    found = document_of(path)
    if not isinstance(found, Mapping | list) or not found:
        raise ValueError(
            f"{path}: expected benefits by class and action, or an object with 'benefits' and other fields"
        )
    has_fields = isinstance(found, Mapping) and not {
        "benefits",
        "cost_matrix",
        "unit_costs",
    }.isdisjoint(found)
    return dict(found) if has_fields else {"benefits": found}


def value_of(feature: Mapping[str, Any], text: str) -> Any:
    """A value as the feature has it; None where it is missing. ValueError where it should be a number and is none."""
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
        return np.loadtxt(
            lines[any(sign.isalpha() for sign in "".join(lines[:1])) :], delimiter=","
        )
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from error


def ask(feature: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """The value of the next feature of a case, from the user; None where it cannot be had."""
    low, high = feature.get("low"), feature.get("high")
    hint = ", ".join((feature.get("categories") or [])[:12])
    if feature["type"] == "numeric":
        hint = "a number" if low is None or high is None else f"{low:g} to {high:g}"
    costs = f"costs {state['next']['cost']:g}, spent {state.get('spent') or 0:g}"
    prompt = f"{feature['name']} ({hint}; {costs}; empty: unknown): "
    while True:
        print(
            printable(prompt), end="", file=sys.stderr, flush=True
        )  # standard output has the result alone
        answer = input().strip()
        try:
            return value_of(feature, answer)
        except ValueError as error:
            say(str(error))


def show(chosen: argparse.Namespace, document: Any, text: str) -> None:
    """Print the document as JSON where that was asked for, else the text; its warnings to standard error."""
    if isinstance(document, Mapping):
        warn(document.get("warnings") or ())
    print(json.dumps(document, ensure_ascii=False, indent=1) if chosen.json else _lines(text))


def say(text: str) -> None:
    """Print to standard error."""
    print(_lines(text), file=sys.stderr)


def _lines(text: str) -> str:
    """Names come from a service, and may contain what a terminal would obey."""
    return "\n".join(map(printable, text.split("\n")))
