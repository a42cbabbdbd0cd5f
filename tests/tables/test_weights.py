"""A column with the weights of rows: read from files and lists, and refused where it is no weight."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from payoff.errors import Invalid
from tests.tables.keeping import kept

WEIGHTS = [2.0, 1.0, 0.5, 4.5] * 5
X = [i % 7 + 0.5 for i in range(20)]
Y = [i // 4 % 2 for i in range(20)]


def csv(weights=WEIGHTS):
    rows = zip(X, weights, Y, strict=True)
    text = "x,w,y\n" + "".join(
        f"{x},{'' if w is None else w},{y}\n" for x, w, y in rows
    )
    return io.BytesIO(text.encode())


def parquet():
    sink = io.BytesIO()
    pq.write_table(pa.table({"x": X, "w": WEIGHTS, "y": Y}), sink)
    return sink


@pytest.mark.parametrize("file", [csv, parquet])
def test_a_file_has_a_column_of_weights(store, file):
    dataset = kept(store, file(), ["y"], types={"w": "weight"})
    table = store.table(dataset.id)
    assert dataset.weight == "w"
    assert [feature.name for feature in dataset.features] == ["x"]
    assert dataset.columns[1].type == "weight"
    np.testing.assert_allclose(table.weights, np.array(WEIGHTS) / 2)
    value = kept(store, file(), ["y"], types={"w": "value"})
    assert value.id != dataset.id
    assert (store.table(value.id).weights == 1).all()


def inline(store, weights, features=("x",), **options):
    rows = [[x] for x in X]
    return store.draft_inline(features, rows, Y, weights=weights, **options)


def test_lists_have_weights_beside_rows_and_labels(store):
    dataset = store.keep(inline(store, WEIGHTS)).id
    np.testing.assert_allclose(store.table(dataset).weights, np.array(WEIGHTS) / 2)
    equal = store.keep(inline(store, [0.3] * 20)).id
    assert (store.table(equal).weights == 1).all()


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (0, "it is 0"),
        (-1.5, "it is -1.5"),
        (1e101, "it is 1e+101"),
        (None, "missing, or text"),
        (float("inf"), "it is inf"),
        (1e99, "nearly all weight is on this row"),
    ],
)
def test_what_is_no_weight_is_refused_at_its_row(store, weight, message):
    weights = [*WEIGHTS[:5], weight, *WEIGHTS[6:]]
    with pytest.raises(Invalid) as refusal:
        kept(store, csv(weights), ["y"], types={"w": "weight"})
    assert refusal.value.flaws[0].loc == "/file/w"
    assert "row 7" in refusal.value.flaws[0].msg
    assert message in refusal.value.flaws[0].msg
    with pytest.raises(Invalid) as refusal:
        inline(store, weights)
    assert refusal.value.flaws[0].loc == "/weights/5"
    assert message in refusal.value.flaws[0].msg


def test_weights_that_do_not_fit_are_refused(store):
    cases = [
        ("/weights", {"weights": [1.0] * 19}),
        ("/features", {"weights": WEIGHTS, "features": ["weight of the row"]}),
        ("/types/x", {"weights": WEIGHTS, "types": {"x": "weight"}}),
        ("/types/a", {"weights": WEIGHTS, "types": {"a": "weight"}, "features": "a"}),
        ("/features", {"weights": WEIGHTS, "types": {"x": "ignore"}}),
    ]
    for place, options in cases:
        with pytest.raises(Invalid) as refusal:
            inline(store, **options)
        assert refusal.value.flaws[0].loc == place
    with pytest.raises(Invalid, match="missing, or text"):
        kept(store, csv(["much"] * 20), ["y"], types={"w": "weight"})
    with pytest.raises(Invalid, match="is the label"):
        kept(store, csv(), ["w"], types={"w": "weight"})
    with pytest.raises(Invalid, match="a data set has one"):
        kept(store, csv(), ["y"], types={"w": "weight", "x": "weight"})
