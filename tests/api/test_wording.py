"""What is said about bodies and parameters of the wrong type: our words, and the name that may have been meant."""

from __future__ import annotations

import re
from itertools import product

import pytest
from pydantic_core._pydantic_core import list_all_errors

from tests.conftest import two_class_rows

WRONG = [None, True, -1, 0.5, 10**30, "", "x" * 300, "No Name", [], [[]], [None], {}, {"x/y": 1}, {"kind": "x"}]
WRONG_TEXTS = ["", "x" * 300, "No Name", "-1", "0", "1.5", "1e3", "\u00e9", "9" * 30]
PLACES = {"{ref}": "ward", "{name}": "ward", "{alias}": "a", "{version}": "1", "{job_id}": "j", "{dataset_id}": "d"}


def template(text):
    """A regular expression of what pydantic makes of one of its templates."""
    return "".join("\\S.*" if part.startswith("{") else re.escape(part) for part in re.split(r"(\{\w+\})", text))


TEMPLATES = re.compile("|".join(template(each["message_template_python"]) for each in list_all_errors()))


def concrete(path):
    for name, value in PLACES.items():
        path = path.replace(name, value)
    return path


def schema_of(document, schema):
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema


def nested(document, schema, steps=()):
    """The steps to every documented field of a body."""
    schema = schema_of(document, schema)
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from nested(document, choice, steps)
    for name, inner in schema.get("properties", {}).items():
        yield (*steps, name)
        yield from nested(document, inner, (*steps, name))


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield method, path, operation


def check_words(response):
    """No message is pydantic's, nor holds a regular expression."""
    document = response.json()
    messages = [document["detail"], *(error["msg"] for error in document.get("errors", ()))]
    for message in messages:
        assert not TEMPLATES.search(message), message
        assert not re.search(r"[\[(]\^|\^\[|\\x|\{\d+,\d*\}", message), message
        assert not message.endswith("."), message
    return messages


def test_templates_are_recognized():
    for message in (
        "Field required",
        "Input should be 'a' or 'b'",
        "Value error, no",
        "String should match pattern 'x'",
    ):
        assert TEMPLATES.search(message)


def test_every_wrong_value_of_every_field_is_worded(service, ward):
    document = service.get("/openapi.json").json()
    tried = 0
    for method, path, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {})
        if "application/json" not in content:
            continue
        fields = sorted(set(nested(document, content["application/json"]["schema"])))
        for steps, value in product(fields, WRONG):
            body = value
            for step in reversed(steps):
                body = {step: body}
            response = service.request(method, concrete(path), json=body)
            assert response.status_code in {404, 409, 422}, (path, body, response.text)
            check_words(response)
            tried += 1
    assert tried > 500


def test_every_wrong_value_of_every_parameter_is_worded(service, ward):
    document = service.get("/openapi.json").json()
    for method, path, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            for text in WRONG_TEXTS:
                if method != "get" or "events" in path:
                    continue
                place, name = parameter["in"], parameter["name"]
                asked = path.replace(f"{{{name}}}", text or "-") if place == "path" else path
                query = {name: text} if place == "query" else {}
                headers = {name: text.encode()} if place == "header" else {}
                response = service.get(concrete(asked), params=query, headers=headers)
                if response.status_code >= 400 and "json" in response.headers["content-type"]:
                    check_words(response)


@pytest.mark.parametrize(
    ("path", "body", "loc", "message"),
    [
        ("/predict", {"benefit": 1}, "/benefit", "unknown field 'benefit'; did you mean 'benefits'?"),
        ("/train", {"holdouts": 1}, "/holdouts", "unknown field 'holdouts'; did you mean 'holdout'?"),
        ("/train", {"data": {"dataset": "d", "row": 1}}, "/data/row", "unknown field 'row'; allowed: 'dataset'"),
        ("/predict", {"costs": {"C_H": 1}}, "/costs/C_H", "unknown field 'C_H'; did you mean 'C_HD'?"),
        (
            "/models/ward/benefit",
            {"benefit": 1, "points": 5},
            "/benefit",
            "unknown field 'benefit'; did you mean 'benefits'?",
        ),
        ("/models/ward/benefit", {"f": 1}, "/f", "unknown field 'f'; allowed: 'benefits', 'priors', 'points'"),
        ("/predict", {}, "/model", "'model' is required"),
        ("/predict", [], "", "the body is a list of 0 items; it must be an object"),
        ("/models/ward/benefit", {"points": "many"}, "/points", "'points' is 'many'; it must be an integer"),
        ("/models/ward/benefit", {"points": 1}, "/points", "'points' is 1; it must be at least 2"),
        (
            "/models/ward/benefit",
            {"benefits": [[0, "x"]]},
            "/benefits/0/1",
            "'benefits[0][1]' is 'x'; it must be a number",
        ),
        (
            "/predict",
            {"threshold": "best"},
            "/threshold",
            "'threshold' is 'best'; it must be 'posterior' or 'holdout' or a number",
        ),
        (
            "/predict",
            {"model": "x" * 201},
            "/model",
            "'model' is a string of 201 characters; it must have at most 200 characters",
        ),
        ("/acquire/simulate", {"model": "m", "rows": []}, "", "send either dataset, or rows with labels"),
        (
            "/retrieve",
            {"setting": "binary", "loss": {"name": "f_beta", "bta": 1}, "probabilities": [0.5]},
            "/loss/bta",
            "unknown f_beta parameter 'bta'; did you mean 'beta'?",
        ),
        (
            "/train",
            {"model": "m", "learner": {"kind": "random_forest", "n_estimator": 1}, "data": two_class_rows(20)},
            "/learner/n_estimator",
            "unknown random_forest parameter 'n_estimator'; did you mean 'n_estimators'?",
        ),
        (
            "/train",
            {"model": "No"},
            "/model",
            "'model' is 'No'; it must be 1 to 64 of a-z, 0-9, '_' and '-', beginning with a letter or digit",
        ),
    ],
)
def test_the_words(service, ward, path, body, loc, message):
    response = service.post(path, json=body)

    assert response.status_code == 422
    assert {"loc": loc, "msg": message} in response.json()["errors"]


def test_a_name_that_the_model_does_not_have_suggests_one_that_it_has(service, ward):
    """Features, in rows of objects and as columns, and classes are worded alike."""
    known = {"age": 50, "pulse": 70, "pain": "mild"}
    benefits = [[0, -1], [-10, 5]]
    rows = service.post("/predict", json={"model": ward, "instances": [known | {"pulses": 1}]})
    classes = service.post(
        "/predict", json={"model": ward, "instances": [known], "benefits": benefits, "priors": {"health": 1, "ill": 0}}
    )

    assert rows.json()["errors"] == [
        {"loc": "/instances/0/pulses", "msg": "unknown feature 'pulses'; did you mean 'pulse'?"}
    ]
    assert {"loc": "/priors/health", "msg": "unknown class 'health'; did you mean 'healthy'?"} in classes.json()[
        "errors"
    ]


def test_only_the_alternative_that_is_meant_is_checked(service):
    """Data of a training order are a reference or a table: the errors are about what was sent."""
    order = {"model": "m", "learner": {"kind": "logistic"}, "data": {"rows": [[1]], "labels": [1], "feature": ["a"]}}

    response = service.post("/train", json=order)

    assert response.json()["errors"] == [
        {"loc": "/data/features", "msg": "'features' is required"},
        {"loc": "/data/feature", "msg": "unknown field 'feature'; did you mean 'features'?"},
    ]


def test_the_words_about_a_form(service):
    table = {"file": ("t.csv", b"a,y\n1,p\n2,q\n")}
    unknown = service.post("/datasets", files=table, data={"labels": "y"})
    missing = service.post("/datasets", files={"name": (None, b"t")}, data={"label": "y"})
    text = service.post("/datasets", files={"file": (None, b"a")}, data={"label": "y"})

    assert unknown.json()["errors"] == [{"loc": "/labels", "msg": "unknown form field 'labels'; did you mean 'label'?"}]
    assert missing.json()["errors"] == [{"loc": "/file", "msg": "'file' is required"}]
    assert text.json()["errors"] == [
        {"loc": "/file", "msg": "'file' is text; it must be a file part (with a file name)"}
    ]


def test_the_words_about_a_parameter(service):
    response = service.get("/datasets", params={"page_size": 0})

    assert response.json()["errors"] == [{"loc": "/page_size", "msg": "'page_size' is '0'; it must be at least 1"}]
