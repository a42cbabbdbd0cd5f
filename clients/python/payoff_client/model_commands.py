"""Commands on models: train, compare, list, show, move an alias, save a matrix."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from payoff_client.client import Payoff
from payoff_client.dialect import NAMES
from payoff_client.stakes import Matrix, PricedMatrix
from payoff_client.terminal import (
    MATRIX_HELP,
    Unusable,
    describe_dialect,
    document_of,
    figures_text,
    given,
    learner_of,
    refuse,
    say,
    show,
    stakes_of,
    table_text,
)

_NAME = re.compile("[a-z0-9][a-z0-9_-]*")  # bash would run commands in other names that it completes


def describe_train(command: argparse.ArgumentParser) -> None:
    _describe_data(command)
    command.add_argument("--name", required=True, help="of the model")
    command.add_argument(
        "--learner", default="auto", help="kind, or JSON with kind and parameters (default %(default)s)"
    )
    command.add_argument("--benefits", metavar="FILE", help=MATRIX_HELP)
    command.add_argument("--feature-costs", metavar="FILE", help="JSON or YAML file: {feature: number}")
    command.add_argument("--holdout", type=float, help="part held out to evaluate")
    command.add_argument("--seed", type=int)


def _describe_data(command: argparse.ArgumentParser) -> None:
    command.add_argument("data", help="a file, or without --label the id or name of a data set")
    command.add_argument("--label", action="append", help="column to predict; repeat it for several")
    describe_dialect(command)


def _data(chosen: argparse.Namespace) -> Any:
    return Path(chosen.data) if chosen.label else chosen.data


def train(client: Payoff, chosen: argparse.Namespace) -> None:
    options = stakes_of(chosen.benefits, PricedMatrix) | given(chosen, "holdout", "seed", *NAMES)
    if chosen.feature_costs:
        options["feature_costs"] = document_of(chosen.feature_costs)
    learner = learner_of(chosen.learner)
    model = client.train(_data(chosen), label=chosen.label, learner=learner, name=chosen.name, **options)
    card = model.card()
    document = {"model": {"name": card["name"], "version": card["version"]}, "metrics": card.get("metrics", {})}
    show(chosen, document, f"{model.reference}\n{figures_text(card.get('metrics', {}))}")


def describe_compare(command: argparse.ArgumentParser) -> None:
    _describe_data(command)
    command.add_argument("--learner", action="append", required=True, help="kind or JSON; repeat it")
    command.add_argument("--benefits", metavar="FILE", required=True, help=MATRIX_HELP)
    command.add_argument("--folds", type=int)
    command.add_argument("--chart", metavar="FILE", help="write an SVG")


def compare(client: Payoff, chosen: argparse.Namespace) -> None:
    learners = [learner_of(text) for text in chosen.learner]
    options = {"benefits": None, **stakes_of(chosen.benefits, Matrix), **given(chosen, "folds", *NAMES)}
    report = client.compare(_data(chosen), label=chosen.label, learners=learners, chart=bool(chosen.chart), **options)
    if chosen.chart:
        Path(chosen.chart).write_text(report.svg or "", encoding="utf-8")
    show(chosen, report, table_text(report.table, ["learner", "rule", "benefit", "mu", "interval"]))


def describe_models(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model", nargs="?", help="show its versions and aliases, or the card of name:version, name@alias"
    )
    command.add_argument("--alias", metavar="ALIAS=VERSION", help="point an alias of the model at a version")
    command.add_argument("--names", action="store_true", help="print the names of all models alone")
    command.add_argument("--matrix", metavar="NAME=FILE", help="save the benefit matrix in a file under a name")


def models(client: Payoff, chosen: argparse.Namespace) -> None:
    if chosen.model is None:
        if chosen.alias is not None or chosen.matrix is not None:
            raise Unusable("--alias and --matrix need a model")
        found = client.models()
        if chosen.names:
            names = [each["name"] for each in found]
            show(chosen, names, "\n".join(filter(_NAME.fullmatch, names)))
            return
        show(chosen, found, table_text(found, ["name", "latest", "versions", "aliases"]))
        return
    refuse(chosen, "with a model", "names")
    model = client.model(chosen.model)
    if chosen.alias:
        alias, _, version = chosen.alias.partition("=")
        if not version.isdecimal():
            raise Unusable(f"--alias takes ALIAS=VERSION, not {chosen.alias!r}")
        model.set_alias(alias, int(version))
    if chosen.matrix:
        name, _, path = chosen.matrix.partition("=")
        if not name or not path:
            raise Unusable(f"--matrix takes NAME=FILE, not {chosen.matrix!r}")
        saved = model.matrices.save(name, **stakes_of(path, Matrix))
        say(f"saved as {name}:{saved['version']}")
    if model.reference != model.name:
        card = model.card()
        show(chosen, card, f"{figures_text(card)}\n{figures_text(card.get('metrics', {}))}")
        return
    found_model = model.describe()
    text = table_text(found_model["versions"], ["version", "kind", "created_at", "metrics"])
    show(chosen, found_model, f"{text}\naliases: {found_model['aliases']}")
