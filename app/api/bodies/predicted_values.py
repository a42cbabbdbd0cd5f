"""Predicted numbers on the wire: JSON, a NumPy array, or an Arrow stream."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fastapi import Response

from app.api.bodies.documents import JSON
from app.api.bodies.instances import ARROW, NPY, arrow_response, ascii_json, json_response, npy_response
from app.registry.loaded import Loaded


def to_json(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """The contract's document."""
    document = {"model": model.model, "values": values, "warnings": warnings}
    return json_response(document)


def to_npy(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """A float64 array (n,); the rest stands in the `Payoff-Answer` header as JSON."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.asarray(values, dtype=np.float64), allow_pickle=False)
    return npy_response(buffer.getvalue(), _rest(model, warnings))


def to_arrow(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """A stream with the column `value`; the rest is JSON in its metadata."""
    import pyarrow as pa  # noqa: PLC0415 - 40 MB of memory that a service without Arrow clients can spare

    table = pa.table({"value": np.asarray(values, dtype=np.float64)})
    return arrow_response(table.replace_schema_metadata({"payoff": _rest(model, warnings)}))


WRITERS: dict[str, Callable[[np.ndarray, Loaded, Sequence[str]], Response]] = {
    JSON: to_json,
    NPY: to_npy,
    ARROW: to_arrow,
}


def _rest(model: Loaded, warnings: Sequence[str]) -> bytes:
    document: dict[str, Any] = {"model": model.model, "warnings": list(warnings)}
    return ascii_json(document)
