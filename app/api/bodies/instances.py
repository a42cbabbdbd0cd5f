"""The forms in which instances come and decisions go: JSON, NumPy arrays, Arrow streams."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from fastapi import Response

from app.api.bodies.arrow_categories import codes_of
from app.api.bodies.documents import JSON
from app.api.bodies.json_bodies import free
from app.errors import Flaw, Invalid, TooLarge, pointer, reject, unknown
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases.predict import Answer

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without Arrow clients can spare
    import pyarrow as pa

NPY = "application/x-npy"
ARROW = "application/vnd.apache.arrow.stream"

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_BYTES_PER_WORD = 300  # of memory at most: a word that no other row has, and its codes
_PART = 50_000  # numbers written at a time: the interpreter's lock is held for some milliseconds
_LONGEST_HEADER = 16_000  # proxies and clients refuse longer ones

_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}

Rows = tuple[np.ndarray, list[str]]
Reserve = Callable[[int], None]


def rows_of_json(instances: list[Any], schema: Schema, *, booleans_possible: bool) -> Rows:
    """Instances as parsed, encoded; places below /instances."""
    try:
        return schema.encode(instances, booleans_possible=booleans_possible)
    except Invalid as error:
        raise error.under("/instances") from error


def array_of_npy(body: bytes, reserve: Reserve = free) -> np.ndarray:
    """A .npy file of integers or floats, of any shape, as float64. Never unpickles, nor believes in a shape unseen.

    `reserve` is told of the bytes that it takes.
    """
    try:
        file = io.BytesIO(body)
        version = np.lib.format.read_magic(file)
        shape, fortran, kind = _NPY_HEADERS[version](file)
    except Exception as error:  # whatever its parser of headers stumbles over
        raise Invalid.at("", "this is not a .npy array of numbers") from error
    if kind.kind not in "fiu":
        raise Invalid.at("", f"the array holds {kind}; it takes integers or floats")
    count, there = math.prod(shape), len(body) - file.tell()
    if min(shape, default=0) < 0 or count * kind.itemsize > there:
        raise Invalid.at("", f"the array says that its shape is {list(shape)} of {kind}, but only {there} bytes follow")
    reserve(count * np.dtype(np.float64).itemsize)
    flat = np.frombuffer(body, kind, count, file.tell()).astype(np.float64)
    try:
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except ValueError as error:  # more dimensions, or with no items longer ones, than there are
        raise Invalid.at("", "this is not a .npy array of numbers") from error


def table_of_arrow(body: bytes) -> pa.Table:
    """An Arrow IPC stream, checked in full; uncompressed, so that it takes no more memory than its body."""
    import pyarrow as pa  # noqa: PLC0415

    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            _check_plain(message.type, bytes(message.metadata))
        table = pa.ipc.open_stream(body).read_all()
        table.validate(full=True)
    except Invalid:
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError, struct.error) as error:
        raise Invalid.at("", "this is not an Arrow IPC stream") from error
    return table


def _check_plain(kind: str, message: bytes) -> None:
    """Invalid for what unpacks to more than was sent: compressed batches, and dictionaries that add to one another.

    `message` is the flatbuffer of an IPC message (Arrow columnar format, "Encapsulated message format"), of which
    pyarrow tells neither; the numbers are those of the fields in Message.fbs.
    """
    if kind not in {"record batch", "dictionary"}:
        return
    batch = _field(message, struct.unpack_from("<I", message)[0], 2)
    if kind == "dictionary":
        added = _place(message, batch, 2)
        if added and message[added]:
            raise Invalid.at("", "the stream adds to its dictionaries: send whole ones")
        batch = _field(message, batch, 1)
    if _place(message, batch, 3):
        raise Invalid.at("", "the stream is compressed: send the stream uncompressed")


def _place(message: bytes, table: int, field: int) -> int:
    """Where a field of a flatbuffer's table stands, 0 where it is absent."""
    index = table - int(struct.unpack_from("<i", message, table)[0])
    if 4 + 2 * field >= struct.unpack_from("<H", message, index)[0]:
        return 0
    distance = int(struct.unpack_from("<H", message, index + 4 + 2 * field)[0])
    return table + distance if distance else 0


def _field(message: bytes, table: int, field: int) -> int:
    """Where the table begins that a field refers to."""
    place = _place(message, table, field)
    return place + int(struct.unpack_from("<I", message, place)[0])


def rows_of_npy(body: bytes, schema: Schema, reserve: Reserve = free) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "", "this model has categorical features, which an array of numbers cannot hold: send JSON or Arrow"
        )
    X = array_of_npy(body, reserve)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at("", f"the array has shape {list(X.shape)}; it takes [n, {len(schema.names)}]")
    return _finite(np.ascontiguousarray(X)), []


def rows_of_arrow(body: bytes, schema: Schema, reserve: Reserve = free) -> Rows:
    """An Arrow IPC stream with a column for each feature, by name, in any order; null where missing."""
    import pyarrow as pa  # noqa: PLC0415

    table = table_of_arrow(body)
    _check_names(table.column_names, schema)
    _check_types(table, schema)
    reserve(table.num_rows * (8 * len(schema.names) + _BYTES_PER_WORD * bool(schema.categorical)))
    X = np.empty((table.num_rows, len(schema.names)))
    warnings: list[str] = []
    for j, name in enumerate(schema.names):
        column = table.column(name)
        if j in schema.categorical:
            X[:, j], notes = codes_of(column, schema, j)
            warnings += notes
        else:
            X[:, j] = column.cast(pa.float64(), safe=False).to_numpy()
    return _finite(X), warnings


READERS: dict[str, Callable[[bytes, Schema, Reserve], Rows]] = {NPY: rows_of_npy, ARROW: rows_of_arrow}


def to_json(answer: Answer, model: Loaded) -> Response:
    """The contract's document."""
    document = {
        "model": model.model,
        "rule": answer.rule,
        "classes": answer.classes,
        "actions": answer.actions,
        "decisions": list(map(answer.actions.__getitem__, answer.choice.tolist())),
        "probabilities": answer.probabilities,
        **({} if answer.expected_benefits is None else {"expected_benefits": answer.expected_benefits}),
        **answer.figures,
        "warnings": answer.warnings,
    }
    return json_response(document)


def json_response(document: dict[str, Any]) -> Response:
    """The document as JSON, see `json_bytes`."""
    return Response(json_bytes(document), media_type=JSON)


def json_bytes(document: dict[str, Any]) -> bytes:
    """The document as JSON, its long arrays written some numbers at a time."""
    for value in document.values():
        if type(value) is np.ndarray and value.size > _PART:
            break
    else:
        return orjson.dumps(document, option=_DUMP)
    fields = (b"%b:%b" % (orjson.dumps(name), _written(value)) for name, value in document.items())
    return b"{" + b",".join(fields) + b"}"


def _written(value: Any) -> bytes:
    if not isinstance(value, np.ndarray) or value.size <= _PART:
        return orjson.dumps(value, option=_DUMP)
    step = max(_PART * len(value) // value.size, 1)
    parts = (orjson.dumps(value[i : i + step], option=_DUMP)[1:-1] for i in range(0, len(value), step))
    return b"[" + b",".join(parts) + b"]"


def to_npy(answer: Answer, model: Loaded) -> Response:
    """A float64 array: the decided action's position, K probabilities and, with benefits, A expected benefits a row.

    What is not columnar stands in the `Payoff-Answer` header as JSON.
    """
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, _columns(answer), allow_pickle=False)
    return npy_response(buffer.getvalue(), _rest(answer, model))


def npy_response(content: bytes, rest: bytes) -> Response:
    """Arrays, and the rest as a header; TooLarge where it is too long for one."""
    if len(rest) > _LONGEST_HEADER:
        raise TooLarge("what is not columnar (names, warnings) does not fit into a header: ask for JSON or Arrow")
    return Response(content, media_type=NPY, headers={"Payoff-Answer": rest.decode("ascii")})


def to_arrow(answer: Answer, model: Loaded) -> Response:
    """A stream with columns `decision`, `p:<class>`… and `benefit:<action>`…; the rest is JSON in its metadata."""
    import pyarrow as pa  # noqa: PLC0415

    names = [f"p:{name}" for name in answer.classes]
    if answer.expected_benefits is not None:
        names += [f"benefit:{name}" for name in answer.actions]
    numbers = _columns(answer).T[1:]
    words = pa.array([str(name) for name in answer.actions])
    decision = pa.DictionaryArray.from_arrays(pa.array(answer.choice, pa.int32()), words)
    arrays: list[pa.Array] = [decision, *(pa.array(np.ascontiguousarray(column)) for column in numbers)]
    table = pa.table(dict(zip(["decision", *names], arrays, strict=True)))
    table = table.replace_schema_metadata({"payoff": _rest(answer, model)})
    return arrow_response(table)


def arrow_response(table: pa.Table) -> Response:
    """The table as an Arrow IPC stream."""
    import pyarrow as pa  # noqa: PLC0415

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


WRITERS: dict[str, Callable[[Answer, Loaded], Response]] = {JSON: to_json, NPY: to_npy, ARROW: to_arrow}


def _columns(answer: Answer) -> np.ndarray:
    parts = [answer.choice[:, None], answer.probabilities]
    if answer.expected_benefits is not None:
        parts.append(answer.expected_benefits)
    return np.hstack(parts, dtype=np.float64)


def _rest(answer: Answer, model: Loaded) -> bytes:
    """What is not columnar, as JSON in ASCII (headers carry no more)."""
    document = {
        "model": model.model,
        "rule": answer.rule,
        "classes": answer.classes,
        "actions": answer.actions,
        **answer.figures,
        "warnings": answer.warnings,
    }
    return ascii_json(document)


def ascii_json(document: Any) -> bytes:
    """JSON in ASCII."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")


def _finite(X: np.ndarray) -> np.ndarray:
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X


def _check_names(names: list[str], schema: Schema) -> None:
    flaws = [Flaw(pointer(name), unknown("feature", name, schema.names)) for name in names if name not in schema.names]
    flaws += [Flaw("", f"feature {name!r} is absent") for name in schema.names if name not in names]
    flaws += [Flaw(pointer(name), "this column is there twice") for name in set(names) if names.count(name) > 1]
    reject(flaws)


def _check_types(table: pa.Table, schema: Schema) -> None:
    """Invalid at the first column that holds neither what it should nor, perhaps, any bytes for its rows."""
    import pyarrow as pa  # noqa: PLC0415

    for j, name in enumerate(schema.names):
        kind = table.column(name).type
        if j in schema.categorical:
            if not _is_text(kind):
                raise Invalid.at(pointer(name), f"{name!r} takes strings, not {kind}")
        elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            raise Invalid.at(pointer(name), f"{name!r} takes numbers, not {kind}")


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow as pa  # noqa: PLC0415

    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
