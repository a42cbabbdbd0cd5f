"""The Open Inference Protocol v2: its answers are those of `/predict`, and its errors have its form."""

import json
from typing import Any

import httpx
import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

ROWS = two_class_rows(6, seed=5)["rows"]
BENEFITS = [[0, -1], [-10, 5]]
STAKES = {"benefits": BENEFITS, "actions": ["wait", "treat"]}
NAMES = ("age", "pulse", "pain")
TYPES = ("FP64", "FP64", "BYTES")
INFER = "/v2/models/ward/infer"


def column(j: int, datatype: str = "", **more: Any) -> dict[str, Any]:
    return {
        "name": NAMES[j],
        "datatype": datatype or TYPES[j],
        "shape": [6],
        "data": [row[j] for row in ROWS],
    } | more


def infer(
    client: httpx.Client,
    inputs: list[dict] | None = None,
    path: str = INFER,
    **more: Any,
) -> httpx.Response:
    return client.post(
        path,
        json={
            "inputs": [column(j) for j in range(3)] if inputs is None else inputs,
            **more,
        },
    )


def output(answer: dict[str, Any], name: str) -> np.ndarray:
    [found] = [each for each in answer["outputs"] if each["name"] == name]
    return np.array(found["data"]).reshape(found["shape"])


@pytest.fixture(scope="module")
def plain(service: httpx.Client, ward: str) -> dict[str, Any]:
    """What `/predict` answers."""
    return service.post(
        "/predict", json={"model": ward, "instances": ROWS, **STAKES}
    ).json()


@pytest.mark.parametrize(
    "parameters", [STAKES, {name: json.dumps(value) for name, value in STAKES.items()}]
)
@pytest.mark.parametrize("width", [[], [1]])
def test_one_tensor_per_feature(service, plain, parameters, width):
    """In any order, and with structures as JSON or as text."""
    inputs = [column(j, shape=[6, *width]) for j in (2, 0, 1)]
    answer = infer(service, inputs, parameters=parameters, id="one").json()

    assert answer["id"] == "one"
    assert (answer["model_name"], answer["model_version"]) == ("ward", "1")
    assert output(answer, "decisions").tolist() == plain["decisions"]
    for name in ("probabilities", "expected_benefits"):
        np.testing.assert_array_equal(output(answer, name), plain[name])
    assert json.loads(answer["parameters"]["actions"]) == plain["actions"]
    assert json.loads(answer["parameters"]["classes"]) == plain["classes"]
    assert json.loads(answer["parameters"]["warnings"]) == plain["warnings"]


@pytest.mark.parametrize(
    ("datatype", "kind"),
    [
        ("FP64", "<f8"),
        ("FP32", "<f4"),
        ("FP16", "<f2"),
        ("INT64", "<i8"),
        ("UINT8", "<u1"),
    ],
)
def test_a_matrix_of_numbers(service, numeric, datatype, kind):
    """As `/predict` answers for numbers of that type."""
    X = np.array([row[:2] for row in ROWS]).round().astype(kind)
    wanted = service.post(
        "/predict",
        json={"model": numeric, "instances": X.tolist(), "benefits": BENEFITS},
    ).json()
    matrix = {"name": "X", "datatype": datatype, "shape": [6, 2]}
    path = f"/v2/models/{numeric}/infer"
    written = infer(
        service,
        [matrix | {"data": X.tolist()}],
        path,
        parameters={"benefits": BENEFITS},
    ).json()

    np.testing.assert_array_equal(
        output(written, "probabilities"), wanted["probabilities"]
    )
    assert output(written, "decisions").tolist() == wanted["decisions"]


def test_limits_and_priors_and_rules(service):
    more = {"limits": {"treat": 1}, "priors": {"ill": 0.3, "healthy": 0.7}}
    wanted = service.post(
        "/predict", json={"model": "ward", "instances": ROWS, **STAKES, **more}
    ).json()
    answer = infer(
        service, parameters=STAKES | more | {"limits": '{"treat": 1}'}
    ).json()
    cut = infer(
        service,
        parameters={"rule": "threshold", "threshold": 0.3, "actions": '["a", "b"]'},
    ).json()
    bare = infer(service).json()

    assert output(answer, "decisions").tolist() == wanted["decisions"]
    assert answer["parameters"]["total"] == wanted["total"]
    assert json.loads(answer["parameters"]["limits"]) == wanted["limits"]
    assert cut["parameters"]["threshold"] == 0.3
    assert [each["name"] for each in cut["outputs"]] == ["decisions", "probabilities"]
    likely = output(bare, "probabilities").argmax(axis=1)  # without a matrix
    assert (
        output(bare, "decisions").tolist()
        == np.array(["healthy", "ill"])[likely].tolist()
    )
    assert "no benefits" in bare["parameters"]["warnings"]


def test_a_model_of_numbers(service):
    rows = two_class_rows(60)["rows"]
    data = {
        "features": ["age"],
        "rows": [row[:1] for row in rows],
        "labels": [row[1] for row in rows],
    }
    learner = {"kind": "cost_tree", "task": "regression", "depth": 1}
    trained(
        service,
        {
            "model": "pulses",
            "learner": learner,
            "data": data,
            "feature_costs": {"age": 1},
        },
    )
    wanted = service.post(
        "/predict", json={"model": "pulses", "instances": [[40], [60]]}
    ).json()
    sent = {"name": "age", "datatype": "INT32", "shape": [2], "data": [40, 60]}
    answer, described = (
        infer(service, [sent], "/v2/models/pulses/infer").json(),
        service.get("/v2/models/pulses").json(),
    )

    assert output(answer, "values").tolist() == wanted["values"]
    assert [
        [each["name"] for each in found["outputs"]] for found in (answer, described)
    ] == [["values"]] * 2


def test_versions_and_aliases(service):
    service.put("/models/ward/aliases/live", json={"version": 1})
    names = (
        "ward",
        "ward:1",
        "ward@live",
        "ward%40live",
        "ward/versions/1",
        "ward/versions/live",
    )
    for name in names:
        assert (
            infer(service, path=f"/v2/models/{name}/infer").json()["model_version"]
            == "1"
        ), name
        assert service.get(f"/v2/models/{name}/ready").json() == {
            "name": "ward",
            "ready": True,
        }
        assert service.get(f"/v2/models/{name}").json()["versions"] == ["1"]
    service.delete("/models/ward/aliases/live")


HUGE = 2**62
TEXT = column(0, datatype="BYTES", data=["1_0"] * 6)
WRONG = {
    "no inputs": ({"inputs": []}, "inputs"),
    "an unknown feature": ({"inputs": [column(0), column(1), column(2, name="pian")]}, "'pian'"),
    "a missing feature": ({"inputs": [column(0), column(1)]}, "'pain'"),
    "two inputs of one name": ({"inputs": [column(0), column(0), column(2)]}, "same name"),
    "too few data": ({"inputs": [column(0, data=[1])]}, "[6]", "/inputs/0/data"),
    "other numbers of rows": ({"inputs": [column(0), column(1), column(2, shape=[1], data=["x"])]}, "'pain'", "[6]"),
    "huge shapes": ({"inputs": [column(0, shape=[HUGE, HUGE])]}, str(HUGE)),
    "huge shapes without data": ({"inputs": [column(0, shape=[0, HUGE], data=[])]}, str(HUGE)),
    "three dimensions": ({"inputs": [column(0, shape=[1, 2, 3])]}, "shape"),
    "an unknown datatype": ({"inputs": [column(0, datatype="FP8")]}, "FP16", "/inputs/0/datatype"),
    "booleans": ({"inputs": [column(0, data=[True] * 6), column(1), column(2)]}, "'age'", "/instances/0/age"),
    "control characters": ({"inputs": [column(0), column(1), column(2, data=["a\x00"] * 6)]}, "U+0000"),
    "text for numbers": ({"inputs": [TEXT, column(1), column(2)]}, "'age'", "/instances/0/age"),
    "too few columns": ({"inputs": [column(0, shape=[6, 1])]}, "1 values", "3 features"),
    "nested otherwise": ({"inputs": [column(0, shape=[2, 3], data=[[1, 2], [3, 4], [5, 6]])]}, "[2, 3]"),
    "rows of nothing": ({"inputs": [column(0, shape=[4, 0], data=[])]}, "[4, 0]"),
    "lists in lists": ({"inputs": [column(0, shape=[2, 3], data=[[1, 2], [3, 4, 5, 6]])]}, "[2, 3]"),
    "an unknown output": ({"outputs": [{"name": "probability"}]}, "'probabilities'"),
    "an output twice": ({"outputs": [{"name": "decisions"}] * 2}, "same name"),
    "an output of a matrix": ({"outputs": [{"name": "expected_benefits"}]}, "'expected_benefits'"),
    "an unknown parameter": ({"parameters": {"benefit": BENEFITS}}, "'benefits'"),
    "text that is not JSON": ({"parameters": {"benefits": "[[0, -1], ["}}, "benefits"),
    "another model": ({"parameters": {"model": "other"}}, "'model'"),
    "a limit that cannot be met": ({"parameters": STAKES | {"limits": {"treat": {"at_least": 9}}}}, "/limits"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit_is_refused_with_its_place(service, ward, name):
    fields, *words = WRONG[name]
    response = infer(service, **fields)

    assert response.status_code == 400, response.text
    assert list(response.json()) == ["error"]
    assert all(word in response.json()["error"] for word in words), response.text


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/v2/nothing", {}, 404),
        ("GET", "/v2/models/none", {}, 404),
        ("GET", "/v2/models/WARD", {}, 400),
        ("POST", "/v2/models/none/infer", {"json": {"inputs": [column(0)]}}, 404),
        ("PATCH", INFER, {}, 405),
        ("POST", INFER, {"content": b"{"}, 400),
        (
            "POST",
            INFER,
            {"content": b"x", "headers": {"Content-Type": "text/csv"}},
            415,
        ),
        ("POST", INFER, {"content": b'{"inputs": [' + b"1," * 1_200_000 + b"1]}"}, 413),
    ],
)
def test_every_error_has_the_form_of_the_protocol(
    service, ward, method, path, options, status
):
    response = service.request(method, path, **options)

    assert response.status_code == status
    assert response.headers["content-type"] == "application/json"
    assert list(response.json()) == ["error"]


def test_booleans_of_tensors_are_those_of_json(service):
    """A feature that was a boolean in training is described as BOOL, and takes numbers, too."""
    rows = [[age, pain == "strong"] for age, _, pain in two_class_rows(80)["rows"]]
    data = {
        "features": ["age", "strong"],
        "rows": rows,
        "labels": two_class_rows(80)["labels"],
    }
    trained(service, {"model": "truths", "learner": {"kind": "logistic"}, "data": data})
    described = service.get("/v2/models/truths").json()["inputs"]
    assert [each["datatype"] for each in described] == ["FP64", "BOOL"]
    plain = {
        "model": "truths",
        "instances": [[50, True], [50, False]],
        "rule": "most_probable",
    }
    expected = service.post("/predict", json=plain).json()["probabilities"]
    assert expected[0] != expected[1]
    age = {"name": "age", "datatype": "INT64", "shape": [2], "data": [50, 50]}
    for datatype, values in (
        ("BOOL", [True, False]),
        ("UINT8", [1, 0]),
        ("BYTES", ["TRUE", "0"]),
    ):
        tensor = {"name": "strong", "datatype": datatype, "shape": [2], "data": values}
        answer = infer(service, [age, tensor], "/v2/models/truths/infer")
        assert answer.status_code == 200, answer.text
        assert output(answer.json(), "probabilities").tolist() == expected
    wrong = infer(
        service, [age | {"data": [True, 1]}, tensor], "/v2/models/truths/infer"
    )
    assert (wrong.status_code, "/instances/0/age" in wrong.text) == (400, True)


def packed(document: dict[str, Any], *contents: bytes) -> dict[str, Any]:
    """The body and the header of a document with binary data behind it."""
    text = json.dumps(document).encode()
    return {
        "content": text + b"".join(contents),
        "headers": {"Inference-Header-Content-Length": str(len(text))},
    }


def binary_column(name: str, datatype: str, size: int, rows: int = 2) -> dict[str, Any]:
    shape = {"shape": [rows], "parameters": {"binary_data_size": size}}
    return {"name": name, "datatype": datatype, **shape}


PAINS = b"\x04\x00\x00\x00mild\x06\x00\x00\x00strong"


@pytest.mark.parametrize(
    "datatype", ["FP16", "FP32", "FP64", "INT8", "UINT16", "INT64"]
)
def test_binary_tensors_are_those_of_json(service, ward, datatype):
    kind = datatype.lower().replace("fp", "float")
    ages = np.array([58, 36], kind)
    document = {
        "inputs": [
            binary_column("age", datatype, ages.nbytes),
            {"name": "pulse", "datatype": "FP64", "shape": [2], "data": [80, 75]},
            binary_column("pain", "BYTES", len(PAINS)),
        ]
    }
    answer = service.post(INFER, **packed(document, ages.tobytes(), PAINS))
    rows = [[58, 80, "mild"], [36, 75, "strong"]]
    body = {"model": ward, "instances": rows, "rule": "most_probable"}
    expected = service.post("/predict", json=body).json()
    assert answer.status_code == 200, answer.text
    assert output(answer.json(), "probabilities").tolist() == expected["probabilities"]


def test_nan_in_binary_data_is_missing(service, ward):
    ages = np.array([np.nan, 36])
    document = {
        "inputs": [
            binary_column("age", "FP64", 16),
            {"name": "pulse", "datatype": "FP64", "shape": [2], "data": [80, 75]},
            binary_column("pain", "BYTES", len(PAINS)),
        ]
    }
    answer = service.post(INFER, **packed(document, ages.tobytes(), PAINS))
    rows = [[None, 80, "mild"], [36, 75, "strong"]]
    body = {"model": ward, "instances": rows, "rule": "most_probable"}
    expected = service.post("/predict", json=body).json()
    assert output(answer.json(), "probabilities").tolist() == expected["probabilities"]


def test_outputs_come_as_binary_data_where_they_are_to(service, ward):
    names = [{"name": "decisions"}, {"name": "probabilities"}]
    more = {"parameters": {"binary_data_output": True}, "outputs": names}
    plain = infer(service, outputs=names).json()
    answer = infer(service, **more)
    length = int(answer.headers["Inference-Header-Content-Length"])
    document = json.loads(answer.content[:length])
    decisions, probabilities = document["outputs"]
    content = answer.content[length:]
    n = decisions["parameters"]["binary_data_size"]
    assert probabilities["parameters"]["binary_data_size"] == len(content) - n
    words = [
        len(w).to_bytes(4, "little") + w.encode() for w in output(plain, "decisions")
    ]
    assert content[:n] == b"".join(words)
    assert (
        np.frombuffer(content[n:]).tolist()
        == output(plain, "probabilities").ravel().tolist()
    )
    mixed = infer(
        service,
        parameters=more["parameters"],
        outputs=[
            {"name": "decisions", "parameters": {"binary_data": False}},
            {"name": "probabilities"},
        ],
    )
    length = int(mixed.headers["Inference-Header-Content-Length"])
    assert "data" in json.loads(mixed.content[:length])["outputs"][0]


@pytest.mark.parametrize(
    ("inputs", "content", "place"),
    [
        (
            [binary_column("age", "FP64", 8, 1)],
            b"",
            "/inputs/0/parameters/binary_data_size",
        ),
        (
            [binary_column("age", "FP64", -8, 1)],
            b"",
            "/inputs/0/parameters/binary_data_size",
        ),
        (
            [binary_column("age", "FP64", True, 1)],
            b"1",
            "/inputs/0/parameters/binary_data_size",
        ),
        ([binary_column("age", "FP64", 7, 1)], b"1234567", "no whole FP64"),
        ([binary_column("age", "FP65", 8, 1)], b"12345678", "/inputs/0/datatype"),
        ([binary_column("age", "FP16", 2, 1)], b"\x00\xfc", "value 0 is infinite"),
        ([binary_column("age", "FP64", 8, 1)], b"12345678+", "1 bytes follow"),
        ([binary_column("age", "FP64", 8, 2)], b"12345678", "/inputs/0/data"),
        (
            [binary_column("pain", "BYTES", 4, 1)],
            b"\xff\xff\xff\xff",
            "text 0 runs over",
        ),
        ([binary_column("pain", "BYTES", 2, 1)], b"\x00\x00", "text 0 runs over"),
        (
            [binary_column("pain", "BYTES", 5, 1)],
            b"\x01\x00\x00\x00\xff",
            "text 0 is not UTF-8",
        ),
        (
            [binary_column("age", "FP64", 8, 1) | {"data": [1]}],
            b"12345678",
            "without data",
        ),
        (["age"], b"", "/inputs/0"),
    ],
)
def test_binary_data_that_do_not_fit_are_named(service, ward, inputs, content, place):
    answer = service.post(INFER, **packed({"inputs": inputs}, content))
    assert answer.status_code == 400
    assert place in answer.json()["error"]


@pytest.mark.parametrize("length", ["-1", "x", "9999999", "1e3"])
def test_a_length_that_cannot_be_is_named(service, ward, length):
    headers = {"Inference-Header-Content-Length": length}
    answer = service.post(INFER, content=b"{}", headers=headers)
    assert answer.status_code == 400
    assert "Inference-Header-Content-Length" in answer.json()["error"]


def test_other_routes_take_no_tensors(service):
    headers = {"Inference-Header-Content-Length": "2"}
    assert service.post("/retrieve", content=b"{}", headers=headers).status_code in (
        415,
        422,
    )
    assert service.post("/benefit", content=b"{}", headers=headers).status_code == 415
