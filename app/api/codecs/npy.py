"""NumPy files: arrays of numbers, read and written."""

import io
import math
from typing import Any

import numpy as np
from fastapi import Response

from app.api.codecs.json import in_header
from app.api.codecs.media_types import NPY
from app.api.memory import NUMBER, Charge
from app.requests.rows import Rows
from app.tables.features import Schema
from payoff.errors import Flaw, Invalid, pointer, reject

_MAX_NPY_HEADER = 12_000  # bytes: NumPy refuses longer ones
_MAX_ITEMS = (1 << 63) - 1  # along one side of an array
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def array_of_npy(body: bytes, charge: Charge) -> np.ndarray:
    """A .npy file of integers or floats as float64. Never unpickles.

    Invalid where the shape does not fit the size of the file.
    """
    try:
        file = io.BytesIO(body[:_MAX_NPY_HEADER])
        version = np.lib.format.read_magic(file)
        shape, fortran, kind = _NPY_HEADERS[version](file)
    except Exception as error:  # NumPy's parser of headers raises many types
        raise Invalid.at("", "the body is not a .npy array of numbers") from error
    if kind.kind not in "fiu":
        raise Invalid.at(
            "", f"the type of the array is '{kind}'; it must be integers or floats"
        )
    available = len(body) - file.tell()
    # NumPy's reader accepts True as a length.
    is_shape = all(
        type(length) is int and 0 <= length <= _MAX_ITEMS for length in shape
    )
    count = math.prod(shape) if is_shape else 0
    if not is_shape or count * kind.itemsize > available:
        raise Invalid.at(
            "",
            f"the shape in the header of the array of '{kind}' does not fit the {available} bytes"
            " after it",
        )
    charge(count, NUMBER)
    flat = np.require(
        np.frombuffer(body, kind, count, file.tell()),
        np.float64,
        ("ALIGNED", "WRITEABLE"),
    )
    try:
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except (
        ValueError
    ) as error:  # more dimensions, or with no items longer ones, than there are
        raise Invalid.at("", "the body is not a .npy array of numbers") from error


def rows_of_npy(body: bytes, schema: Schema, charge: Charge) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "",
            "the model has categorical features, which an array of numbers cannot contain; send"
            " JSON or Arrow",
        )
    X = array_of_npy(body, charge)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at(
            "",
            f"the shape of the array is {list(X.shape)}; it must be [n, {len(schema.names)}]",
        )
    return Rows(finite(np.ascontiguousarray(X)), [])


def finite(X: np.ndarray, under: str = "") -> np.ndarray:
    """`X`; Invalid below `under` at each infinite number."""
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(under + pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X


def npy_response(array: np.ndarray, metadata: Any) -> Response:
    """The array as `numpy.save` writes it; the metadata is JSON in the header `Payoff-Answer`.

    TooLarge where the metadata is too long for a header.
    """
    header = in_header(metadata)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return Response(
        buffer.getvalue(), media_type=NPY, headers={"Payoff-Answer": header}
    )
