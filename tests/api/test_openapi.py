"""The OpenAPI document: its examples work in order, and its promises are kept under fuzzing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest

from tests.api.operations import example_of
from tests.conftest import serving, settings_for


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service in which nothing was done yet."""
    with serving(settings_for(tmp_path_factory.mktemp("fresh"), job_seconds=20)) as client:
        yield client


def operations(document: dict) -> list[tuple[str, str, dict]]:
    """In the order of the page: by tag, and within a tag as they come."""
    order = [tag["name"] for tag in document["tags"]]
    listed = [(path, method, op) for path, methods in document["paths"].items() for method, op in methods.items()]
    return sorted(listed, key=lambda found: order.index(found[2]["tags"][0]))


def try_out(client: httpx.Client, path: str, method: str, operation: dict) -> httpx.Response:
    """Send an operation with the examples that the page fills in."""
    query, headers = {}, {}
    for parameter in operation.get("parameters", []):
        value = example_of(parameter)
        if parameter["in"] == "path":
            assert value is not None, f"{method} {path}: no example for {parameter['name']}"
            path = path.replace("{" + parameter["name"] + "}", str(value))
        elif value is not None:
            (query if parameter["in"] == "query" else headers)[parameter["name"]] = value
    content = None
    if "requestBody" in operation:
        kind, body = next(iter(operation["requestBody"]["content"].items()))
        headers["Content-Type"] = kind
        example = example_of(body)
        content = example if isinstance(example, str) else json.dumps(example)
    return client.request(method, path, params=query, headers=headers, content=content)


def test_every_operation_has_an_example_that_works_in_order(fresh):
    """What the page fills in, sent from top to bottom, succeeds; only for cancelling it is too late by then."""
    document = fresh.get("/openapi.json").json()
    tried = []
    for path, method, operation in operations(document):
        if list(operation.get("requestBody", {}).get("content", {})) == ["multipart/form-data"]:
            continue  # a model's file cannot be an example in a document
        response = try_out(fresh, path, method, operation)
        tried.append((method, path, response.status_code, response.text[:200] if response.status_code >= 400 else ""))

    late = {
        ("delete", "/train/{job_id}", 409),
        ("delete", "/calibrate/{job_id}", 409),
        ("delete", "/compare/{job_id}", 409),
    }
    assert {row[:3] for row in tried if row[2] >= 400} == late, tried
    assert len(tried) >= 18


def test_every_operation_says_what_it_does(fresh):
    document = fresh.get("/openapi.json").json()

    assert [path for path, _, operation in operations(document) if not operation.get("summary")] == []
    assert "HTTPValidationError" not in json.dumps(document)


def test_fuzzing_finds_no_broken_promise(fresh, tmp_path):
    """No 5xx, no undocumented status, and answers that match their schemas, whatever is sent."""
    checks = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
    command = [
        *(sys.executable, "-m", "schemathesis.cli", "run", f"{fresh.base_url}/openapi.json"),
        *("--checks", checks, "--max-examples", "8", "--seed", "1", "--phases", "examples,coverage,fuzzing"),
        *("--exclude-path-regex", "/events$", "--request-timeout", "30", "--no-color"),
    ]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)

    assert found.returncode == 0, found.stdout[-6000:] + found.stderr[-2000:]
