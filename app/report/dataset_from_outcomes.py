"""A data set of recorded instances with their truth, to train on."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryFile
from time import time
from typing import Any, BinaryIO, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import Conflict, NotFound
from app.outcomes.decision import UNKNOWN, Cases, Label
from app.registry.card import Card
from app.report.earned import UNEQUAL, ActionCounts
from app.report.report import matured, reservations
from app.report.slices import Slice, slices
from app.report.ways import truth_chances
from app.stores import Stores
from app.tables.dataset import Dataset
from app.tables.notations import reader
from app.tables.text import normal
from app.tables.upload_request import UploadRequest
from app.training.models import card_of
from payoff.errors import Invalid, TooLarge

_MOMENT = "decided_at"  # the column of the times of decisions, for hold-outs
_WEIGHT = "truth_weight"  # the column of 1 / P(the truth became known)
# that counts: a smaller one would give a single row too much weight
_LEAST_CHANCE = 0.01
_MICROSECONDS = 1_000_000  # of a second
_TYPES = {"numeric": "number", "categorical": "category"}
_REASONS = (
    "without_instance",
    "without_truth",
    "of_acquire",
    "of_other_action",
)  # why decisions are left out


def make(
    stores: Stores,
    model: str,
    *,
    since: float | None,
    until: float | None,
    name: str | None,
    owner: str,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Dataset:
    """Make a data set of the recorded instances of a model from `since` until before `until` whose
    truth is known.

    Truths of days of which many are still to come count as unknown. The columns are the features
    and values of the model's latest version, without those that no instance has, and its label;
    beside them hold-outs can take the time of the decision. Where the truth is known more often
    after some actions, and sometimes after each, rows have weights. The record has a `lineage`: the
    versions and the period of the rows, how many decisions are left out for what reason, and
    `warnings` about weights, and where the rows are no fair sample. Raises NotFound at /model,
    Conflict where no data set can be made of these rows, Invalid at /name, TooLarge.
    """
    card = _latest(stores, model)
    kind = "number" if card.rewarded else "auto"
    request = UploadRequest(
        label=(card.labels[0],), label_type=kind, name=name, owner=owner
    )
    request.check()
    counts: Counter[str] = Counter()
    versions: set[int] = set()
    names: set[str] = set()
    arrivals = stores.archive.cases(model, since=since, until=until, arrivals_only=True)
    maturity = matured(arrivals, time())
    actions = ActionCounts()
    for cases in stores.archive.cases(model, since=since, until=until):
        for part in slices(cases, maturity.since):
            actions.add(part)
    is_selective = actions.document()["is"]
    weighing = _Weighing(actions.shares_known)
    with TemporaryFile() as file:
        schema = _schema(card, with_weights=is_selective)
        with pq.ParquetWriter(file, schema) as writer:
            for cases in stores.archive.cases(
                model, since=since, until=until, with_instances=True
            ):
                rows = list[dict[str, Any]]()
                for part in slices(cases, maturity.since):
                    weights = weighing.weights(part)
                    rows += _rows(part, weights, card, counts, versions)
                names.update(*rows)
                writer.write_batch(_batch(rows, schema))
                max_rows = stores.datasets.limits.max_rows
                if counts["rows"] > max_rows:
                    raise TooLarge(
                        f"a data set may have at most {max_rows:,} rows; choose a period"
                    )
        left_out = {reason: counts[reason] for reason in _REASONS}
        if not counts["rows"]:
            reasons = [
                f"{count:,} {name.replace('_', ' ')}"
                for name, count in left_out.items()
            ]
            raise Conflict(
                f"no recorded decision of {model!r} has its instance and its truth:"
                f" {', '.join(reasons)}"
            )
        lineage = {
            "model": model,
            "versions": sorted(versions),
            "since": since,
            "until": until,
            "rows": counts["rows"],
            "left_out": left_out,
            "warnings": [
                *reservations(
                    maturity, selective=is_selective and not weighing.reaches_all
                ),
                *weighing.warnings(is_selective=is_selective),
            ],
        }
        types = {part.name: part.form or _TYPES[part.type] for part in card.features}
        types |= dict.fromkeys(card.values, "value")
        types |= dict.fromkeys(types.keys() - names, "ignore")
        types[_free_name(card, _MOMENT)] = "ignore"
        if is_selective:
            is_cure = weighing.reaches_all
            types[_free_name(card, _WEIGHT)] = "weight" if is_cure else "ignore"
        if not _has_integers(card):  # also where the names look like numbers
            named = (
                card.learner.parameters["action"] if card.rewarded else card.labels[0]
            )
            types[named] = "category"
        request = request.model_copy(update={"types": types})
        try:
            return stores.datasets.upload(
                cast(BinaryIO, file),
                request,
                is_cancelled,
                lineage=lineage,
                ignored=[name for name in card.ignored if name not in schema.names],
            )
        except (
            Invalid
        ) as error:  # its places are those of the file, which the client did not send
            raise Conflict(
                f"the recorded instances are no data set: {error.detail}"
            ) from error


def _latest(stores: Stores, model: str) -> Card:
    try:
        card = card_of(stores, model)
    except NotFound as error:
        raise NotFound.at("/model", error.detail) from error
    if card.classes is None or len(card.labels) > 1:
        raise Invalid.at(
            "/model",
            f"{model!r} predicts numbers or several labels;"
            " a data set is made of decisions among classes",
        )
    return card


@dataclass
class _Weighing:
    """Weights of rows by how probable it was that their truth became known; `reaches_all` is
    whether that was possible for every decision, and `capped` counts weights that are lowered.
    """

    shares: Mapping[Label, float]
    reaches_all: bool = True
    capped: int = 0

    def weights(self, part: Slice) -> np.ndarray:
        """The weight of each case (n,)."""
        chances = truth_chances(part, self.shares)
        self.reaches_all &= not part.mature or bool((chances > 0).all())
        self.capped += int(np.count_nonzero(part.known & (chances < _LEAST_CHANCE)))
        return np.asarray(1 / np.maximum(chances, _LEAST_CHANCE))

    def warnings(self, *, is_selective: bool) -> Iterator[str]:
        if is_selective and self.reaches_all:
            yield (
                f"{UNEQUAL}: rows have the weight 1 / P(their truth became known), so that they"
                f" stand for all decisions; {self.capped} weights are capped at"
                f" {1 / _LEAST_CHANCE:g}, as if P were {_LEAST_CHANCE:.0%}"
            )


def _free_name(card: Card, name: str) -> str:
    """The name, with underscores, that no column of the card has."""
    columns = {*card.values, *card.labels, *(feature.name for feature in card.features)}
    while name in columns:
        name += "_"
    return name


def _schema(card: Card, *, with_weights: bool) -> pa.Schema:
    """The columns of the card's features, of its values, of the time, of the weights where they
    are to be kept, and of its label.
    """
    types = {
        feature.name: pa.float64() if feature.type == "numeric" else pa.string()
        for feature in card.features
    }
    types |= dict.fromkeys(card.values, pa.float64())
    types[_free_name(card, _MOMENT)] = pa.timestamp("us")
    if with_weights:
        types[_free_name(card, _WEIGHT)] = pa.float64()
    names = pa.int64() if _has_integers(card) else pa.string()
    if card.rewarded:
        types |= dict.fromkeys(_chances(card).values(), pa.float64())
        types |= {
            card.learner.parameters["action"]: names,
            card.labels[0]: pa.float64(),
        }
    else:
        types[card.labels[0]] = names
    return pa.schema(types.items())


def _has_integers(card: Card) -> bool:
    """Whether the classes, or the actions that were learned from rewards, are integers."""
    return all(isinstance(name, int) for name in card.classes or ())


def _chances(card: Card) -> dict[str, str]:
    """The columns of the chances of the actions, by their names."""
    propensity = card.learner.parameters["propensity"] or "propensity"
    return {str(name): f"{propensity}:{name}" for name in card.classes or ()}


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows to be written, null where a row lacks a value; Conflict where a value is of another kind
    than its column.
    """
    columns = []
    for field in schema:
        try:
            columns.append(pa.array([row.get(field.name) for row in rows], field.type))
        except (pa.ArrowException, TypeError) as error:
            raise Conflict(
                f"{field.name!r} has values that are no {field.type}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows(
    cases: Cases,
    weights: np.ndarray,
    card: Card,
    counts: Counter[str],
    versions: set[int],
) -> Iterator[dict[str, Any]]:
    """A row for each usable case, with the card's features and values that its instance has, and
    the time in microseconds and the weight.

    Adds the number of rows, and of other cases by the reason, to `counts`, and the versions of the
    rows to `versions`.
    """
    assert cases.instances is not None
    features = [*(feature.name for feature in card.features), *card.values]
    readers = {
        feature.name: reader(feature.form) for feature in card.features if feature.form
    }
    schema = card.schema_of_features()
    words = {schema.names[j]: partial(schema.word, j) for j in schema.categorical}

    def convert(name: str, value: Any) -> Any:
        if name in words:
            value = words[name](value)
        if isinstance(value, int):  # Arrow makes no floats of integers above 2 ** 53
            value = float(value)
        if name in readers and isinstance(value, str):
            value = readers[name](normal(value))
        return value

    moment = _free_name(card, _MOMENT)
    weight = _free_name(card, _WEIGHT)
    columns = zip(
        cases.instances,
        cases.term.tolist(),
        cases.truth.tolist(),
        cases.at.tolist(),
        weights.tolist(),
        strict=True,
    )
    for i, (instance, term, truth, at, row_weight) in enumerate(columns):
        terms = cases.terms[term]
        reason = "without_truth" if truth < 0 else _reason(cases, i, card)
        if terms.verb != "predict":
            reason = "of_acquire"
        elif instance is None:
            reason = "without_instance"
        if reason is not None or instance is None:
            counts[reason or "without_instance"] += 1
            continue
        counts["rows"] += 1
        versions.add(terms.version)
        values = orjson.loads(instance)
        row = {name: values[name] for name in features if values.get(name) is not None}
        row = {name: convert(name, value) for name, value in row.items()}
        row[moment] = int(at * _MICROSECONDS)
        row[weight] = row_weight
        if card.rewarded:
            yield row | _of_log(cases, i, card)
        else:
            yield row | {card.labels[0]: terms.classes[truth]}


def _reason(cases: Cases, i: int, card: Card) -> str | None:
    """Why a case with an outcome is no row of a log of rewards, where the card needs one."""
    terms = cases.terms[cases.term[i]]
    if not card.rewarded and not terms.rewarded:
        return None
    known = set(map(str, card.classes or ()))
    is_log = (
        card.rewarded and terms.rewarded and known.issuperset(map(str, terms.actions))
    )
    is_carried_out = cases.action[i] in (UNKNOWN, cases.choice[i])
    return None if is_log and is_carried_out else "of_other_action"


def _of_log(cases: Cases, i: int, card: Card) -> dict[str, Any]:
    """The action of a case, its reward, and the chances of all actions of the card."""
    actions = cases.terms[cases.term[i]].actions
    columns = _chances(card)
    row = dict.fromkeys(columns.values(), 0.0)
    chances = cases.probabilities[i, len(actions) : 2 * len(actions)].tolist()
    for name, chance in zip(actions, chances, strict=True):
        row[columns[str(name)]] = chance
    row[card.learner.parameters["action"]] = actions[cases.choice[i]]
    return row | {card.labels[0]: float(cases.benefit[i])}
