"""Categories in Arrow columns mean what the same words mean as JSON, and cost nothing for each row."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.codecs.columns import codes_of
from app.data.values import plain
from app.errors import Invalid, pointer
from app.features import Feature, Schema
from app.usecases.acquire import encode_known
from tests.api.column_bodies import arrow, free, rows_of_arrow

SCHEMA = Schema([Feature("n", "numeric"), Feature("w", "categorical", ("", "a", "b", "é"))])
WORD = st.sampled_from([None, "", "a", "b", "é", "c", "never seen", "a\0b", "\x01"])


def _encoded(words):
    """The words as `Schema.encode` takes them: codes, warnings and the flaws' places."""
    try:
        X, warnings = SCHEMA.encode([[0.0, word] for word in words])
    except Invalid as error:
        return None, None, [(flaw.loc, flaw.msg) for flaw in error.flaws]
    return X[:, 1].tolist(), warnings, []


def _plain(column):
    return plain(pa.table({"w": column}), column.nbytes, free)["w"]


def _looked_up(column):
    try:
        codes, warnings = codes_of(_plain(column), SCHEMA, 1)
    except Invalid as error:
        return None, None, [(flaw.loc, flaw.msg) for flaw in error.flaws]
    return codes.tolist(), warnings, []


@given(
    st.lists(st.lists(WORD, max_size=6), max_size=4),
    st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]),
    st.sampled_from([None, pa.int8(), pa.uint64()]),
)
def test_the_same_as_encoded_from_json(chunks, kind, index):
    arrays = [pa.array(words, kind if index is None else pa.string()) for words in chunks]
    if index is not None:
        arrays = [array.dictionary_encode().cast(pa.dictionary(index, pa.string())) for array in arrays]
        arrays = [pa.DictionaryArray.from_arrays(each.indices, each.dictionary.cast(kind)) for each in arrays]
    column = pa.chunked_array(arrays, kind if index is None else pa.dictionary(index, kind))
    found = _looked_up(column)
    expected = _encoded([word for words in chunks for word in words])
    if expected[2]:  # a chunk is refused as soon as it is read
        assert found[2] == expected[2][: len(found[2])]
        assert found[2]
    else:
        np.testing.assert_equal(found, expected)


def test_nulls_of_a_dictionary_and_of_its_codes_are_missing():
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 2, 2], pa.int8()), pa.array(["b", None, "z"]))
    codes, warnings = codes_of(_plain(pa.chunked_array([words])), SCHEMA, 1)

    np.testing.assert_array_equal(codes, [2, np.nan, np.nan, np.nan, np.nan])
    assert warnings == [SCHEMA.unseen(1, [3, 4], 2, 5, "z")]


@pytest.mark.parametrize("word", ["a", "unseen"])
def test_no_word_becomes_an_object_for_each_row(word, monkeypatch):
    rows = 200_000
    words = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int8)), pa.array([word]))
    body = arrow({"n": pa.array(np.zeros(rows, np.int8)), "w": words})
    encoded = []
    monkeypatch.setattr(Schema, "encode", lambda *_, **__: encoded.append(1))
    X, warnings, *_ = rows_of_arrow(body, SCHEMA)

    assert X.shape == (rows, 2)
    assert warnings == ([] if word == "a" else [SCHEMA.unseen(1, range(5), rows, rows, word)])
    assert not encoded


def test_a_warning_about_unseen_words_names_the_instances_in_every_form():
    """Lists, objects, Arrow chunks and partial cases: the position is that of the instance, not of the value."""
    words = ["a", "x", None, "b", "y", "a"]
    column = pa.chunked_array([pa.array(words[:2]), pa.array(words[2:])])
    objects = [{"w": word, "n": 0.0} for word in words]
    partial = [{"n": 1.0}, *objects]

    [expected] = SCHEMA.encode([[0.0, word] for word in words])[1]
    assert all(part in expected for part in ("2 of 6", "'w'", "1, 4", "'x'"))
    assert SCHEMA.encode(objects)[1] == [expected]
    assert codes_of(column, SCHEMA, 1)[1] == [expected]
    assert encode_known(SCHEMA, partial, pointer).warnings == [
        expected.replace("2 of 6", "2 of 7").replace("(positions 1, 4)", "(positions 2, 5)")
    ]
