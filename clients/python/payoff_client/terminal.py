"""What the command line reads and prints: matrices, tables of cases, questions, results, scripts of completion."""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from payoff_client.answers import warn
from payoff_client.files import opened, read_csv
from payoff_client.jobs import printable
from payoff_client.rows import arrow_tools
from payoff_client.stakes import Stakes
from payoff_client.transport import ARROW

_SAVED = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(:[1-9][0-9]*)?")
_NUMBER_BEGINS = re.compile(r"[+-]?[.,]?\d")  # also in another dialect: such a row is no header
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)  # this and what follows as the service has it
_MISSING = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "None", "?"})
_FILES = frozenset({"file", "data", "benefits", "feature_costs", "out", "chart", "send", "place"})


class Unusable(ValueError):
    """A file or an argument that cannot be used, and why."""


def document_of(path: str) -> Any:
    """The content of a JSON file, or of a YAML file where PyYAML is installed; Unusable otherwise."""
    text = Path(path).read_text(encoding="utf-8")
    parse: Callable[[str], Any] = json.loads
    kinds: tuple[type[Exception], ...] = (ValueError, RecursionError)
    if path.endswith((".yaml", ".yml")):
        try:
            yaml: Any = import_module("yaml")
        except ImportError as error:
            raise Unusable(f"{path}: YAML needs PyYAML (pip install pyyaml); JSON works without it") from error
        parse, kinds = yaml.safe_load, (*kinds, yaml.YAMLError)
    try:
        return parse(text)
    except kinds as error:
        raise Unusable(f"{path} is not {'JSON' if parse is json.loads else 'YAML'}: {error}") from error


def stakes_of(path: str | None, fields: type = Stakes) -> dict[str, Any]:
    """The `fields` in a file by name, or a benefit matrix alone; or the name of a saved matrix."""
    if path is None:
        return {}
    if _SAVED.fullmatch(path) and not Path(path).exists():
        return {"benefits": path}
    found = document_of(path)
    if not isinstance(found, Mapping | list) or not found:
        raise Unusable(f"{path}: expected benefits by class and action, or an object with 'benefits' and other fields")
    if not isinstance(found, Mapping) or not {"benefits", "cost_matrix"} & found.keys():
        return {"benefits": found}
    known = fields.__annotations__
    for name in found:
        if name not in known:
            raise Unusable(f"{path}: {name!r} has no effect here; the fields are {', '.join(known)}")
    return dict(found)


def cases_of(path: Path, card: Mapping[str, Any], written: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows of a CSV or Parquet file as objects; of CSV, columns that are no features of the model are text."""
    with opened(path, written, math.inf) as (kind, names, parts):
        content = next(parts).content
    if kind == ARROW:
        found: list[dict[str, Any]] = arrow_tools().rows_of(content)
        return found
    rows = csv.reader(io.StringIO(content.decode(), newline=""), delimiter=written.get("delimiter", ","))
    _, *cells = (row for row in rows if row)
    if len(set(names)) < len(names) or any(len(row) != len(names) for row in cells):
        raise Unusable(f"{path} has a name twice, or a row of another length than the header")
    features = {feature["name"]: feature for feature in card["features"]}
    decimal = written.get("decimal", ".")
    return [
        {name: value_of(features.get(name, {}), cell.strip(), decimal) for name, cell in zip(names, row, strict=True)}
        for row in cells
    ]


def value_of(feature: Mapping[str, Any], text: str, decimal: str = ".") -> Any:
    """A value as the feature has it, if it is one; None where it is missing: a word such as NA that is no category.

    Unusable where it should be a number and is none.
    """
    if not feature:
        return text
    if text in _MISSING and text not in (feature.get("categories") or ()):
        return None
    return number_of(text, decimal) if feature["type"] == "numeric" else text


def number_of(text: str, decimal: str) -> float:
    """The number in a text, as the service reads it; Unusable where it is none, or infinite."""
    plain = text.strip()
    if decimal != ".":
        plain = plain.replace(".", "?").replace(decimal, ".")
    found = float(plain) if _NUMBER.fullmatch(plain) else math.inf
    if math.isinf(found):
        raise Unusable(f"{text[:40]!r} is not a number")
    return found


def probabilities_of(path: str, written: Mapping[str, Any]) -> Any:
    """The numbers of a .npy file, or of a CSV file with or without a header; of one column a list."""
    if path.endswith(".npy"):
        try:
            return np.load(path, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise Unusable(f"{path} cannot be read: {error}") from error
    with read_csv(Path(path), written) as (text, _):
        rows = [row for row in csv.reader(text, delimiter=written.get("delimiter", ",")) if row]
    if rows and not any(_NUMBER_BEGINS.match(cell.strip()) for cell in rows[0]):
        rows = rows[1:]
    numbers = [[number_of(cell, written.get("decimal", ".")) for cell in row] for row in rows]
    return [row[0] for row in numbers] if all(len(row) == 1 for row in numbers) else numbers


def ask(feature: Mapping[str, Any], state: Mapping[str, Any]) -> Any:
    """The value of the next feature of a case, from the user; None where it cannot be had."""
    low, high = feature.get("low"), feature.get("high")
    hint = ", ".join((feature.get("categories") or [])[:12])
    if feature["type"] == "numeric":
        hint = "a number" if low is None or high is None else f"{low:g} to {high:g}"
    costs = f"costs {state['next']['cost']:g}, spent {state.get('spent') or 0:g}"
    prompt = f"{feature['name']} ({hint}; {costs}; empty: unknown): "
    while True:
        print(printable(prompt), end="", file=sys.stderr, flush=True)  # standard output has the result alone
        answer = input().strip()
        try:
            return value_of(feature, answer) if answer else None
        except Unusable as error:
            say(str(error))


def table_text(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> str:
    """Rows in columns, numbers to the right."""
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    widths = [max(map(len, column)) for column in zip(names, *cells, strict=True)]
    numeric = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]

    def line(values: Sequence[str]) -> str:
        padded = zip(values, widths, numeric, strict=True)
        return "  ".join(text.rjust(width) if right else text.ljust(width) for text, width, right in padded).rstrip()

    return "\n".join(map(line, [names, *cells]))


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_cell(each)}" for name, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return printable(str(value))


def figures_text(document: Mapping[str, Any]) -> str:
    """The single values of a document, one a line."""
    shown = {
        name: value for name, value in document.items() if not isinstance(value, list | dict) and value is not None
    }
    width = max(map(len, shown), default=0)
    return "\n".join(f"{name.ljust(width)}  {_cell(value)}" for name, value in shown.items())


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


@contextmanager
def output_may_end() -> Iterator[None]:
    """Let the reader of standard output have enough, as `head` does: what is left to print is dropped."""
    try:
        yield
        sys.stdout.flush()  # here and not at the end of the process, where an error would be printed
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """What completes a parser's program in a shell: options, choices, files, and names of models, for which it asks the
    service when the user does. Unusable without shtab.
    """
    try:
        shtab: Any = import_module("shtab")
    except ImportError as error:
        raise Unusable("completion needs shtab: pip install 'payoff-client[completion]'") from error
    names = shtab.cmd(f"{parser.prog} models --names 2>/dev/null")
    groups = [action.choices for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for command in [command for group in groups for command in group.values()]:
        for action in command._actions:
            if action.dest in _FILES:
                action.complete = shtab.FILE
            elif action.dest == "model":
                action.complete = names
    found: str = shtab.complete(parser, shell=shell)
    return found
