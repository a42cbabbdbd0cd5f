"""From a source to what is stored: written in one pass over its batches, then looked at column by
column; and what of the label columns a learner can predict.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import InvalidTable
from app.tables.columns import CELLS, DICTIONARY, EXACT, Column, Words, stored_columns
from app.tables.dataset import ColumnReport, DataLimits, Dataset, id_of
from app.tables.features import Feature
from app.tables.source import FILE, Kind, Location, Source
from app.tables.text import MAX_CATEGORY, some_of, spelling
from app.tables.upload_request import UploadRequest
from payoff.errors import MAX_ERRORS, MAX_NAME, Flaw, Invalid, TooLarge, pointer, reject

Classes = tuple[int | str, ...] | None

AS_NUMBER = "(to regress on it: upload it with label_type number, or send rows along with an order of task regression)"
_NOTHING = "besides the label there is no column to learn from"
_VALUE = "a value: cells of benefit matrices may name it"
_MISSING = "the label is missing; fill it in, or send drop_unlabelled to leave these rows out"


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
    features.

    Identifiers and what cannot be a feature are ignored, and the rest is written again; but for
    columns whose types were ordered, and where all are wanted (`strict`). The id is the same for
    the same values, names, labels and owner. Raises Invalid with every column that cannot be used.
    Memory of one row group, of some columns, and of the categories.
    """
    numbers = request.label_type == "number"
    values = [
        j
        for j, place in enumerate(source.places)
        if place.name in request.named("value") and j not in labels
    ]
    order = [j for j in range(len(source.places)) if j not in {*labels, *values}] + [
        *values,
        *labels,
    ]
    most, decimal = limits.max_categories, request.decimal
    words = {j: Words(most, MAX_CATEGORY) for j in order if source.kinds[j] == "categorical"}
    _write(source, order, words, sink)
    stored = pq.ParquetFile(sink)
    if not stored.metadata.num_rows:
        raise Invalid.at(
            source.places[labels[0]].loc, "no row has a label, or all of them are left out"
        )
    width = len(order) - len(labels)
    m = width - len(values)

    def columns(positions: range) -> Iterator[Column]:
        for j, (values, known) in zip(
            order[positions.start :], stored_columns(stored, positions), strict=False
        ):
            yield Column(source.places[j], values, known, words.get(j))

    targets = [*columns(range(width, len(order)))]
    if request.is_class(source.places[labels[0]].name) and targets[0].words is not None:
        targets = [_respelt(targets[0], source)]
    flaws = [
        source.refused[each.place.name] for each in targets if each.place.name in source.refused
    ]
    classes, more = _classes_or_flaws(targets, most, decimal, several=several, numbers=numbers)
    flaws += more
    told = {flaw.loc: flaw.msg for flaw in reversed(flaws)}
    of_labels = [
        _report(each, source, told.get(each.place.loc) or each.misread(decimal)) for each in targets
    ]
    label = targets[0] if len(targets) == 1 else None
    features: list[tuple[str, Kind, str, str]] = []
    reports: list[ColumnReport] = []
    useless: dict[str, ColumnReport] = {}
    for column in columns(range(width)):
        name = column.place.name
        features.append((name, column.kind, column.digest, source.forms.get(name, "")))
        found = [source.refused[name]] if name in source.refused else [*column.flaws(most, decimal)]
        is_ordered = name in request.types
        identifies = None if is_ordered or name in source.forms else column.identifies(decimal)
        reason = found[0].msg if found else identifies
        reports.append(_report(column, source, reason or _advice(column, label, request)))
        if reason and not (strict or is_ordered):
            useless[name] = reports[-1]
        else:
            flaws += found
    if useless and not flaws and len(useless) < m:
        sink.seek(0)
        sink.truncate()
        rest = source.without(useless)
        places = [rest.places.index(target.place) for target in targets]
        return build(rest, places, sink, limits, request, several=several)
    reports[m:] = [
        *(replace(each, type="value") for each in reports[m:]),
        *of_labels,
        *source.ignored.values(),
    ]
    if len(useless) == m:
        spare = [
            report for report in (*useless.values(), *source.ignored.values()) if report.advice
        ]
        flaws += [Flaw(FILE + pointer(report.name), str(report.advice)) for report in spare] or [
            Flaw(FILE, _NOTHING)
        ]
    if flaws:
        raise InvalidTable(flaws[0].msg, flaws, map(asdict, reports))
    _check_vocabulary(words.values(), limits)
    sink.seek(0)
    return Dataset(
        id=id_of(_digest(features, targets, m, numbers=numbers), request.owner),
        name=request.name,
        rows=stored.metadata.num_rows,
        features=tuple(Feature(name, kind, form=form) for name, kind, _, form in features[:m]),
        labels=tuple(target.place.name for target in targets),
        classes=classes,
        digest=hashlib.file_digest(sink, "sha256").hexdigest(),  # type: ignore[arg-type]
        bytes=sink.seek(0, 2),
        columns=tuple(reports),
        ignored={name: report.advice or "ordered" for name, report in source.ignored.items()}
        | {name: _VALUE for name, *_ in features[m:]},
        values={name: form for name, _, _, form in features[m:]},
        created_at=datetime.now(UTC),
        owner=request.owner,
    )


def _respelt(label: Column, source: Source) -> Column:
    """The label with one spelling of each class; what is changed is noted."""
    found, name = label.respelt(), label.place.name
    new = found.words or []
    if (odd := sorted({*(label.words or [])}.difference(new))) and not {*new} <= {"true", "false"}:
        instead = next(word for word in new if spelling(word) == spelling(odd[0]))
        order = f'send types={{"{name}": "category"}} to keep such spellings apart'
        source.notes[name] = f"{odd[0]!r} is read as {instead!r}; {order}"
    return found


def _advice(column: Column, label: Column | None, request: UploadRequest) -> str | None:
    """What a feature looks like; else its first two categories that only differ in case, blanks or
    invisible signs.
    """
    words, name = sorted(column.words or ()), column.place.name
    if looks := column.looks(label, request.decimal):
        return looks
    known: dict[str, str] = {}
    pairs = ((known.setdefault(spelling(word), word), word) for word in words)
    pair = next((pair for pair in pairs if pair[0] != pair[1]), None)
    if pair is None or name in request.types:
        return None
    order = f'types={{"{name}": "category"}} keeps them apart without this advice'
    return f"{pair[0]!r} and {pair[1]!r} of {name!r} are two categories; write them in one way ({order})"


def _digest(
    features: Sequence[Sequence[str]], labels: Sequence[Column], m: int, *, numbers: bool
) -> str:
    """Equal for equal tables, of which m columns are features; the same integers as classes are
    another one.
    """
    parts: list[Any] = [[[*filter(None, each)] for each in features[:m]]]
    parts += [["value", *each] for each in features[m:]]
    parts.append([[each.place.name, each.kind, each.digest] for each in labels])
    if numbers and (labels[0].values == np.floor(labels[0].values)).all():
        parts.append("numbers")
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def _report(column: Column, source: Source, advice: str | None) -> ColumnReport:
    """How a column was read, and what of it was left out or changed."""
    name = column.place.name
    counts = source.left_out.get(name, {})
    left_out = "; ".join(f"{reason}: {count:,}" for reason, count in counts.items())
    told = " ".join(filter(None, (advice, left_out, source.notes.get(name))))
    return column.report(told or None, source.forms.get(name))


def _classes_or_flaws(
    labels: Sequence[Column], most: int, decimal: str, *, several: bool, numbers: bool
) -> tuple[Classes, Sequence[Flaw]]:
    """The classes as of `_classes_of`, or what forbids the labels."""
    try:
        return _classes_of(labels, most, decimal, several=several, numbers=numbers), []
    except Invalid as error:
        return None, error.flaws


def _check_vocabulary(columns: Collection[Words], limits: DataLimits) -> None:
    """TooLarge for too many words, or too long ones, of all columns together: every model's card
    holds them.
    """
    most, longest = limits.max_words, limits.max_characters
    if (
        sum(len(words.found) for words in columns) > most
        or sum(len("".join(each.found)) for each in columns) > longest
    ):
        raise TooLarge(
            f"the columns have too many categories together: at most {most:,}, of {longest:,} characters, are"
            " supported; leave columns of text and identifiers out"
        )


def _write(source: Source, order: Sequence[int], words: dict[int, Words], sink: BinaryIO) -> None:
    """Write the columns in this order, a row group whenever enough cells have come together."""
    schema = pa.schema(
        [(source.places[j].name, DICTIONARY if j in words else pa.float64()) for j in order]
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
            columns = [words[j].take(arrays[j]) if j in words else arrays[j] for j in order]
            waiting.append(pa.RecordBatch.from_arrays(columns, schema=schema))
            flush(rows_per_group)
        flush(0)


def _classes_of(
    labels: Sequence[Column], most: int, decimal: str, *, several: bool, numbers: bool
) -> Classes:
    """The classes in order, those of `several` labels their names, or None for a number to regress
    on.

    Integers are classes unless they are `numbers`, at most `most`. Raises Invalid for what cannot
    be predicted.
    """
    reject(flaw for label in labels for flaw in label.flaws_of_words(most, MAX_NAME, decimal))
    for label in labels:
        if label.words is not None and (several or numbers):
            wanted = (
                "each of several labels must be a column of 0 and 1"
                if several
                else "a number is to be regressed on"
            )
            raise Invalid.at(label.place.loc, f"{label.place.name!r} holds words; {wanted}")
        if label.missing.any():
            raise Invalid.of([label.place.flaw_of(np.flatnonzero(label.missing), _MISSING)])
        if label.words is None:
            reject(label.wrong(np.isinf(label.values), "{} is not a finite number"))
    if several:
        for label in labels:
            other = (label.values != 0) & (label.values != 1)
            reject(label.wrong(other, "{} is neither 0 nor 1, as each of several labels must be"))
        reject(
            Flaw(
                label.place.loc,
                f"{label.place.name!r} is {label.values[0]:g} in every row; leave the label out",
            )
            for label in labels
            if len(label.distinct) == 1
        )
        return tuple(label.place.name for label in labels)
    values, words, place = labels[0].values, labels[0].words, labels[0].place
    if words is not None:
        found = dict(zip(words, np.bincount(values, minlength=len(words)).tolist(), strict=True))
        return _checked({word: found[word] for word in sorted(words)}, place)
    if numbers or (values != np.floor(values)).any():
        return None
    reject(labels[0].wrong(np.abs(values) >= EXACT, "{} is too large for a class; use strings"))
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) > most:
        many = f"{place.name!r} has more than {most} distinct integers, too many for classes"
        raise Invalid.at(place.loc, f"{many} {AS_NUMBER}")
    return _checked(
        dict(zip(distinct.astype(np.int64).tolist(), counts.tolist(), strict=True)),
        place,
        AS_NUMBER,
    )


def _checked(
    counts: dict[int, int] | dict[str, int], place: Location, otherwise: str = ""
) -> tuple[int | str, ...]:
    """The classes, if there are two at least and each has two rows at least (one to learn from, one
    to hold out).

    `otherwise` says what else to do with classes of one row.
    """
    if len(counts) < 2:
        raise Invalid.at(
            place.loc, f"{place.name!r} has one class only, {next(iter(counts))!r}; two are needed"
        )
    single = [value for value, count in counts.items() if count == 1]
    if single:
        named = (
            f"class {single[0]!r}"
            if len(single) == 1
            else f"classes {some_of(list(map(repr, single)), MAX_ERRORS)}"
        )
        fix = "leave it out (drop_classes), merge it or add rows"
        msg = f"one row only has {named} of {place.name!r}; {fix} {otherwise}"
        raise Invalid.at(place.loc, msg.rstrip())
    return tuple(counts)
