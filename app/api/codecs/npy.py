"""NumPy files: arrays of numbers, read and written."""

import io
import math
from typing import Any

import numpy as np
from fastapi import Response

from app.answering.predict import Rows
from app.api.codecs.json import in_header
from app.api.codecs.media_types import NPY
from app.api.memory import NUMBER, Charge
from app.tables.features import Schema
from payoff.errors import Flaw, Invalid, pointer, reject

_MAX_NPY_HEADER = 12_000  # bytes: NumPy refuses longer ones
_ENDLESS = 1 << 63  # items, of which no array has as many
_NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def array_of_npy(body: bytes, charge: Charge) -> np.ndarray:
    """A .npy file of integers or floats as float64, of the shape that fits its size. Never unpickles."""
    try:
        file = io.BytesIO(body[:_MAX_NPY_HEADER])
        version = np.lib.format.read_magic(file)
        shape, fortran, kind = _NPY_HEADERS[version](file)
    except Exception as error:  # NumPy's parser of headers raises many types
        raise Invalid.at("", "the body is not a .npy array of numbers") from error
    if kind.kind not in "fiu":
        raise Invalid.at("", f"the type of the array is '{kind}'; it must be integers or floats")
    there = len(body) - file.tell()
    sound = all(
        type(length) is int and 0 <= length < _ENDLESS for length in shape
    )  # NumPy's reader takes True, too
    if not sound or (count := math.prod(shape)) * kind.itemsize > there:
        raise Invalid.at(
            "",
            f"the shape in the header of the array of '{kind}' does not fit the {there} bytes after it",
        )
    charge(count, NUMBER)
    flat = np.require(
        np.frombuffer(body, kind, count, file.tell()), np.float64, ("ALIGNED", "WRITEABLE")
    )
    try:
        return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)
    except ValueError as error:  # more dimensions, or with no items longer ones, than there are
        raise Invalid.at("", "the body is not a .npy array of numbers") from error


def rows_of_npy(body: bytes, schema: Schema, charge: Charge) -> Rows:
    """A .npy file of numbers (n, m), rows in feature order, NaN where missing. Never unpickles."""
    if schema.categorical:
        raise Invalid.at(
            "",
            "the model has categorical features, which an array of numbers cannot contain; send JSON or Arrow",
        )
    X = array_of_npy(body, charge)
    if X.ndim != 2 or X.shape[1] != len(schema.names):
        raise Invalid.at(
            "", f"the shape of the array is {list(X.shape)}; it must be [n, {len(schema.names)}]"
        )
    return Rows(finite(np.ascontiguousarray(X)), [])


def finite(X: np.ndarray, under: str = "") -> np.ndarray:
    """`X`; Invalid below `under` at each infinite number."""
    infinite = np.isinf(X)
    if infinite.any():
        message = "infinity is not allowed; use NaN or null for a missing value"
        reject(Flaw(under + pointer(i, j), message) for i, j in np.argwhere(infinite))
    return X


def npy_response(array: np.ndarray, rest: Any) -> Response:
    """The array as `numpy.save` writes it; the rest is JSON in the `Payoff-Answer` header.

    TooLarge where the rest is too long for a header.
    """
    header = in_header(rest)
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, allow_pickle=False)
    return Response(buffer.getvalue(), media_type=NPY, headers={"Payoff-Answer": header})
