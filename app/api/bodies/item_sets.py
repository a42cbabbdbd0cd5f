"""Chosen sets on the wire: JSON, NumPy arrays, or an Arrow stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import isnan
from typing import TYPE_CHECKING, Any

import numpy as np
import orjson
from fastapi import Response

from app.api.bodies.binary import arrow_response, json_bytes, npy_response
from app.api.bodies.media_types import ARROW, JSON, NPY
from app.registry.loaded import Loaded
from app.usecases.item_sets import SAMPLED, Choice

if TYPE_CHECKING:  # it loads the compiler, which takes 60 MB of memory
    from app.usecases.retrieve import Answer

_DUMP = orjson.OPT_SERIALIZE_NUMPY
_PART = 1000  # sets written at a time: the interpreter's lock is held for a millisecond
_LONG = 50_000  # items of so many sets, from which on each set is written by itself


def to_json(answer: Answer, rest: dict[str, Any]) -> Response:
    """The contract's document: one set after the other, and their common fields."""
    sets = b",".join(_sets(answer))
    return Response(b'{"sets":[' + sets + b"]," + orjson.dumps(rest)[1:], media_type=JSON)


def to_npy(answer: Answer, rest: dict[str, Any]) -> Response:
    """Two to four arrays, one after the other in one body, each as `numpy.save` writes it.

    int64 positions of all sets, best first; float64 (sets, 5) with k, expected_loss, expected_precision,
    expected_recall and error_bound, of the method `sampled` also gap (NaN: unknown) and vectors; with `curve`, the
    curves of all sets; with `marginals`, the probabilities of all items. Common fields are JSON in the
    `Payoff-Answer` header.
    """
    choice = answer.choice
    arrays = [choice.selected, np.column_stack((choice.k, *choice.figures))]
    if choice.curves is not None:
        arrays.append(choice.curves)
    if answer.marginals is not None:
        arrays.append(answer.marginals.p)
    return npy_response(arrays, rest)


def to_arrow(answer: Answer, rest: dict[str, Any]) -> Response:
    """A row per set: `selected`, `k`, the figures and, if asked for, `curve` and `marginals`; the rest is JSON in its
    metadata.

    Labels are dictionary-encoded: each is sent once, however often it is selected.
    """
    import pyarrow as pa  # noqa: PLC0415 - 40 MB of memory that a service without Arrow clients can spare

    choice = answer.choice
    items = pa.array(choice.selected)
    if answer.labels is not None:
        items = pa.DictionaryArray.from_arrays(items.cast(pa.int32()), pa.array(answer.labels))
    columns: dict[str, Any] = {"selected": pa.LargeListArray.from_arrays(_offsets(choice.k), items), "k": choice.k}
    figures = [pa.array(figure, from_pandas=True) for figure in choice.figures]  # an unknown gap, NaN, is null
    columns |= dict(zip(SAMPLED, figures, strict=False))  # only some methods have all
    if choice.curves is not None:
        columns["curve"] = pa.LargeListArray.from_arrays(_offsets(choice.lengths), pa.array(choice.curves))
    if answer.marginals is not None:
        sizes = answer.marginals.sizes
        columns["marginals"] = pa.LargeListArray.from_arrays(_offsets(sizes), pa.array(answer.marginals.p))
    return arrow_response(columns, rest)


WRITERS: dict[str, Callable[[Answer, dict[str, Any]], Response]] = {JSON: to_json, NPY: to_npy, ARROW: to_arrow}


def common(answer: Answer, setting: str, method: str, model: Loaded | None) -> dict[str, Any]:
    """The common fields of the sets."""
    rest: dict[str, Any] = {"setting": setting, "method": method, "loss": answer.loss.as_json()}
    if answer.threshold is not None:
        rest["threshold"] = answer.threshold
    if answer.correction is not None:
        rest["correction"] = answer.correction
    if answer.positive is not None:
        rest["positive"] = answer.positive
    if answer.labels is not None:
        rest["labels"] = list(answer.labels)
    if model is not None:
        rest["model"] = model.model
    return rest | {"warnings": answer.warnings}


def _sets(answer: Answer) -> Iterator[bytes]:
    """The sets as JSON, some at a time, without the brackets around them."""
    choice, labels = answer.choice, answer.labels
    ends, curve_ends = np.cumsum(choice.k).tolist(), np.cumsum(choice.lengths).tolist()
    begins = [] if answer.marginals is None else _offsets(answer.marginals.sizes).tolist()
    for first in range(0, len(choice.k), _PART):
        part = []
        for i in range(first, min(first + _PART, len(choice.k))):
            part.append(_set(choice, i, ends, curve_ends))
            if answer.marginals is not None:
                part[-1]["marginals"] = answer.marginals.p[begins[i] : begins[i + 1]]
            if labels is not None:
                part[-1]["selected"] = list(map(labels.__getitem__, part[-1]["selected"].tolist()))
        items = sum(len(one["selected"]) + len(one.get("curve", ())) + len(one.get("marginals", ())) for one in part)
        yield (b",".join(map(json_bytes, part)) if items > _LONG else orjson.dumps(part, option=_DUMP)[1:-1])


def _set(choice: Choice, i: int, ends: list[int], curve_ends: list[int]) -> dict[str, Any]:
    k = int(choice.k[i])
    found = {"selected": choice.selected[ends[i] - k : ends[i]], "k": k}
    figures = (None if isnan(figure) else figure for figure in choice.figures[:, i].tolist())  # an unknown gap
    found |= dict(zip(SAMPLED, figures, strict=False))  # only some methods have all
    if choice.curves is not None:
        found["curve"] = choice.curves[curve_ends[i] - int(choice.lengths[i]) : curve_ends[i]]
    return found


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
