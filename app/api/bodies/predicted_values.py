"""Predicted numbers on the wire: JSON, a NumPy array, or an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from fastapi import Response

from app.api.bodies.binary import ARROW, NPY, arrow_response, json_bytes, npy_response
from app.api.bodies.csv_bodies import CSV, csv_response
from app.api.bodies.documents import JSON
from app.registry.loaded import Loaded


def to_json(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """The contract's document."""
    return Response(json_bytes({"model": model.model, "values": values, "warnings": warnings}), media_type=JSON)


def to_npy(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """A float64 array (n,)."""
    return npy_response([np.asarray(values, dtype=np.float64)], _rest(model, warnings))


def to_arrow(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """A stream with the column `value`."""
    return arrow_response({"value": np.asarray(values, dtype=np.float64)}, _rest(model, warnings))


def to_csv(values: np.ndarray, model: Loaded, warnings: Sequence[str]) -> Response:
    """A CSV file with the column `value`."""
    return csv_response({"value": np.asarray(values, dtype=np.float64)}, _rest(model, warnings))


def _rest(model: Loaded, warnings: Sequence[str]) -> dict[str, Any]:
    return {"model": model.model, "warnings": list(warnings)}


WRITERS: dict[str, Callable[[np.ndarray, Loaded, Sequence[str]], Response]] = {
    JSON: to_json,
    NPY: to_npy,
    ARROW: to_arrow,
    CSV: to_csv,
}
