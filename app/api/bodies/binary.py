"""Bodies of numbers: NumPy files and Arrow streams, read and written; and JSON with long arrays."""

from __future__ import annotations

import io
import json
import math
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from fastapi import Request, Response

from app.api.bodies.json_bodies import Reserve
from app.api.bodies.media_types import ARROW, NPY
from app.errors import Invalid, TooLarge

if TYPE_CHECKING:  # imported where needed: it takes 40 MB of memory that a service without Arrow clients can spare
    import pyarrow as pa

_ARROW_FILE = b"ARROW1"
_DUMP = orjson.OPT_SERIALIZE_NUMPY
# Numbers written at a time. In one go, a million numbers hold the interpreter's lock for 135 ms, in parts for 11.
_PART = 50_000
_MAX_HEADER = 16_000  # bytes: proxies and clients refuse longer headers
_MAX_NPY_HEADER = 12_000  # bytes: NumPy refuses longer ones
_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


async def changeable_body(request: Request) -> bytearray:
    """The request's body, in memory that an array of its numbers may use."""
    body = bytearray()
    async for part in request.stream():
        body += part
    return body


def array_of_npy(body: bytes | bytearray, reserve: Reserve) -> np.ndarray:
    """A .npy file of integers or floats, of any shape, as float64. Never unpickles; checks the shape against the size.

    `reserve` gets the number of bytes of memory. The numbers of a bytearray are not copied if they need not be.
    """
    try:
        file = io.BytesIO(body[:_MAX_NPY_HEADER])
        version = np.lib.format.read_magic(file)
        shape, fortran, kind = _NPY_HEADERS[version](file)
    except Exception as error:  # NumPy's parser of headers raises many types
        raise Invalid.at("", "the body is not a .npy array of numbers") from error
    if kind.kind not in "fiu":
        raise Invalid.at("", f"the type of the array is '{kind}'; it must be integers or floats")
    count, there = math.prod(shape), len(body) - file.tell()
    if min(shape, default=0) < 0 or count * kind.itemsize > there:
        raise Invalid.at(
            "", f"the header of the array has the shape {list(shape)} of '{kind}', but {there} bytes follow"
        )
    reserve(count * np.dtype(np.float64).itemsize)
    flat = np.require(np.frombuffer(body, kind, count, file.tell()), np.float64, ("ALIGNED", "WRITEABLE"))
    try:
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except ValueError as error:  # more dimensions, or with no items longer ones, than there are
        raise Invalid.at("", "the body is not a .npy array of numbers") from error


def table_of_arrow(body: bytes, reserve: Reserve) -> pa.Table:
    """An Arrow IPC stream, checked in full; uncompressed, so that it takes no more memory than its body.

    Text that has to be converted can take more, of which `reserve` is told before it is read. TooLarge where the stream
    states more rows than its bytes can stand for.
    """
    import pyarrow as pa  # noqa: PLC0415

    from app.data.arrow_text import plain  # noqa: PLC0415 - with pyarrow

    try:
        for message in pa.ipc.MessageReader.open_stream(body):
            _check_plain(message.type, bytes(message.metadata))
        return plain(pa.ipc.open_stream(body).read_all(), len(body), reserve)
    except (Invalid, TooLarge):
        raise
    except (pa.ArrowException, MemoryError, OSError, ValueError, struct.error) as error:
        hint = "; it is an Arrow file (Feather): write a stream" if body.startswith(_ARROW_FILE) else ""
        raise Invalid.at("", f"the body is not an Arrow IPC stream{hint}") from error


def _check_plain(kind: str, message: bytes) -> None:
    """Invalid for what unpacks to more than was sent: compressed batches and delta dictionaries.

    `message` is the flatbuffer of an IPC message (Arrow columnar format, "Encapsulated message format"), of which
    pyarrow exposes neither; the numbers are those of the fields in Message.fbs.
    """
    if kind not in {"record batch", "dictionary"}:
        return
    batch = _field(message, struct.unpack_from("<I", message)[0], 2)
    if kind == "dictionary":
        added = _place(message, batch, 2)
        if added and message[added]:
            raise Invalid.at("", "delta dictionaries are not supported; send whole dictionaries")
        batch = _field(message, batch, 1)
    if _place(message, batch, 3):
        raise Invalid.at("", "compressed streams are not supported; send the stream uncompressed")


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


def npy_response(arrays: Sequence[np.ndarray], rest: Any) -> Response:
    """The arrays one after the other, each as `numpy.save` writes it; the rest is JSON in the `Payoff-Answer` header.

    TooLarge where the rest is too long for a header.
    """
    header = header_of(rest)
    buffer = io.BytesIO()
    for array in arrays:
        np.lib.format.write_array(buffer, array, allow_pickle=False)
    return Response(buffer.getvalue(), media_type=NPY, headers={"Payoff-Answer": header})


def header_of(rest: Any) -> str:
    """What is not columnar as JSON for the `Payoff-Answer` header; TooLarge where it does not fit."""
    header = ascii_json(rest)
    if len(header) > _MAX_HEADER:
        raise TooLarge("names and warnings do not fit into the header Payoff-Answer; ask for JSON, Arrow or Parquet")
    return header.decode("ascii")


def arrow_response(columns: dict[str, Any], rest: Any) -> Response:
    """An Arrow IPC stream; the rest is JSON in its metadata (`payoff`)."""
    import pyarrow as pa  # noqa: PLC0415

    table = pa.table(columns).replace_schema_metadata({"payoff": ascii_json(rest)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return Response(sink.getvalue().to_pybytes(), media_type=ARROW)


def ascii_json(document: Any) -> bytes:
    """JSON in ASCII: headers carry no more."""
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode("ascii")
