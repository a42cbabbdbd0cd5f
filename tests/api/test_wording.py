"""What is said about bodies and parameters of the wrong type: our words, and the name that may have been meant."""

from __future__ import annotations

import re
from itertools import product

import pytest
from pydantic_core._pydantic_core import list_all_errors

from tests.conftest import two_class_rows
from tests.messages import says

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
    detail = document.get("detail") or document["error"]  # the Open Inference Protocol has one text
    messages = [detail, *(error["msg"] for error in document.get("errors", ()))]
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
            if body == {"record": True} and path.endswith("/recording"):
                continue  # it is not wrong
            response = service.request(method, concrete(path), json=body)
            invalid = 400 if path.startswith("/v2") else 422
            assert response.status_code in {404, 409, invalid}, (path, body, response.text)
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
    ("path", "body", "loc", "words"),
    [
        ("/predict", {"benefit": 1}, "/benefit", ("'benefit'", "'benefits'")),
        ("/train", {"holdouts": 1}, "/holdouts", ("'holdouts'", "'holdout'")),
        ("/train", {"data": {"dataset": "d", "row": 1}}, "/data/row", ("'row'", "'dataset'")),
        ("/predict", {"costs": {"C_H": 1}}, "/costs/C_H", ("'C_H'", "'C_HD'")),
        ("/models/ward/benefit", {"benefit": 1, "points": 5}, "/benefit", ("'benefit'", "'benefits'")),
        ("/models/ward/benefit", {"f": 1}, "/f", ("'f'", "'benefits'", "'priors'", "'points'")),
        ("/predict", {}, "/model", ("'model'", "required")),
        ("/predict", [], "", ("0 items", "object")),
        ("/models/ward/benefit", {"points": "many"}, "/points", ("'points'", "'many'", "integer")),
        ("/models/ward/benefit", {"points": 1}, "/points", ("'points'", "1", "2")),
        ("/models/ward/benefit", {"benefits": [[0, "x"], [1, 2]]}, "/benefits/0/1", ("'x'", "number")),
        ("/predict", {"threshold": "best"}, "/threshold", ("'threshold'", "'best'", "'posterior'", "'holdout'")),
        ("/predict", {"model": "x" * 201}, "/model", ("'model'", "201", "200")),
        ("/acquire/simulate", {"model": "m", "rows": []}, "", ("dataset", "rows", "labels")),
        (
            "/retrieve",
            {"setting": "binary", "loss": {"name": "f_beta", "bta": 1}, "probabilities": [0.5]},
            "/loss/bta",
            ("'bta'", "'beta'"),
        ),
        (
            "/train",
            {"model": "m", "learner": {"kind": "random_forest", "n_estimator": 1}, "data": two_class_rows(20)},
            "/learner/n_estimator",
            ("'n_estimator'", "'n_estimators'"),
        ),
        ("/train", {"model": "No"}, "/model", ("'model'", "'No'", "64", "a-z", "'_'", "'-'")),
    ],
)
def test_errors_name_the_value_and_what_is_allowed(service, ward, path, body, loc, words):
    response = service.post(path, json=body)

    assert response.status_code == 422
    assert says(loc, *words) in response.json()["errors"]


def test_a_name_that_the_model_does_not_have_suggests_one_that_it_has(service, ward):
    """Features, in rows of objects and as columns, and classes are worded alike."""
    known = {"age": 50, "pulse": 70, "pain": "mild"}
    benefits = [[0, -1], [-10, 5]]
    rows = service.post("/predict", json={"model": ward, "instances": [known | {"pulses": 1}]})
    classes = service.post(
        "/predict", json={"model": ward, "instances": [known], "benefits": benefits, "priors": {"health": 1, "ill": 0}}
    )

    assert rows.json()["errors"] == [says("/instances/0/pulses", "'pulses'", "'pulse'")]
    assert says("/priors/health", "'health'", "'healthy'") in classes.json()["errors"]


def test_only_the_alternative_that_is_meant_is_checked(service):
    """Data of a training order are a reference or a table: the errors are about what was sent."""
    order = {"model": "m", "learner": {"kind": "logistic"}, "data": {"rows": [[1]], "labels": [1], "feature": ["a"]}}

    response = service.post("/train", json=order)

    assert response.json()["errors"] == [
        says("/data/features", "'features'", "required"),
        says("/data/feature", "'feature'", "'features'"),
    ]


def test_the_words_about_a_form(service):
    table = {"file": ("t.csv", b"a,y\n1,p\n2,q\n")}
    unknown = service.post("/datasets", files=table, data={"labels": "y"})
    missing = service.post("/datasets", files={"name": (None, b"t")}, data={"label": "y"})
    text = service.post("/datasets", files={"file": (None, b"a")}, data={"label": "y"})

    assert unknown.json()["errors"] == [says("/labels", "'labels'", "'label'")]
    assert missing.json()["errors"] == [says("/file", "'file'", "required")]
    assert text.json()["errors"] == [says("/file", "'file'", "text")]


def test_the_words_about_a_parameter(service):
    response = service.get("/datasets", params={"page_size": 0})

    assert response.json()["errors"] == [says("/page_size", "'page_size'", "'0'", "1")]
