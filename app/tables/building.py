"""From a source to a stored table: its batches are written in one pass, then each column is
checked.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import InvalidTable
from app.tables.classes import classes_or_flaws
from app.tables.columns import CELLS, DICTIONARY, Codes, Column, Words, stored_columns
from app.tables.dataset import ColumnReport, DataLimits, Dataset, KeptColumn, id_of
from app.tables.features import Feature
from app.tables.source import Kind, Location, Source
from app.tables.text import MAX_CATEGORY, spelling
from app.tables.upload_request import UploadRequest
from payoff.decisions.row_weights import flaw_of_weights
from payoff.errors import Flaw, Invalid, TooLarge

_NOTHING = "besides the label there is no column to learn from"
_VALUE = "a value: cells of benefit matrices may name it"
_WEIGHT = "the weight of the rows"


def build(
    source: Source,
    labels: Sequence[int],
    sink: BinaryIO,
    limits: DataLimits,
    request: UploadRequest,
    *,
    several: bool,
    strict: bool = False,
) -> Dataset:
    """Read a typed `source` to its end and write it to `sink` as Parquet: the columns at `labels`
    as labels (`several`: 0 or 1 each), those that were ordered to be values beside, the others as
    features; of what is ignored the numbers, or codes of the words.

    Identifiers and what cannot be a feature are ignored, and all is written again; but for columns
    whose types were ordered, and where all are wanted (`strict`). The id is the same for
    the same values, names, labels and owner. Raises Invalid with every column that cannot be used.
    Memory of one row group, of some columns, and of the categories.
    """
    numbers = request.label_type == "number"
    max_categories = limits.max_categories
    features_of_source, values, ignored = _parts_of(source, labels, request)
    order = [*features_of_source, *values, *ignored, *labels]
    m = len(features_of_source)
    words: dict[int, Words | Codes] = {
        j: Codes() if j in ignored else Words(max_categories, MAX_CATEGORY)
        for j in order
        if source.kinds[j] == "categorical"
    }
    _write(source, order, words, sink)
    stored = pq.ParquetFile(sink)
    if not stored.metadata.num_rows:
        raise Invalid.at(
            source.places[labels[0]].loc,
            "no row has a label, or all of them are left out",
        )
    width = m + len(values)
    end = width + len(ignored)
    columns = partial(_columns, stored, source, order, words)
    targets = [*columns(range(end, len(order)))]
    if request.is_class(source.places[labels[0]].name) and targets[0].words is not None:
        targets = [_respelt(targets[0], source)]
    flaws = [
        source.refused[target.place.name]
        for target in targets
        if target.place.name in source.refused
    ]
    classes, flaws_of_classes = classes_or_flaws(
        targets, max_categories, request.decimal, several=several, numbers=numbers
    )
    flaws += flaws_of_classes
    messages = {flaw.loc: flaw.msg for flaw in reversed(flaws)}
    reports_of_labels = [
        _report(
            target,
            source,
            messages.get(target.place.loc) or target.misread(request.decimal),
        )
        for target in targets
    ]
    label = targets[0] if len(targets) == 1 else None
    features: list[tuple[str, Kind, str, str]] = []
    reports: list[ColumnReport] = []
    useless: dict[str, ColumnReport] = {}
    for column in columns(range(width)):
        name = column.place.name
        features.append(
            (name, column.kind, column.digest, source.notations.get(name, ""))
        )
        flaws_of_column = _flaws_of_feature(column, source, max_categories, request)
        reason = _reason_to_ignore(column, flaws_of_column, source, request)
        reports.append(
            _report(column, source, reason or _advice(column, label, request))
        )
        if reason and not (strict or name in request.types):
            useless[name] = reports[-1]
        else:
            flaws += flaws_of_column
    if useless and not flaws and len(useless) < m:
        sink.seek(0)
        sink.truncate()
        useful = source.ignoring(useless)
        return build(useful, labels, sink, limits, request, several=several)
    codes = [words.get(j) for j in ignored]
    kept, digests, reports_of_ignored = _kept_of(
        zip(columns(range(width, end)), codes, strict=True), source
    )
    reports_of_values = [
        replace(report, type="weight" if report.name == request.weight else "value")
        for report in reports[m:]
    ]
    reports[m:] = [
        *reports_of_values,
        *reports_of_labels,
        *reports_of_ignored.values(),
    ]
    if len(useless) == m:
        flaws += _flaws_without_features(
            [*useless.values(), *source.ignored.values()], source.places
        )
    if flaws:
        raise InvalidTable(flaws[0].msg, flaws, map(asdict, reports))
    _check_vocabulary(
        [column for column in words.values() if isinstance(column, Words)], limits
    )
    sink.seek(0)
    digest = _digest(features, targets, m, digests, request.weight, numbers=numbers)
    return Dataset(
        id=id_of(digest, request.owner),
        name=request.name,
        rows=stored.metadata.num_rows,
        features=tuple(
            Feature(name, kind, form=notation)
            for name, kind, _, notation in features[:m]
        ),
        labels=tuple(target.place.name for target in targets),
        classes=classes,
        digest=hashlib.file_digest(sink, "sha256").hexdigest(),  # type: ignore[arg-type]
        bytes=sink.seek(0, 2),
        columns=tuple(reports),
        ignored={
            name: report.advice or "ordered" for name, report in source.ignored.items()
        }
        | {
            name: _WEIGHT if name == request.weight else _VALUE
            for name, *_ in features[m:]
        },
        values={name: notation for name, _, _, notation in features[m:]},
        kept=kept,
        weight=request.weight,
        created_at=datetime.now(UTC),
        owner=request.owner,
    )


def _columns(
    stored: pq.ParquetFile,
    source: Source,
    order: Sequence[int],
    words: Mapping[int, Words | Codes],
    positions: range,
) -> Iterator[Column]:
    """The stored columns at these positions of the `order`."""
    columns = stored_columns(stored, positions)
    for j, (values, known) in zip(order[positions.start :], columns, strict=False):
        scanned = words.get(j)
        if isinstance(scanned, Words):
            yield Column(source.places[j], values, known, scanned)
        else:
            yield Column(source.places[j], values, known)


def _parts_of(
    source: Source, labels: Sequence[int], request: UploadRequest
) -> tuple[list[int], list[int], list[int]]:
    """The positions of the features, of the values, and of what is ignored."""
    ordered = request.named("value") | {request.weight}
    names = [place.name for place in source.places]
    values = [j for j, name in enumerate(names) if name in ordered and j not in labels]
    ignored = [j for j, name in enumerate(names) if name in source.ignored]
    beside = {*labels, *values, *ignored}
    return [j for j in range(len(names)) if j not in beside], values, ignored


def _kept_of(
    columns: Iterable[tuple[Column, Words | Codes | None]], source: Source
) -> tuple[dict[str, KeptColumn], list[list[str]], dict[str, ColumnReport]]:
    """The ignored columns by name, with the codes of those of words: as they are kept, their
    digests, and the reports of all that is ignored.
    """
    kept: dict[str, KeptColumn] = {}
    digests: list[list[str]] = []
    reports = dict(source.ignored)
    for column, codes in columns:
        name = column.place.name
        form = source.notations.get(name, "")
        words = codes.words if isinstance(codes, Codes) else ()
        kept[name] = KeptColumn("categorical" if codes else "numeric", form, words)
        digests.append([name, kept[name].type, column.digest])
        reports[name] = replace(
            source.ignored[name],
            type=kept[name].type,
            missing=int(np.count_nonzero(column.missing)),
            distinct=len(column.distinct),
            form=form or None,
        )
    return kept, digests, reports


def _flaws_of_feature(
    column: Column, source: Source, max_categories: int, request: UploadRequest
) -> list[Flaw]:
    """Why a column cannot be a feature, a value or the weight: it was refused when it was read, or
    by its content.
    """
    refused = source.refused.get(column.place.name)
    if refused:
        return [refused]
    if column.place.name == request.weight:
        flaw = flaw_of_weights(column.values)
        return [column.place.flaw_of(*flaw)] if flaw else []
    return list(column.flaws(max_categories, request.decimal))


def _reason_to_ignore(
    column: Column, flaws: Sequence[Flaw], source: Source, request: UploadRequest
) -> str | None:
    """Why a column is not to be a feature: its first flaw, or that it identifies rows."""
    if flaws:
        return flaws[0].msg
    is_measured = (
        column.place.name in request.types or column.place.name in source.notations
    )
    return None if is_measured else column.identifies(request.decimal)


def _flaws_without_features(
    unused: Sequence[ColumnReport], places: Sequence[Location]
) -> list[Flaw]:
    """Why each of the columns is not used, where none is left to learn from."""
    locs = {place.name: place.loc for place in places}
    reasons = [
        Flaw(locs[report.name], report.advice) for report in unused if report.advice
    ]
    return reasons or [Flaw(places[0].loc.rpartition("/")[0], _NOTHING)]


def _respelt(label: Column, source: Source) -> Column:
    """The label with one spelling of each class; a change of a spelling is noted."""
    name = label.place.name
    respelt = label.respelt()
    classes = respelt.words or []
    variants = sorted(set(label.words or []).difference(classes))
    if variants and not set(classes) <= {"true", "false"}:
        instead = next(
            word for word in classes if spelling(word) == spelling(variants[0])
        )
        order = f'send types={{"{name}": "category"}} to keep such spellings apart'
        source.notes[name] = f"{variants[0]!r} is read as {instead!r}; {order}"
    return respelt


def _advice(column: Column, label: Column | None, request: UploadRequest) -> str | None:
    """Advice by what a feature looks like; otherwise about its first two categories that only
    differ in case, blanks or invisible signs.
    """
    name = column.place.name
    words = sorted(column.words or ())
    looks = column.looks(label, request.decimal)
    if looks:
        return looks
    known: dict[str, str] = {}
    pairs = ((known.setdefault(spelling(word), word), word) for word in words)
    pair = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if pair is None or name in request.types:
        return None
    order = f'types={{"{name}": "category"}} keeps them apart without this advice'
    two = f"{pair[0]!r} and {pair[1]!r} of {name!r} are two categories"
    return f"{two}; write them in one way ({order})"


def _digest(
    features: Sequence[Sequence[str]],
    labels: Sequence[Column],
    m: int,
    kept: Sequence[Sequence[str]],
    weight: str | None,
    *,
    numbers: bool,
) -> str:
    """Equal for equal tables, of which m columns are features; the same integers as classes are
    another one.
    """
    parts: list[Any] = [[[*filter(None, column)] for column in features[:m]]]
    parts += [["value", *column] for column in features[m:]]
    parts += [["kept", *column] for column in kept]
    parts += [["weight", weight]] if weight is not None else []
    parts.append([[column.place.name, column.kind, column.digest] for column in labels])
    if numbers and (labels[0].values == np.floor(labels[0].values)).all():
        parts.append("numbers")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _report(column: Column, source: Source, advice: str | None) -> ColumnReport:
    """The report of a column, with its advice, the counts of left out values and the notes."""
    name = column.place.name
    counts = source.left_out.get(name, {})
    left_out = "; ".join(f"{reason}: {count:,}" for reason, count in counts.items())
    text = " ".join(filter(None, (advice, left_out, source.notes.get(name))))
    return column.report(text or None, source.notations.get(name))


def _check_vocabulary(columns: Collection[Words], limits: DataLimits) -> None:
    """TooLarge for too many words, or too long ones, of all columns together: every model's card
    holds them.
    """
    max_words = limits.max_words
    max_characters = limits.max_characters
    if (
        sum(len(words.distinct) for words in columns) > max_words
        or sum(len("".join(words.distinct)) for words in columns) > max_characters
    ):
        raise TooLarge(
            f"the columns have too many categories together: at most {max_words:,},"
            f" of {max_characters:,} characters, are supported;"
            " leave columns of text and identifiers out"
        )


def _write(
    source: Source,
    order: Sequence[int],
    words: Mapping[int, Words | Codes],
    sink: BinaryIO,
) -> None:
    """Write the columns in this order, a row group whenever enough cells have come together."""
    schema = pa.schema(
        [
            (
                source.places[j].name,
                DICTIONARY if isinstance(words.get(j), Words) else pa.float64(),
            )
            for j in order
        ]
    )
    rows_per_group = max(CELLS // len(order), 1)
    waiting: list[Any] = []

    def flush(least: int) -> None:
        if waiting and sum(batch.num_rows for batch in waiting) >= least:
            table = pa.Table.from_batches(waiting, schema).unify_dictionaries()
            writer.write_table(table, row_group_size=rows_per_group)
            waiting.clear()

    with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
        for arrays in source.batches():
            columns = [
                words[j].take(arrays[j]) if j in words else arrays[j] for j in order
            ]
            waiting.append(pa.RecordBatch.from_arrays(columns, schema=schema))
            flush(rows_per_group)
        flush(0)
