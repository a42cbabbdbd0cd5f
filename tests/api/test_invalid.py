"""Bodies and parameters of the wrong type: one error for each place, with a pointer into what was sent."""

import re
from itertools import product

from tests.messages import says

WRONG = [
    None,
    True,
    -1,
    0.5,
    10**30,
    "",
    "x" * 300,
    "No Name",
    [],
    [[]],
    [None],
    {},
    {"x/y": 1},
    {"kind": "x"},
]


def nested(document, schema, steps=()):
    """The steps to every documented field of a body."""
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    for choice in (*schema.get("anyOf", ()), *schema.get("oneOf", ())):
        yield from nested(document, choice, steps)
    for name, inner in schema.get("properties", {}).items():
        yield (*steps, name)
        yield from nested(document, inner, (*steps, name))


def exists(sent, pointer):
    """Whether the pointer leads to a value in what was sent, or to a field that is missing there."""
    *steps, last = [""] + [
        step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]
    ]
    for step in steps[1:]:
        sent = sent[int(step)] if isinstance(sent, list) else sent[step]
    return (
        not steps
        or isinstance(sent, dict)
        or (isinstance(sent, list) and int(last) < len(sent))
    )


def test_every_wrong_value_of_every_field_has_one_error_at_its_place(service, ward):
    document = service.get("/openapi.json").json()
    tried = 0
    listed = [
        (path, *one)
        for path, methods in document["paths"].items()
        for one in methods.items()
    ]
    for path, method, operation in listed:
        content = (
            operation.get("requestBody", {})
            .get("content", {})
            .get("application/json", {"schema": {}})
        )
        fields = sorted(set(nested(document, content["schema"])))
        for steps, value in product(fields, WRONG):
            body = value
            for step in reversed(steps):
                body = {step: body}
            url = re.sub(
                r"\{(\w+)\}", lambda part: {"version": "1"}.get(part[1], "ward"), path
            )
            response = service.request(method, url, json=body)
            invalid = 400 if path.startswith("/v2") else 422
            assert response.status_code in {404, 409, invalid}, (
                path,
                body,
                response.text,
            )
            places = [error["loc"] for error in response.json().get("errors", ())]
            assert len(set(places)) == len(places), (path, body, response.text)
            assert all(exists(body, place) for place in places), (
                path,
                body,
                response.text,
            )
            tried += 1
    assert tried > 500


def test_an_unknown_field_is_told_with_the_nearest(service):
    """One that is misspelt is not reported as one that is missing, too."""
    body = {"model": "m", "lerner": {"kind": "logistic"}, "data": {"dataset": "d"}}
    errors = service.post("/train", json=body).json()["errors"]

    assert errors == [says("/lerner", "did you mean 'learner'")]
    nested = {
        "model": "m",
        "instances": [[1]],
        "record": {"id": ["a"], "instance": True},
    }
    assert service.post("/predict", json=nested).json()["errors"] == [
        says("/record/id", "unknown field", "ids"),
        says("/record/instance", "unknown field"),
    ]


def test_what_curl_sends_for_a_file_is_said(service):
    """`-d @file` makes one line of it, in a media type of its own."""
    as_form = {"Content-Type": "application/x-www-form-urlencoded"}
    for path in ("/predict", "/datasets?label=y"):
        refused = service.post(path, content=b"x,y1,a2,b", headers=as_form)
        assert refused.status_code == 415
        assert "--data-binary" in refused.json()["detail"]
    joined = service.post(
        "/datasets?label=y", content=b"x,y1,a2,b", headers={"Content-Type": "text/csv"}
    )
    assert joined.json()["errors"] == [says("/file", "'x,y1,a2,b'", "--data-binary")]
    cut = service.post(
        "/datasets", files={"file": ("t.csv", b"x,y")}, data={"delimiter": ""}
    )
    assert says("/delimiter", "not ''") in cut.json()["errors"]
