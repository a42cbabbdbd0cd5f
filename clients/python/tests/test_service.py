"""The client and the real service."""

import asyncio
import io
import json
import pickle
import re
import subprocess
import sys
import warnings
import zipfile
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from unittest import SkipTest
from uuid import UUID

import httpx
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import skl2onnx
from payoff_client import (
    AsyncPayoff,
    Invalid,
    NotFound,
    Payoff,
    PayoffWarning,
    Unavailable,
    commands,
    deciding,
)
from payoff_client.estimator import BenefitClassifier
from payoff_client.rows import table_of
from payoff_client.transport import __version__
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

from tests.conftest import trained, two_class_rows

ROOT = Path(__file__).parents[3]
STAKES = {
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
}
DATA, TRAINING = two_class_rows(40), two_class_rows()
TRAINING["rows"][7][0] = None  # an age may be missing in training as in service
# The frame lacks an age, which no row lacked that trained the ward's model.
warned_of_gaps = pytest.mark.filterwarnings(
    "ignore:.*no row in training lacked:payoff_client.errors.PayoffWarning"
)
COLUMNS = ["p:healthy", "p:ill", "benefit:wait", "benefit:treat"]


def frame(rows: int = 40) -> pd.DataFrame:
    """Patients with an index and a column that the model does not use, in another order than the
    model's.
    """
    found = pd.DataFrame(
        DATA["rows"], columns=DATA["features"], index=[f"p{i}" for i in range(40)]
    )[["pain", "pulse", "age"]]
    found.insert(1, "ward", np.arange(40))
    found.loc["p4", "age"] = np.nan
    return found.head(rows)


@pytest.fixture(scope="session")
def numbers(service) -> str:
    """The name of a model of two numeric features, in the order pulse, age."""
    data = TRAINING | {
        "features": ["pulse", "age"],
        "rows": [[row[1], row[0]] for row in TRAINING["rows"]],
    }
    trained(
        service,
        {
            "model": "figures",
            "learner": {"kind": "logistic"},
            "data": data,
            "holdout": 0,
        },
    )
    return "figures"


@pytest.fixture(
    params=[{}, {"SMALL": 0, "PART_BYTES": 8 * 3 * 7, "PART_VALUES": 8 * 7}],
    ids=["small", "large"],
)
def size(request, monkeypatch):
    """Rows go as JSON in one request, or in several, as a stream where their library has one."""
    for name, value in request.param.items():
        monkeypatch.setattr(deciding, name, value)


@pytest.fixture
def expected(service, ward):
    rows = json.loads(frame()[DATA["features"]].to_json(orient="records"))
    return service.post(
        "/predict", json={"model": ward, "instances": rows, **STAKES}
    ).json()


LIBRARIES = {
    "pandas": lambda found: found,
    "pandas categorical": lambda found: found.astype(
        {"pain": "category", "pulse": "Float64"}
    ),
    "pandas objects": lambda found: found.astype({"pain": object}),
    "polars": pl.from_pandas,
    "pyarrow": lambda found: pa.Table.from_pandas(found, preserve_index=False),
    "objects": lambda found: found.to_dict("records"),
}


CODES = [1, 2, 7] * 14
DAYS = [date(2026, 1, code) for code in CODES]


@pytest.fixture(scope="session")
def mixed(service) -> str:
    """A model of a number, of categories that look like whole numbers, and of dates."""
    rows = [[x % 5, str(CODES[x % 42]), str(DAYS[x % 42])] for x in range(120)]
    labels = ["ill" if (code in "17") == (x > 1) else "healthy" for x, code, _ in rows]
    data = {"features": ["x", "code", "day"], "rows": rows, "labels": labels}
    trained(
        service,
        {
            "model": "mixed",
            "learner": {"kind": "gradient_boosting"},
            "data": data,
            "holdout": 0,
        },
    )
    return "mixed"


def of_kinds(**columns) -> dict[str, list]:
    return {
        "x": [0.0, 2.0, 1.0] * 14,
        "code": list(map(str, CODES)),
        "day": list(map(str, DAYS)),
    } | columns


BYTES = [str(code).encode() for code in CODES]
TIMES = [datetime(2026, 1, code) for code in CODES]  # noqa: DTZ001 - as frames have them
KINDS = {  # what is taken: a library's table of columns
    "pandas whole numbers": lambda: pd.DataFrame(of_kinds(code=CODES)),
    "pandas nullable": lambda: pd.DataFrame(
        of_kinds(code=pd.array(CODES, dtype="Int64"))
    ),
    "pandas categories of numbers": lambda: pd.DataFrame(
        of_kinds(code=pd.Categorical(CODES))
    ),
    "pandas numbers as categories": lambda: pd.DataFrame(
        of_kinds(x=pd.Categorical([0.0, 2.0, 1.0] * 14))
    ),
    "pandas objects": lambda: pd.DataFrame(
        of_kinds(code=pd.Series([1, "2", 7] * 14, dtype=object))
    ),
    "pandas dates and bytes": lambda: pd.DataFrame(of_kinds(day=DAYS, code=BYTES)),
    "pandas booleans": lambda: pd.DataFrame(of_kinds(x=[False, True, True] * 14)),
    "polars whole numbers and dates": lambda: pl.DataFrame(
        of_kinds(code=CODES, day=DAYS)
    ),
    "polars bytes and booleans": lambda: pl.DataFrame(
        of_kinds(code=BYTES, x=[False, True, True] * 14)
    ),
    "pyarrow dictionary and dates": lambda: pa.table(
        of_kinds(code=pa.array(CODES).dictionary_encode(), day=DAYS)
    ),
    "objects": lambda: pd.DataFrame(of_kinds(code=CODES, day=DAYS)).to_dict("records"),
    "pandas moments": lambda: pd.DataFrame(of_kinds(day=TIMES)),
    "polars moments": lambda: pl.DataFrame(of_kinds(day=TIMES)),
    "objects with moments": lambda: pd.DataFrame(of_kinds(day=TIMES)).to_dict(
        "records"
    ),
    "pandas days": lambda: pd.DataFrame(
        of_kinds(day=[20453.0 + code for code in CODES])
    ),
}
REFUSED = {
    "pandas times": lambda: pd.DataFrame(of_kinds(code=TIMES)),
    "polars times": lambda: pl.DataFrame(of_kinds(code=TIMES)),
    "pyarrow times": lambda: pa.table(of_kinds(code=TIMES)),
    "objects with times": lambda: pd.DataFrame(of_kinds(code=TIMES)).to_dict("records"),
    "pandas fractions": lambda: pd.DataFrame(
        of_kinds(code=[float(code) for code in CODES])
    ),
    "pandas mixed fractions": lambda: pd.DataFrame(
        of_kinds(code=pd.Series([1.0, "2", 7] * 14, dtype=object))
    ),
    "polars fractions": lambda: pl.DataFrame(
        of_kinds(code=[float(code) for code in CODES])
    ),
    "pandas booleans as text": lambda: pd.DataFrame(
        of_kinds(code=[True, False, True] * 14)
    ),
    "pandas text as number": lambda: pd.DataFrame(of_kinds(x=["1"] * 42)),
    "pyarrow times as number": lambda: pa.table(of_kinds(x=TIMES)),
}


@pytest.mark.parametrize("kind", [*KINDS, *REFUSED])
def test_a_frame_is_decided_alike_or_refused_whatever_its_size(
    client, mixed, monkeypatch, kind
):
    answers = []
    for size in (2000, 0):
        monkeypatch.setattr(deciding, "SMALL", size)
        if kind in REFUSED:
            with pytest.raises(Invalid) as caught:
                client.model(mixed).decide(REFUSED[kind](), **STAKES)
            answers.append(
                [(flaw.row, flaw.column, flaw.msg) for flaw in caught.value.errors]
            )
        else:
            answers.append(
                client.model(mixed)
                .answer(KINDS[kind](), **STAKES)
                .probabilities.tolist()
            )
    assert answers[0] == answers[1]
    assert len(answers[0]) > 1
    if kind in KINDS:
        numbers = {"x": [0.0, 1.0, 1.0] * 14} if "booleans" in kind else {}
        plain = client.model(mixed).answer(pd.DataFrame(of_kinds(**numbers)), **STAKES)
        assert answers[0] == plain.probabilities.tolist()


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_library_gets_its_own_frame_with_the_decisions(
    client, ward, expected, library
):
    sent = LIBRARIES[library](frame())

    found = client.model(ward).decide(sent, **STAKES)

    assert type(found) is type(sent)
    if library.startswith("pandas"):
        assert list(found.index) == [f"p{i}" for i in range(40)]
    table = pd.DataFrame(found) if isinstance(found, list) else found
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    assert list(table.columns) == ["ward", "decision", *COLUMNS]
    assert table["ward"].tolist() == list(range(40))
    assert table["decision"].tolist() == expected["decisions"]
    together = np.hstack([expected["probabilities"], expected["expected_benefits"]])
    np.testing.assert_array_equal(table[COLUMNS].to_numpy(), together)
    whole = table_of(client.model(ward).decide(sent, keep=True, **STAKES))
    assert whole.header() == [*table_of(sent).header(), "decision", *COLUMNS]
    assert whole.column("pulse") == table_of(sent).column("pulse")


@pytest.mark.usefixtures("size")
def test_an_array_is_in_the_order_of_the_model(client, numbers):
    expected = client.model(numbers).decide(frame().drop(columns="pain"), **STAKES)
    columns = client.model(numbers).decide(
        frame()[["pulse", "age"]].to_numpy(), **STAKES
    )
    assert columns["decision"].tolist() == expected["decision"].tolist()
    np.testing.assert_array_equal(columns["p:ill"], expected["p:ill"])


def test_one_object_and_no_rows(client, ward):
    one = client.model(ward).decide(
        {"age": 63, "pulse": 90, "pain": "mild", "bed": "B7"}, **STAKES
    )
    assert one["bed"] == "B7"
    assert one["decision"] in ("wait", "treat")
    assert client.model(ward).decide([], **STAKES)["decision"].tolist() == []
    assert list(client.model(ward).decide(frame(0), **STAKES).columns) == [
        "ward",
        "decision",
        *COLUMNS,
    ]


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_a_matrix_with_actions_a_frame_and_one_for_each_row_are_benefits(
    client, ward, monkeypatch
):
    monkeypatch.setattr(deciding, "PART_VALUES", 60)
    model, matrix = client.model(ward), np.array([[0, -1], [-10, 5]])
    words = model.decide(frame(), **STAKES)

    assert model.decide(frame(), benefits=matrix, actions=["wait", "treat"]).equals(
        words
    )
    assert model.decide(frame(), benefits=pd.DataFrame(STAKES["benefits"]).T).equals(
        words
    )
    each = np.repeat(matrix[None], 40, axis=0)
    each[7] = 0, 0
    found = model.decide(frame(), benefits=each, actions=["wait", "treat"])
    assert found.loc["p7", "benefit:treat"] == 0
    pd.testing.assert_frame_equal(found.drop("p7"), words.drop("p7"))


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("library", LIBRARIES)
def test_cells_name_columns_of_the_frame_or_beside_an_array(
    client, ward, numbers, library
):
    amounts, cell = list(range(40)), {"column": "ward", "times": -0.5, "plus": 2}
    cells = {"benefits": [[0, cell], [-10, 5]], "actions": ["wait", "treat"]}
    out = cells | {
        "benefits": [[[0, 2 - 0.5 * amount], [-10, 5]] for amount in amounts]
    }
    expected = client.model(ward).answer(frame(), **out).expected_benefits
    client.model(ward).matrices.save("by-ward", **cells)
    for stakes in (cells, {"benefits": "by-ward"}):
        found = client.model(ward).answer(LIBRARIES[library](frame()), **stakes)
        np.testing.assert_allclose(found.expected_benefits, expected, rtol=1e-12)
    array = frame()[["pulse", "age"]].to_numpy()
    found = client.model(numbers).answer(
        array, **cells, columns={"ward": np.array(amounts)}
    )
    assert (
        found.expected_benefits.tolist()
        == client.model(numbers).answer(array, **out).expected_benefits.tolist()
    )
    client.model(ward).matrices.delete("by-ward")


@warned_of_gaps
def test_decisions_are_recorded_and_their_outcomes_sent(client, ward, monkeypatch):
    monkeypatch.setattr(deciding, "PART_VALUES", 60)
    model, patients = client.model(ward), frame().reset_index(names="visit")
    first = model.decide(patients, record=True, **STAKES)
    assert first["id"].is_unique
    assert {UUID(each).version for each in first["id"]} == {7}

    for _ in range(2):  # with ids of one's own again and again
        model.decide(patients, record="visit", **STAKES)
    truth = pd.DataFrame(
        {
            "id": [*first["id"], *patients["visit"], "x"],
            "truth": DATA["labels"] * 2 + ["ill"],
        }
    )
    truth["benefit"] = [3.0] + [None] * 80
    sent = client.send_outcomes(truth)
    assert (
        sent["accepted"],
        sent["unchanged"],
        sent["unknown"],
        sent["conflicts"],
    ) == (
        80,
        0,
        ["x"],
        [],
    )
    assert client.send_outcomes(truth)["unchanged"] == 80
    with pytest.raises(Invalid, match="row 3, column 'truth'"):
        client.send_outcomes(truth.assign(truth=["ill"] * 3 + ["dizzy"] + ["ill"] * 77))
    truth.loc[0, "benefit"] = 4.0
    assert len(client.send_outcomes(truth)["conflicts"]) == 1
    assert client.send_outcomes(truth, correct=True)["accepted"] == 1
    report = model.outcomes(since="2026-01-01")
    assert report["model"]["name"] == ward
    with pytest.raises(Invalid, match="row 0, column 'thruth'"):
        client.send_outcomes([{"id": "a", "truth": None, "thruth": "ill"}])


class Lossy(httpx.BaseTransport):
    """Passes each request on, and loses the answer to the first of each POST."""

    def __init__(self) -> None:
        self._inner = httpx.HTTPTransport()
        self._lost: set[str] = set()

    def handle_request(self, request):
        response = self._inner.handle_request(request)
        if request.method == "POST" and request.url.path not in self._lost:
            self._lost.add(request.url.path)
            response.read()
            response.close()
            raise httpx.ReadError("connection reset")
        return response

    def close(self) -> None:
        self._inner.close()


CALLS = {
    "decide": lambda model, rows, _, **given: model.decide(rows, **STAKES, **given),
    "decide an array": lambda model, rows, _, **given: model.decide(
        np.tile(rows, (30, 1)), **STAKES, **given
    ),
    "explain": lambda model, rows, _, **given: model.explain(rows, **STAKES, **given),
    "acquire": lambda model, *_, **given: model.acquire(
        {}, str, budget=0, **STAKES, **given
    ),
    "acquire many": lambda model, rows, _, **given: model.acquire(
        rows, budget=0, **STAKES, **given
    ),
    "decide_file": lambda model, _, folder, **given: model.decide_file(
        folder / "in.csv", folder / "out.csv", **STAKES, **given
    ),
}


@pytest.fixture
def lossy(service, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    with Payoff(str(service.base_url), progress=False, transport=Lossy()) as client:
        yield client


def decisions_of(service, name: str) -> int:
    return service.get(f"/models/{name}/outcomes").json()["decisions"]


@pytest.mark.parametrize("call", CALLS)
def test_a_lost_answer_is_asked_for_again_and_decisions_are_recorded_once(
    lossy, service, forest, numbers, tmp_path, call
):
    rows = frame().drop(columns=["pain", "ward"])
    rows.assign(visit=[f"in a file {i}" for i in range(40)]).to_csv(
        tmp_path / "in.csv", index=False
    )
    name = forest if call.startswith("acquire") else numbers
    before = decisions_of(service, name)
    CALLS[call](lossy.model(name), rows, tmp_path)
    assert decisions_of(service, name) == before

    with Payoff(str(service.base_url), progress=False, transport=Lossy()) as other:
        CALLS[call](
            other.model(name),
            rows,
            tmp_path,
            record="visit" if call == "decide_file" else True,
        )
    assert decisions_of(service, name) == before + {
        "acquire": 1,
        "decide an array": 1200,
    }.get(call, 40)


def test_a_lost_answer_to_a_file_without_ids_is_not_asked_for_again(
    lossy, numbers, tmp_path
):
    frame().to_csv(tmp_path / "in.csv", index=False)
    with pytest.raises(
        Unavailable, match="connection reset; the request is not repeated"
    ):
        CALLS["decide_file"](lossy.model(numbers), None, tmp_path, record=True)


def test_a_guarantee_is_saved_and_decided_by(client, tmp_path):
    data = two_class_rows(800)
    table = pd.DataFrame(data["rows"], columns=data["features"])
    model = client.train(
        table.assign(state=data["labels"]),
        label="state",
        name="guarded",
        learner="logistic",
        refit=False,
        holdout=0.5,
    )
    limit = {"action": "treat", "otherwise": "wait", "wrong": ["healthy"]}
    limit["at_most"] = 0.3
    report = model.benefit(STAKES["benefits"], guarantee=limit)
    saved = model.guarantees.save("careful", STAKES["benefits"], guarantee=limit)
    assert report["guarantee"]["cut"] == saved["cut"]
    assert model.guarantees.get("careful:1") == saved == model.guarantees.list()[0]
    decided = model.decide(table, rule="guaranteed", guarantee="careful")
    free = model.decide(table, benefits=STAKES["benefits"])
    refused = (free["decision"] == "treat") & (free["p:ill"] < saved["cut"])
    assert refused.any()
    assert (decided["decision"] == free["decision"].mask(refused, "wait")).all()
    model.guarantees.delete("careful")
    assert model.guarantees.list() == []


@pytest.mark.usefixtures("size")
def test_reasons_have_the_texts_that_are_saved(client, ward):
    model = client.model(ward)
    texts = {"pain": {"any": "Kind of pain"}, "age": {"high": "Age"}}
    assert model.set_reasons(texts) == model.reasons()
    assert model.reasons()["texts"] == texts
    asked = {"reasons": 2, "against": "wait"}
    row = {"age": 80.0, "pulse": 70.0, "pain": "strong"}
    decided = model.decide([row], explain=asked, **STAKES)
    assert {decided[0]["reason:1"], decided[0]["reason:2"]} == {"Kind of pain", "Age"}
    model.delete_reasons()
    decided = model.decide(pd.DataFrame([row]), explain=asked, **STAKES)
    assert set(decided.loc[0, ["reason:1", "reason:2"]]) == {"age", "pain"}
    with pytest.raises(NotFound):
        model.reasons()


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
@pytest.mark.usefixtures("size")
def test_a_saved_matrix_decides_by_its_name(client, ward, tmp_path):
    model = client.model(ward)
    first = model.matrices.save("autumn-2026", STAKES["benefits"])["version"]
    expected = model.decide(frame(), **STAKES)
    assert model.decide(frame(), benefits="autumn-2026").equals(expected)
    frame().to_csv(tmp_path / "in.csv", index=False)
    model.decide_file(tmp_path / "in.csv", tmp_path / "out.csv", benefits="autumn-2026")
    assert (
        pd.read_csv(tmp_path / "out.csv")["decision"] == expected["decision"].to_numpy()
    ).all()

    costs = pd.DataFrame(
        [[0, 1], [10, -4]], index=["healthy", "ill"], columns=["wait", "treat"]
    )
    assert model.matrices.save("autumn-2026", cost_matrix=costs)["version"] == first + 1
    assert model.matrices.get(f"autumn-2026:{first}")["benefits"] == STAKES["benefits"]
    assert model.matrices.get("autumn-2026")["benefits"]["ill"] == {
        "wait": -10,
        "treat": 4,
    }
    assert [(each["matrix"], each["versions"]) for each in model.matrices.list()] == [
        ("autumn-2026", 2)
    ]
    model.matrices.delete("autumn-2026")
    assert model.matrices.list() == []
    with pytest.raises(NotFound, match="no saved matrices"):
        model.decide(frame(), benefits="autumn-2026")


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_parts_are_decided_by_one_version_of_model_and_matrix(
    client, service, ward, monkeypatch
):
    asked = []
    model = client.model(f"{ward}@live")
    model.set_alias("live", 1)
    saved = model.matrices.save("winter", STAKES["benefits"])
    monkeypatch.setattr(deciding, "SMALL", 0)
    monkeypatch.setattr(deciding, "PART_BYTES", 8 * 3 * 7)

    class Noting(httpx.HTTPTransport):
        def handle_request(self, request):
            asked.append(request.url.params)
            return super().handle_request(request)

    with Payoff(str(service.base_url), progress=False, transport=Noting()) as other:
        other.model(f"{ward}@live").decide(frame(), benefits="winter")
    model.matrices.delete("winter")
    assert [params["model"] for params in asked if params] == [f"{ward}:1"] * 6
    assert {params["benefits"] for params in asked if params} == {
        f'"winter:{saved["version"]}"'
    }


@warned_of_gaps
def test_known_outcomes_are_a_data_set_to_train_on(client, ward):
    decided = client.model(ward).decide(frame(), record={"instances": True}, **STAKES)
    outcomes = decided[["id"]].assign(truth=["healthy", "ill"] * 20)
    assert client.send_outcomes(outcomes)["accepted"] == 40

    made = client.datasets.from_outcomes(ward, name="seen", since="2026-01-01")
    assert (made["classes"], made["from"]["model"]) == (["healthy", "ill"], ward)
    assert made["rows"] == made["from"]["rows"] >= 40
    assert client.datasets.get("seen")["id"] == made["id"]
    assert (
        client.train("seen", name="learnt", learner="logistic", holdout=0).reference
        == "learnt:1"
    )
    with pytest.raises(NotFound, match="nobody"):
        client.datasets.from_outcomes("nobody")


def test_explanations_are_columns(client, ward):
    found = client.model(ward).explain(frame(2), **STAKES)
    assert {"runner_up", "margin", "contribution:age", "contribution:pain"} <= set(
        found.columns
    )


@pytest.mark.usefixtures("size")
@pytest.mark.parametrize("column", ["age", "pulse"])
def test_a_problem_names_rows_and_the_column_of_the_frame(client, ward, column):
    sent = frame()
    sent[column] = sent[column].astype(object)
    sent.loc[["p32", "p34"], column] = ["n/a", np.inf]
    with pytest.raises(Invalid) as caught:
        client.model(ward).decide(sent, **STAKES)
    assert [(flaw.row, flaw.column) for flaw in caught.value.errors] == [
        ("p32", column),
        ("p34", column),
    ]
    assert str(caught.value).splitlines() == [
        f"row 'p32', column '{column}': '{column}' takes a number or null, not 'n/a'",
        f"row 'p34', column '{column}': '{column}' takes a number or null, not inf",
    ]


@pytest.fixture(scope="session")
def moving(service) -> list[str]:
    """Versions of a model with other features, or in another order."""
    versions = [["age", "pulse"], ["pulse", "age"], ["pulse"]]
    for features in versions:
        places = [TRAINING["features"].index(name) for name in features]
        rows = [[row[place] for place in places] for row in TRAINING["rows"]]
        data = {"features": features, "labels": TRAINING["labels"], "rows": rows}
        trained(
            service,
            {
                "model": "moving",
                "learner": {"kind": "logistic"},
                "data": data,
                "holdout": 0,
            },
        )
    return [f"moving:{number + 1}" for number in range(len(versions))]


@pytest.mark.usefixtures("size")
def test_an_alias_that_moves_to_other_features_is_followed(client, moving):
    model = client.model("moving@live")
    for number, pinned in enumerate(moving):
        model.set_alias("live", number + 1)
        found = model.decide(frame(5), **STAKES)
        assert found.equals(client.model(pinned).decide(frame(5), **STAKES))
    assert client.model("moving").card()["version"] == 3
    assert model.describe()["aliases"] == {"live": 3}
    model.delete_alias("live")


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_whole_groups_are_held_out(client):
    """By a column of the rows that is no feature."""
    rows = zip(DATA["rows"], DATA["labels"], strict=True)
    sick = [
        dict(zip(DATA["features"], row, strict=True))
        | {"state": label, "ward": f"w{i % 8}"}
        for i, (row, label) in enumerate(rows)
    ]
    model = client.train(
        sick,
        label="state",
        learner="logistic",
        name="by-ward",
        types={"ward": "ignore"},
        holdout={"by": "group", "column": "ward"},
    )
    evaluation = model.card()["data"]["evaluation"]
    assert evaluation["in_words"] == "8 of 8 groups by 'ward' in 4 folds: all 40 rows"


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_a_model_is_trained_and_compared(client):
    sick = frame().assign(state=DATA["labels"]).drop(columns="ward")
    model = client.train(
        sick, label="state", learner="logistic", name="from-frame", holdout=0.3
    )

    assert model.card()["labels"] == ["state"]
    assert [each["type"] for each in model.card()["features"]] == [
        "categorical",
        "numeric",
        "numeric",
    ]
    report = model.benefit(STAKES["benefits"], chart=True)
    assert report._repr_svg_().startswith("<svg")
    assert report.table == report["rules"]
    dataset = model.card()["data"]["dataset"]
    assert dataset in {each["id"] for each in client.datasets.list()}
    compared = client.compare(
        dataset, learners=["logistic"], folds=2, chart=True, **STAKES
    )
    assert compared._repr_svg_().startswith("<svg")
    assert compared.table[0]["rule"]
    assert "from-frame" in {each["name"] for each in client.models()}
    with pytest.raises(Invalid, match="'dept'"):
        client.train(
            dataset, learner={"kind": "cost_tree", "dept": 3}, name="from-frame"
        )


def test_frames_are_uploaded_alike(client, monkeypatch, tmp_path):
    sick = frame().assign(state=DATA["labels"], code=["007", "008"] * 20)
    stored = client.datasets.upload(sick, label="state")
    kinds = stored["features"]
    assert (
        client.datasets.upload(pl.from_pandas(sick), label="state")["features"] == kinds
    )
    assert (
        client.datasets.upload(sick.to_dict("records"), label="state")["features"]
        == kinds
    )
    words = ("007", "7", "1e3", 'a"\n"b')
    exact = [
        {"n": 0.1 + i, "big": 2**62 + i, "b": i % 3 == 0, "w": words[i % 4], "y": i % 2}
        for i in range(40)
    ]
    del exact[3]["w"], exact[4]["n"]
    as_frame = pd.DataFrame(exact).astype({"w": object})
    assert (
        client.datasets.upload(exact, label="y")["id"]
        == client.datasets.upload(as_frame, label="y")["id"]
    )
    with pytest.raises(ValueError, match="'w' has values of several kinds"):
        client.datasets.upload([*exact, {**exact[0], "w": 7}], label="y")
    path = tmp_path / "patients.csv.gz"
    write(sick, path)
    stored = client.datasets.upload(
        path, label="state", types={"code": "category"}, name="patients"
    )
    assert stored["features"] == kinds
    assert client.datasets.get("patients")["id"] == stored["id"]
    client.datasets.delete(stored["id"])
    monkeypatch.setattr("payoff_client.client.has_pyarrow", lambda: False)
    with pytest.raises(ImportError, match="pip install pyarrow"):
        client.datasets.upload(sick, label="state")


def test_sets_are_retrieved(client, ward):
    P = np.random.default_rng(0).random(3000).round(3)
    long, short = (
        client.retrieve(P),
        client.retrieve(P[:50].tolist(), loss={"name": "f_beta", "beta": 2}, k_max=3),
    )
    assert len(long["sets"][0]["selected"]) == long["sets"][0]["k"]
    assert short["sets"][0]["k"] <= 3
    assert client.model(ward).retrieve(frame())["sets"][0]["selected"][0] in range(40)


def test_questions_are_asked_until_the_case_is_decided(client, forest):
    model, patient = (
        client.model(forest),
        dict(zip(DATA["features"], DATA["rows"][0], strict=True)),
    )
    asked = []

    def ask(feature):
        asked.append(feature)
        return patient[feature]

    first = model.acquire({})
    case = model.acquire({}, ask)

    assert first["next"]["feature"] == asked[0]
    assert case["status"] == "decided"
    assert list(case["known"]) == asked
    assert model.acquire({}, lambda _: None)["status"] == "decided"
    states = model.acquire(frame(3).drop(columns=["ward", "pain"]), budget=0)["results"]
    assert [state["status"] for state in states] == ["decided"] * 3
    with pytest.raises(Invalid, match="row 1, column 'age'"):
        model.acquire([{}, {"age": "old"}])


def write(rows: pd.DataFrame, path) -> None:
    if path.suffix == ".parquet":
        rows.to_parquet(path)
    else:
        rows.to_csv(path, index=False)


@pytest.mark.parametrize("source", ["csv", "csv.gz", "parquet"])
@pytest.mark.parametrize("target", ["csv", "csv.gz", "parquet"])
def test_files_are_decided_in_parts(
    client, ward, expected, monkeypatch, tmp_path, source, target
):
    monkeypatch.setattr("payoff_client.model.PART_SIZE", 300)
    note = ['said "no",\nthen left', "plain"] * 20
    write(frame().assign(note=note).reset_index(drop=True), tmp_path / f"in.{source}")

    report = client.model(ward).decide_file(
        tmp_path / f"in.{source}", tmp_path / f"out.{target}", **STAKES
    )

    assert (report["rows"], report["model"]) == (40, f"{ward}:1")
    found = (pd.read_parquet if target == "parquet" else pd.read_csv)(
        tmp_path / f"out.{target}"
    )
    assert list(found.columns) == ["ward", "note", "decision", *COLUMNS]
    assert found["note"].tolist() == note
    assert found["ward"].astype(int).tolist() == list(range(40))
    assert found["decision"].tolist() == expected["decisions"]
    np.testing.assert_allclose(
        found[COLUMNS[:2]].to_numpy(), expected["probabilities"], rtol=1e-9
    )
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("form", ["frame", "csv", "parquet"])
def test_warnings_of_all_parts_are_told(client, ward, monkeypatch, tmp_path, form):
    sent = frame().reset_index(drop=True)
    sent.loc[[2, 33], "pain"] = ["odd", "strange"]
    monkeypatch.setattr(deciding, "PART_VALUES", 8 * 10)
    monkeypatch.setattr("payoff_client.model.PART_SIZE", 120)
    if form == "frame":
        found = client.model(ward).answer(sent, **STAKES).warnings
    else:
        write(sent, tmp_path / f"in.{form}")
        found = client.model(ward).decide_file(
            tmp_path / f"in.{form}", tmp_path / f"out.{form}", **STAKES
        )["warnings"]
    told = [each for each in found if re.match(r"1 of (\d+) values of 'pain'", each)]
    assert len(told) == 2
    assert ("odd" in told[0], "strange" in told[1]) == (True, True)


def test_a_file_with_an_error_names_its_row_and_leaves_nothing(
    client, ward, monkeypatch, tmp_path
):
    monkeypatch.setattr("payoff_client.model.PART_SIZE", 300)
    rows = frame()
    rows.insert(0, " note ", 'a\nb"c')  # spaces around names do not count
    rows["pulse"] = rows["pulse"].astype(object)
    rows.iloc[33, rows.columns.get_loc("pulse")] = "fast"
    rows.to_csv(tmp_path / "in.csv", index=False)

    with pytest.raises(Invalid, match="column 'pulse'") as caught:
        client.model(ward).decide_file(
            tmp_path / "in.csv", tmp_path / "out.csv", **STAKES
        )
    (note,) = caught.value.__notes__
    before, line = (
        int(re.search(pattern, text)[1])
        for pattern, text in ((r"(\d+) rows", note), (r"line (\d+)", str(caught.value)))
    )
    assert before + line - 2 == 33  # the header is line 1
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]
    (tmp_path / "in.csv").write_text(
        'age,pulse,pain\n1,2,"open\n' + "3,4,mild\n" * 20_000
    )
    with pytest.raises(ValueError, match="quotation mark"):
        client.model(ward).decide_file(
            tmp_path / "in.csv", tmp_path / "out.csv", **STAKES
        )


@pytest.mark.usefixtures("size")
@warned_of_gaps
def test_the_asynchronous_client_answers_the_same(service, client, ward):
    async def both(rows):
        async with AsyncPayoff(str(service.base_url)) as other:
            model = other.model(ward)
            return await asyncio.gather(
                *(model.decide(rows, **STAKES) for _ in range(3))
            )

    plain = client.model(ward).decide(frame(), **STAKES)
    assert all(found.equals(plain) for found in asyncio.run(both(frame())))
    with pytest.raises(Invalid, match="row 'p33', column 'pulse'"):
        asyncio.run(
            both(frame().replace({"pulse": {frame().loc["p33", "pulse"]: np.inf}}))
        )


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_the_classifier_works_in_pipelines_and_cross_validation(client, service):
    X, y = np.array([row[:2] for row in DATA["rows"]]), np.array(DATA["labels"])
    decider = BenefitClassifier(client, name="estimator", **STAKES)
    assert clone(decider).get_params()["client"] is client
    pipeline = make_pipeline(StandardScaler(), decider).fit(X, y)
    assert set(pipeline.predict(X)) <= {"wait", "treat"}
    assert pipeline.predict_proba(X).sum(axis=1) == pytest.approx(np.ones(40))
    earned = [
        STAKES["benefits"][truth][action]
        for truth, action in zip(y, pipeline.predict(X), strict=True)
    ]
    assert pipeline.score(X, y) == pytest.approx(np.mean(earned))
    copy = pickle.loads(pickle.dumps(pipeline))
    assert copy.predict(X).tolist() == pipeline.predict(X).tolist()
    copy[-1].client.close()
    scores = cross_val_score(
        BenefitClassifier(client, name="estimator"), X, y == "ill", cv=2
    )
    assert scores.mean() > 0.5


def test_the_readme_goes_from_a_file_to_decisions_in_eight_lines(
    client, service, tmp_path, monkeypatch, capsys
):
    readme = (ROOT / "clients/python/README.md").read_text()
    code = readme.partition("```python\n")[2].partition("```")[0]
    assert code in (ROOT / "docs/how-to/python-client.md").read_text()
    assert len(code.strip().splitlines()) <= 9  # with the empty one

    monkeypatch.chdir(tmp_path)
    sick = pd.DataFrame(TRAINING["rows"], columns=TRAINING["features"]).assign(
        condition=TRAINING["labels"], bed=range(200)
    )
    sick.to_csv("patients.csv", index=False)
    space = {}
    with pytest.warns(
        PayoffWarning, match="'bed' is left out: a different integer in every row"
    ):  # from the upload
        exec(code.replace("http://127.0.0.1:8000", str(service.base_url)), space)
    space["client"].close()
    assert "benefit:treat" in capsys.readouterr().out


def test_the_wheel_has_the_types_and_no_tests(tmp_path):
    command = [
        sys.executable,
        "-m",
        "hatchling",
        "build",
        "-t",
        "wheel",
        "-d",
        str(tmp_path),
    ]
    subprocess.run(
        command, cwd=ROOT / "clients/python", check=True, capture_output=True
    )
    (wheel,) = tmp_path.iterdir()
    with zipfile.ZipFile(wheel) as opened:
        names = opened.namelist()

    assert "payoff_client/py.typed" in names
    assert {name.partition("/")[0] for name in names} == {
        "payoff_client",
        f"payoff_client-{__version__}.dist-info",
    }


@pytest.mark.thorough  # some train hundreds of times
@pytest.mark.filterwarnings("ignore")
def test_the_classifier_passes_checks_of_scikit_learn(client):
    for estimator, check in estimator_checks_generator(
        BenefitClassifier(client, name="checked")
    ):
        with suppress(SkipTest):
            check(estimator)


@pytest.mark.filterwarnings("ignore::payoff_client.PayoffWarning")
def test_the_classifier_takes_all_forms_of_benefits(client):
    """In words, as a frame, and as the name of a saved matrix; for its own classes alone."""
    X, y = np.array([row[:2] for row in DATA["rows"]]), np.array(DATA["labels"])
    words = STAKES["benefits"]
    decider = BenefitClassifier(client, name="forms", benefits=words).fit(X, y)
    expected, score = decider.predict(X), decider.score(X, y)
    decider.model_.matrices.save("autumn-2026", words)
    for benefits in (pd.DataFrame(words).T, "autumn-2026"):
        other = decider.set_params(benefits=benefits)
        assert other.predict(X).tolist() == expected.tolist()
        assert other.score(X, y) == pytest.approx(score)

    for benefits in (
        {"healthy": {"wait": 0}, "sick": {"wait": 1}},
        {"healthy": {"wait": 0}},
    ):
        with pytest.raises(
            ValueError,
            match=r"benefits need a row for each class of y, .*'healthy', 'ill'",
        ):
            BenefitClassifier(client, name="unpublished", benefits=benefits).fit(X, y)
    with pytest.raises(NotFound):
        client.model("unpublished").card()


def test_a_file_is_not_replaced_by_its_decisions(client, ward, tmp_path):
    """One that is replaced keeps its mode."""
    cases, out = tmp_path / "cases.csv", tmp_path / "out.csv"
    frame().to_csv(cases)
    (tmp_path / "alias.csv").symlink_to(cases)
    for target in (cases, tmp_path / "alias.csv"):
        with pytest.raises(ValueError, match="has the cases"):
            client.model(ward).decide_file(cases, target, **STAKES)
    out.write_text("")
    out.chmod(0o640)
    client.model(ward).decide_file(cases, out, **STAKES)
    assert out.stat().st_mode & 0o777 == 0o640
    with pytest.raises(FileNotFoundError, match="absent"):
        client.model(ward).decide_file(cases, tmp_path / "absent" / "out.csv", **STAKES)


def test_quantities_are_columns_in_every_form_and_number_of_parts(
    client, service, monkeypatch, tmp_path, capsys
):
    data = {
        "features": ["shelf"],
        "rows": [[x % 17] for x in range(90)],
        "labels": [x % 17 + x / 7 for x in range(90)],
    }
    trained(
        service,
        {
            "model": "sales",
            "learner": {"kind": "gradient_boosting", "task": "regression"},
            "data": data,
        },
    )
    stakes = {"unit_costs": {"over": 1, "under": 3}, "coverage": 0.9}
    cases = pd.DataFrame({"shelf": np.arange(40.0) % 17, "place": "left"})
    rows = {"model": "sales", "instances": [[shelf] for shelf in cases["shelf"]]}
    told = service.post("/predict", json=rows | stakes).json()
    named = [
        told["decisions"],
        told["expected_costs"],
        *zip(*told["intervals"], strict=True),
        told["values"],
    ]
    for small, part in (
        (2_000, 8 * 2**20),
        (0, 80),
    ):  # as JSON, and as a stream in parts
        monkeypatch.setattr(deciding, "SMALL", small)
        monkeypatch.setattr(deciding, "PART_BYTES", part)
        found = client.model("sales").decide(cases, record=small > 0 or None, **stakes)
        assert [*found] == [
            "place",
            *["id"] * (small > 0),
            "decision",
            "expected_cost",
            "low",
            "high",
            "value",
        ]
        assert found.iloc[:, -5:].to_numpy().T.tolist() == np.array(named).tolist()
        assert (
            client.model("sales")
            .answer(cases, sum_at_most=400, unit_costs=stakes["unit_costs"])
            .figures["limits"]
        )
    (tmp_path / "costs.json").write_text(json.dumps(stakes))
    cases.to_csv(tmp_path / "cases.csv", index=False)
    files = f"{tmp_path}/cases.csv --benefits {tmp_path}/costs.json"
    order = f"predict sales {files} --url {service.base_url}"
    assert commands.main(order.split()) == 0
    written = pd.read_csv(io.StringIO(capsys.readouterr().out))
    assert written.iloc[:, -5:].to_numpy().T.tolist() == np.array(named).tolist()
    assert commands.main(f"outcomes sales --url {service.base_url}".split()) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()][-3:] == [
        *("expected", "realised", "difference")
    ]
    with pytest.raises(ValueError, match="'low' of its own"):
        client.model("sales").decide(cases.rename(columns={"place": "low"}), **stakes)
    assert (
        client.model("sales")
        .decide(cases.head(1), bands=[9], benefits=[[1, 0], [0, 1]], actions=["a", "b"])
        .shape
    )


def test_what_costs_decide_is_in_the_decisions(client, service):
    """Of a model of numbers: without costs there are none, and the message says what is missing."""
    data = {
        "features": ["x"],
        "rows": [[i] for i in range(60)],
        "labels": [i / 2 for i in range(60)],
    }
    trained(
        service,
        {
            "model": "amounts",
            "learner": {"kind": "gradient_boosting", "task": "regression"},
            "data": data,
            "holdout": 0,
        },
    )
    model = client.model("amounts")
    answer = model.answer([{"x": 3}, {"x": 9}], unit_costs={"over": 1, "under": 3})

    assert answer.decisions.tolist() == answer.quantities["decision"].tolist()
    with pytest.raises(ValueError, match="unit_costs"):
        _ = model.answer([{"x": 3}]).decisions


def test_a_file_of_another_library_is_published(client, service, tmp_path):
    rows = [[float(i % 7), float(i % 3)] for i in range(60)]
    labels = ["ill" if row[0] > row[1] else "well" for row in rows]
    pipeline = LogisticRegression().fit(np.array(rows), labels)
    (tmp_path / "model.onnx").write_bytes(
        skl2onnx.to_onnx(
            pipeline, np.array(rows[:1], dtype=np.float32)
        ).SerializeToString()
    )
    frame = [{"a": a, "b": b, "y": y} for (a, b), y in zip(rows, labels, strict=True)]
    stored = client.datasets.upload(frame, label="y")

    benefits = {"ill": {"treat": 5, "wait": -10}, "well": {"treat": -1, "wait": 0}}
    with (
        warnings.catch_warnings()
    ):  # of its figures, which are those of the training rows
        warnings.simplefilter("ignore", PayoffWarning)
        model = client.import_model(
            tmp_path / "model.onnx",
            name="foreign",
            dataset=stored["id"],
            classes=["ill", "well"],
            benefits=benefits,
        )

    assert model.reference == "foreign:1"
    np.testing.assert_allclose(
        model.answer(np.array(rows), rule="most_probable").probabilities,
        pipeline.predict_proba(np.array(rows)),
        atol=1e-6,
    )
    with pytest.raises(NotFound):
        client.import_model(
            tmp_path / "model.onnx", name="foreign", dataset="ds_0123456789abcdef"
        )


def test_scores_and_probabilities_of_another_system(client):
    """Scores become a model, and probabilities decide without one."""
    rng = np.random.default_rng(3)
    scores = rng.normal(0, 2, 200)
    labels = np.where(rng.random(200) < 1 / (1 + np.exp(-scores)), "spam", "clean")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PayoffWarning)
        model = client.calibrate(
            name="mails",
            classes=["clean", "spam"],
            labels=labels,
            scores=scores,
            holdout=0,
        )
        below, above = model.answer(
            [{"score": -3.0}, {"score": 3.0}], rule="most_probable"
        ).decisions
    benefits = {"clean": {"keep": 0, "drop": -5}, "spam": {"keep": -1, "drop": 1}}
    answer = client.decide(
        [[0.9, 0.1], [0.05, 0.95]], classes=["clean", "spam"], benefits=benefits
    )

    assert (below, above) == ("clean", "spam")
    assert answer.decisions.tolist() == ["keep", "drop"]
    np.testing.assert_allclose(answer.expected_benefits, [[-0.1, -4.4], [-0.95, 0.7]])


def test_recorded_decisions_are_replayed(client, ward):
    model = client.model("ward")
    cases = [dict(zip(DATA["features"], row, strict=True)) for row in DATA["rows"][:6]]
    recorded = model.decide(cases, record=True, **STAKES)
    outcomes = [{"id": one["id"], "truth": "healthy"} for one in recorded]
    client.send_outcomes(outcomes)

    report = model.replay(rules=[{"rule": "most_probable"}])

    assert report["decisions"] >= 6
    assert [each["rule"]["rule"] for each in report["alternatives"]] == [
        "most_probable"
    ]
