"""Binary data of the Open Inference Protocol: tensors behind a JSON document, as Triton's client
sends and expects them by default.

A header tells where the document ends; `binary_data_size` of a tensor's parameters, how many bytes
are its own. https://github.com/triton-inference-server/server (extension `binary_tensor_data`)
"""

from typing import Any, Final

import numpy as np

from app.api.codecs.answers import NamedChoice
from app.api.codecs.json import parsed
from app.api.memory import Charge
from app.requests.fields import WireModel
from payoff.errors import Invalid, pointer, unknown_at

HEADER: Final = "Inference-Header-Content-Length"
OCTETS: Final = "application/octet-stream"
SIZE: Final = "binary_data_size"
_LENGTH_BYTES = 4  # before each text
_TYPES = {
    "BOOL": "?",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}


class TensorBody(WireModel):
    """A body whose `inputs` may come as binary data."""


def document_of(body: bytes, length: str, charge: Charge) -> Any:
    """The JSON document in the first `length` bytes, with the data of its tensors as lists.

    Raises Invalid where sizes and data do not fit, and the errors of `parsed`.
    """
    if not length.isdecimal() or int(length) > len(body):
        raise Invalid.at(
            "", f"{HEADER} is {length[:20]!r}; the body has {len(body):,} bytes"
        )
    document = parsed(body[: int(length)], charge)
    content = memoryview(body)[int(length) :]
    inputs = document.get("inputs") if isinstance(document, dict) else None
    for number, tensor in enumerate(inputs if isinstance(inputs, list) else ()):
        parameters = tensor.get("parameters") if isinstance(tensor, dict) else None
        if not isinstance(parameters, dict) or SIZE not in parameters:
            continue
        place = pointer("inputs", number, "parameters", SIZE)
        size = parameters[SIZE]
        if type(size) is not int or not 0 <= size <= len(content) or "data" in tensor:
            message = (
                f"must be the bytes of a tensor without data; {len(content):,} remain"
            )
            raise Invalid.at(place, message)
        datatype = str(tensor.get("datatype"))
        if datatype not in _TYPES and datatype != "BYTES":
            place = pointer("inputs", number, "datatype")
            raise Invalid.of(
                [unknown_at(place, "datatype", datatype, [*_TYPES, "BYTES"])]
            )
        tensor["data"] = _values(content[:size], datatype, place, charge)
        content = content[size:]
    if content:
        raise Invalid.at("", f"{len(content):,} bytes follow the last tensor")
    return document


def _values(
    content: memoryview, datatype: str, place: str, charge: Charge
) -> list[Any]:
    """The values in row-major order, None where NaN; Invalid where one is infinite."""
    if datatype not in _TYPES:
        charge(len(content) // _LENGTH_BYTES)
        return _texts(content, place)
    kind = np.dtype(_TYPES[datatype])
    if len(content) % kind.itemsize:
        raise Invalid.at(place, f"{len(content):,} bytes are no whole {datatype}")
    numbers = np.frombuffer(content, kind)
    charge(len(numbers))
    if kind.kind != "f" or np.isfinite(numbers).all():
        return numbers.tolist()
    infinite = np.flatnonzero(np.isinf(numbers))
    if len(infinite):
        message = f"value {infinite[0]} is infinite; send NaN for a missing value"
        raise Invalid.at(place, message)
    values = numbers.astype(object)
    values[np.isnan(numbers)] = None
    return values.tolist()


def _texts(content: memoryview, place: str) -> list[str]:
    """Texts in UTF-8, each behind its length in bytes, of 32 bits."""
    texts: list[str] = []
    position = 0
    while position < len(content):
        begin = position + _LENGTH_BYTES
        position = begin + int.from_bytes(content[position:begin], "little")
        if begin > len(content) or position > len(content):
            raise Invalid.at(place, f"text {len(texts)} runs over the end of the data")
        try:
            texts.append(str(content[begin:position], "utf-8"))
        except UnicodeDecodeError as error:
            raise Invalid.at(place, f"text {len(texts)} is not UTF-8") from error
    return texts


def binary(values: np.ndarray | NamedChoice) -> bytes:
    """The values of an output, FP64, or BYTES of names."""
    if not isinstance(values, NamedChoice):
        return np.ascontiguousarray(values, "<f8").tobytes()
    words = [str(name).encode() for name in values.names]
    written = [len(word).to_bytes(_LENGTH_BYTES, "little") + word for word in words]
    return b"".join(map(written.__getitem__, values.choice.tolist()))
