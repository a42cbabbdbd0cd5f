"""From what was sent to a table on its way to the store, an uploaded file or lists; and from there to arrays."""

from __future__ import annotations

import errno
import gzip
import os
import resource
import signal
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, cast

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from app.data.building import build
from app.data.columns import MAX_SHOWN, is_written, stored_columns
from app.data.csv_text import csv_source
from app.data.dataset import DataLimits, Dataset, Table, to_json
from app.data.inline import inline_source
from app.data.parquet_file import parquet_source, write_stream
from app.data.source import FILE, Kind, Location, Source
from app.data.upload_request import Dialect, UploadRequest
from app.data.values import as_numbers, as_words
from app.errors import (
    EXHAUSTED,
    UNWRITABLE,
    Flaw,
    Invalid,
    PayoffError,
    TooLarge,
    below,
    pointer,
    reject,
    trace_of,
    unknown,
)
from app.features import Feature, Schema
from app.processes import return_freed_memory

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_CHUNK = 1 << 20
_IN_MEMORY = 1 << 23  # unpacked content beyond this goes to a temporary file
_NICENESS = 10  # requests go before


@contextmanager
def _opened(content: BinaryIO, limits: DataLimits, request: Dialect) -> Iterator[Source]:
    """A source over `content` (at any position), recognised by its first bytes; what is unpacked is deleted at the end.

    Raises Invalid for what cannot be read and TooLarge beyond `limits`, also for what a gzipped file unpacks to.
    """
    size = content.seek(0, 2)
    if size > limits.max_upload_bytes:
        raise TooLarge(f"{size:,} bytes; an upload may have at most {limits.max_upload_bytes:,}")
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as plain:
        content.seek(0)
        if content.read(2) == _GZIP:
            _unpack(content, cast(BinaryIO, plain), limits.max_upload_bytes)
            content = cast(BinaryIO, plain)
        content.seek(0)
        yield parquet_source(content, limits) if content.read(4) == _PARQUET else csv_source(content, limits, request)


def _unpack(packed: BinaryIO, plain: BinaryIO, most: int) -> None:
    packed.seek(0)
    try:
        with gzip.GzipFile(fileobj=packed, mode="rb") as stream:
            while chunk := stream.read(_CHUNK):
                if plain.tell() + len(chunk) > most:
                    raise TooLarge(f"a gzipped file may unpack to at most {most:,} bytes")
                plain.write(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Invalid.at(FILE, f"the gzipped file is damaged ({error})") from error


def typed(source: Source, request: UploadRequest) -> Source:
    """The source with each column as numbers or words, by its kind or by order, without those that are ignored.

    In a column of numbers a word that is none is left out; a number in another way of writing is refused, not lost.
    """
    names = [place.name for place in source.places]
    reject(Flaw(pointer("types", n), unknown("column", n, names)) for n in request.types if n not in names)
    ignored = set(source.ignored).difference(request.label, request.types)
    kept = [j for j, name in enumerate(names) if name not in ignored and request.types.get(name) != "ignore"]
    advice = "its type is not supported; make it numbers, booleans or strings, or send types to ignore it"
    refused = {names[j]: Flaw(source.places[j].loc, f"{names[j]!r}: {advice}") for j in kept if not source.kinds[j]}
    chosen = [j for j in kept if source.kinds[j]]
    places = [source.places[j] for j in chosen]
    forced: dict[str | None, Kind] = {"number": "numeric", "category": "categorical"}
    kinds = [forced.get(request.types.get(names[j]), source.kinds[j]) for j in chosen]
    found = replace(source, places=places, kinds=kinds, refused=refused)

    def batches() -> Iterator[list[Any]]:
        rows = 0
        for arrays in source.batches():
            columns = zip((arrays[j] for j in chosen), places, kinds, strict=True)
            yield [_read(array, place, kind, rows, request, found) for array, place, kind in columns]
            rows += len(arrays[0])

    absent = set(names).difference(names[j] for j in kept)
    return replace(found, batches=batches, ignored=[name for name in names if name in absent])


def _read(array: Any, place: Location, kind: Kind | None, rows: int, request: Dialect, source: Source) -> Any:
    """An array by its kind; words that are no numbers are missing, which the source notes. `rows` came before it."""
    if kind == "categorical":
        with below(place.loc):
            return as_words(array)
    found, strange = as_numbers(array, request.decimal)
    if strange is not None:
        bad = np.flatnonzero(strange.to_numpy(zero_copy_only=False))
        texts = array.take(pa.array(bad)).to_pylist()
        written = (i for i, word in enumerate(texts) if is_written(word, request.decimal))
        if (i := next(written, None)) is not None:
            msg = f"{texts[i]!r} is in another way of writing; write digits with a decimal {request.decimal!r}"
            source.refused.setdefault(place.name, place.flaw(rows + int(bad[i]), msg))
        msg = f"{texts[0][:MAX_SHOWN]!r} is not a number; such values count as missing"
        first, count = source.left_out.get(place.name, (place.flaw(rows + int(bad[0]), msg).msg, 0))
        source.left_out[place.name] = first, count + len(bad)
    return found


def read_upload(content: BinaryIO, request: UploadRequest, sink: BinaryIO, limits: DataLimits) -> Dataset:
    """The record of an uploaded file, whose table is written to `sink` as Parquet.

    Raises Invalid with places below `/file`, `/label` and `/name`, or TooLarge. Memory of a few blocks and of the
    categories, whatever the size of the file.
    """
    with _opened(content, limits, request) as found:
        source = typed(found, request)
        names = [place.name for place in source.places]
        if len(names) <= len(request.label) or not source.refused.keys().isdisjoint(request.label):
            reject(source.refused.values())
        positions = _find_labels(names, request.label)
        built = build(source, positions, sink, limits, request, several=len(positions) > 1)
    return replace(built, ignored=tuple(source.ignored))


def read_inline(
    features: Sequence[str],
    rows: Sequence[Sequence[Any]],
    labels: Sequence[Any],
    request: UploadRequest,
    sink: BinaryIO,
    limits: DataLimits,
) -> Dataset:
    """The record of a table sent as lists, which is written to `sink` as Parquet.

    Raises Invalid with places below `/features`, `/rows` and `/labels`, or TooLarge.
    """
    source, targets, several = inline_source(features, rows, labels, limits)
    return build(typed(source, request), targets, sink, limits, request, several=several)


def _find_labels(names: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Positions of the label columns."""
    if not labels:
        raise Invalid.at("/label", "'label' is required; name the column to predict")
    reject(
        Flaw(
            pointer("label", k), unknown("column", label, names) if label not in names else f"{label!r} is named twice"
        )
        for k, label in enumerate(labels)
        if label not in names or label in labels[:k]
    )
    if len(labels) == len(names):
        raise Invalid.at(FILE, "besides the label there is no column to learn from")
    return [names.index(label) for label in labels]


def load(dataset: Dataset, parquet: bytes) -> Table:
    """The table of `dataset`: X (n, m) float64 and y as in `Table`. Memory: X, y, the bytes and some columns."""
    file, width = pq.ParquetFile(pa.BufferReader(parquet)), len(dataset.features)
    X = np.empty((dataset.rows, width))
    features = []
    columns = zip(dataset.features, stored_columns(file, range(width)), strict=True)
    for j, (feature, (values, words)) in enumerate(columns):
        categories = tuple(sorted(words or ()))
        X[:, j] = values if words is None else _codes(values, words, categories)
        features.append(Feature(feature.name, feature.type, categories))
    targets = list(stored_columns(file, range(width, width + len(dataset.labels))))
    return Table(Schema(features), X, _target(targets, dataset), dataset.classes, dataset.labels, dataset.digest)


def _codes(values: np.ndarray, words: list[str], order: tuple[int | str, ...]) -> np.ndarray:
    """The position in `order` of the word at each position, NaN where there is none."""
    positions = {word: float(code) for code, word in enumerate(order)}
    return np.asarray(np.array([*(positions[word] for word in words), np.nan])[values])  # -1 picks the last


def _target(targets: list[tuple[np.ndarray, list[str] | None]], dataset: Dataset) -> np.ndarray:
    if dataset.multilabel:
        return np.column_stack([values for values, _ in targets]).astype(np.uint8)
    values, words = targets[0]
    if dataset.classes is None:
        return values
    if words is not None:
        return _codes(values, words, dataset.classes).astype(np.int64)
    return np.searchsorted(np.array(dataset.classes, dtype=np.float64), values).astype(np.int64)


# What the process does that reads one upload, see `app.data.isolated`


def told(limits: DataLimits, request: UploadRequest | None, content: BinaryIO, sink: BinaryIO) -> dict[str, Any]:
    """The record of the upload as JSON, or the error that reading it raises; without a `request` it is unpacked."""
    try:
        if request is None:
            write_stream(content, sink, limits)
            record = b""
        else:
            record = to_json(read_upload(content, request, sink, limits))
        sink.flush()
    except MemoryError:  # Arrow's is one, too
        allowed = limits.reader_bytes >> 20
        return _refusal(Invalid.at(FILE, f"reading the file needs more than the {allowed} MB of memory allowed"))
    except (Invalid, TooLarge) as error:
        return _refusal(error)
    except Exception as error:  # noqa: BLE001 - whatever the file does to its reader, it is the file that is wrong
        if isinstance(error, OSError) and error.errno in (UNWRITABLE | EXHAUSTED) - {errno.ENOMEM}:
            return {"errno": error.errno}
        refusal = _refusal(Invalid.at(FILE, f"the file cannot be read ({type(error).__name__})"))
        return refusal | {"trace": trace_of(error)}
    return {"record": record.decode()}


def _refusal(error: PayoffError) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "detail": error.detail,
        "flaws": [(flaw.loc, flaw.msg) for flaw in error.flaws],
        "columns": error.columns,
    }


def confine(limits: DataLimits) -> None:
    """Bound memory and processor time; the kernel enforces both, whatever the code does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    return_freed_memory()  # Arrow shrinks a block of text for each column: its rests would all count
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(limits.reader_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    used = psutil.Process().memory_info().data
    resource.setrlimit(resource.RLIMIT_DATA, (used + limits.reader_bytes,) * 2)
