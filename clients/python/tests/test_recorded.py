"""What is recorded and what comes back for each row, against a service that answers as a mock."""

import json

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from payoff_client import Invalid, Payoff, deciding

CARD = {
    "name": "m",
    "version": 1,
    "classes": ["a", "b"],
    "features": [{"name": "x", "type": "numeric"}],
}
BENEFITS = {"a": {"t": 1, "w": 0}, "b": {"t": 0, "w": 1}}
LIBRARIES = {
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "pyarrow": pa.table,
    "objects": list,
}


class Recorder:
    """Decides all rows alike, and keeps what was sent."""

    def __init__(self):
        self.sent = []
        self.client = Payoff(
            "http://service", transport=httpx.MockTransport(self), progress=False
        )
        self.model = self.client.model("m:1")

    def __call__(self, request):
        if request.method == "GET":
            return httpx.Response(200, json=CARD)
        sent = json.loads(request.read())
        self.sent.append(sent)
        n, ids = len(sent["instances"]), (sent.get("record") or {}).get("ids")
        answer = {
            "classes": ["a", "b"],
            "actions": ["t", "w"],
            "decisions": ["t"] * n,
            "warnings": [],
        }
        answer |= {
            "probabilities": [[0.5, 0.5]] * n,
            "expected_benefits": [[1, 0]] * n,
            "rule": "expected_benefit",
        }
        answer |= (
            {"explanations": [{"runner_up": "w", "margin": 1.0}] * n}
            if sent.get("explain")
            else {}
        )
        answer |= (
            {"propensities": [row["x"] for row in sent["instances"]]}
            if sent.get("explore")
            else {}
        )
        return httpx.Response(
            200, json=answer | ({"ids": list(map(str, ids))} if ids else {})
        )


def rows(library="pandas", **columns):
    found = pd.DataFrame({"x": [0.25, 0.5, 0.75]} | columns)
    return (
        found.to_dict("records")
        if library == "objects"
        else LIBRARIES[library](found.to_dict("list"))
    )


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("id", {"record": True}),
        ("decision", {"record": "visit"}),
        ("p:a", {}),
        ("benefit:t", {}),
        ("margin", {"explain": True}),
        ("contribution:x", {"explain": True}),
        ("propensity", {"explore": 0.1, "record": True}),
    ],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_with_a_name_of_the_result_is_refused_before_anything_is_sent(
    library, name, options
):
    """What was recorded would be recorded again under other ids after the column is renamed."""
    service = Recorder()
    with pytest.raises(ValueError, match=f"'{name}' of its own"):
        service.model.decide(
            rows(library, visit=[7, 8, 9], **{name: [1, 2, 3]}),
            benefits=BENEFITS,
            **options,
        )
    assert service.sent == []


@pytest.mark.parametrize("library", ["objects", "pandas", "polars"])
def test_segments_go_with_the_instances(library):
    """Columns that the model does not use, and that are recorded with its decisions."""
    service = Recorder()
    frame = rows(library, region=["north", "", "south"], other=[1, 2, 3])
    record = {"segments": ["region"]}
    service.model.decide(frame, benefits=BENEFITS, record=record)
    (sent,) = service.sent
    assert sent["record"]["segments"] == ["region"]
    assert [row["region"] for row in sent["instances"]] == ["north", "", "south"]
    assert set(sent["instances"][0]) == {"x", "region"}


def test_other_columns_come_back():
    names = [
        "id",
        "value",
        "benefit",
        "p",
        "p:c",
        "contribution",
        "margin",
        "propensity",
        "runner_up",
    ]
    found = Recorder().model.decide(rows(**dict.fromkeys(names, 1)), benefits=BENEFITS)
    assert list(found.columns) == [
        *names,
        "decision",
        "p:a",
        "p:b",
        "benefit:t",
        "benefit:w",
    ]
    found = Recorder().model.decide(rows(id=[1, 2, 3]), record="id", benefits=BENEFITS)
    assert found["id"].tolist() == [1, 2, 3]


@pytest.mark.parametrize("ids", [["a", "b", "c"], [7, 8, 9], [7.0, 8.0, None]], ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_are_sent_as_text(library, ids):
    """Integers beside missing values are floats to pandas; a missing one is the service's to
    refuse.
    """
    service = Recorder()
    expected = [
        str(int(id_)) if isinstance(id_, float) else id_ and str(id_) for id_ in ids
    ]
    for record in ("visit", {"ids": ids}):
        service.model.decide(rows(library, visit=ids), record=record, benefits=BENEFITS)
        assert service.sent[-1]["record"]["ids"] == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_misspelt_column_of_ids_is_refused(library):
    service = Recorder()
    for call in (service.model.decide, service.model.acquire):
        with pytest.raises(Invalid, match="column 'visti'"):
            call(rows(library, visit=[7, 8, 9]), record="visti")
    assert service.sent == []


def test_what_an_answer_has_for_each_row_is_joined(monkeypatch):
    monkeypatch.setattr(deciding, "RECORDED_AT_ONCE", 2)
    service = Recorder()
    options = {"benefits": BENEFITS, "explore": 0.1, "record": True, "explain": True}
    answer = service.model.answer(rows(), **options)
    assert len(service.sent) == 2
    assert answer.propensities == [0.25, 0.5, 0.75]
    assert answer.ids == [id_ for sent in service.sent for id_ in sent["record"]["ids"]]
    assert len(answer.explanations) == 3
    assert answer.figures == {"rule": "expected_benefit"}
    assert service.model.decide(rows(), **options)["propensity"].tolist() == [
        0.25,
        0.5,
        0.75,
    ]


def test_columns_of_one_name_keep_their_own_values():
    names, values = ["note", "x", "note"], [[1, 2], [0.5, 0.5], ["a", "b"]]
    found = Recorder().model.decide(
        pd.DataFrame(dict(enumerate(values))).set_axis(names, axis=1), benefits=BENEFITS
    )
    assert [found.iloc[:, i].tolist() for i in range(2)] == [[1, 2], ["a", "b"]]
    found = Recorder().model.decide(pa.table(values, names), benefits=BENEFITS)
    assert [column.to_pylist() for column in found.columns[:2]] == [[1, 2], ["a", "b"]]


@pytest.mark.parametrize(
    "call",
    [
        lambda client, frame: client.model("m:1").decide(frame, record="note"),
        lambda client, frame: client.model("m:1").acquire(frame),
        lambda client, frame: client.model("m:1").retrieve(
            frame.rename(columns={"note": "x"})
        ),
        lambda client, frame: client.send_outcomes(
            frame.rename(columns={"note": "truth", "x": "id"})
        ),
        lambda client, frame: client.datasets.upload(frame, label="x"),
    ],
)
def test_of_columns_of_one_name_none_is_chosen(call):
    service = Recorder()
    with pytest.raises(Invalid, match="twice"):
        call(service.client, pd.DataFrame([[1, 0.5, 2]], columns=["note", "x", "note"]))
    assert service.sent == []
