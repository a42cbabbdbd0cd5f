"""Commands on cases: decide, retrieve, acquire, and what became of decisions."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from payoff_client.answers import warn
from payoff_client.client import Payoff
from payoff_client.dialect import NAMES, Dialect
from payoff_client.errors import InvalidAnswer
from payoff_client.stakes import AcquireOptions
from payoff_client.terminal import (
    BENEFITS_HELP,
    Unusable,
    asker,
    cases_of,
    describe_dialect,
    figures_text,
    given,
    probabilities_of,
    refuse,
    show,
    stakes_of,
    table_text,
    value_of,
)

_CELL = re.compile(r'(?:("(?:[^"]|"")*")|([^",\n]*))(,|\n)')


def describe_predict(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="name, name:version or name@alias")
    command.add_argument("file", help="CSV (also .gz) or Parquet; - is CSV on standard input")
    command.add_argument("--benefits", metavar="FILE", help=BENEFITS_HELP)
    command.add_argument("--rule", help="how to decide (default expected_benefit; without benefits most_probable)")
    command.add_argument("--out", metavar="FILE", help="in one of the same formats (default: CSV on standard output)")
    describe_dialect(command)


def predict(client: Payoff, chosen: argparse.Namespace) -> None:
    """Decide for a file, and print the decisions unless they go to another file."""
    fields = stakes_of(chosen.benefits) | given(chosen, "rule", *NAMES)
    model = client.model(chosen.model)
    if not fields.keys() & {"benefits", "cost_matrix", "rule"} and model.card().get("classes") is not None:
        fields["rule"] = "most_probable"
    with tempfile.TemporaryDirectory() as folder:
        source = _standard_input(folder) if chosen.file == "-" else Path(chosen.file)
        printed = Path(folder) / "decided.csv"
        report = model.decide_file(source, chosen.out or printed, **fields)
        if chosen.out is not None:
            show(chosen, report, f"{report['rows']:,} rows decided by {report['model']}\n{_limits(report)}".strip())
            return
        warn(report["warnings"])
        with printed.open(encoding="utf-8", newline="") as file:
            if chosen.json:
                print(json.dumps({**report, "results": _results(file.read())}, ensure_ascii=False))
            else:
                shutil.copyfileobj(file, sys.stdout)


def _standard_input(folder: str) -> Path:
    path = Path(folder) / "stdin.csv"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    return path


def _results(text: str) -> list[dict[str, Any]]:
    """The rows of the service's CSV as objects: it quotes all text, and what is empty without quotes is missing."""
    rows: list[list[Any]] = [[]]
    for quoted, bare, end in _CELL.findall(text):
        rows[-1].append(quoted[1:-1].replace('""', '"') if quoted else _bare(bare))
        if end == "\n":
            rows.append([])
    names, *cells = rows[:-1] or [[]]
    return [dict(zip(names, row, strict=True)) for row in cells]


def _bare(cell: str) -> Any:
    """A value without quotes: a number, a boolean or, as a date is, text."""
    try:
        return json.loads(cell) if cell else None
    except ValueError:
        return cell


def _limits(report: Mapping[str, Any]) -> str:
    limits = report.get("limits")
    return table_text(limits, ["name", "used", "at_most", "at_least", "shadow_price"]) if limits else ""


def describe_retrieve(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "file",
        help="probabilities (.npy, or CSV of numbers), or with --model cases (CSV, also .gz, or Parquet)",
    )
    command.add_argument("--model", help="name, name:version or name@alias")
    command.add_argument("--setting", default="binary", choices=["binary", "multilabel", "multiclass"])
    command.add_argument("--loss", default="f_beta", help="name of the loss (default %(default)s)")
    command.add_argument("--beta", type=float, help="of f_beta")
    describe_dialect(command)


def retrieve(client: Payoff, chosen: argparse.Namespace) -> None:
    options = {"setting": chosen.setting, "loss": {"name": chosen.loss, **given(chosen, "beta")}}
    dialect = Dialect(**given(chosen, *NAMES))
    if chosen.model:
        model = client.model(chosen.model)
        report = model.retrieve(cases_of(chosen.file, model.card(), dialect), **options)
    else:
        report = client.retrieve(probabilities_of(chosen.file, dialect), **options)
    show(chosen, report, table_text(report["sets"], ["k", "expected_loss", "selected"]))


def describe_acquire(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", help="name, name:version or name@alias of a forest, tree or chain")
    command.add_argument("--known", action="append", default=[], metavar="FEATURE=VALUE", help="repeat it for several")
    command.add_argument("--budget", type=float, help="what the case may spend")
    command.add_argument("--benefits", metavar="FILE", help=BENEFITS_HELP)
    command.add_argument("--next", action="store_true", help="ask nothing: only print what to learn next")


def acquire(client: Payoff, chosen: argparse.Namespace) -> None:
    model = client.model(chosen.model)
    card = model.card()
    options = stakes_of(chosen.benefits, AcquireOptions) | given(chosen, "budget")
    numeric = {feature["name"]: feature["type"] == "numeric" for feature in card["features"]}
    pairs = [text.partition("=") for text in chosen.known]
    for name, sign, _ in pairs:
        if not sign:
            raise Unusable(f"--known takes FEATURE=VALUE, not {name!r}")
    known = {
        name: value_of(name, text, is_number=numeric.get(name, False)) if text else None for name, _, text in pairs
    }
    ask = asker(card)
    state = model.acquire(known, **options)
    while state["status"] == "acquire" and not chosen.next:
        feature = state["next"]["feature"]
        if feature in known:
            raise InvalidAnswer(f"the service asks for {feature!r} again")
        try:
            known[feature] = ask(state)
        except EOFError:
            print()
            break
        state = model.acquire(known, **options)
    wanted, decision = state.get("next"), state.get("decision")
    lines = [f"next: {wanted['feature']}, costs {wanted['cost']:g}"] if wanted else []
    lines += [f"decision: {decision}"] if decision is not None else [f"prediction: {state.get('prediction')}"]
    lines += [f"reason: {state['reason']}"] if state.get("reason") else []
    shares = [f"{name} {share:.3g}" for name, share in (state.get("probabilities") or {}).items()]
    show(chosen, state, "\n".join([*lines, f"spent: {state.get('spent') or 0:g}", *shares]))


def describe_outcomes(command: argparse.ArgumentParser) -> None:
    command.add_argument("model", nargs="?", help="report what became of its recorded decisions")
    command.add_argument("--send", metavar="FILE", help="CSV (also .gz) or Parquet with id, truth, action, benefit, at")
    command.add_argument("--since", help="ISO 8601")
    command.add_argument("--until", help="ISO 8601")
    command.add_argument("--by", help="part of the report")
    command.add_argument("--dataset", metavar="NAME", help="make a data set of the instances whose truth is known")
    describe_dialect(command)


def outcomes(client: Payoff, chosen: argparse.Namespace) -> None:
    if (chosen.model is None) == (chosen.send is None):
        raise Unusable("give a model for its report, or --send a file")
    if chosen.send:
        refuse(chosen, "with --send", "since", "until", "by", "dataset")
        sent = client.send_outcomes(Path(chosen.send), **given(chosen, *NAMES))
        show(chosen, sent, figures_text(sent | {name: len(sent[name]) for name in ("unknown", "conflicts")}))
        return
    refuse(chosen, "without --send", *NAMES)
    if chosen.dataset:
        refuse(chosen, "with --dataset", "by")
        made = client.datasets.from_outcomes(chosen.model, name=chosen.dataset, **given(chosen, "since", "until"))
        warn(made["from"]["warnings"])
        show(chosen, made, figures_text(made))
        return
    asked = given(chosen, "since", "until", "by")
    report = client.model(chosen.model).outcomes(**asked)
    show(chosen, report, figures_text(report))
