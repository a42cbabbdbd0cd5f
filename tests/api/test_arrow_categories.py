"""Categories in Arrow columns mean what the same words mean as JSON, and cost nothing for each row."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from app.api.codecs.columns import codes_of
from app.data.values import plain
from app.errors import Invalid
from app.features import Feature, Schema
from tests.api.column_bodies import free

SCHEMA = Schema([Feature("n", "numeric"), Feature("w", "categorical", ("", "a", "b", "é"))])
WORD = st.sampled_from([None, "", "a", "b", "é", "c", "never seen", "a\0b", "\x01"])


def _plain(column):
    return plain(pa.table({"w": column}), column.nbytes, free)["w"]


def _told(read):
    """Codes, warnings and the flaws' places."""
    try:
        codes, warnings = read()
    except Invalid as error:
        return None, None, [(flaw.loc, flaw.msg) for flaw in error.flaws]
    return codes.tolist(), warnings, []


def _encoded(words):
    X, warnings = SCHEMA.encode([[0.0, word] for word in words])
    return X[:, 1], warnings


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
    found = _told(lambda: codes_of(_plain(column), SCHEMA, 1))
    expected = _told(lambda: _encoded([word for words in chunks for word in words]))
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
