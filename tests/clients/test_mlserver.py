"""Requests as MLServer's codecs write them, and answers as its types read them.

The library needs 330 MB of packages, so its requests stand here as MLServer 1.7.1 wrote them with `PandasCodec` and
`NumpyRequestCodec`. Its types `InferenceResponse`, `MetadataModelResponse` and `InferenceErrorResponse` read the
answers.
"""

from __future__ import annotations

import json

import httpx
import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

FRAME = """{"id": "a", "parameters": {"content_type": "pd", "headers": null, "benefits": "[[0,-1],[-10,5]]"},
 "inputs": [{"name": "age", "shape": [3, 1], "datatype": "FP64", "data": [58.0, 36.5, null]},
 {"name": "pulse", "shape": [3, 1], "datatype": "INT64", "data": [80, 70, 90]},
 {"name": "pain", "shape": [3, 1], "datatype": "BYTES", "parameters": {"content_type": "str"},
  "data": ["mild", "strong", "mild"]}]}"""
ROWS = [[58.0, 80, "mild"], [36.5, 70, "strong"], [None, 90, "mild"]]
ARRAY = """{"parameters": {"content_type": "np"}, "inputs": [{"name": "input-1", "shape": [2, 2], "datatype": "FP32",
 "parameters": {"content_type": "np"}, "data": [58.0, 80.0, 36.5, 70.0]}]}"""
HEADERS = {"Content-Type": "application/json"}


def test_a_frame_of_pandas(service, ward):
    response = service.post("/v2/models/ward/infer", content=FRAME, headers=HEADERS)
    body = {"model": ward, "instances": ROWS, "benefits": [[0, -1], [-10, 5]]}
    wanted = service.post("/predict", json=body).json()
    answer = response.json()

    assert set(answer) == {"model_name", "model_version", "id", "parameters", "outputs"}
    assert all(isinstance(value, str | float | bool) for value in answer["parameters"].values())
    for each in answer["outputs"]:
        assert set(each) == {"name", "datatype", "shape", "data"}
        np.testing.assert_array_equal(np.reshape(each["data"], each["shape"]), wanted[each["name"]])


def test_an_array_of_numpy(service: httpx.Client):
    rows = two_class_rows(60)
    data = {"features": ["age", "pulse"], "rows": [row[:2] for row in rows["rows"]], "labels": rows["labels"]}
    trained(service, {"model": "array", "learner": {"kind": "logistic"}, "data": data})
    response = service.post("/v2/models/array/infer", content=ARRAY, headers=HEADERS)
    asked = {"model": "array", "instances": [[58, 80], [36.5, 70]], "rule": "most_probable"}

    assert response.json()["outputs"][0]["data"] == service.post("/predict", json=asked).json()["decisions"]


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v2", {"name", "version", "extensions"}),
        ("/v2/models/ward", {"name", "versions", "platform", "inputs", "outputs", "parameters"}),
        ("/v2/models/none", {"error"}),
    ],
)
def test_the_fields_of_its_types(service, ward, path, fields):
    assert set(json.loads(service.get(path).text)) == fields
