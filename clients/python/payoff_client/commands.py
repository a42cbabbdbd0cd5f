"""The command line of the client, a table of commands with arguments; exit codes are in `_EXIT`."""

import argparse
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from payoff_client import errors, terminal
from payoff_client.client import Payoff
from payoff_client.documents import Written, warn
from payoff_client.showing import columns_text, figures_text, table_text
from payoff_client.terminal import document_of, print_to_stderr, show, stakes_of
from payoff_client.transport import LOG, __version__

# The exit code of an exception is the first with a class of it.
_EXIT: dict[int, tuple[type[Exception], ...]] = {
    1: (errors.JobFailed,),
    5: (errors.Unauthorized, errors.Forbidden),
    4: (errors.RateLimited, errors.Unavailable),
    3: (errors.PayoffError, RecursionError),
    2: (OSError, ValueError, TypeError, ImportError, EOFError),
}
_CODES = (
    "Exit codes: 1 job failed, 2 arguments or files, 3 refused by the service, 4 unavailable, "
    "5 key, 130 interrupted."
)

_MAX_COLUMNS = 20  # of a report
_WRITTEN = tuple(Written.__annotations__)  # the options for how a CSV file is written
Argument = tuple[str, dict[str, Any]]
Run = Callable[[Payoff, argparse.Namespace], None]


COMMANDS: dict[str, tuple[str, Sequence[Argument], Run]] = {}


def command(text: str, *arguments: Argument) -> Callable[[Run], Run]:
    """Make the function the command of its name, with a text about it and its arguments."""

    def register(run: Run) -> Run:
        COMMANDS[run.__name__] = text, arguments, run
        return run

    return register


def arg(name: str, text: str | None = None, **options: Any) -> Argument:
    """An argument of a command, as argparse takes it."""
    return name, {"help": text, **options}


def parser() -> argparse.ArgumentParser:
    """The parser of all commands, from which shtab makes a script for completion in a shell."""
    description = f"Use a running service. {_CODES}"
    main_parser = argparse.ArgumentParser(prog="payoff-client", description=description)
    main_parser.add_argument(
        "--version", action="version", version=f"%(prog)s {__version__}"
    )
    commands = main_parser.add_subparsers(dest="command", required=True)
    for name, (text, arguments, _) in COMMANDS.items():
        description = f"{text[0].upper()}{text[1:]}. {_CODES}"
        command_parser = commands.add_parser(name, help=text, description=description)
        command_parser.add_argument(
            "--url",
            help="of the service (default PAYOFF_URL, or port 8000 here); the key is PAYOFF_KEY",
        )
        command_parser.add_argument(
            "--json", action="store_true", help="print one JSON document"
        )
        for flag, options in arguments:
            command_parser.add_argument(flag, **options)
    return main_parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    chosen = parser().parse_args(arguments)
    warnings.simplefilter("always", errors.PayoffWarning)
    warnings.showwarning = lambda message, *_place: print_to_stderr(
        f"warning: {message}"
    )
    retries = logging.StreamHandler()  # prints why a command waits
    LOG.addHandler(retries)
    try:
        with Payoff(chosen.url, progress=False if chosen.json else None) as client:
            COMMANDS[chosen.command][2](client, chosen)
        # At the end of the process Python would print an error of this.
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader closed the pipe, as `head` does: further output is dropped.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        return 130
    except tuple(kind for kinds in _EXIT.values() for kind in kinds) as error:
        notes = getattr(error, "__notes__", ())
        print_to_stderr(
            "\n".join([f"payoff-client: {_with_options(str(error))}", *notes])
        )
        return next(code for code, kinds in _EXIT.items() if isinstance(error, kinds))
    finally:
        LOG.removeHandler(retries)
    return 0


def _with_options(message: str) -> str:
    """A message of the service with options of the command line in place of fields."""
    text = re.sub(
        r"send \??(delimiter|decimal|encoding|header)=", r"give --\1 ", message
    )
    text = re.sub(r'types=\{"(.+?)": "(.+?)"\}', r"--type '\1=\2'", text)
    text = text.replace("send drop_unlabelled", "give --drop-unlabelled")
    text = text.replace("(drop_classes)", "(--drop-class)")
    return text.replace("upload it with label_type", "give --label-type")


def _options(chosen: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options among `names` that the command line has."""
    options = {name: getattr(chosen, name) for name in names}
    return {
        name: value
        for name, value in options.items()
        if value is not None and value is not False
    }


def _pair(option: str, text: str, pattern: str) -> tuple[str, str]:
    """The two sides of an option such as ALIAS=VERSION."""
    name, sign, value = text.partition("=")
    if not (name and sign):
        raise ValueError(f"{option} takes {pattern}, not {text!r}")
    return name, value


def _holdout(chosen: argparse.Namespace) -> dict[str, Any]:
    """The option for which rows are held out."""
    if chosen.holdout_by is None:
        return _options(chosen, "holdout")
    by, _, column = chosen.holdout_by.partition(":")
    if by not in ("time", "group") or not column:
        pattern = "time:COLUMN or group:COLUMN"
        raise ValueError(f"--holdout-by takes {pattern}, not {chosen.holdout_by!r}")
    part = {} if chosen.holdout is None else {"part": chosen.holdout}
    return {"holdout": {**part, "by": by, "column": column}}


def _types(chosen: argparse.Namespace) -> dict[str, Any]:
    """The options for how a table is read."""
    options = _options(
        chosen, "header", "drop_unlabelled", "drop_classes", "label_type"
    )
    if chosen.type:
        options["types"] = dict(
            _pair("--type", text, "COLUMN=TYPE") for text in chosen.type
        )
    return options


_TYPES = (
    "number, category, value, weight (of the row), ignore, number:1,234.5, number:1.234,5, date"
    " or such as date:%%d/%%m/%%Y"
)
_MATRIX = (
    "JSON file: {class: {action: number}}, "
    "or an object with benefits, limits, actions and the like"
)
MODEL = arg("model", "name, name:version or name@alias")
BENEFITS = arg(
    "--benefits", f"{_MATRIX}; or the name of a saved matrix", metavar="FILE"
)
DATA = (
    arg("data", "a file, or without --label the id or name of a data set"),
    arg("--label", "column to predict; repeat it for several", action="append"),
)
TYPE = (
    arg(
        "--type",
        f"how a column is read: {_TYPES}; repeat it",
        action="append",
        metavar="COLUMN=TYPE",
    ),
    arg(
        "--header", "none: line 1 has values, and columns are called column_1 and so on"
    ),
    arg("--drop-unlabelled", "leave rows without a label out", action="store_true"),
    arg(
        "--drop-class",
        "leave rows of this class out; repeat it",
        action="append",
        dest="drop_classes",
        metavar="CLASS",
    ),
    arg("--label-type", "number: integers are numbers to regress on, not classes"),
)
HELD = (
    arg("--holdout", "part held out to evaluate (default 0.25)", type=float),
    arg(
        "--holdout-by",
        "time:COLUMN for the last rows, group:COLUMN for whole groups (default: random rows)",
        metavar="BY:COLUMN",
    ),
)
WRITTEN = (
    arg("--delimiter", "of CSV (default ,)"),
    arg("--decimal", "of CSV: . or , (default .)"),
    arg("--encoding", "of CSV: utf-8, utf-16 or latin-1 (default utf-8)"),
)


@command(
    "decide for a file of cases",
    MODEL,
    arg("file", "CSV (also .gz) or Parquet; - is CSV on standard input"),
    BENEFITS,
    arg(
        "--rule",
        "how to decide (default expected_benefit; without benefits most_probable)",
    ),
    arg("--guarantee", "decide by this saved guarantee", metavar="NAME"),
    arg(
        "--out",
        "in one of the same formats (default: CSV on standard output)",
        metavar="FILE",
    ),
    *WRITTEN,
)
def predict(client: Payoff, chosen: argparse.Namespace) -> None:
    """Decide for a file, and print the decisions unless they go to another file."""
    fields = stakes_of(chosen.benefits) | _options(
        chosen, "rule", "guarantee", *_WRITTEN
    )
    if chosen.guarantee:
        fields["rule"] = "guaranteed"
    model = client.model(chosen.model)
    has_rule = bool(fields.keys() & {"benefits", "cost_matrix", "rule"})
    if not has_rule:
        card = model.card()
        is_rewarded = card["learner"]["kind"] == "rewards"
        if card.get("classes") is not None and not is_rewarded:
            fields["rule"] = "most_probable"
    if chosen.json and chosen.out is None:
        raise ValueError(
            "--json prints a report on the file of decisions: name one with --out"
        )
    with tempfile.TemporaryDirectory() as folder:
        source = Path(chosen.file)
        decided = Path(folder) / "decided.csv"
        if chosen.file == "-":
            source = Path(folder) / "stdin.csv"
            with source.open("wb") as file:
                shutil.copyfileobj(sys.stdin.buffer, file)
        report = model.decide_file(source, chosen.out or decided, **fields)
        words = report.get("matrix_in_words")
        if words and not chosen.json:
            print_to_stderr("\n".join(["by these benefits:", *words]))
        if chosen.out is None:
            warn(report["warnings"])
            with decided.open(encoding="utf-8", newline="") as decisions:
                shutil.copyfileobj(decisions, sys.stdout)
            return
    limits = report.get("limits") or []
    text = f"{report['rows']:,} rows decided by {report['model']}"
    table = table_text(limits, ["name", "used", "at_most", "at_least", "shadow_price"])
    show(chosen, report, f"{text}\n{table}" if limits else text)


def _learner(text: str) -> Any:
    """A kind, or JSON with a kind and parameters."""
    try:
        return json.loads(text) if text.lstrip().startswith("{") else text
    except json.JSONDecodeError as error:
        raise ValueError(f"--learner is not JSON: {error}") from error


@command(
    "train a model on a file",
    *DATA,
    arg("--name", "of the model", required=True),
    arg(
        "--learner",
        "kind, or JSON with kind and parameters (default %(default)s)",
        default="auto",
    ),
    arg("--benefits", _MATRIX, metavar="FILE"),
    arg("--feature-costs", "JSON file: {feature: number}", metavar="FILE"),
    *HELD,
    arg("--seed", type=int),
    arg("--unit", "of all amounts, such as EUR"),
    *TYPE,
    *WRITTEN,
)
def train(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print the version that was published, and its metrics."""
    options = stakes_of(chosen.benefits) | _types(chosen)
    options |= _holdout(chosen) | _options(chosen, "seed", "unit", *_WRITTEN)
    if chosen.feature_costs:
        options["feature_costs"] = terminal.document_of(chosen.feature_costs)
    learner = _learner(chosen.learner)
    options |= {"label": chosen.label, "learner": learner, "name": chosen.name}
    model = client.train(chosen.data, **options)
    card = model.card()
    metrics = card.get("metrics") or {}
    columns = model.dataset.get("columns", []) if model.dataset else []
    version = {"name": card["name"], "version": card["version"]}
    document = {"model": version, "metrics": metrics, "columns": columns}
    lines = [model.reference]
    if columns:
        lines.append(columns_text(columns, _MAX_COLUMNS))
    show(chosen, document, "\n".join([*lines, figures_text(metrics)]))


@command(
    "choose sets with the smallest expected loss",
    arg("file", "probabilities: .npy, or CSV of numbers"),
    arg("--setting", default="binary", choices=["binary", "multilabel", "multiclass"]),
    arg("--loss", "name of the loss (default %(default)s)", default="f_beta"),
    arg("--beta", "of f_beta", type=float),
)
def retrieve(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print the sets."""
    loss = {"name": chosen.loss, **_options(chosen, "beta")}
    probabilities = terminal.probabilities_of(chosen.file)
    report = client.retrieve(probabilities, setting=chosen.setting, loss=loss)
    show(chosen, report, table_text(report["sets"], ["k", "expected_loss", "selected"]))


@command(
    "ask for a case's features one by one until it is decided",
    MODEL,
    arg(
        "--known",
        "repeat it for several",
        action="append",
        default=[],
        metavar="FEATURE=VALUE",
    ),
    arg("--budget", "what the case may spend", type=float),
    BENEFITS,
    arg("--next", "ask nothing: only print what to learn next", action="store_true"),
)
def acquire(client: Payoff, chosen: argparse.Namespace) -> None:
    """Ask for features in the terminal, and print the decision."""
    model = client.model(chosen.model)
    features = {feature["name"]: feature for feature in model.card()["features"]}
    options: Any = stakes_of(chosen.benefits) | _options(chosen, "budget")
    known: dict[str, Any] = {}
    for name, text in (
        _pair("--known", text, "FEATURE=VALUE") for text in chosen.known
    ):
        known[name] = terminal.value_of(features.get(name, {}), text)
    state = model.acquire(known, **options)
    while state["status"] == "acquire" and state.get("next") and not chosen.next:
        feature = state["next"]["feature"]
        if feature in known or feature not in features:
            raise errors.InvalidAnswer(
                f"the service asks for {feature!r}, which is known already, or no feature"
            )
        try:
            known[feature] = terminal.ask(features[feature], state)
        except EOFError:
            print()
            break
        state = model.acquire(known, **options)
    show(chosen, state, _state_text(state))


def _state_text(state: Mapping[str, Any]) -> str:
    """The next feature of a case, its decision or prediction, reason, cost and probabilities."""
    lines = []
    if state.get("next"):
        lines.append(
            f"next: {state['next']['feature']}, costs {state['next']['cost']:g}"
        )
    if state.get("decision") is not None:
        lines.append(f"decision: {state['decision']}")
    else:
        lines.append(f"prediction: {state.get('prediction')}")
    if state.get("reason"):
        lines.append(f"reason: {state['reason']}")
    lines.append(f"spent: {state.get('spent') or 0:g}")
    shares = state.get("probabilities") or {}
    lines += [f"{name} {share:.3g}" for name, share in shares.items()]
    return "\n".join(lines)


@command(
    "compare what learners and rules earn",
    *DATA,
    arg("--learner", "kind or JSON; repeat it", action="append", required=True),
    arg("--benefits", _MATRIX, metavar="FILE", required=True),
    arg("--folds", type=int),
    *HELD,
    arg("--chart", "write an SVG", metavar="FILE"),
    *TYPE,
    *WRITTEN,
)
def compare(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print the table, the best first."""
    learners = [_learner(text) for text in chosen.learner]
    options = {"benefits": None, **stakes_of(chosen.benefits), **_types(chosen)}
    options |= _holdout(chosen) | _options(chosen, "folds", *_WRITTEN)
    options |= {
        "label": chosen.label,
        "learners": learners,
        "chart": bool(chosen.chart),
    }
    report = client.compare(chosen.data, **options)
    if chosen.chart:
        Path(chosen.chart).write_text(report.svg or "", encoding="utf-8")
    show(
        chosen,
        report,
        table_text(report.table, ["learner", "rule", "benefit", "mu", "interval"]),
    )


@command(
    "list models, show one, move an alias",
    arg(
        "model",
        "show its versions and aliases, or the card of name:version, name@alias",
        nargs="?",
    ),
    arg("--alias", "point an alias of the model at a version", metavar="ALIAS=VERSION"),
    arg(
        "--matrix",
        "save the benefit matrix in a file under a name",
        metavar="NAME=FILE",
    ),
    arg(
        "--guarantee",
        "certify and save the guarantee in a file, with its matrix, under a name",
        metavar="NAME=FILE",
    ),
    arg("--reasons", "save the texts of reasons in a file", metavar="FILE"),
)
def models(client: Payoff, chosen: argparse.Namespace) -> None:
    """List all models, or change and show one."""
    if chosen.model is None:
        if chosen.alias or chosen.matrix or chosen.guarantee or chosen.reasons:
            raise ValueError("--alias, --matrix, --guarantee, --reasons need a model")
        items = client.models()
        show(
            chosen, items, table_text(items, ["name", "latest", "versions", "aliases"])
        )
        return
    model = client.model(chosen.model)
    if chosen.alias:
        alias, version = _pair("--alias", chosen.alias, "ALIAS=VERSION")
        model.set_alias(alias, int(version))
    if chosen.matrix:
        name, path = _pair("--matrix", chosen.matrix, "NAME=FILE")
        matrix = model.matrices.save(name, **stakes_of(path))
        print_to_stderr(f"saved as {name}:{matrix['version']}")
    if chosen.guarantee:
        name, path = _pair("--guarantee", chosen.guarantee, "NAME=FILE")
        guarantee = model.guarantees.save(name, **stakes_of(path))
        print_to_stderr(f"saved as {name}:{guarantee['version']}")
    if chosen.reasons:
        texts = model.set_reasons(document_of(chosen.reasons))
        print_to_stderr(f"saved as version {texts['version']}")
    if model.reference != model.name:
        card = model.card()
        show(
            chosen,
            card,
            f"{figures_text(card)}\n{figures_text(card.get('metrics') or {})}",
        )
        return
    description = model.describe()
    text = table_text(
        description["versions"], ["version", "kind", "created_at", "metrics"]
    )
    show(chosen, description, f"{text}\naliases: {description['aliases']}")


@command(
    "list the decisions that wait for a person, greatest stake first",
    MODEL,
    arg("--action", "the one that was decided"),
    arg("--order", "stake or time"),
)
def review(client: Payoff, chosen: argparse.Namespace) -> None:
    """List the first decisions without known truth."""
    query: Any = _options(chosen, "action", "order")
    decisions = client.model(chosen.model).waiting(open=True, **query)["decisions"]
    show(chosen, decisions, table_text(decisions, ["id", "at", "action", "stake"]))


@command(
    "report or send what became of recorded decisions",
    arg("model", "report what became of its recorded decisions", nargs="?"),
    arg(
        "--send",
        "CSV (also .gz) or Parquet with id, truth, action, benefit, at",
        metavar="FILE",
    ),
    arg("--since", "ISO 8601"),
    arg("--until", "ISO 8601"),
    arg("--by", "day, week, action, version, key or segment:COLUMN"),
    arg(
        "--dataset",
        "make a data set of the instances whose truth is known",
        metavar="NAME",
    ),
    *WRITTEN,
)
def outcomes(client: Payoff, chosen: argparse.Namespace) -> None:
    """Print a report, or the counts of outcomes that were sent."""
    if (chosen.model is None) == (chosen.send is None):
        raise ValueError("give a model for its report, or --send a file")
    if chosen.send:
        counts = client.send_outcomes(Path(chosen.send), **_options(chosen, *_WRITTEN))
        lengths = {
            "unknown": len(counts["unknown"]),
            "conflicts": len(counts["conflicts"]),
        }
        show(chosen, counts, figures_text(counts | lengths))
        return
    period = _options(chosen, "since", "until")
    if chosen.dataset:
        dataset = client.datasets.from_outcomes(
            chosen.model, name=chosen.dataset, **period
        )
        show(chosen, dataset, figures_text(dataset))
        return
    report = client.model(chosen.model).outcomes(by=chosen.by, **period)
    show(chosen, report, _report_text(report))


def _report_text(report: Mapping[str, Any]) -> str:
    """The promised and the realised benefit per decision, the verdict, the advice and the counts.

    Of a model of numbers it is the cost of its quantities.
    """
    if "verdict" not in report:
        quantities = report["quantities"]
        names = ("expected", "realised", "difference")
        costs = [{"cost": name, **quantities[name]} for name in names]
        return table_text(costs, ["cost", "mean", "low", "high", "cases"])
    names = ("promised", "realised", "difference")
    rows = [{"per decision": name, **report[name]} for name in names]
    lines = [table_text(rows, ["per decision", "mean", "low", "high"])]
    lines.append(f"verdict: {report['verdict']}")
    lines += [f"- {advice}" for advice in report["advice"]]
    figures = {name: value for name, value in report.items() if name != "verdict"}
    return "\n".join([*lines, figures_text(figures)])


if __name__ == "__main__":
    sys.exit(main())
