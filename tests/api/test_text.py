"""Text that enters over HTTP: control characters and overlong names are refused in every field of every route."""

import gc
import tracemalloc

import pytest

from tests.api.column_bodies import arrow
from tests.api.operations import operations
from tests.messages import says

BAD = ["\0", "\x01", "\x0b", "\x1f", "\x7f", "\x85"]
LONG = 200
TAKING = {f"{one.method} {one.url}": one.body for one in operations() if one.takes_json}


@pytest.mark.parametrize("route", TAKING)
def test_control_characters_in_bodies(service, route):
    """In a string or a key, wherever it stands: 422 with a pointer to it, whatever else would be said of it."""
    method, path = route.split(" ")
    for bad in BAD:
        for sent, place in (({"x": [f"a{bad}"]}, "/x/0"), ({f"a{bad}": 1}, f"/a{bad}")):
            response = service.request(method, path, json=TAKING[route] | sent)

            assert response.status_code == 422, response.text
            assert response.json()["errors"] == [says(place, f"U+{ord(bad):04X}")]


def test_query_parameters(service):
    """Each query parameter of each operation, by the OpenAPI document."""
    parameters = [
        (one, each["name"])
        for one in operations()
        for each in one.document.get("parameters", ())
        if each["in"] == "query"
    ]
    assert len(parameters) >= 10
    for operation, name in parameters:
        response = service.request(operation.method, f"{operation.url}?{name}=a%00b")
        assert response.status_code == 422, (operation, name)
        assert response.json()["errors"] == [says(f"/{name}", "U+0000", "position 1")]


def test_arrow_columns(service, ward):
    response = service.post(
        "/predict?model=ward&rule=most_probable",
        content=arrow({"age": [40.0], "pulse": [70.0], "pain": ["mild\0"]}),
        headers={"Content-Type": "application/vnd.apache.arrow.stream"},
    )

    assert response.status_code == 422
    assert "U+0000" in response.json()["detail"]


@pytest.mark.thorough
def test_names_are_not_retained(service, ward):
    """Requests with names of their own, also of the longest kind, leave nothing in the memory of the service, but for
    the last few. It runs in this process, so what its caches keep is traced.
    """
    question = {
        "model": "ward",
        "instances": [[40, 70, "mild"]],
        "benefits": [[0, 0], [1, 1]],
    }

    def ask(i, length):
        actions = [f"{i}{name}".ljust(length, "x") for name in "ab"]
        return service.post(
            "/predict", json={**question, "actions": actions}
        ).status_code

    assert (ask(0, LONG), ask(0, LONG + 1)) == (200, 422)
    kept = []
    tracemalloc.start()
    try:
        for i in range(900):
            ask(i, LONG)
            ask(i, 100_000)
            if i in (600, 899):
                gc.collect()
                kept.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert kept[1] - kept[0] < 300_000
