"""A data set of what was decided on and turned out: recorded instances with their truth, to learn
from again.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from tempfile import TemporaryFile
from time import time
from typing import Any, BinaryIO, cast

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import Conflict, NotFound
from app.outcomes.decision import Cases
from app.registry.card import Card
from app.report.earned import ActionCounts
from app.report.report import matured, reservations
from app.report.slices import slices
from app.stores import Stores
from app.tables.dataset import Dataset
from app.tables.notations import reader
from app.tables.upload_request import UploadRequest
from app.training.models import card_of
from payoff.errors import Invalid, TooLarge

_TYPES = {"numeric": "number", "categorical": "category"}


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
    """Keep the recorded instances of a model from `since` until before `until` whose truth is
    known, as a data set.

    Truths of days of which many are still to come count as unknown. Its columns are the features
    and values of the model's latest version, without those that no instance has, and its label. The
    record has, as `lineage`, where the rows come from, how many decisions are left out for what
    reason, and `warnings` where they are no fair sample. Raises NotFound at /model, Conflict where
    no data set can be made of these rows, Invalid at /name, TooLarge.
    """
    card = _latest(stores, model)
    request = UploadRequest(label=(card.labels[0],), name=name, owner=owner)
    request.check()
    counts: Counter[str] = Counter()
    versions, names = set[int](), set[str]()
    maturity = matured(
        stores.archive.cases(model, since=since, until=until, arrivals_only=True), time()
    )
    actions = ActionCounts()
    with TemporaryFile() as file:
        schema = _schema(card)
        with pq.ParquetWriter(file, schema) as writer:
            for cases in stores.archive.cases(model, since=since, until=until, with_instances=True):
                rows = list[dict[str, Any]]()
                for part in slices(cases, maturity.since):
                    actions.add(part)
                    rows += _rows(part, card, counts, versions)
                names.update(*rows)
                writer.write_batch(_batch(rows, schema))
                if counts["rows"] > stores.datasets.limits.max_rows:
                    most = f"{stores.datasets.limits.max_rows:,} rows"
                    raise TooLarge(f"a data set may have at most {most}; choose a period")
        left_out = {
            reason: counts[reason] for reason in ("without_instance", "without_truth", "of_acquire")
        }
        if not counts["rows"]:
            detail = ", ".join(
                f"{count:,} {reason.replace('_', ' ')}" for reason, count in left_out.items()
            )
            raise Conflict(
                f"no recorded decision of {model!r} has its instance and its truth: {detail}"
            )
        lineage = {
            "model": model,
            "versions": sorted(versions),
            "since": since,
            "until": until,
            "rows": counts["rows"],
            "left_out": left_out,
            "warnings": list(reservations(maturity, selective=actions.document()["is"])),
        }
        types = {part.name: part.form or _TYPES[part.type] for part in card.features}
        types |= dict.fromkeys(card.values, "value")
        types |= dict.fromkeys(types.keys() - names, "ignore")
        if not all(isinstance(name, int) for name in card.classes or ()):
            types[card.labels[0]] = "category"  # the same classes, whatever they look like
        request = request.model_copy(update={"types": types})
        try:
            return stores.datasets.upload(
                cast(BinaryIO, file), request, is_cancelled, lineage=lineage, ignored=card.ignored
            )
        except Invalid as error:  # its places are in the file
            raise Conflict(f"the recorded instances are no data set: {error.detail}") from error


def _latest(stores: Stores, model: str) -> Card:
    try:
        card = card_of(stores, model)
    except NotFound as error:
        raise NotFound.at("/model", error.detail) from error
    if card.classes is None or len(card.labels) > 1:
        raise Invalid.at(
            "/model",
            f"{model!r} predicts numbers or several labels; a data set is made of decisions among classes",
        )
    return card


def _schema(card: Card) -> pa.Schema:
    """The card's features, values, and its label."""
    kinds = {
        part.name: pa.float64() if part.type == "numeric" else pa.string() for part in card.features
    }
    kinds |= dict.fromkeys(card.values, pa.float64())
    integers = all(isinstance(name, int) for name in card.classes or ())
    return pa.schema((kinds | {card.labels[0]: pa.int64() if integers else pa.string()}).items())


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    """Rows to be written, null where one lacks a value; Conflict where one is of another kind than
    its column.
    """
    columns = []
    for field in schema:
        try:
            columns.append(pa.array([row.get(field.name) for row in rows], field.type))
        except (pa.ArrowException, TypeError) as error:
            raise Conflict(f"{field.name!r} has values that are no {field.type}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _rows(
    cases: Cases, card: Card, counts: Counter[str], versions: set[int]
) -> Iterator[dict[str, Any]]:
    """A row for each usable case, with what its instance has of the card's features and values.
    Count these, and the others by what they lack; add to `versions`.
    """
    assert cases.instances is not None
    features = [*(feature.name for feature in card.features), *card.values]
    readers = {feature.name: reader(feature.form) for feature in card.features if feature.form}
    schema = card.schema_of_features()
    words = {schema.names[j]: partial(schema.word, j) for j in schema.categorical}
    for instance, term, truth in zip(
        cases.instances, cases.term.tolist(), cases.truth.tolist(), strict=True
    ):
        terms = cases.terms[term]
        if terms.verb != "predict":
            counts["of_acquire"] += 1
        elif instance is None:
            counts["without_instance"] += 1
        elif truth < 0:
            counts["without_truth"] += 1
        else:
            counts["rows"] += 1
            versions.add(terms.version)
            values = orjson.loads(instance)
            row = {name: values[name] for name in features if values.get(name) is not None}
            row |= {name: word(row[name]) for name, word in words.items() if name in row}
            # of integers above 2 ** 53 Arrow makes no floats by itself
            row = {
                name: float(value) if isinstance(value, int) else value
                for name, value in row.items()
            }
            row |= {
                name: read(row[name])
                for name, read in readers.items()
                if isinstance(row.get(name), str)
            }
            yield row | {card.labels[0]: terms.classes[truth]}
