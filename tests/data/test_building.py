"""Building: what is digested does not depend on how the values came."""

from __future__ import annotations

import io

import pytest

from app.data import building, columns, csv_text
from app.data.store import DatasetStore
from app.errors import Invalid
from tests.data.keeping import kept
from tests.messages import says


@pytest.mark.parametrize("column", [["1.5", "", "-2.5", "0", "1e300"], ["u", "", "v", "u", "w"]])
def test_identity_knows_no_batches(tmp_path, limits, monkeypatch, column):
    """However a file is cut, its table is the same; it changes with any value, also a missing one."""
    content = "a,b,y\n" + "".join(f"{value},{i},{i % 2}\n" for i, value in enumerate(column * 4))
    store = DatasetStore(str(tmp_path), limits)
    whole = kept(store, io.BytesIO(content.encode()), ["y"])
    monkeypatch.setattr(csv_text, "_BLOCK", 24)
    assert kept(store, io.BytesIO(content.encode()), ["y"]) == whole
    assert kept(store, io.BytesIO(content.replace("\n,", "\n7,", 1).encode()), ["y"]).id != whole.id


def test_places_count_on_over_batches(store, monkeypatch):
    """The row named is the row of the whole column, not of its batch; all columns with flaws are named at once."""
    monkeypatch.setattr(csv_text, "_BLOCK", 24)
    lines = [f"{i},{i % 3},{i % 2}\n" for i in range(40)]
    lines[30], lines[35] = "inf,1,0\n", "1,-inf,1\n"
    with pytest.raises(Invalid) as caught:
        kept(store, io.BytesIO(("a,b,y\n" + "".join(lines)).encode()), ["y"])

    assert list(caught.value.flaws) == [says("/file/a", "row 32", "inf"), says("/file/b", "row 37", "-inf")]


def test_many_row_groups(tmp_path, limits, monkeypatch):
    """A table of many row groups with growing dictionaries loads as it was."""
    monkeypatch.setattr(building, "CELLS", 12)
    monkeypatch.setattr(columns, "CELLS", 12)
    words = ["u", "v", "w", None, "x", "a"] * 5
    rows = [[i, words[i]] for i in range(30)]
    store = DatasetStore(str(tmp_path), limits)
    dataset = store.keep(store.draft_inline(["a", "b"], rows, [i % 2 for i in range(30)]))

    found = store.table(dataset.id)

    expected, _ = found.schema.encode(rows)
    assert found.schema.features[1].categories == ("a", "u", "v", "w", "x")
    assert (found.X[:, 0] == expected[:, 0]).all()
    assert str(found.X.tolist()) == str(expected.tolist())
