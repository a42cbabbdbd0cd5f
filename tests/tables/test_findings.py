"""What an upload reports about columns that look like something else, and how `types` overrides it."""

from __future__ import annotations

import dataclasses
import io
import json
from datetime import date

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from app.tables.dataset import DataLimits
from app.tables.store import DatasetStore
from app.tables.upload_request import UploadRequest
from payoff.errors import Invalid
from tests.messages import says
from tests.tables.keeping import kept

ROWS = 40
LABELS = ["u", "v"] * (ROWS // 2)


@pytest.fixture
def store(tmp_path):
    return DatasetStore(str(tmp_path), DataLimits(1_000_000, 100, 50, 10**8))


def csv(delimiter=",", **columns) -> bytes:
    columns = {"x": [1.5, 2, 2, 3] * (ROWS // 4), **columns, "y": LABELS}
    rows = [
        delimiter.join(map(str, row)) for row in zip(*columns.values(), strict=True)
    ]
    return "\n".join([delimiter.join(columns), *rows]).encode()


def kinds(found):
    return {feature.name: feature.type for feature in found.features}


def refused(store, content, label="y", **options):
    with pytest.raises(Invalid) as caught:
        kept(store, io.BytesIO(content), [label], **options)
    return caught.value


def numbers(*odd):
    """Numbers, with something else from row 12 on (the header is row 1)."""
    values = [str(i % 7) for i in range(ROWS)]
    values[10 : 10 + len(odd)] = odd
    return values


def days(odd, pattern="%Y-%m-%d"):
    """Dates, with something else in row 12 (the header is row 1)."""
    values = [f"{date(2026, 2, i % 14 + 14):{pattern}}" for i in range(ROWS)]
    values[10] = odd
    return values


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (numbers("n.a."), ("row 12", "'n.a.'", '{"a": "number"}')),
        (numbers("."), ("row 12", "'.'")),
        (numbers("12%"), ("row 12", "'12%'", "not a number")),
        (days("2026-02-30"), ("row 12", "'2026-02-30' is not a date", '{"a": "date"}')),
        (days("n.a."), ("row 12", "'n.a.' is not a date", '{"a": "date"}')),
        (
            days("soon", "%d.%m.%Y"),
            ("row 12", "'soon' is not a date", '{"a": "date:%d.%m.%Y"}'),
        ),
        (
            [f'"{i % 7},50 €"' for i in range(ROWS - 1)] + ["soon"],
            ("row 41", "'soon'", "number:1.234,5"),
        ),
        ([7] * ROWS, None),
        (
            ["ill" if label == "v" else "well" for label in LABELS],
            ("label 'y'", "copy"),
        ),
        ([float(label == "v") for label in LABELS], ("label 'y'", "copy")),
        (["a", "b", "c", "d"] * (ROWS // 4), None),
        (numbers(), None),
    ],
)
def test_columns_that_look_like_something_else_are_named(store, values, words):
    found = kept(store, io.BytesIO(csv(a=values)), ["y"])
    about = [warning for warning in found.warnings if warning.startswith("'a'")]
    assert len(about) == (words is not None), found.warnings
    for word in words or ():
        assert word in about[0]
    assert not found.ignored
    assert store.find(found.id).warnings == found.warnings


@pytest.mark.parametrize(
    ("values", "form", "first"),
    [
        ([f'"{i % 5},100.50"' for i in range(ROWS)], "number:1,234.5", 100.5),
        (
            [f"{i % 7 + 1}%" for i in range(ROWS)],
            "number:1,234.5 %|number:1.234,5 %",
            0.01,
        ),
        ([f'"{i % 7},5 €"' for i in range(ROWS)], "number:1.234,5 €", 0.5),
        (["(1.5 €)", *["2 €"] * (ROWS - 1)], "number:1,234.5 €", -1.5),
        (
            ["USD 1"] * 2 + ["3"] * (ROWS - 2),
            "number:1,234.5 USD|number:1.234,5 USD",
            1,
        ),
        ([f"2026-01-{i % 28 + 1:02}T12:00Z" for i in range(ROWS)], "date", 20454.5),
        ([f"{i % 28 + 1}.1.2026" for i in range(ROWS)], "date:%d.%m.%Y", 20454),
        ([f"1/{i % 28 + 1}/2026" for i in range(ROWS)], "date:%m/%d/%Y", 20454),
    ],
)
def test_amounts_and_moments_are_numbers_with_a_form(store, values, form, first):
    """In features and labels; the same words of Parquet are read in the same way."""
    found = kept(store, io.BytesIO(csv(a=values)), ["y"])
    assert (found.columns[1].form, found.columns[1].type, found.warnings) == (
        form,
        "numeric",
        [],
    )
    table = store.table(found.id)
    assert (table.schema.features[1].form, table.X[0, 1]) == (form, first)
    parquet = io.BytesIO()
    words = [value.strip('"') for value in values]
    pq.write_table(
        pa.table({"x": [1.5, 2, 2, 3] * (ROWS // 4), "a": words, "y": LABELS}), parquet
    )
    assert kept(store, parquet, ["y"]).id == found.id
    target = kept(store, io.BytesIO(csv(a=values)), ["a"], label_type="number")
    assert store.table(target.id).y[0] == first


@pytest.mark.parametrize(
    ("clear", "values", "form", "first"),
    [
        ('"21,432.93"', '"€ 11,178"', "number:1,234.5 €", 11178),
        ('"21.432,93"', '"€ 11,178"', "number:1.234,5 €", 11.178),
        ('"21.432,93"', "1.899", "number:1.234,5", 1899),
        ("12.25", "1.899", "number:1,234.5", 1.899),
        ("25/04/2026", "03/04/2026", "date:%d/%m/%Y", 20546),
        ("04/25/2026", "03/04/2026", "date:%m/%d/%Y", 20516),
    ],
)
def test_columns_that_are_clear_decide_how_others_of_the_file_are_read(
    store, clear, values, form, first
):
    content = csv(a=[values] * ROWS, b=[clear] * ROWS).replace(b"1.5,", b"1,")
    lines = content.decode().replace(values, values.replace("1", "2", 1), 1)
    found = kept(store, io.BytesIO(lines.encode()), ["y"])
    report = next(column for column in found.columns if column.name == "a")
    assert report.form == form
    assert report.advice is not None
    assert "read as 'b' is written" in report.advice
    assert 'types={"a"' in report.advice
    assert store.table(found.id).X[-1, 1] == first


def test_clear_columns_that_contradict_each_other_decide_nothing(store):
    columns = {"b": ['"2.432,93"'] * ROWS, "c": ['"2,432.93"'] * ROWS}
    content = csv(a=['"1,100"'] * ROWS, **columns).replace(b"1.5,", b"1,")
    assert "a" in kept(store, io.BytesIO(content), ["y"]).ignored


@pytest.mark.parametrize(
    ("values", "types", "firsts"),
    [
        (
            [f'"{i % 7 + 1},100"' for i in range(ROWS)],
            ("number:1,234.5", "number:1.234,5"),
            (1100, 1.1),
        ),
        (
            ["1.100", "899"] * (ROWS // 2),
            ("number:1.234,5", "number:1,234.5"),
            (1100, 1.1),
        ),
        (
            [f"0{i % 8 + 1}/02/2026" for i in range(ROWS)],
            ("date:%d/%m/%Y", "date:%m/%d/%Y"),
            (20485, 20455),
        ),
    ],
)
def test_what_may_be_meant_in_two_ways_waits_for_an_order(store, values, types, firsts):
    content = csv(a=values).replace(b"1.5,", b"1,")
    found = kept(store, io.BytesIO(content), ["y"])
    assert list(found.ignored) == ["a"]
    for ordered, first in zip(types, firsts, strict=True):
        assert f'{{"a": "{ordered}"}}' in found.ignored["a"]
        table = store.table(
            kept(store, io.BytesIO(content), ["y"], types={"a": ordered}).id
        )
        assert (table.X[0, 1], table.schema.features[1].form) == (first, ordered)
    assert refused(store, content, types={"a": "number"}).flaws[0] == says(
        "/file/a", *types
    )
    if "899" not in values:
        assert isinstance(
            kept(store, io.BytesIO(content), ["a"]).classes[0], str
        )  # words of a label are its classes


def test_a_decimal_sign_that_was_ordered_decides(store):
    content = csv(";", a=[f"{i % 7 + 1},100" for i in range(ROWS)])
    found = kept(store, io.BytesIO(content), ["y"], delimiter=";", decimal=",")
    assert store.table(found.id).X[0, 1] == 1.1
    assert "'1.5'" in found.warnings[0]  # of the other column


@pytest.mark.parametrize("word", ["0.899", "1.5", "-1.899", "1899"])
def test_a_point_that_parts_no_thousands_is_a_decimal_sign(store, word):
    found = kept(store, io.BytesIO(csv(a=["1.100", word] * (ROWS // 2))), ["y"])
    assert store.table(found.id).X[:2, 1].tolist() == [1.1, float(word)]


@pytest.mark.parametrize(
    "values",
    [
        [f"p{i}" for i in range(ROWS)],
        [f"p{i % 37}" for i in range(ROWS)],
        [""] * ROWS,
        ["x" * 1001, *["v"] * (ROWS - 1)],
        ["1e999", *range(ROWS - 1)],
    ],
    ids=["identifier", "names", "empty", "text", "infinite"],
)
def test_what_no_feature_can_be_is_left_out_and_comes_back_by_order(store, values):
    found = kept(store, io.BytesIO(csv(a=values)), ["y"])
    assert kinds(found) == {"x": "numeric"}
    assert [report.advice for report in found.columns] == [
        None,
        None,
        found.ignored["a"],
    ]
    # Another table, as hold-outs may need the column.
    assert kept(store, io.BytesIO(csv()), ["y"]).id != found.id
    orders = {"a": "number" if "1e999" in values else "category"}
    if len({*values}) > 2 and "1e999" not in values:
        assert "a" in kinds(kept(store, io.BytesIO(csv(a=values)), ["y"], types=orders))
    else:
        assert refused(store, csv(a=values), types=orders).flaws[0].loc == "/file/a"


def test_integers_that_tell_rows_apart_are_left_out(store):
    """Dense, or named an identifier; measured ones, also in order, and those that repeat stay; across batches."""
    n, random = 20_000, np.random.default_rng(0)
    columns = {
        "rising": np.cumsum(random.integers(1, 10**6, n)),
        "dense": random.permutation(n) * 3,
        "customer_id": (sparse := random.choice(10**12, n, replace=False)),
        "huge": sparse + 2**60,
        "measured": sparse,
        "repeats": np.arange(n) % (n // 2),
        "y": np.arange(n) % 2,
    }
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    found = kept(store, sink, ["y"])
    assert list(found.ignored) == ["dense", "customer_id", "huge"]


def test_classes_that_differ_in_case_and_spaces_are_one(store):
    answers = ["yes", "YES", " Yes", "no"] * 5 + ["yes", "no"] * 10
    content = csv(b=answers)
    found = kept(store, io.BytesIO(content), ["b"])
    assert found.classes == ("no", "yes")
    assert any("'YES' is read as 'yes'" in warning for warning in found.warnings)
    assert store.table(found.id).y[:4].tolist() == [1, 1, 1, 0]
    assert kept(store, io.BytesIO(content), ["b"], types={"b": "category"}).classes == (
        "YES",
        "Yes",
        "no",
        "yes",
    )


def test_truths_are_named_as_json_names_them(store):
    found = kept(
        store, io.BytesIO(csv(b=["True", "FALSE"] * 10 + ["FALSE", "True"] * 10)), ["b"]
    )
    sink = io.BytesIO()
    pq.write_table(
        pa.table(
            {
                "x": [1.5, 2, 2, 3] * 10,
                "y": LABELS,
                "b": [True, False] * 10 + [False, True] * 10,
            }
        ),
        sink,
    )
    assert kept(store, sink, ["b"]).id == found.id
    assert (found.classes, found.warnings) == (("false", "true"), [])


def test_rows_without_a_label_are_left_out_by_order(store):
    """And counted; rows of the file are called what an editor shows."""
    content = csv(b=["", "u", "v", "", "", "v", "u", ""] * 5)
    assert refused(store, content, "b").flaws == (
        says("/file/b", "20 rows (2, 5, 6, …)", "drop_unlabelled"),
    )
    found = kept(store, io.BytesIO(content), ["b"], drop_unlabelled=True)
    assert (found.rows, found.warnings) == (
        20,
        ["rows without a label, which are left out: 20"],
    )
    assert "no row has a label" in str(
        refused(store, csv(b=[""] * ROWS), "b", drop_unlabelled=True)
    )
    odd = csv(
        a=numbers("n.a."),
        b=["", "u", "v", "", "", "v", "u", ""] * 5,
        c=[f"p{i}" for i in range(ROWS)],
    )
    (about,) = [
        each.advice
        for each in kept(
            store, io.BytesIO(odd), ["b"], drop_unlabelled=True, types={"a": "number"}
        ).columns
        if each.name == "a"
    ]
    assert ("row 12" in about, "missing: 1" in about) == (True, True)
    infinite = content.replace(b"2,u", b"1e999,u", 1)
    found = refused(store, infinite, "b", drop_unlabelled=True, types={"x": "number"})
    assert found.flaws[0] == says("/file/x", "row 3")


def test_a_file_without_a_header(store):
    content = csv(a=numbers()).split(b"\n", 1)[1]
    assert refused(store, content).flaws[0] == says("/label/0", "header=none")
    assert "header=none" in kept(store, io.BytesIO(content), ["u"]).warnings[0]
    years = csv(**{str(2019 + k): numbers() for k in range(3)})
    assert kept(store, io.BytesIO(years), ["y"]).warnings == []
    with pytest.raises(
        Invalid,
        match="names column 1 and column 2; rename one; names of columns look like values",
    ):
        kept(store, io.BytesIO(b"1,1,a\n2,3,b\n"), ["a"])
    found = kept(store, io.BytesIO(content), ["column_3"], header="none")
    assert (found.rows, list(kinds(found)), found.warnings) == (
        ROWS,
        ["column_1", "column_2"],
        [],
    )


def test_rows_that_a_quotation_mark_may_have_swallowed_are_named(store):
    words = ['"blue\n1.5,red', 'red"', "green", "green"] * (ROWS // 4)
    found = kept(store, io.BytesIO(csv(a=words)), ["y"])
    assert found.rows < ROWS
    assert (
        "'a' has a value of several lines; is a quotation mark not closed?"
        in found.warnings
    )


def test_types_override_what_was_understood(store):
    content = csv(
        a=numbers("n.a.", "."),
        b=[f"00{i % 3}" for i in range(ROWS)],
        c=[f"id{i}" for i in range(ROWS)],
    )
    types = {"a": "number", "b": "category", "c": "ignore"}
    found = kept(store, io.BytesIO(content), ["y"], types=types)
    assert kinds(found) == {"x": "numeric", "a": "numeric", "b": "categorical"}
    assert store.table(found.id).schema.features[2].categories == ("000", "001", "002")
    assert not any(warning.startswith("'b'") for warning in found.warnings)
    assert found.ignored == {"c": "ordered"}
    assert [
        warning
        for warning in found.warnings
        if "'a'" in warning and "row 12" in warning and "missing: 2" in warning
    ]
    assert np.isnan(store.table(found.id).X[10:12, 1]).all()
    assert store.find(found.id).ignored == found.ignored


def test_a_report_says_how_each_column_was_read(store, tmp_path):
    """With counts of the whole column; a refusal has the same, and names all columns at fault and the label at once."""
    content = csv(
        a=numbers("n.a.", "NA"),
        b=["w", "", "v", "w"] * 10,
        c=range(ROWS),
        d=[f"long{i}" for i in range(ROWS)],
    )
    found = kept(store, io.BytesIO(content), ["y"], types={"c": "ignore"})
    assert [dataclasses.astuple(each)[:5] for each in found.columns] == [
        ("x", "numeric", ("1.5", "2", "3"), 0, 3),
        ("a", "categorical", ("0", "4", "n.a."), 1, 8),
        ("b", "categorical", ("w", "v"), 10, 2),
        ("y", "categorical", ("u", "v"), 0, 2),
        ("c", "numeric", (), 0, ROWS),
        ("d", "categorical", ("long0", "long20", "long39"), 0, 40),
    ]
    assert [each.name for each in found.columns if each.advice] == ["a", "d"]
    assert store.find(found.id).columns == found.columns

    few = DatasetStore(str(tmp_path), DataLimits(1000, 100, 20, 10**6))
    sink = io.BytesIO()
    table = pa.table(
        {
            "n": [f"{i % 7 + 1},100" for i in range(ROWS)],
            "d": [f"{i}w" for i in range(ROWS)],
        }
    )
    pq.write_table(
        table.append_column("m", [[*range(39), None]]).append_column(
            "y", [[*LABELS[1:], None]]
        ),
        sink,
    )
    wrong = refused(few, sink.getvalue(), types={"n": "number", "d": "category"})
    places = ["/file/y", "/file/n", "/file/d"]
    assert [flaw.loc for flaw in wrong.flaws] == places
    report = {each["name"]: each for each in wrong.columns}
    assert {f"/file/{name}" for name, each in report.items() if each["advice"]} == {
        *places
    }
    assert [report[name]["missing"] for name in ("n", "d", "m", "y")] == [40, 0, 1, 1]
    assert [report[name]["distinct"] for name in ("n", "d", "m", "y")] == [
        0,
        None,
        39,
        2,
    ]


@pytest.mark.parametrize(
    ("types", "loc"), [({"z": "ignore"}, "/types/z"), ({"y": "ignore"}, "/types/y")]
)
def test_types_that_cannot_be_are_refused(store, types, loc):
    assert refused(store, csv(a=numbers("12%")), types=types).flaws[0].loc == loc


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_other_encodings_and_the_suggestion(store, encoding):
    content = csv(a=["m\u00fcd", "wach"] * (ROWS // 2)).decode().encode(encoding)
    with pytest.raises(Invalid, match=f"encoding={encoding}"):
        kept(store, io.BytesIO(content), ["y"])
    others = (
        [content[2:], content.decode(encoding).encode("utf-16-be")]
        if encoding == "utf-16"
        else []
    )
    for sent in (content, *others):  # also without a mark of the order of bytes
        found = kept(store, io.BytesIO(sent), ["y"], encoding=encoding)
        assert store.table(found.id).schema.features[1].categories == (
            "m\u00fcd",
            "wach",
        )
    assert refused(store, b"a,y\n1,0\n2", encoding="utf-16").flaws == (
        says("/encoding", "utf-16"),
    )


def test_pandas_index_and_booleans_of_parquet(store):
    columns = {
        "a": [1.5, 2.0] * 20,
        "w": ["u", "v", "v", "u"] * 10,
        "y": [True, False] * 20,
    }
    table = pa.table(
        columns
        | {
            "__index_level_0__": list(range(ROWS)),
            "day": pa.array([1] * ROWS, pa.date32()),
        }
    )
    metadata = {
        b"pandas": json.dumps({"index_columns": ["__index_level_0__"]}).encode()
    }
    sink = io.BytesIO()
    pq.write_table(table.replace_schema_metadata(metadata), sink)
    found = kept(store, sink, ["y"], types={"day": "ignore"})
    assert kinds(found) == {"a": "numeric", "w": "categorical"}
    assert found.classes == ("false", "true")
    assert set(found.ignored) == {"__index_level_0__", "day"}
    as_feature = kept(store, sink, ["w"])
    assert kinds(as_feature) == {"a": "numeric", "y": "numeric", "day": "numeric"}


def test_numbers_of_another_form_are_missing_by_order_and_counted(store):
    content = csv(a=numbers("12%", "7%"))
    advice = kept(store, io.BytesIO(content), ["y"]).warnings[0]
    assert '{"a": "number"} to leave it out' in advice
    found = kept(store, io.BytesIO(content), ["y"], types={"a": "number"})
    assert (found.columns[1].missing, "'12%' is not a number" in found.warnings[0]) == (
        2,
        True,
    )
    wrong = refused(store, content, "a", types={"a": "number"})
    assert wrong.flaws[0] == says("/file/a", "2 rows (12, 13)", "drop_unlabelled")
    assert "'12%' is not a number" in wrong.columns[-1]["advice"]


SPARE = ["Total,,", "#REF!,none,", "exported 2026-11-28,,", ",,"]


@pytest.mark.parametrize("at", [0, 20, ROWS])
@pytest.mark.parametrize("line", SPARE)
def test_rows_that_are_left_out_decide_no_type(store, line, at):
    """The data set is that of the file without them, and rows of the file are still called as an editor shows them."""
    lines = [
        f"{i % 17},{['none', 'mild'][i % 2]},{'uv'[i % 3 > 1]}" for i in range(ROWS)
    ]
    plain = kept(store, io.BytesIO("\n".join(["age,pain,y", *lines]).encode()), ["y"])
    content = "\n".join(["age,pain,y", *lines[:at], line, *lines[at:]]).encode()
    found = kept(store, io.BytesIO(content), ["y"], drop_unlabelled=True)
    reason = "rows of totals without" if line.startswith("Total") else "rows without"
    assert (found.id, found.warnings) == (
        plain.id,
        [f"{reason} a label, which are left out: 1"],
    )
    lines[30] = "1e999,none,u"
    odd = "\n".join(["age,pain,y", *lines[:at], line, *lines[at:]]).encode()
    wrong = refused(store, odd, drop_unlabelled=True, types={"age": "number"})
    row = max(
        i for i, each in enumerate(odd.split(b"\n"), 1) if each.startswith(b"1e999")
    )
    assert wrong.flaws[0] == says("/file/age", f"row {row}")


def test_rows_without_a_number_that_is_ordered_are_left_out_before_types_are_found(
    store,
):
    content = csv(
        a=["Total", *numbers()[1:]], b=["12%", *(i % 5 for i in range(1, ROWS))]
    )
    found = kept(
        store, io.BytesIO(content), ["b"], types={"b": "number"}, drop_unlabelled=True
    )
    assert (found.rows, kinds(found)["a"]) == (ROWS - 1, "numeric")
    assert found.warnings == ["rows without a label, which are left out: 1"]


@pytest.mark.parametrize("written", ["unknown", "Unknown", " unknown "])
def test_rows_of_a_class_are_left_out_by_order(store, written):
    labels = ["u", "v", "unknown", "v", "u"] * (ROWS // 5)
    content = csv(
        a=["?!" if each == "unknown" else 7 + i % 3 for i, each in enumerate(labels)],
        b=labels,
    )
    rest = b"\n".join(line for line in content.split(b"\n") if b"unknown" not in line)
    found = kept(store, io.BytesIO(content), ["b"], drop_classes=[written, "never"])
    assert found.id == kept(store, io.BytesIO(rest), ["b"]).id
    assert found.classes == ("u", "v")
    reasons = [
        f"rows with {name!r}, which are left out: {n}"
        for name, n in ((written.strip(), 8), ("never", 0))
    ]
    assert found.warnings == ["; ".join(reasons)]


def test_classes_that_are_left_out_may_be_integers(store):
    """However a file writes them; what is left is read by its own type."""
    answers = ["1.0", "0.0", "9.0", "1", "unknown"] * (ROWS // 5)
    found = kept(
        store, io.BytesIO(csv(b=answers)), ["b"], drop_classes=["9", "unknown"]
    )
    assert (found.classes, found.rows) == ((0, 1), 24)
    wrong = refused(store, csv(b=answers), "b", drop_classes=["9", "1", "0", "unknown"])
    assert wrong.flaws[0] == says("/file/b", "no row has a label", "left out")
    two = UploadRequest(label=("a", "b"), drop_classes=("x",))
    with pytest.raises(Invalid, match="drop_classes"):
        two.check()


@pytest.mark.parametrize("repeated", ["x,b,y", " x , b,y ", "\ufeffx,b,y"])
def test_rows_that_repeat_the_header_are_left_out(store, repeated):
    content = csv(b=["red", "blue", "blue", "red"] * (ROWS // 4))
    lines = content.decode().split("\n")
    twice = "\n".join([*lines, repeated, *lines[1:], repeated]).encode()
    found = kept(store, io.BytesIO(twice), ["y"])
    assert (
        found.id
        == kept(store, io.BytesIO("\n".join([*lines, *lines[1:]]).encode()), ["y"]).id
    )
    assert found.warnings == ["rows that repeat the header, which are left out: 2"]
    near = "\n".join([*lines, "x,b,other", "x,b,other"]).encode()
    assert "other" in kept(store, io.BytesIO(near), ["y"]).classes


def parquet(**columns) -> io.BytesIO:
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink


NFC, NFD = "M\u00fcller", "Mu\u0308ller"


@pytest.mark.parametrize("other", [NFD, f"{NFC}   ", f"\u00a0{NFD}", f"\ufeff{NFC}"])
def test_text_is_normalised_in_labels_categories_and_names(store, other):
    """In each format; blanks are missing, as they are in CSV."""
    words, blanks = (
        [NFC, other, "B  ", ""] * 10,
        [None if i % 4 == 3 else "w" for i in range(ROWS)],
    )
    columns = {
        "x": [1.5, 2.0, 2.0, 3.0] * 10,
        other: words,
        "n": blanks,
        "y": [other, NFC, "k", "k "] * 10,
    }
    found = kept(store, parquet(**columns), ["y"])
    lines = [
        ",".join(map(str, (each or "" for each in row)))
        for row in zip(*columns.values(), strict=True)
    ]
    content = "\n".join([",".join(columns), *lines]).encode()
    assert kept(store, io.BytesIO(content), ["y"]).id == found.id
    schema = store.table(found.id).schema
    assert (found.classes, schema.names) == ((NFC, "k"), ("x", NFC, "n"))
    assert (schema.features[1].categories, found.columns[1].missing) == (("B", NFC), 10)
    codes, warnings = schema.codes(1, [other, NFC, "B", " B", "", None, " "])
    np.testing.assert_array_equal(codes, [1, 1, 0, 0, *[np.nan] * 3])
    assert warnings == []


@pytest.mark.parametrize("other", ["EAST", "ea\u200bst", "e\u00adast"])
def test_categories_that_look_alike_are_named(store, other):
    words = ["east", other, "west", "west"] * 10
    found = kept(store, io.BytesIO(csv(a=words)), ["y"])
    (about,) = found.warnings
    assert all(
        part in about for part in ("east", repr(other), "'a'", '{"a": "category"}')
    )
    assert (
        kept(store, io.BytesIO(csv(a=words)), ["y"], types={"a": "category"}).warnings
        == []
    )
    label = kept(store, io.BytesIO(csv(a=words)), ["a"])
    assert len(label.classes) == 2
    assert "is read as" in label.warnings[0]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize(
    "first", ["sep=;", '"sep=;"', "SEP=;", "sep=;;;", "\ufeffsep=;"]
)
@pytest.mark.parametrize("options", [{}, {"delimiter": ";"}, {"encoding": "utf-16"}])
def test_the_line_of_excel_that_names_the_delimiter_is_read(store, end, first, options):
    content = csv(";", a=numbers()).decode()
    plain = kept(store, io.BytesIO(content.encode()), ["y"], delimiter=";")
    text = f"{first}\n{content}".replace("\n", end)
    encoded = text.encode(options.get("encoding", "utf-8"))
    if not (first[0] == "\ufeff" and "encoding" in options):
        assert kept(store, io.BytesIO(encoded), ["y"], **options).id == plain.id
        wrong = refused(store, encoded, "a;b", **options)
        assert "allowed: 'x', 'a', 'y'" in wrong.detail
    ragged = f"{first}{end}a;y{end}1;u{end}1;2;v{end}".encode()
    if "encoding" not in options:
        assert refused(store, ragged, **options).flaws == (says("/file", "row 4", "3"),)


@pytest.mark.parametrize("end", ["\r", "\n", "\r\n"])
def test_lines_may_end_as_any_system_ends_them(store, end):
    """Also with more delimiters in all lines together than a header may have."""
    lines = [
        "a,b,c,d,y",
        *(f"{i % 17},{i % 23},{i % 5},{i % 3},{'uv'[i % 17 > 8]}" for i in range(6000)),
    ]
    found = kept(store, io.BytesIO((end.join(lines) + end).encode()), ["y"])
    assert (found.rows, found.id) == (
        6000,
        kept(store, io.BytesIO("\n".join(lines).encode()), ["y"]).id,
    )


@pytest.mark.parametrize("word", ["Total", "?!"])
def test_a_word_among_very_many_numbers_is_no_text_to_leave_out(store, word):
    """Also where it comes after the words that are looked at: the order that reads the numbers is named."""
    content = csv(a=["1.5"] * ROWS) + b"".join(b"\n1,%d,u" % i for i in range(60))
    content += f"\n1,{word},v".encode()
    found = kept(store, io.BytesIO(content), ["y"])
    assert 'types={"a": "number"}' in found.ignored["a"]
    ordered = kept(store, io.BytesIO(content), ["y"], types={"a": "number"})
    assert (
        kinds(ordered)["a"],
        f"{word!r} is not a number" in ordered.warnings[0],
    ) == (
        "numeric",
        True,
    )
