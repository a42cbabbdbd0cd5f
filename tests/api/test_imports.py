"""Models that were trained elsewhere, imported over HTTP."""

import io
import json

import httpx
import joblib
import numpy as np
import pytest
import skl2onnx
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler

from tests.conftest import serving, settings_for, two_class_rows, uploaded
from tests.messages import says

BENEFITS = [[0, -1], [-10, 5]]
DATA = two_class_rows()
LABELS = np.array(DATA["labels"])
ROWS = [row[:2] for row in DATA["rows"]]
NUMBERS = np.array(ROWS)
MIXED = np.array(DATA["rows"], dtype=object)


def stored(client: httpx.Client) -> str:
    """The id of a data set of two classes."""
    return uploaded(client, DATA | {"features": ["age", "pulse"], "rows": ROWS})


def sent(
    client: httpx.Client,
    name: str,
    content: bytes,
    *,
    headers: dict | None = None,
    **fields,
) -> httpx.Response:
    fields = {"format": "joblib", **fields}
    files = {"file": ("model", content)}
    return client.post(
        f"/models/{name}/versions",
        files=files,
        data=fields,
        headers={"Prefer": "wait=60"} | (headers or {}),
    )


def dumped(model: object) -> bytes:
    file = io.BytesIO()
    joblib.dump(model, file)
    return file.getvalue()


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    """A service that takes joblib files."""
    with serving(
        settings_for(tmp_path_factory.mktemp("imports"), allow_pickles=True)
    ) as client:
        yield client


def refuse_a_million(rows):
    if (rows >= 1e6).any():
        raise ValueError("a million is too much")
    return rows


def scaled() -> object:
    return make_pipeline(StandardScaler(), LogisticRegression()).fit(NUMBERS, LABELS)


def test_an_imported_pipeline_answers_as_it_did(service):
    """With its own preprocessing: words, numbers and missing words as they are sent, within 1e-12."""
    words = make_pipeline(
        SimpleImputer(strategy="most_frequent"), OneHotEncoder(handle_unknown="ignore")
    )
    columns = make_column_transformer((StandardScaler(), [1, 0]), (words, [2]))
    model = make_pipeline(columns, LogisticRegression()).fit(MIXED, LABELS)
    matrix = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
    fields = {
        "benefits": json.dumps(matrix),
        "feature_costs": json.dumps({"age": 0, "pulse": 2, "pain": 1}),
    }
    job = sent(
        service, "chosen", dumped(model), dataset=uploaded(service, DATA), **fields
    ).json()
    rows = [*DATA["rows"][:20], [50.0, 70.0, None]]

    asked = {
        "model": "chosen",
        "instances": rows,
        "benefits": BENEFITS,
        "explain": True,
    }
    answer = service.post("/predict", json=asked).json()

    assert (job["status"], job["kind"], job["model"]) == (
        "succeeded",
        "import",
        {"name": "chosen", "version": 1},
    )
    P = np.array(answer["probabilities"])
    np.testing.assert_allclose(
        P[:20], model.predict_proba(MIXED)[:20], rtol=0, atol=1e-12
    )
    assert np.isfinite(P[20]).all()
    assert len(answer["explanations"]) == 21
    refused = service.post(
        "/predict", json=asked | {"instances": [[None, 70.0, "mild"]]}
    )
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["loc"] == "/instances"


def test_a_calibration_on_request(service):
    overconfident = make_pipeline(StandardScaler(), LogisticRegression(C=1e6)).fit(
        np.sign(NUMBERS - 60), LABELS
    )
    job = sent(
        service,
        "calibrated",
        dumped(overconfident),
        dataset=stored(service),
        calibration="sigmoid",
    )
    card = service.get("/models/calibrated/versions/1").json()

    assert job.json()["status"] == "succeeded", job.text
    assert job.headers["location"] == f"/train/{job.json()['id']}"
    assert card["fitted"]["calibration"] == "sigmoid"
    assert card["data"]["evaluation"] == {
        "method": "cross-validation",
        "folds": 5,
        "rows": 200,
        "in_words": "all 200 rows of the data set",
        "by": None,
        "column": None,
        "groups": None,
    }


def test_the_same_key_answers_with_the_first_job_and_the_file_is_not_kept(tmp_path):
    """The file is kept for the job that waits, and removed afterwards; another file with the key is refused."""
    with serving(settings_for(tmp_path, workers=0, allow_pickles=True)) as client:
        fields = {
            "dataset": stored(client),
            "headers": {"Idempotency-Key": "mine", "Prefer": ""},
        }
        content = dumped(scaled())
        first, again = (sent(client, "waiting", content, **fields) for _ in range(2))
        other = sent(client, "waiting", content + b" ", **fields)
        kept = [path.name for path in (tmp_path / "home" / "datasets").glob("job_*")]
        refused = sent(
            client, "waiting", content, **fields | {"dataset": "ds_0000000000000000"}
        )

        assert first.status_code == again.status_code == 202
        assert first.json()["id"] == again.json()["id"]
        assert other.json()["errors"][0]["loc"] == "/headers/Idempotency-Key"
        assert kept == [first.json()["id"]]
        assert refused.status_code == 404


@pytest.mark.parametrize("whole", [True, False])
def test_an_onnx_file(service, whole):
    """A whole one answers as the original; a truncated one ends in a failed job with the reason."""
    model = scaled()
    content = skl2onnx.to_onnx(
        model, NUMBERS[:1].astype(np.float32)
    ).SerializeToString()

    job = sent(
        service,
        "onnx",
        content[: None if whole else -100],
        format="onnx",
        dataset=stored(service),
    ).json()

    assert job["status"] == ("succeeded" if whole else "failed"), job
    if whole:
        asked = {"model": "onnx", "instances": ROWS, "benefits": BENEFITS}
        P = service.post("/predict", json=asked).json()["probabilities"]
        np.testing.assert_allclose(P, model.predict_proba(NUMBERS), rtol=0, atol=1e-6)
    else:
        assert says("/file", "cannot be used") in job["error"]["errors"]


def test_a_file_of_another_version_is_refused(service, monkeypatch):
    """It may answer otherwise than it did where it was made."""
    monkeypatch.setattr("sklearn.base.__version__", "0.24.2")
    content = dumped(scaled())
    monkeypatch.undo()

    job = sent(service, "older", content, dataset=stored(service)).json()

    assert job["status"] == "failed"
    assert says("/file", "cannot be used", "0.24.2") in job["error"]["errors"]


BAD = {
    "no file": ({}, None, 422, "/file"),
    "an empty file": ({}, b"", 422, "/file"),
    "no such format": ({"format": "pmml"}, b"x", 422, "/format"),
    "no data set": ({"dataset": None}, b"x", 422, "/dataset"),
    "unknown data set": ({"dataset": "ds_0000000000000000"}, b"x", 404, "/dataset"),
    "no such calibration": ({"calibration": "beta"}, b"x", 422, "/calibration"),
    "prices that are not JSON": ({"feature_costs": "{"}, b"x", 422, "/feature_costs"),
    "a price for no feature": (
        {"feature_costs": '{"height": 1}'},
        b"x",
        422,
        "/feature_costs/height",
    ),
    "benefits of a wrong shape": ({"benefits": "[[1, 2, 3]]"}, b"x", 422, "/benefits"),
    "actions alone": ({"actions": '["a", "b"]'}, b"x", 422, "/actions"),
    "an unknown field": ({"labels": "x"}, b"x", 422, "/labels"),
    "a format of before": ({"format": "skops"}, b"x", 422, "/format"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_orders_are_refused_before_anything_is_queued(service, name):
    changes, content, status, place = BAD[name]
    fields = {"format": "onnx", "dataset": stored(service), **changes}
    fields = {key: value for key, value in fields.items() if value is not None}
    files = (
        {"file": ("model", content)}
        if content is not None
        else {"format": (None, fields.pop("format"))}
    )

    response = service.post("/models/never/versions", files=files, data=fields)

    assert response.status_code == status, response.text
    assert place is None or place in [flaw["loc"] for flaw in response.json()["errors"]]
    assert service.get("/train", params={"model": "never"}).json()["jobs"] == []


def test_a_joblib_file_is_refused_without_the_setting(tmp_path):
    with serving(settings_for(tmp_path, workers=0)) as client:
        assert (
            sent(
                client, "mine", b"x", format="joblib", dataset="ds_0000000000000000"
            ).status_code
            == 403
        )


def test_a_model_that_stops_to_answer_is_an_error_and_no_decision(service):
    """Here for one value: the request gets a 422 with the model's own words."""
    step = FunctionTransformer(refuse_a_million)
    job = sent(
        service, "moody", dumped(make_pipeline(step, scaled())), dataset=stored(service)
    ).json()
    asked = {
        "model": "moody",
        "instances": [[50.0, 70.0], [1e6, 70.0]],
        "benefits": BENEFITS,
    }
    refused = service.post("/predict", json=asked)

    assert job["status"] == "succeeded", job
    assert refused.status_code == 422
    assert says("/instances", "ValueError", "a million") in refused.json()["errors"]
