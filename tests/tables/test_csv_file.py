"""CSV: what is read, and every problem with its place."""

from __future__ import annotations

import gzip
import io
import weakref

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.tables import csv_text
from app.tables.classes import AS_NUMBER
from app.tables.dataset import DataLimits
from app.tables.features import Feature
from app.tables.store import DatasetStore
from app.tables.upload_request import Dialect
from payoff.errors import Invalid, TooLarge
from tests.messages import says
from tests.tables.keeping import kept as keep

WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]),
    min_size=1,
    max_size=8,
).map(lambda text: f"w{text}".strip())
NUMBERS = st.floats(allow_nan=False, allow_infinity=False)


def table(store, content, *labels):
    return store.table(keep(store, io.BytesIO(content), list(labels) or ["y"]).id)


def flaws(store, content, *labels, kept=0):
    with pytest.raises(Invalid) as caught:
        keep(store, io.BytesIO(content), list(labels) if labels else ["y"])
    assert len(store.page(10)[0]) == kept, "nothing is kept"
    return list(caught.value.flaws)


def quoted(word):
    return '"' + word.replace('"', '""') + '"'


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.none() | NUMBERS, st.none() | WORDS, st.integers(-9, 9)),
        min_size=1,
        max_size=12,
    )
)
def test_round_trip(tmp_path_factory, rows):
    """What stands in a file is what the table holds: numbers to the last bit, words, classes, missing values."""
    rows = [*rows, *rows, (1.5, "w", 10), (None, "w", 10)]
    store = DatasetStore(
        str(tmp_path_factory.mktemp("any")), DataLimits(1000, 100, 100, 10**6)
    )
    lines = [
        f"{'' if number is None else repr(number)},{'NA' if word is None else quoted(word)},{label}"
        for number, word, label in rows
    ]

    found = table(store, "\n".join(["a,b,y", *lines]).encode())

    a, b = found.schema.features
    assert a == Feature("a", "numeric")
    assert b.categories == tuple(
        sorted({word for _, word, _ in rows if word is not None})
    )
    expected, warnings = found.schema.encode(
        [[number, word] for number, word, _ in rows]
    )
    assert not warnings
    np.testing.assert_array_equal(found.X, expected)
    assert [found.classes[code] for code in found.y] == [label for _, _, label in rows]


def test_kinds_of_columns(store):
    """A column is numeric if every value that is there is a number, however it is written."""
    found = table(
        store, b"a,b,c,y\n 1 ,1e3,1,u\n+2,-.5,1,v\n?,nan,1_0,u\n00,null,N/A,v\n"
    )

    assert [feature.type for feature in found.schema.features] == [
        "numeric",
        "numeric",
        "categorical",
    ]
    np.testing.assert_array_equal(
        found.X, [[1, 1000, 0], [2, -0.5, 0], [np.nan, np.nan, 1], [0, np.nan, np.nan]]
    )
    assert found.X.flags.c_contiguous
    assert found.classes == ("u", "v")
    assert found.y.dtype == np.int64
    np.testing.assert_array_equal(found.y, [0, 1, 0, 1])


def test_kind_that_shows_late(store, monkeypatch):
    """A word far down makes a column categorical, many blocks after the numbers; a row is no longer than a block."""
    monkeypatch.setattr(csv_text, "_BLOCK", 64)
    rows = "".join(f"{i % 7},{i},{i % 2}\n" for i in range(200))

    found = table(store, f"a,b,y\n{rows}x,1,0\n".encode())

    assert [feature.type for feature in found.schema.features] == [
        "categorical",
        "numeric",
    ]
    assert found.schema.features[0].categories == (
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "6",
        "x",
    )
    np.testing.assert_array_equal(found.X[:200, 0], np.arange(200) % 7)
    np.testing.assert_array_equal(found.X[:200, 1], np.arange(200))
    assert flaws(store, b'a,y\n1,0\n"' + b"x" * 200 + b",0\n", kept=1) == [
        says("/file", "64 bytes", "quote")
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbfa,y\n1,0\n2,1\n3,0\n4,1\n",
        b"a,y\r\n1,0\r\n2,1\r\n3,0\r\n4,1\r\n",
        b"a,y\r1,0\r2,1\r3,0\r4,1\r",
        b"\n\na,y\n1,0\n\n2,1\n3,0\n4,1",
        b' a ,"y"\n"1",0\n 2, 1\n3,0\n4,1\n',
        gzip.compress(b"a,y\n1,0\n2,1\n") + gzip.compress(b"3,0\n4,1\n"),
    ],
    ids=[
        "byte order mark",
        "windows",
        "old mac",
        "blank lines",
        "quotes and spaces",
        "gzip in two members",
    ],
)
def test_dialects_give_the_same_data_set(store, content):
    plain = keep(store, io.BytesIO(b"a,y\n1,0\n2,1\n3,0\n4,1\n"), ["y"])

    assert keep(store, io.BytesIO(content), ["y"]) == plain


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", says("/file", "Empty")),
        (b" \n\n", says("/file", "column 1", "no name")),
        (b"a,y", says("/file", "no row")),
        (b"a,y\n", says("/file", "header")),
        (b"a,a,y\n1,2,0\n", says("/file", "'a'", "1", "2")),
        (b",y\n1,0\n", says("/file", "column 1", "name", "index=False")),
        (b"a;y\n" + b"1,5;0\n" * 50, says("/file", "';'", "commas")),
        (b"y\n1\n0\n1\n0\n", says("/file", "label")),
        (b"a\xff,y\n1,1\n", says("/file", "line 1", "UTF-8")),
        ("a,y\n1,1\n".encode("utf-16"), says("/file", "utf-16")),
        ("a,y\n1,1\n".encode("utf-16-le"), says("/file", "utf-16")),
        (b"a,y\n1,0\n2,\xff\n", says("/file", "line 3", "UTF-8")),
        (b"a,y\n1,\xc3", says("/file", "line 2", "UTF-8")),
        (b'a,y\n1,0\n2,"1\n3,0\n', says("/file", "quote")),
        (b'"a,y\n1,0\n2,1\n', says("/file", "quote")),
        (b"a,y\n1,0\ninf,1\n1,0\n1,1\n", says("/file/a", "'a'", "row 3", "inf")),
        (b"a,y\n-1e999,0\n1,1\n1,0\n1,1\n", says("/file/a", "'a'", "row 2", "-inf")),
        (
            b"a/~,y\n,0\nNA,1\n?,0\n,1\n",
            says("/file/a~1~0", "'a/~'", "missing", "every row"),
        ),
        (b"a,y\n1,0\n2,\n", says("/file/y", "'y'", "row 3", "missing")),
        (b"a,y\n1,u\n2,None\n", says("/file/y", "'y'", "row 3", "missing")),
        (b"a,y\n1,u\n2,u\n", says("/file/y", "'y'", "one class", "'u'")),
        (
            b"a,y\n1,0\n2,0\n3,7\n",
            says("/file/y", "class 7", "'y'", "one row", AS_NUMBER),
        ),
        (b"a,y\n1,u\n2,u\n3,v\n4,w\n", says("/file/y", "'v', 'w'", "'y'", "one row")),
        (
            b"a,y\n1,0\n2,9007199254740993\n",
            says("/file/y", "'y'", "row 3", "9007199254740992"),
        ),
        (b"x" * 201 + b",y\n1,0\n", says("/file", "column 1", "200")),
        (b"PK\x03\x04\x14\0", says("/file", "Excel", "CSV", "Parquet")),
        (
            gzip.compress(b"a,y\n1,0\n2,1\n", mtime=0)[:30],
            says("/file", "gzipped file is damaged"),
        ),
    ],
)
def test_problem(store, content, expected):
    assert flaws(store, content) == [expected]


def test_ragged_rows_are_all_named(store):
    assert flaws(store, b"a,b,y\n1,2,0\n1,2\n\n3,4,1\n1,2,3,4\n") == [
        says("/file", "row 3", "3", "2"),
        says("/file", "row 5", "3", "4"),
    ]
    assert len(flaws(store, b"a,y\n" + b"1\n" * 100)) == 20


def test_what_read_a_header_does_not_stay_in_memory():
    """Arrow's reader holds its handler of rows: an object that both hold would stay for good, with the columns."""
    text = csv_text.CsvText(io.BytesIO(b"a,y\n1,0\n"), Dialect())
    gone = weakref.ref(text)
    del text
    assert gone() is None


def test_a_header_of_very_many_names_is_refused_before_it_is_read(store):
    with pytest.raises(TooLarge, match="20,000"):
        keep(store, io.BytesIO(b"a," * 20_001 + b"y\n"), ["y"])


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("condtion",), says("/label/0", "'condtion'", "'Condition'")),
        (("zzz",), says("/label/0", "'zzz'", "'a', 'Condition', 'q'")),
        (("Condition", "q", "q"), says("/label/2", "'q'", "twice")),
        (("a", "q"), says("/file/a", "'a'", "row 3", "2", "0", "1")),
        (("Condition", "q"), says("/file/Condition", "'Condition'", "0", "1")),
        (("q", "p"), says("/file/p", "'p'", "1", "every row")),
        (("q", "r"), says("/file/r", "'r'", "row 3", "missing")),
    ],
)
def test_problem_with_the_labels(store, labels, expected):
    assert flaws(store, b"a,Condition,q,p,r\n1,u,0,1,1\n2,v,1,1,\n", *labels) == [
        expected
    ]


def column(header, values):
    return (
        f"{header}\n".encode()
        + "".join(f"{value},{i % 2}\n" for i, value in enumerate(values)).encode()
    )


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            column("a,y", (f"id{i}" for i in range(60))),
            says("/file/a", "'a'", "50", "identifier"),
        ),
        (column("a,y", ["abc", *range(60)]), says("/file/a", "'a'", "50", "'abc'")),
        (column("a,y", ["x" * 1001, "b", "b", "b"]), says("/file/a", "'a'", "1000")),
        (column("y,a", range(60)), says("/file/y", "'y'", "50", "integers")),
        (column("y,a", (f"c{i}" for i in range(60))), says("/file/y", "'y'", "50")),
    ],
)
def test_too_many_values_or_too_long_ones(store, content, expected):
    """Words are no categories then, and integers no classes; numbers with a typing error are named as such."""
    assert flaws(store, content) == [expected]


def test_limits(tmp_path):
    """Too many rows, columns or bytes, packed or not, are refused as too large."""
    store = DatasetStore(
        str(tmp_path),
        DataLimits(max_rows=4, max_columns=3, max_categories=5, max_upload_bytes=200),
    )
    keep(store, io.BytesIO(b"a,b,y\n" + b"1,2,0\n3,4,1\n" * 2), ["y"])
    for content, message in [
        (b"a,b,y\n" + b"1,2,0\n" * 5, "at most 4 rows"),
        (b"a,b,c,y\n1,2,3,0\n", "at most 3"),
        (b"a,b,y\n" + b"1,2,0\n" * 50, "at most 200"),
        (gzip.compress(b"a,b,y\n" + (b"x" * 100 + b",2,0\n") * 3), "unpack"),
    ]:
        with pytest.raises(TooLarge, match=message):
            keep(store, io.BytesIO(content), ["y"])
    assert len(store.page(10)[0]) == 1


def test_a_file_of_many_blocks_is_read_anew_from_its_beginning(store, monkeypatch):
    """Arrow reads ahead in a thread, which has ended when the values are read a second time."""
    monkeypatch.setattr(csv_text, "_BLOCK", 1 << 12)
    content = b"a,b,y\n" + b"".join(
        b"%d,w%d,%d\n" % (i, i % 7, i % 2) for i in range(20_000)
    )
    ids = {
        keep(store, io.BytesIO(each), ["y"]).id
        for each in [content, gzip.compress(content, 1)] * 5
    }
    assert len(ids) == 1


@settings(max_examples=80, deadline=None)
@given(
    st.binary(max_size=60)
    | st.text('aby01,"\n\r ;\x00\ufeff', max_size=40).map(str.encode)
)
def test_any_bytes_are_a_data_set_or_a_problem(tmp_path_factory, content):
    """Whatever is sent: a data set, or one of our errors."""
    store = DatasetStore(
        str(tmp_path_factory.mktemp("any")), DataLimits(20, 10, 10, 10**5)
    )
    for prefix in (b"", b"a,y\n1,0\n2,1\n"):
        try:
            found = table(store, prefix + content)
        except (Invalid, TooLarge):
            continue
        assert len(found.X) == len(found.y) > 0


def test_integers_are_numbers_to_regress_on_where_that_is_said(store):
    """Whatever they are: too many, once each, beyond what a class may be; another data set than the classes."""
    several = table(store, b"q,a,p\n1,5,0\n0,6,1\n", "p", "q")
    assert (several.classes, several.schema.names, several.y.tolist()) == (
        ("p", "q"),
        ("a",),
        [[0, 1], [1, 0]],
    )
    content = ("a,y\n" + "".join(f"1,{i * 10**15}\n" for i in range(60))).encode()
    found = keep(store, io.BytesIO(content), ["y"], label_type="number")
    assert found.classes is None
    assert store.table(found.id).y.tolist() == [i * 1e15 for i in range(60)]

    few = b"a,y\n1,3\n2,4\n3,4\n4,3\n"
    classes, values = (
        keep(store, io.BytesIO(few), ["y"], label_type="number" if numbers else "auto")
        for numbers in (False, True)
    )
    assert (classes.classes, values.classes) == ((3, 4), None)
    assert classes.id != values.id
    assert (
        store.table(classes.id).as_numbers().y.tolist()
        == store.table(values.id).y.tolist()
        == [3, 4, 4, 3]
    )

    fractions = b"a,y\n1,3.5\n2,4\n"
    assert (
        keep(store, io.BytesIO(fractions), ["y"], label_type="number").id
        == keep(store, io.BytesIO(fractions), ["y"]).id
    )
    with pytest.raises(Invalid, match="holds words"):
        keep(store, io.BytesIO(b"a,y\n1,u\n2,v\n"), ["y"], label_type="number")
