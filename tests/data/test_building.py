"""Building: what is digested does not depend on how the values came."""

from __future__ import annotations

import pyarrow as pa
import pytest

from app.data import building
from app.data.columns import CategoricalColumn, NumericColumn, Vocabulary
from app.data.inline import InlineRows
from app.data.loading import load
from app.data.location import Location
from app.data.store import DatasetStore
from app.errors import Invalid

PLACE = Location("a", "/a", "/rows/{}/0")


@pytest.mark.parametrize(
    ("make", "values", "kind"),
    [
        (lambda: NumericColumn(PLACE), [1.0, None, -2.5, 0.0, 1e300], pa.float64()),
        (lambda: CategoricalColumn(PLACE, 10, Vocabulary(100, 1000)), ["u", None, "v", "u", ""], pa.string()),
    ],
    ids=["numeric", "categorical"],
)
def test_digest_knows_no_batches(make, values, kind):
    """However a column is cut, its digest is the same; it changes with any value, also a missing one."""
    whole = make()
    whole.add(pa.array(values, kind))
    for cut in range(1, len(values)):
        parts = make()
        parts.add(pa.array(values[:cut], kind))
        parts.add(pa.array(values[cut:], kind))
        assert parts.digest() == whole.digest()
        assert (parts.rows, parts.missing) == (5, 1)

    changed = [values[0], values[0], *values[2:]]
    other = make()
    other.add(pa.array(changed, kind))
    assert other.digest() != whole.digest()


def test_places_count_on_over_batches():
    """The row named is the row of the whole column, not of its batch."""
    column = NumericColumn(PLACE)
    column.add(pa.array([1.0, 2.0]))
    with pytest.raises(Invalid) as caught:
        column.add(pa.array([1.0, float("inf"), float("nan")]))

    assert [flaw.loc for flaw in caught.value.flaws] == ["/rows/3/0", "/rows/4/0"]


def test_many_row_groups(limits, monkeypatch):
    """A table of many row groups with growing dictionaries loads as it was."""
    monkeypatch.setattr(building, "_CELLS_PER_GROUP", 12)
    words = ["u", "v", "w", None, "x", "a"] * 5
    rows = [[i, words[i]] for i in range(30)]
    store = DatasetStore("memory://groups", limits)
    dataset = store.keep(store.draft_inline(["a", "b"], rows, [i % 2 for i in range(30)]))

    found = load(dataset, store._storage.read(dataset.id, "data.parquet"))

    expected, _ = found.schema.encode(rows)
    assert found.schema.features[1].categories == ("a", "u", "v", "w", "x")
    assert (found.X[:, 0] == expected[:, 0]).all()
    assert str(found.X.tolist()) == str(expected.tolist())


def test_inline_source_has_one_batch(limits):
    source = InlineRows(["a"], [[1], [None]], [0, 1], limits)

    assert [array.to_pylist() for array in next(source.batches())] == [[1.0, None], [0.0, 1.0]]
