"""From an uploaded file, or lists, to a table to be stored; and from a stored table to arrays."""

import errno
import gzip
import os
import resource
import signal
import zlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import Any, BinaryIO, cast

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from app.errors import EXHAUSTED, UNWRITABLE, InvalidTable, trace_of
from app.jobs.processes import return_freed_memory
from app.tables.building import build
from app.tables.column_types import typed
from app.tables.columns import code_of, stored_columns
from app.tables.csv_text import csv_source
from app.tables.dataset import DATASET_JSON, DataLimits, Dataset, KeptColumn, Table
from app.tables.features import Schema
from app.tables.inline import WEIGHT, inline_source
from app.tables.parquet_file import parquet_source, write_stream
from app.tables.source import FILE, Source
from app.tables.text import spelling
from app.tables.upload_request import Dialect, UploadRequest
from payoff.errors import (
    Flaw,
    Invalid,
    PayoffError,
    TooLarge,
    pointer,
    reject,
    unknown_at,
)

_GZIP = b"\x1f\x8b"
_PARQUET = b"PAR1"
_CHUNK = 1 << 20
_IN_MEMORY = 1 << 23  # bytes of unpacked content; more goes to a temporary file
_NICENESS = 10  # requests go before


@contextmanager
def _opened(
    content: BinaryIO, limits: DataLimits, request: Dialect
) -> Iterator[Source]:
    """A source over `content` (at any position), recognised by its first bytes; what is unpacked is
    deleted at the end.

    Raises Invalid for content that cannot be read and TooLarge over `limits`, also for what a
    gzipped file unpacks to.
    """
    size = content.seek(0, 2)
    if size > limits.max_upload_bytes:
        raise TooLarge(
            f"{size:,} bytes; an upload may have at most {limits.max_upload_bytes:,}"
        )
    with SpooledTemporaryFile(max_size=_IN_MEMORY) as plain:
        content.seek(0)
        if content.read(2) == _GZIP:
            _unpack(content, cast(BinaryIO, plain), limits.max_upload_bytes)
            content = cast(BinaryIO, plain)
        content.seek(0)
        if content.read(len(_PARQUET)) == _PARQUET:
            yield parquet_source(content, limits)
        else:
            yield csv_source(content, limits, request)


def _unpack(packed: BinaryIO, plain: BinaryIO, max_bytes: int) -> None:
    packed.seek(0)
    try:
        with gzip.GzipFile(fileobj=packed, mode="rb") as stream:
            while chunk := stream.read(_CHUNK):
                if plain.tell() + len(chunk) > max_bytes:
                    raise TooLarge(
                        f"a gzipped file may unpack to at most {max_bytes:,} bytes"
                    )
                plain.write(chunk)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Invalid.at(FILE, f"the gzipped file is damaged ({error})") from error


def column_names(content: BinaryIO, limits: DataLimits) -> list[str]:
    """The names of a file's columns; raises as `read_upload` does."""
    with _opened(content, limits, Dialect()) as source:
        return [place.name for place in source.places]


def read_upload(
    content: BinaryIO, request: UploadRequest, sink: BinaryIO, limits: DataLimits
) -> Dataset:
    """The record of an uploaded file, whose table is written to `sink` as Parquet.

    Raises Invalid with places below `/file`, `/label` and `/name`, or TooLarge. Memory of a few
    blocks and of the categories, whatever the size of the file.
    """
    with _opened(content, limits, request) as opened:
        source = typed(opened, request)
        positions = _find_labels(source, request.label)
        return build(
            source, positions, sink, limits, request, several=len(positions) > 1
        )


def read_inline(
    features: Sequence[str],
    rows: Sequence[Sequence[Any]],
    labels: Sequence[Any],
    request: UploadRequest,
    sink: BinaryIO,
    limits: DataLimits,
    weights: Sequence[float] | None = None,
) -> Dataset:
    """The record of a table sent as lists, which is written to `sink` as Parquet.

    Raises Invalid with places below `/features`, `/rows`, `/labels` and `/weights`, or TooLarge.
    """
    source, targets, several = inline_source(features, rows, labels, limits, weights)
    if weights is not None:
        if request.weight is not None:
            message = "the rows have 'weights' already; a data set has one weight"
            raise Invalid.at(pointer("types", request.weight), message)
        types = request.types | {WEIGHT: "weight"}
        request = request.model_copy(update={"types": types})
    return build(
        typed(source, request, strict=True),
        targets,
        sink,
        limits,
        request,
        several=several,
        strict=True,
    )


def _find_labels(source: Source, labels: Sequence[str]) -> list[int]:
    """Positions of the label columns."""
    names = [place.name for place in source.places]
    if not labels:
        raise Invalid.at("/label", "'label' is required; name the column to predict")
    hint = "".join(
        f"; {note}" for note in source.notes.values()
    )  # that line 1 may be no header
    places = {label: pointer("label", k) for k, label in enumerate(labels)}
    reject(
        unknown_at(place, "column", label, names, hint)
        for label, place in places.items()
        if label not in names
    )
    reject(
        Flaw(places[label], f"{label!r} is named twice")
        for label in places
        if labels.count(label) > 1
    )
    return [names.index(label) for label in labels]


def load(dataset: Dataset, parquet: bytes, kept: Collection[str] = ()) -> Table:
    """The table of `dataset`, with these of its `kept` columns: X (n, m) float64 and y as in
    `Table`. Memory: X, y, the bytes and some columns.
    """
    file = pq.ParquetFile(pa.BufferReader(parquet))
    width = len(dataset.features)
    X = np.empty((dataset.rows, width))
    features = []
    columns = zip(dataset.features, stored_columns(file, range(width)), strict=True)
    for j, (feature, (values, words)) in enumerate(columns):
        categories = tuple(sorted(words or ()))
        X[:, j] = values if words is None else _codes(values, words, categories)
        features.append(replace(feature, categories=categories))
    end = width + len(dataset.values)
    beside = (column for column, _ in stored_columns(file, range(width, end)))
    begin = end + len(dataset.kept)
    targets = list(stored_columns(file, range(begin, begin + len(dataset.labels))))
    beside_features = {
        name: _kept_column(file, end + j, column)
        for j, (name, column) in enumerate(dataset.kept.items())
        if name in kept
    }
    return Table(
        Schema(features, [*dataset.ignored], dataset.values),
        X,
        _target(targets, dataset),
        dataset.classes,
        dataset.labels,
        dataset.digest,
        dict(zip(dataset.values, beside, strict=True)),
        beside_features,
        dataset.weight,
        {name: column.words for name, column in dataset.kept.items()},
    )


def _kept_column(file: pq.ParquetFile, j: int, column: KeptColumn) -> np.ndarray:
    """The stored column at position j as `Table` has it, float64 (n,)."""
    values, _ = next(stored_columns(file, range(j, j + 1)))
    if not column.words:
        return values
    codes = np.array([code_of(word) for word in column.words])
    order = np.argsort(codes)
    positions = np.searchsorted(codes[order], values[~np.isnan(values)])
    result = np.full(len(values), np.nan)
    result[~np.isnan(values)] = order[positions]
    return result


def _codes(
    values: np.ndarray, words: list[str], order: tuple[int | str, ...]
) -> np.ndarray:
    """The position in `order` of each word, or of another spelling of it, NaN where it has neither.

    `values` (n,) are positions in `words`, -1 where a word is missing.
    """
    codes = {spelling(str(word)): float(code) for code, word in enumerate(order)}
    codes |= {str(word): float(code) for code, word in enumerate(order)}
    codes_of_words = (codes.get(word, codes.get(spelling(word))) for word in words)
    return np.asarray(
        np.array([*codes_of_words, np.nan], dtype=np.float64)[values]
    )  # -1 picks the last


def _target(
    targets: list[tuple[np.ndarray, list[str] | None]], dataset: Dataset
) -> np.ndarray:
    if dataset.multilabel:
        return np.column_stack([values for values, _ in targets]).astype(np.uint8)
    values, words = targets[0]
    if dataset.classes is None:
        return values
    if words is not None:
        return _codes(values, words, dataset.classes).astype(np.int64)
    return np.searchsorted(np.array(dataset.classes, dtype=np.float64), values).astype(
        np.int64
    )


# In the process that reads one upload, see `app.tables.isolated`


def message(
    limits: DataLimits, request: UploadRequest | None, content: BinaryIO, sink: BinaryIO
) -> dict[str, Any]:
    """The message to the service: the record of the upload as JSON, or the error of reading it;
    without a `request` the upload is unpacked.
    """
    try:
        if request is None:
            write_stream(content, sink, limits)
            record = b""
        else:
            record = DATASET_JSON.dump_json(read_upload(content, request, sink, limits))
        sink.flush()
    except MemoryError:  # Arrow's is one, too
        allowed = limits.reader_bytes >> 20
        return _refusal(
            Invalid.at(
                FILE,
                f"reading the file needs more than the {allowed} MB of memory allowed",
            )
        )
    except (Invalid, TooLarge) as error:
        return _refusal(error)
    # Whatever a file does to its reader, the file is at fault.
    except Exception as error:  # noqa: BLE001
        if isinstance(error, OSError) and error.errno in (UNWRITABLE | EXHAUSTED) - {
            errno.ENOMEM
        }:
            return {"errno": error.errno}
        refusal = _refusal(
            Invalid.at(FILE, f"the file cannot be read ({type(error).__name__})")
        )
        return refusal | {"trace": trace_of(error)}
    return {"record": record.decode()}


def _refusal(error: PayoffError) -> dict[str, Any]:
    return {
        "class": type(error).__name__,
        "detail": error.detail,
        "flaws": [(flaw.loc, flaw.msg) for flaw in error.flaws],
        "columns": error.columns if isinstance(error, InvalidTable) else (),
    }


def confine(limits: DataLimits) -> None:
    """Bound memory and processor time; the kernel enforces both, whatever the code does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICENESS)
    # Arrow shrinks a block of text for each column: its rests would all count
    return_freed_memory()
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    seconds = int(limits.reader_seconds) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    used = psutil.Process().memory_info().data
    resource.setrlimit(resource.RLIMIT_DATA, (used + limits.reader_bytes,) * 2)
