"""Sets in Arrow streams: probabilities read, and chosen sets written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from fastapi import Response

from app.api.codecs.arrow import arrow_response, table_of_arrow
from app.api.gate import NUMBER, Reserve
from app.errors import Invalid, pointer
from app.usecases.retrieve_request import RANGE, SAMPLED, Sets, check_extent

if TYPE_CHECKING:  # it loads the compiler, which takes 60 MB of memory
    from app.usecases.retrieve import Answer


def sets_of_arrow(body: bytes, reserve: Reserve) -> Sets:
    """An Arrow IPC stream of one column: numbers are one set, lists of numbers a set each."""
    table = table_of_arrow(body, reserve)
    if table.num_columns != 1:
        msg = (
            f"the stream has {table.num_columns} columns; it must have one, of numbers (one set) or lists (a set each)"
        )
        raise Invalid.at(pointer("probabilities"), msg)
    kind = table.column(0).type
    nested = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    check_extent(table.num_rows if nested else 1, 0 if nested else table.num_rows)
    column = table.column(0).combine_chunks()
    column = column if isinstance(column, pa.Array) else pa.concat_arrays(column.chunks)
    numbers = column.flatten() if nested else column
    check_extent(1, len(numbers))
    reserve(len(numbers) * NUMBER)
    if not (pa.types.is_integer(numbers.type) or pa.types.is_floating(numbers.type)):
        raise Invalid.at(
            pointer("probabilities"),
            f"the type of the column is '{column.type}'; it must be numbers or lists of numbers",
        )
    if column.null_count or numbers.null_count:
        raise Invalid.at(pointer("probabilities"), f"the column has nulls; a probability {RANGE}")
    p = numbers.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if not nested:
        return Sets(p)
    sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    return Sets(p, np.concatenate(([0], np.cumsum(sizes))).astype(np.int64))


def arrow_of_sets(answer: Answer, rest: dict[str, Any]) -> Response:
    """A row per set: `selected`, `k`, the figures and, if asked for, `curve` and `marginals`; the rest is JSON in its
    metadata.

    Labels are dictionary-encoded: each is sent once, however often it is selected.
    """
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
    return arrow_response(pa.table(columns), rest)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
