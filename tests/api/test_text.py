"""Text that enters over HTTP: control characters and overlong names are refused in every field of every route."""

from __future__ import annotations

import copy
import gc
import json
import socket
import tracemalloc
from urllib.parse import quote

import pytest

from tests.api.column_bodies import arrow
from tests.api.operations import operations
from tests.messages import says

BAD = ["\0", "\x01", "\x0b", "\x1f", "\x7f", "\x85"]
LONG = 200
TAKING = {f"{one.method} {one.url}": one.body for one in operations() if one.takes_json}


def texts(document, steps=()):
    """The steps to every string and to every key of an object, with whether it is a key."""
    if isinstance(document, str):
        yield steps, False
    elif isinstance(document, list):
        for i, item in enumerate(document):
            yield from texts(item, (*steps, i))
    elif isinstance(document, dict):
        for name, item in document.items():
            yield (*steps, name), True
            yield from texts(item, (*steps, name))


def changed(body, steps, is_key, change):
    body = copy.deepcopy(body)
    holder = body
    for step in steps[:-1]:
        holder = holder[step]
    if is_key:
        holder[change(steps[-1])] = holder.pop(steps[-1])
    else:
        holder[steps[-1]] = change(holder[steps[-1]])
    return body


def resolves(loc, body):
    for part in loc.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        body = body[int(name)] if isinstance(body, list) else body[name]
    return True


@pytest.mark.parametrize("route", TAKING)
def test_control_characters_in_bodies(service, route):
    """Each string and each key in turn: 422 with a pointer to it, whatever else would be said of it."""
    (method, path), body = route.split(" "), TAKING[route]
    assert list(texts(body))
    for number, (steps, is_key) in enumerate(texts(body)):
        bad = BAD[number % len(BAD)]
        sent = changed(body, steps, is_key, lambda word, bad=bad: f"{word}{bad}x")
        response = service.request(method, path, json=sent)

        assert response.status_code == 422, (steps, response.text)
        [flaw] = response.json()["errors"]
        assert f"U+{ord(bad):04X}" in flaw["msg"], (steps, flaw)
        assert resolves(flaw["loc"], sent)


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


@pytest.mark.parametrize("bad", BAD[:5])
@pytest.mark.parametrize("route", ["/train", "/compare"])
def test_idempotency_keys(service, route, bad):
    """By the server, or by the route: no such key is kept."""
    body = json.dumps(TAKING[f"POST {route}"]).encode()
    head = f"POST {route} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nIdempotency-Key: a{bad}b\r\n"
    with socket.create_connection((service.base_url.host, service.base_url.port), timeout=20) as connection:
        connection.sendall(head.encode() + f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)
        answer = b""
        while received := connection.recv(65536):
            answer += received

    assert answer.split(b" ", 2)[1] in (b"400", b"422")


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.thorough
def test_uploads(service, bad):
    """Names in the query, in the form, in the header, and words in cells and labels."""
    table = b"a,b,y\n1,u,p\n2,v,q\n3,u,p\n4,v,q\n"

    def flaws(content, label="y", name="n", **query):
        sent = service.post("/datasets", params=query, files={"file": content}, data={"label": label, "name": name})
        assert sent.status_code == 422, sent.text
        return [(flaw["loc"], f"U+{ord(bad):04X}" in flaw["msg"]) for flaw in sent.json()["errors"]]

    encoded = bad.encode()
    assert flaws(table, name=f"n{bad}") == [("/name", True)]
    assert flaws(table, label=f"y{bad}") == [("/label/0", True)]
    assert flaws(table.replace(b"a,b", b"a" + encoded + b"x,b")) == [("/file", True)]
    assert flaws(table.replace(b"2,v", b"2,v" + encoded + b"x")) == [("/file/b", True)]
    assert flaws(table.replace(b"u,p\n2", b"u,p" + encoded + b"x\n2")) == [("/file/y", True)]
    response = service.post(f"/datasets?label=y&name={quote(bad)}", content=table, headers={"Content-Type": "text/csv"})
    assert response.json()["errors"][0]["loc"] == "/name"


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
    """Requests with names of their own, also of the longest kind, leave nothing in the memory of the service.

    The service runs in this process, so what its caches keep is traced.
    """
    question = {"model": "ward", "instances": [[40, 70, "mild"]], "benefits": [[0, 0], [1, 1]]}

    def ask(i, length):
        actions = [f"{i}a".ljust(length, "x"), f"{i}b".ljust(length, "x")]
        return service.post("/predict", json={**question, "actions": actions})

    assert ask(0, LONG).status_code == 200
    assert ask(0, LONG + 1).status_code == 422
    tracemalloc.start()
    try:
        ask(1, LONG)
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for i in range(2, 200):
            ask(i, LONG)
            ask(i, 100_000)
        gc.collect()
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after - before < 300_000
