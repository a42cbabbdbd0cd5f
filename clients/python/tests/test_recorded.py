"""What is recorded and what comes back for each row, against a service that answers as a mock."""

from __future__ import annotations

import json

import httpx
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from payoff_client import Invalid, Payoff, bodies

CARD = {"name": "m", "version": 1, "classes": ["a", "b"], "features": [{"name": "x", "type": "numeric"}]}
BENEFITS = {"a": {"t": 1, "w": 0}, "b": {"t": 0, "w": 1}}
LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table, "objects": list}


class Recorder:
    """Decides all rows alike, records by default if `records`, and keeps what was sent."""

    def __init__(self, *, records=False, classes=("a", "b")):
        self.sent, self.records, self.classes = [], records, classes
        self.model = Payoff("http://service", transport=httpx.MockTransport(self), progress=False).model("m:1")

    def __call__(self, request):
        if request.method == "GET":
            described = {"recording": {"record": self.records}}
            card = CARD | {"classes": self.classes and list(self.classes)}
            return httpx.Response(200, json=described if request.url.path == "/models/m" else card)
        sent = json.loads(request.read())
        self.sent.append(sent)
        n, ids = len(sent["instances"]), (sent.get("record") or {}).get("ids")
        answer = {"classes": ["a", "b"], "actions": ["t", "w"], "decisions": ["t"] * n, "warnings": []}
        answer |= {"probabilities": [[0.5, 0.5]] * n, "expected_benefits": [[1, 0]] * n, "rule": "expected_benefit"}
        answer |= {"explanations": [{"runner_up": "w", "margin": 1.0}] * n} if sent.get("explain") else {}
        answer |= {"propensities": [row["x"] for row in sent["instances"]]} if sent.get("explore") else {}
        return httpx.Response(200, json=answer | ({"ids": ids} if ids else {}))


def rows(**columns):
    return pd.DataFrame({"x": [0.25, 0.5, 0.75]} | columns)


COLLISIONS = [
    ("id", {"record": True}),
    ("id", {"record": {"instances": True}}),
    ("id", {}),
    ("decision", {}),
    ("decision", {"record": "visit"}),
    ("p:a", {}),
    ("benefit:t", {}),
    ("margin", {"explain": True}),
    ("contribution:x", {"explain": True}),
    ("propensity", {"explore": 0.1, "record": True}),
]


@pytest.mark.parametrize(("name", "options"), COLLISIONS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_a_column_with_a_name_of_the_result_is_refused_before_anything_is_sent(library, name, options):
    """What was recorded would be recorded again under other ids after the column is renamed."""
    service = Recorder(records=True)
    frame = rows(visit=[7, 8, 9], **{name: [1, 2, 3]})
    data = frame.to_dict("records") if library == "objects" else LIBRARIES[library](frame.to_dict("list"))
    with pytest.raises(ValueError, match=f"'{name}' of its own"):
        service.model.decide(data, benefits=BENEFITS, **options)
    assert service.sent == []


def test_other_columns_come_back():
    service = Recorder()
    names = ["id", "value", "benefit", "p", "p:c", "contribution", "margin", "propensity", "runner_up"]
    found = service.model.decide(rows(**dict.fromkeys(names, 1)), benefits=BENEFITS)
    assert list(found.columns) == [*names, "decision", "p:a", "p:b", "benefit:t", "benefit:w"]
    found = Recorder(records=True).model.decide(rows(id=[1, 2, 3]), record="id", benefits=BENEFITS)
    assert found["id"].tolist() == [1, 2, 3]


IDS = {
    "text": (["a", "b", "c"], ["a", "b", "c"]),
    "integers": ([7, 8, 9], ["7", "8", "9"]),
    "integers as pandas has them beside missing values": ([7.0, 8.0, 9.0], ["7", "8", "9"]),
    "missing": ([7, None, 9], "row 1, column 'visit': the id is missing"),
    "fractions": ([7.5, 8, 9], "row 0, column 'visit': an id is text or an integer, not 7.5"),
    "booleans": ([True, False, True], "row 0, column 'visit': an id is text or an integer, not True"),
}


@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("library", LIBRARIES)
def test_ids_are_text_or_integers_of_every_row(library, kind):
    service, (ids, expected) = Recorder(), IDS[kind]
    if library == "objects":
        data = [{"x": 0.5, "visit": id_} for id_ in ids]
    else:
        data = LIBRARIES[library]({"x": [0.5] * 3, "visit": list(map(float, ids)) if kind == "fractions" else ids})
    for record in ("visit", {"ids": ids}):
        if isinstance(expected, list):
            service.model.decide(data, record=record, benefits=BENEFITS)
            assert service.sent[-1]["record"]["ids"] == expected
        else:
            with pytest.raises(Invalid, match=expected if record == "visit" else expected[:5]):
                service.model.decide(data, record=record, benefits=BENEFITS)
    assert isinstance(expected, list) or not service.sent


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_misspelt_column_of_ids_is_refused(library):
    service, frame = Recorder(), rows(visit=[7, 8, 9])
    data = frame.to_dict("records") if library == "objects" else LIBRARIES[library](frame.to_dict("list"))
    for call in (service.model.decide, service.model.acquire):
        with pytest.raises(ValueError, match="no column 'visti'"):
            call(data, record="visti")
    with pytest.raises(ValueError, match="no column 'visit'"):
        service.model.decide([[0.5]], record="visit")
    assert service.sent == []


def test_what_an_answer_has_for_each_row_is_joined(monkeypatch):
    monkeypatch.setattr(bodies, "RECORDED_AT_ONCE", 2)
    service = Recorder()
    options = {"benefits": BENEFITS, "explore": 0.1, "record": True, "explain": True}
    answer = service.model.answer(rows(), **options)
    assert len(service.sent) == 2
    assert answer.propensities == [0.25, 0.5, 0.75]
    assert answer.ids == [id_ for sent in service.sent for id_ in sent["record"]["ids"]]
    assert [len(each) for each in vars(answer).values() if isinstance(each, list) and each] == [2, 2, 3, 3, 3]
    assert answer.figures == {"rule": "expected_benefit"}
    assert service.model.decide(rows(), **options)["propensity"].tolist() == [0.25, 0.5, 0.75]


def test_columns_of_one_name_keep_their_own_values():
    names, values = ["note", "x", "note"], [[1, 2], [0.5, 0.5], ["a", "b"]]
    frames = [pd.DataFrame(dict(enumerate(values))).set_axis(names, axis=1), pa.table(values, names)]
    for frame in frames:
        found = Recorder().model.decide(frame, benefits=BENEFITS)
        columns = found.columns if isinstance(found, pa.Table) else [found.iloc[:, i] for i in range(2)]
        assert [list(column.to_pylist() if hasattr(column, "to_pylist") else column) for column in columns[:2]] == [
            [1, 2],
            ["a", "b"],
        ]


@pytest.mark.parametrize(
    "call",
    [
        lambda client, frame: client.model("m:1").decide(frame, record="note"),
        lambda client, frame: client.model("m:1").acquire(frame),
        lambda client, frame: client.model("m:1").retrieve(frame.rename(columns={"note": "x"})),
        lambda client, frame: client.send_outcomes(frame.rename(columns={"note": "truth", "x": "id"})),
    ],
)
def test_of_columns_of_one_name_none_is_chosen(call):
    service = Recorder()
    frame = pd.DataFrame([[1, 0.5, 2]], columns=["note", "x", "note"])
    client = Payoff("http://service", transport=httpx.MockTransport(service))
    with pytest.raises((ValueError, Invalid), match="twice"):
        call(client, frame)
    assert service.sent == []
