"""Predicted numbers on the wire: JSON, a NumPy array, or a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from fastapi import Response

from app.api.bodies.binary import json_bytes, npy_response
from app.api.bodies.carried import NOTHING, Carried
from app.api.bodies.media_types import JSON, NPY, TABULAR
from app.api.bodies.tables import table_response
from app.registry.loaded import Loaded


def to_json(values: np.ndarray, model: Loaded, warnings: Sequence[str], carried: Carried = NOTHING) -> Response:
    """The contract's document."""
    document = {"model": model.model, **carried.document(), "values": values, "warnings": warnings}
    return Response(json_bytes(document), media_type=JSON)


def to_npy(values: np.ndarray, model: Loaded, warnings: Sequence[str], carried: Carried = NOTHING) -> Response:
    """A float64 array (n,)."""
    carried.refuse_numbers_only()
    return npy_response([np.asarray(values, dtype=np.float64)], _rest(model, warnings))


def to_table(
    form: str, values: np.ndarray, model: Loaded, warnings: Sequence[str], carried: Carried = NOTHING
) -> Response:
    """A table of what is carried, and the column `value`."""
    columns = carried.before({"value": np.asarray(values, dtype=np.float64)})
    return table_response(form, columns, _rest(model, warnings))


def _rest(model: Loaded, warnings: Sequence[str]) -> dict[str, Any]:
    return {"model": model.model, "warnings": list(warnings)}


WRITERS: dict[str, Callable[[np.ndarray, Loaded, Sequence[str], Carried], Response]] = {
    JSON: to_json,
    NPY: to_npy,
    **{form: partial(to_table, form) for form in TABULAR},
}
