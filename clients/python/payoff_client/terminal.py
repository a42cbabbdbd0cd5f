"""What the command line reads and prints: matrices, tables of cases, questions, results."""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from payoff_client.answers import warn
from payoff_client.datasets import CSV
from payoff_client.dialect import MISSING, PLAIN, Dialect
from payoff_client.errors import InvalidAnswer
from payoff_client.file_parts import opened, unpacked
from payoff_client.progress import printable
from payoff_client.stakes import Stakes

_SAVED = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(:[1-9][0-9]*)?")
_NUMBER_BEGINS = re.compile(r"[+-]?[.,]?\d")  # also in another dialect: such a row is no header
MATRIX_HELP = "JSON or YAML file: {class: {action: number}}, or an object with benefits, limits, actions and the like"
BENEFITS_HELP = f"{MATRIX_HELP}; or the name of a saved matrix"


class Unusable(Exception):
    """A file or an argument that cannot be used, and why."""


def document_of(path: str) -> Any:
    """The content of a JSON file, or of a YAML file where PyYAML is installed; Unusable otherwise."""
    text = Path(path).read_text(encoding="utf-8")
    try:
        if not path.endswith((".yaml", ".yml")):
            return json.loads(text)
        try:
            import yaml  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
        except ImportError as error:
            raise Unusable(f"{path}: YAML needs PyYAML (pip install pyyaml); JSON works without it") from error
        return yaml.safe_load(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise Unusable(f"{path} is not JSON: {error}") from error
    except ValueError as error:
        raise Unusable(f"{path}: {error}") from error
    except Exception as error:
        if type(error).__module__.startswith("yaml"):
            raise Unusable(f"{path} is not YAML: {error}") from error
        raise


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
    for name in found:
        if name not in fields.__annotations__:
            raise Unusable(f"{path}: {name!r} has no effect here; the fields are {', '.join(fields.__annotations__)}")
    return dict(found)


def cases_of(path: str, card: Mapping[str, Any], dialect: Dialect = PLAIN) -> list[dict[str, Any]]:
    """The rows of a CSV or Parquet file as objects of those features of the model that it has."""
    features = {feature["name"]: feature for feature in card["features"]}
    with opened(Path(path), dialect, None) as (kind, names, parts):
        content = next(parts).content
    if kind == CSV:
        return _cases_of_csv(path, content, names, features, dialect)
    from pyarrow import ipc  # noqa: PLC0415 - for Parquet alone

    rows = ipc.open_stream(content).read_all().to_pylist()
    found = [name for name in features if any(name in row for row in rows)]
    return [{name: row.get(name) for name in found} for row in rows]


def _cases_of_csv(
    path: str, content: bytes, names: Sequence[str], features: Mapping[str, Any], dialect: Dialect
) -> list[dict[str, Any]]:
    double = [name for name in features if names.count(name) > 1]
    if double:
        raise Unusable(f"{path} has the column {double[0]!r} twice")
    cases = []
    for number, row in enumerate(_rows_of(path, content, dialect)[1:], 2):
        if len(row) != len(names):
            raise Unusable(f"{path}, row {number}: the header has {len(names)} values, this row {len(row)}")
        cells = zip(names, row, strict=True)
        cases.append({name: _value_of_cell(features[name], cell, dialect) for name, cell in cells if name in features})
    return cases


def _value_of_cell(feature: Mapping[str, Any], cell: str, dialect: Dialect) -> Any:
    """A value of CSV; None where it is missing: a word such as NA, if that is no category."""
    if not cell or (cell in MISSING and cell not in (feature.get("categories") or ())):
        return None
    return value_of(feature["name"], cell, is_number=feature["type"] == "numeric", dialect=dialect)


def _rows_of(path: str, content: bytes, dialect: Dialect) -> list[list[str]]:
    with _readable(path):
        return list(dialect.rows(content))


@contextmanager
def _readable(path: str) -> Iterator[None]:
    try:
        yield
    except (csv.Error, ValueError, EOFError, RecursionError) as error:
        raise Unusable(f"{path} cannot be read: {error}") from error


def value_of(name: str, text: str, *, is_number: bool, dialect: Dialect = PLAIN) -> Any:
    """A value as the feature has it; Unusable where it should be a number and is none."""
    if not is_number:
        return text.strip()
    try:
        return dialect.number(text)
    except ValueError as error:
        raise Unusable(f"{name!r} takes a number, not {text[:40]!r}") from error


def probabilities_of(path: str, dialect: Dialect = PLAIN) -> Any:
    """The numbers of a .npy file, or of a CSV file with or without a header; of one column a list."""
    if path.endswith(".npy"):
        dialect.check(repr(path), is_csv=False)
        with _readable(path):
            return np.load(path, allow_pickle=False)
    with unpacked(Path(path)) as (file, _):
        rows = _rows_of(path, dialect.in_utf8(file).read(), dialect)
    if rows and not any(map(_NUMBER_BEGINS.match, rows[0])):
        rows = rows[1:]
    try:
        numbers = [[dialect.number(cell) for cell in row] for row in rows]
    except ValueError as error:
        raise Unusable(f"{path}: {error}") from error
    return [row[0] for row in numbers] if all(len(row) == 1 for row in numbers) else numbers


def asker(card: Mapping[str, Any]) -> Callable[[Mapping[str, Any]], Any]:
    """What asks the user for the next feature of a case's state; None where the value cannot be had."""
    features = {feature["name"]: feature for feature in card["features"]}

    def ask(state: Mapping[str, Any]) -> Any:
        name = state["next"]["feature"]
        if name not in features:
            raise InvalidAnswer(f"the service asks for {name!r}, which is no feature of the model")
        feature, is_number = features[name], features[name]["type"] == "numeric"
        low, high = feature.get("low"), feature.get("high")
        hint = f"{low:g} to {high:g}" if is_number and low is not None and high is not None else ""
        hint = hint or ("a number" if is_number else ", ".join((feature.get("categories") or [])[:12]))
        costs = f"costs {state['next']['cost']:g}, spent {state.get('spent') or 0:g}"
        prompt = f"{name} ({hint}; {costs}; empty: unknown): "
        while True:
            print(printable(prompt), end="", file=sys.stderr, flush=True)  # standard output has the result alone
            answer = input().strip()
            if not answer:
                return None
            try:
                return value_of(name, answer, is_number=is_number)
            except Unusable as error:
                print(printable(str(error)), file=sys.stderr)

    return ask


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


def learner_of(text: str) -> Any:
    """A kind, or JSON with a kind and parameters."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else text
    except json.JSONDecodeError as error:
        raise Unusable(f"--learner is not JSON: {error}") from error


def describe_dialect(command: argparse.ArgumentParser) -> None:
    """Add the options that tell how a CSV file is written."""
    command.add_argument("--delimiter", help="of CSV: , ; | or tab (default ,)")
    command.add_argument("--decimal", help="of CSV: . or , (default .)")
    command.add_argument("--encoding", help="of CSV: utf-8, utf-16 or latin-1 (default utf-8)")


def given(chosen: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name in names if (value := getattr(chosen, name)) is not None and value is not False}


def refuse(chosen: argparse.Namespace, why: str, *names: str) -> None:
    """Unusable where one of the options was given, as it has no effect."""
    for name in given(chosen, *names):
        raise Unusable(f"--{name} has no effect {why}")


def show(chosen: argparse.Namespace, document: Any, text: str) -> None:
    """Print the document as JSON where that was asked for, else the text; its warnings to standard error."""
    if isinstance(document, Mapping):
        warn(document.get("warnings") or ())
    print(json.dumps(document, ensure_ascii=False, indent=1) if chosen.json else _lines(text))


@contextmanager
def output_may_end() -> Iterator[None]:
    """Let the reader of standard output have enough, as `head` does: what is left to print is dropped."""
    try:
        yield
        sys.stdout.flush()  # here and not at the end of the process, where an error would be printed
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str) -> None:
    """Print to standard error."""
    print(_lines(text), file=sys.stderr)


def _lines(text: str) -> str:
    """Names come from a service, and may contain what a terminal would obey."""
    return "\n".join(map(printable, text.split("\n")))
