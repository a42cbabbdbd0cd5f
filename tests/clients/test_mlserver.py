"""A request as MLServer's codec writes it, and answers as its types read them.

The library needs 330 MB of packages, so a request stands here as MLServer 1.7.1 wrote it with `PandasCodec`. Its types
`InferenceResponse`, `MetadataModelResponse` and `InferenceErrorResponse` read the answers.
"""

from __future__ import annotations

import numpy as np

FRAME = """{"id": "a", "parameters": {"content_type": "pd", "headers": null, "benefits": "[[0,-1],[-10,5]]"},
 "inputs": [{"name": "age", "shape": [3, 1], "datatype": "FP64", "data": [58.0, 36.5, null]},
 {"name": "pulse", "shape": [3, 1], "datatype": "INT64", "data": [80, 70, 90]},
 {"name": "pain", "shape": [3, 1], "datatype": "BYTES", "parameters": {"content_type": "str"},
  "data": ["mild", "strong", "mild"]}]}"""
ROWS = [[58.0, 80, "mild"], [36.5, 70, "strong"], [None, 90, "mild"]]
HEADERS = {"Content-Type": "application/json"}


def test_a_frame_of_pandas(service, ward):
    response = service.post("/v2/models/ward/infer", content=FRAME, headers=HEADERS)
    body = {"model": ward, "instances": ROWS, "benefits": [[0, -1], [-10, 5]]}
    wanted = service.post("/predict", json=body).json()
    answer = response.json()

    assert set(answer) == {"model_name", "model_version", "id", "parameters", "outputs"}
    assert all(
        isinstance(value, str | float | bool) for value in answer["parameters"].values()
    )
    for each in answer["outputs"]:
        assert set(each) == {"name", "datatype", "shape", "data"}
        np.testing.assert_array_equal(
            np.reshape(each["data"], each["shape"]), wanted[each["name"]]
        )
