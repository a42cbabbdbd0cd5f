"""The OpenAPI document: its examples work in order, and its promises are kept under fuzzing."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from tests.api.operations import example_of
from tests.api.operations import operations as all_operations
from tests.conftest import serving, settings_for
from tests.effort import repeated

REFERENCE = Path(__file__).parents[2] / "docs" / "reference" / "requests.md"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service in which nothing was done yet."""
    with serving(
        settings_for(tmp_path_factory.mktemp("fresh"), job_seconds=60)
    ) as client:
        yield client


def operations(document: dict) -> list[tuple[str, str, dict]]:
    """In the order of the page: by tag, and within a tag as they come."""
    order = [tag["name"] for tag in document["tags"]]
    listed = [
        (path, method, op)
        for path, methods in document["paths"].items()
        for method, op in methods.items()
    ]
    return sorted(listed, key=lambda found: order.index(found[2]["tags"][0]))


def try_out(
    client: httpx.Client, path: str, method: str, operation: dict, body: object = None
) -> httpx.Response:
    """Send an operation with the examples that the page fills in, or with another `body`."""
    query, headers = {}, {}
    for parameter in operation.get("parameters", []):
        value = example_of(parameter)
        if parameter["in"] == "path":
            assert value is not None, (
                f"{method} {path}: no example for {parameter['name']}"
            )
            path = path.replace("{" + parameter["name"] + "}", str(value))
        elif value is not None:
            (query if parameter["in"] == "query" else headers)[parameter["name"]] = (
                value
            )
    content = None
    if "requestBody" in operation:
        kind, described = next(iter(operation["requestBody"]["content"].items()))
        headers["Content-Type"] = kind
        example = example_of(described) if body is None else body
        content = example if isinstance(example, str) else json.dumps(example)
    response = client.request(
        method, path, params=query, headers=headers, content=content
    )
    if (
        response.status_code == 202 and method == "post"
    ):  # a busy machine needs longer than the examples wait
        client.get(response.headers["Location"], headers={"Prefer": "wait=60"})
    return response


def alternatives(schema: object) -> Iterator[list[dict]]:
    """The alternatives of every union below a schema."""
    for name, part in schema.items() if isinstance(schema, dict) else enumerate(schema):
        if name in ("oneOf", "anyOf"):
            yield part
        if isinstance(part, dict | list):
            yield from alternatives(part)


def test_of_alternatives_at_most_one_is_a_list(fresh):
    """Generators of clients read a list by the first that is one, and objects in it as rows."""
    document = fresh.get("/openapi.json").json()
    unions = [*alternatives(document["components"]), *alternatives(document["paths"])]

    lists = [
        [part for part in union if part.get("type") == "array"] for union in unions
    ]
    assert [found for found in lists if len(found) > 1] == []


def test_every_field_of_a_json_body_is_in_the_reference():
    """In code: a field that is only in this document is found by nobody who reads the pages."""
    code = " ".join(
        re.findall(
            r"`[^`\n]+`|^```.*?^```", REFERENCE.read_text(), re.MULTILINE | re.DOTALL
        )
    )
    listed = [operation for operation in all_operations() if operation.takes_json]
    missing = {one.path: one.fields - set(re.findall(r"\w+", code)) for one in listed}
    assert {path: fields for path, fields in missing.items() if fields} == {}
    assert len(listed) >= 10


def sent(client: httpx.Client, *, deleting: bool) -> list[tuple[str, str, int, str]]:
    """What the page fills in, from top to bottom, and its answers; of predictions all examples, as outcomes are those
    of the recorded one. A model's file cannot be an example in a document.
    """
    found = []
    for path, method, operation in operations(client.get("/openapi.json").json()):
        contents = operation.get("requestBody", {}).get("content", {})
        if (method == "delete") != deleting or (
            "multipart/form-data" in contents and len(contents) == 1
        ):
            continue
        examples = (
            next(iter(contents.values()), {}).get("examples", {}).values()
            if path == "/predict"
            else [None]
        )
        for example in examples:
            answer = try_out(
                client, path, method, operation, example and example["value"]
            )
            found.append((method, path, answer.status_code, answer.text[:200]))
    return found


def test_every_operation_has_an_example_that_works_in_order(fresh):
    """What removes things comes last; only for cancelling it is too late by then."""
    made, removed = (sent(fresh, deleting=deleting) for deleting in (False, True))
    failed = [each for each in (*made, *removed) if each[2] >= 400]

    assert [each[:3] for each in failed] == [("delete", "/jobs/{job_id}", 409)], failed
    assert (len(made) >= 30, len(removed) >= 7) == (True, True)


def test_the_document_is_valid_openapi(fresh):
    document = fresh.get("/openapi.json").json()

    assert document["openapi"].startswith("3.1.")
    assert [
        str(error) for error in OpenAPIV31SpecValidator(document).iter_errors()
    ] == []
    assert "itemSchema" not in json.dumps(document)


@pytest.mark.thorough
def test_fuzzing_finds_no_broken_promise(fresh, tmp_path):
    """No 5xx, no undocumented status, and answers that match their schemas, whatever is sent."""
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [
        *(
            sys.executable,
            "-m",
            "schemathesis.cli",
            "run",
            f"{fresh.base_url}/openapi.json",
        ),
        *("--checks", checks, "--max-examples", str(repeated(8)), "--seed", "1"),
        *("--phases", "examples,coverage,fuzzing"),
        *("--exclude-path-regex", "/events$", "--request-timeout", "30", "--no-color"),
    ]
    found = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=900, check=False
    )

    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
