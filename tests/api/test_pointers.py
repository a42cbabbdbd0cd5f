"""Names that contain `/` and `~`: every route reports them with an escaped JSON pointer."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.api.column_bodies import arrow
from tests.conftest import trained, two_class_rows

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
BENEFITS = [[0, -1], [-10, 5]]


@pytest.fixture(scope="module")
def escaped(service):
    """A forest of the features `a/b`, `c~d` (categorical) and `e`, with the classes `x/y` and `z~`."""
    data = two_class_rows(120)
    rows = [[age, pain, pulse] for age, pulse, pain in data["rows"]]
    labels = ["x/y" if label == "ill" else "z~" for label in data["labels"]]
    data = {"features": ["a/b", "c~d", "e"], "rows": rows, "labels": labels}
    learner = {"kind": "random_forest", "n_estimators": 5}
    trained(service, {"model": "escaped", "learner": learner, "data": data, "holdout": 0.3})
    return "escaped"


def case(**changes):
    return {"a/b": 50, "c~d": "mild", "e": 70} | changes


BODIES = [
    ("/predict", {"instances": [case(), case(**{"a/b": "old"})]}, "/instances/1/a~1b"),
    ("/predict", {"instances": [case(**{"c~d": 1})]}, "/instances/0/c~0d"),
    ("/predict", {"instances": [case(**{"f~/": 1})]}, "/instances/0/f~0~1"),
    ("/predict", {"instances": [case()], "priors": {"x/y": "much", "z~": 0.5}}, "/priors/x~1y"),
    ("/predict", {"instances": [case()], "benefits": BENEFITS, "priors": {"x/": 0.5, "z~": 0.5}}, "/priors/x~1"),
    ("/acquire", {"known": {"a/b": "old"}}, "/known/a~1b"),
    ("/acquire", {"known": {"f~/": 1}}, "/known/f~0~1"),
    ("/acquire", {"instances": [{}, {"c~d": 1}]}, "/instances/1/c~0d"),
    ("/acquire", {"instances": [{}, {"f~/": 1}]}, "/instances/1/f~0~1"),
    ("/acquire", {"known": {}, "feature_costs": {"a/b": -1}}, "/feature_costs/a~1b"),
    ("/acquire", {"known": {}, "feature_costs": {"f~/": 1}}, "/feature_costs/f~0~1"),
    ("/acquire", {"known": {}, "feature_costs": [{"feature": "e", "cost": 1, "k/~": 1}]}, "/feature_costs/0/k~1~0"),
    ("/models/escaped/benefit", {"benefits": BENEFITS, "priors": {"x/y": "much"}}, "/priors/x~1y"),
    ("/models/escaped/benefit", {"benefits": BENEFITS, "priors": {"x/": 1}}, "/priors/x~1"),
    ("/retrieve", {"setting": "binary", "loss": {"name": "f_beta", "b/~": 1}, "probabilities": [0.5]}, "/loss/b~1~0"),
    ("/train", {"learner": {"kind": "logistic", "C/~": 1}, "data": two_class_rows(20)}, "/learner/C~1~0"),
    ("/train", {"learner": {"kind": "random_forest"}, "data": {"r/~": 1}}, "/data/r~1~0"),
]
UNNAMED = ("/models", "/retrieve")  # routes that take the model from the path, or none


@pytest.mark.parametrize(("path", "body", "loc"), BODIES)
def test_a_name_in_a_json_body_is_escaped(service, escaped, path, body, loc):
    model = {} if path.startswith(UNNAMED) else {"model": escaped}

    response = service.post(path, json=model | body)

    assert response.status_code == 422
    assert loc in [error["loc"] for error in response.json()["errors"]]


def columns(**changes):
    arrays = {"a/b": [50.0], "c~d": ["mild"], "e": [70.0]} | changes
    return list(arrays.items())


@pytest.mark.parametrize(
    ("named", "loc"),
    [
        (columns(**{"a/b": ["old"]}), "/a~1b"),
        (columns(**{"c~d": [1.0]}), "/c~0d"),
        (columns(**{"f~/": [1.0]}), "/f~0~1"),
        ([*columns(), ("a/b", [1.0])], "/a~1b"),
    ],
)
def test_a_column_of_an_arrow_stream_is_escaped(service, escaped, named, loc):
    body = arrow(pa.Table.from_arrays([pa.array(values) for _, values in named], [name for name, _ in named]))

    response = service.post("/predict", params={"model": escaped}, content=body, headers=ARROW)

    assert response.status_code == 422
    assert [error["loc"] for error in response.json()["errors"]] == [loc]


def test_a_field_of_a_form_and_a_column_of_a_file_are_escaped(service):
    table = b"a/b,y\n1e999,p\n2,q\n3,p\n4,q\n"
    field = service.post("/datasets", files={"file": ("t.csv", table)}, data={"label": "y", "f~/": "1"})
    column = service.post("/datasets", files={"file": ("t.csv", table)}, data={"label": "y"})

    assert [error["loc"] for error in field.json()["errors"]] == ["/f~0~1"]
    assert [error["loc"] for error in column.json()["errors"]] == ["/file/a~1b"]
