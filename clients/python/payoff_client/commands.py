"""The command line of the client, a table of commands with their arguments; exit codes are in `_EXIT`."""

from __future__ import annotations

import argparse
import json
import logging
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from payoff_client import errors, terminal
from payoff_client.answers import warn
from payoff_client.client import Payoff
from payoff_client.stakes import AcquireOptions, Matrix, PricedMatrix, Written
from payoff_client.terminal import Unusable, figures_text, say, show, stakes_of, table_text
from payoff_client.transport import LOG
from payoff_client.version import __version__

_EXIT: dict[int, tuple[type[Exception], ...]] = {  # the first that fits
    1: (errors.JobFailed,),
    5: (errors.Unauthorized, errors.Forbidden),
    4: (errors.RateLimited, errors.Unavailable),
    3: (errors.PayoffError, RecursionError),
    2: (OSError, ValueError, TypeError, ImportError, EOFError),
}
_CODES = (
    "Exit codes: 1 job failed, 2 arguments or files, 3 refused by the service, 4 unavailable, 5 key, 130 interrupted."
)
_CELL = re.compile(r'(?:("(?:[^"]|"")*")|([^",\n]*))(,|\n)')
_SAFE = re.compile("[a-z0-9][a-z0-9_-]*")  # bash would run commands in other names that it completes

Argument = tuple[str, dict[str, Any]]
Run = Callable[[Payoff, argparse.Namespace], None]


class Command(NamedTuple):
    """A command: what it does, its arguments, and the function that runs it."""

    text: str
    arguments: Sequence[Argument]
    run: Run


COMMANDS: dict[str, Command] = {}


def command(text: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Make the function the command of its name."""

    def kept(run: Run) -> Run:
        COMMANDS[run.__name__] = Command(text, arguments, run)
        return run

    return kept


def arg(name: str, text: str | None = None, **options: Any) -> Argument:
    """An argument of a command, as argparse takes it."""
    return name, {"help": text, **options}


def describe(name: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a command to its parser."""
    parser.add_argument("--url", help="of the service (default PAYOFF_URL, or port 8000 here); the key is PAYOFF_KEY")
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    for each, options in COMMANDS[name].arguments:
        parser.add_argument(each, **options)


def main(arguments: Sequence[str] | None = None, *, prog: str = "payoff-client") -> int:
    """Run one command; returns the exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=f"Use a running service. {_CODES}")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    for name, (text, _, _) in COMMANDS.items():
        describe(name, commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}. {_CODES}"))
    completion = commands.add_parser("completion", help="print a script that completes commands in a shell")
    completion.add_argument("shell", choices=["bash", "zsh", "fish"])
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("always", errors.PayoffWarning)
    warnings.showwarning = lambda message, *_others: say(f"warning: {message}")
    retries = _Retries()
    LOG.addHandler(retries)
    try:
        with terminal.output_may_end():
            if chosen.command == "completion":
                print(terminal.script(parser, chosen.shell))
                return 0
            hurried: dict[str, Any] = {"retry_seconds": 0, "timeout": 2} if getattr(chosen, "names", False) else {}
            with Payoff(chosen.url, progress=False if chosen.json else None, **hurried) as client:
                COMMANDS[chosen.command].run(client, chosen)
    except KeyboardInterrupt:
        return 130
    except tuple(kind for kinds in _EXIT.values() for kind in kinds) as error:
        say("\n".join([f"{prog}: {error}", *getattr(error, "__notes__", ())]))
        return next(code for code, kinds in _EXIT.items() if isinstance(error, kinds))
    finally:
        LOG.removeHandler(retries)
    return 0


class _Retries(logging.Handler):
    """Prints that a request is repeated, so that nobody waits without knowing why."""

    def emit(self, record: logging.LogRecord) -> None:
        say(record.getMessage())


def _given(chosen: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name in names if (value := getattr(chosen, name)) is not None and value is not False}


def _written(chosen: argparse.Namespace) -> dict[str, Any]:
    """How a CSV file is written."""
    return _given(chosen, *Written.__annotations__)


def _refuse(chosen: argparse.Namespace, why: str, *names: str) -> None:
    """Unusable where one of the options was given, as it has no effect."""
    for name in _given(chosen, *names):
        raise Unusable(f"--{name} has no effect {why}")


def _pair(option: str, text: str, form: str) -> tuple[str, str]:
    """The two sides of an option such as ALIAS=VERSION."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise Unusable(f"{option} takes {form}, not {text!r}")
    return name, value


def _tab(text: str) -> str:
    return "\t" if text in ("\\t", "tab") else text


_MATRIX = "JSON or YAML file: {class: {action: number}}, or an object with benefits, limits, actions and the like"
MODEL = arg("model", "name, name:version or name@alias")
BENEFITS = arg("--benefits", f"{_MATRIX}; or the name of a saved matrix", metavar="FILE")
DATA = (
    arg("data", "a file, or without --label the id or name of a data set"),
    arg("--label", "column to predict; repeat it for several", action="append"),
)
WRITTEN = (
    arg("--delimiter", "of CSV: , ; | or tab (default ,)", type=_tab),
    arg("--decimal", "of CSV: . or , (default .)"),
    arg("--encoding", "of CSV: utf-8, utf-16 or latin-1 (default utf-8)"),
)


@command(
    "decide for a file of cases",
    MODEL,
    arg("file", "CSV (also .gz) or Parquet; - is CSV on standard input"),
    BENEFITS,
    arg("--rule", "how to decide (default expected_benefit; without benefits most_probable)"),
    arg("--out", "in one of the same formats (default: CSV on standard output)", metavar="FILE"),
    *WRITTEN,
)
def predict(client: Payoff, chosen: argparse.Namespace) -> None:
    """Decide for a file, and print the decisions unless they go to another file."""
    fields = stakes_of(chosen.benefits) | _given(chosen, "rule") | _written(chosen)
    model = client.model(chosen.model)
    if not fields.keys() & {"benefits", "cost_matrix", "rule"} and model.card().get("classes") is not None:
        fields["rule"] = "most_probable"
    with tempfile.TemporaryDirectory() as folder:
        source, printed = Path(chosen.file), Path(folder) / "decided.csv"
        if chosen.file == "-":
            source = Path(folder) / "stdin.csv"
            with source.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        report = model.decide_file(source, chosen.out or printed, **fields)
        if chosen.out is not None:
            limits = table_text(report.get("limits") or [], ["name", "used", "at_most", "at_least", "shadow_price"])
            text = f"{report['rows']:,} rows decided by {report['model']}"
            show(chosen, report, f"{text}\n{limits}" if report.get("limits") else text)
            return
        warn(report["warnings"])
        with printed.open(encoding="utf-8", newline="") as written:
            if chosen.json:
                print(json.dumps({**report, "results": _results(written.read())}, ensure_ascii=False))
            else:
                shutil.copyfileobj(written, sys.stdout)


def _results(text: str) -> list[dict[str, Any]]:
    """The rows of the service's CSV as objects: it quotes all text, and what is empty without quotes is missing."""
    rows: list[list[Any]] = [[]]
    for quoted, bare, end in _CELL.findall(text):
        value = quoted[1:-1].replace('""', '"') if quoted else bare or None
        with suppress(ValueError):  # a date is text
            value = json.loads(bare) if bare else value
        rows[-1].append(value)
        if end == "\n":
            rows.append([])
    names, *cells = rows[:-1] or [[]]
    return [dict(zip(names, row, strict=True)) for row in cells]


def _data(chosen: argparse.Namespace) -> Any:
    return Path(chosen.data) if chosen.label else chosen.data


def _learner(text: str) -> Any:
    """A kind, or JSON with a kind and parameters."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else text
    except json.JSONDecodeError as error:
        raise Unusable(f"--learner is not JSON: {error}") from error


@command(
    "train a model on a file",
    *DATA,
    arg("--name", "of the model", required=True),
    arg("--learner", "kind, or JSON with kind and parameters (default %(default)s)", default="auto"),
    arg("--benefits", _MATRIX, metavar="FILE"),
    arg("--feature-costs", "JSON or YAML file: {feature: number}", metavar="FILE"),
    arg("--holdout", "part held out to evaluate", type=float),
    arg("--seed", type=int),
    *WRITTEN,
)
def train(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print the version that was published, and its metrics."""
    options = stakes_of(chosen.benefits, PricedMatrix) | _given(chosen, "holdout", "seed") | _written(chosen)
    if chosen.feature_costs:
        options["feature_costs"] = terminal.document_of(chosen.feature_costs)
    learner = _learner(chosen.learner)
    model = client.train(_data(chosen), label=chosen.label, learner=learner, name=chosen.name, **options)
    card = model.card()
    metrics = card.get("metrics") or {}
    document = {"model": {"name": card["name"], "version": card["version"]}, "metrics": metrics}
    show(chosen, document, f"{model.reference}\n{figures_text(metrics)}")


@command(
    "choose sets with the smallest expected loss",
    arg("file", "probabilities (.npy, or CSV of numbers), or with --model cases (CSV, also .gz, or Parquet)"),
    arg("--model", "name, name:version or name@alias"),
    arg("--setting", default="binary", choices=["binary", "multilabel", "multiclass"]),
    arg("--loss", "name of the loss (default %(default)s)", default="f_beta"),
    arg("--beta", "of f_beta", type=float),
    *WRITTEN,
)
def retrieve(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print the sets."""
    options: Any = {"setting": chosen.setting, "loss": {"name": chosen.loss, **_given(chosen, "beta")}}
    if chosen.model:
        model = client.model(chosen.model)
        report = model.retrieve(terminal.cases_of(Path(chosen.file), model.card(), _written(chosen)), **options)
    else:
        report = client.retrieve(terminal.probabilities_of(chosen.file, _written(chosen)), **options)
    show(chosen, report, table_text(report["sets"], ["k", "expected_loss", "selected"]))


@command(
    "ask for a case's features one by one until it is decided",
    MODEL,
    arg("--known", "repeat it for several", action="append", default=[], metavar="FEATURE=VALUE"),
    arg("--budget", "what the case may spend", type=float),
    BENEFITS,
    arg("--next", "ask nothing: only print what to learn next", action="store_true"),
)
def acquire(client: Payoff, chosen: argparse.Namespace) -> None:
    """Ask for features in the terminal, and print the decision."""
    model = client.model(chosen.model)
    features = {feature["name"]: feature for feature in model.card()["features"]}
    options: Any = stakes_of(chosen.benefits, AcquireOptions) | _given(chosen, "budget")
    known: dict[str, Any] = {}
    for name, text in (_pair("--known", text, "FEATURE=VALUE") for text in chosen.known):
        known[name] = terminal.value_of(features.get(name, {}), text)
    state = model.acquire(known, **options)
    while state["status"] == "acquire" and state.get("next") and not chosen.next:
        feature = state["next"]["feature"]
        if feature in known or feature not in features:
            raise errors.InvalidAnswer(f"the service asks for {feature!r}, which is known already, or no feature")
        try:
            known[feature] = terminal.ask(features[feature], state)
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


@command(
    "compare what learners and rules earn",
    *DATA,
    arg("--learner", "kind or JSON; repeat it", action="append", required=True),
    arg("--benefits", _MATRIX, metavar="FILE", required=True),
    arg("--folds", type=int),
    arg("--chart", "write an SVG", metavar="FILE"),
    *WRITTEN,
)
def compare(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print the table, the best first."""
    learners = [_learner(text) for text in chosen.learner]
    options = {"benefits": None, **stakes_of(chosen.benefits, Matrix), **_given(chosen, "folds"), **_written(chosen)}
    report = client.compare(_data(chosen), label=chosen.label, learners=learners, chart=bool(chosen.chart), **options)
    if chosen.chart:
        Path(chosen.chart).write_text(report.svg or "", encoding="utf-8")
    show(chosen, report, table_text(report.table, ["learner", "rule", "benefit", "mu", "interval"]))


@command(
    "list models, show one, move an alias",
    arg("model", "show its versions and aliases, or the card of name:version, name@alias", nargs="?"),
    arg("--alias", "point an alias of the model at a version", metavar="ALIAS=VERSION"),
    arg("--names", "print the names of all models alone", action="store_true"),
    arg("--matrix", "save the benefit matrix in a file under a name", metavar="NAME=FILE"),
)
def models(client: Payoff, chosen: argparse.Namespace) -> None:
    """List all models, or change and show one."""
    if chosen.model is None:
        _refuse(chosen, "without a model", "alias", "matrix")
        found = client.models()
        if chosen.names:
            names = [each["name"] for each in found]
            show(chosen, names, "\n".join(filter(_SAFE.fullmatch, names)))
        else:
            show(chosen, found, table_text(found, ["name", "latest", "versions", "aliases"]))
        return
    _refuse(chosen, "with a model", "names")
    model = client.model(chosen.model)
    if chosen.alias:
        alias, version = _pair("--alias", chosen.alias, "ALIAS=VERSION")
        if not version.isdecimal():
            raise Unusable(f"--alias takes ALIAS=VERSION, not {chosen.alias!r}")
        model.set_alias(alias, int(version))
    if chosen.matrix:
        name, path = _pair("--matrix", chosen.matrix, "NAME=FILE")
        say(f"saved as {name}:{model.matrices.save(name, **stakes_of(path, Matrix))['version']}")
    if model.reference != model.name:
        card = model.card()
        show(chosen, card, f"{figures_text(card)}\n{figures_text(card.get('metrics') or {})}")
        return
    described = model.describe()
    text = table_text(described["versions"], ["version", "kind", "created_at", "metrics"])
    show(chosen, described, f"{text}\naliases: {described['aliases']}")


@command(
    "report or send what became of recorded decisions",
    arg("model", "report what became of its recorded decisions", nargs="?"),
    arg("--send", "CSV (also .gz) or Parquet with id, truth, action, benefit, at", metavar="FILE"),
    arg("--since", "ISO 8601"),
    arg("--until", "ISO 8601"),
    arg("--by", "part of the report"),
    arg("--dataset", "make a data set of the instances whose truth is known", metavar="NAME"),
    *WRITTEN,
)
def outcomes(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print a report, or what became of the outcomes that were sent."""
    if (chosen.model is None) == (chosen.send is None):
        raise Unusable("give a model for its report, or --send a file")
    if chosen.send:
        _refuse(chosen, "with --send", "since", "until", "by", "dataset")
        sent = client.send_outcomes(Path(chosen.send), **_written(chosen))
        show(chosen, sent, figures_text(sent | {name: len(sent[name]) for name in ("unknown", "conflicts")}))
        return
    _refuse(chosen, "without --send", *Written.__annotations__)
    period = _given(chosen, "since", "until")
    if chosen.dataset:
        _refuse(chosen, "with --dataset", "by")
        made = client.datasets.from_outcomes(chosen.model, name=chosen.dataset, **period)
        warn(made["from"]["warnings"])
        show(chosen, made, figures_text(made))
        return
    report = client.model(chosen.model).outcomes(by=chosen.by, **period)
    show(chosen, report, _report_text(report))


def _report_text(report: Mapping[str, Any]) -> str:
    """What was promised, what came of it and what to do; then the counts."""
    lines = [f"{name.ljust(10)}  {_amount(report[name])}" for name in ("promised", "realised", "difference")]
    lines += [f"verdict     {report['verdict'].replace('_', ' ')}", *(f"- {one}" for one in report["advice"])]
    return "\n".join([*lines, figures_text({name: value for name, value in report.items() if name != "verdict"})])


def _amount(one: Mapping[str, Any]) -> str:
    """A mean per decision, with its interval."""
    if one["mean"] is None:
        return "unknown"
    low, high = one.get("low"), one.get("high")
    interval = "" if low is None or high is None else f" ({low:.4g} to {high:.4g})"
    return f"{one['mean']:.4g}{interval} per decision"


if __name__ == "__main__":
    sys.exit(main())
