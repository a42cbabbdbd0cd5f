"""Valid requests, what makes them odd, and what no answer may hold."""

from __future__ import annotations

import copy
import io
import json
import random
import re
import socket
import sys
import urllib.parse
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from typing import Any

import numpy as np
import pyarrow as pa

from tests.servers.program import PROJECT

JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"
BENEFITS = [[0, -1], [-10, 5]]
RAW = "\0raw\0"  # marks what is put into a JSON text as it stands


@dataclass(frozen=True)
class Sent:
    """A request, before it is written as bytes."""

    method: str
    path: str
    body: Any = None
    """JSON, or bytes that are sent as they are, or None."""
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def to_bytes(self, host: str) -> bytes:
        """As HTTP/1.1 on the wire, with whatever oddity it has."""
        content = b"" if self.body is None else self.body if isinstance(self.body, bytes) else written(self.body)
        target = self.path + ("?" + urllib.parse.urlencode(self.query) if self.query else "")
        kind = {} if self.body is None or isinstance(self.body, bytes) else {"Content-Type": JSON}
        headers = {"Host": host, **kind, "Content-Length": str(len(content)), **self.headers}
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + content


def written(body: Any) -> bytes:
    """JSON text, in which strings that begin with RAW stand without quotes."""
    text = json.dumps(body)
    mark = re.escape(json.dumps(RAW)[1:-1])
    return re.sub(rf'"{mark}((?:[^"\\]|\\.)*)"', lambda found: json.loads(f'"{found[1]}"'), text).encode()


def examples(document: Mapping[str, Any], model: str) -> list[Sent]:
    """Valid requests for the operations of the OpenAPI document, about a model that exists, and with arrays.

    What deletes is left out: most others would then find nothing.
    """
    return [*described(document), *_about(model), *_about(model), *_arrays(model)]


def described(document: Mapping[str, Any]) -> list[Sent]:
    """The examples of the document in the order of its page, in which each finds what those before it made."""
    order = [tag["name"] for tag in document["tags"]]
    operations = [
        (order.index(operation["tags"][0]), path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if method != "delete" and not path.endswith("/events")
    ]
    operations.sort(key=lambda found: found[0])
    return [request for _, *found in operations for request in _examples_of(*found)]


def _examples_of(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[Sent]:
    query, headers = {}, {}
    for parameter in operation.get("parameters", []):
        value = _first(parameter)
        if parameter["in"] == "path":
            path = path.replace("{" + parameter["name"] + "}", str(value))
        elif value is not None:
            (query if parameter["in"] == "query" else headers)[parameter["name"]] = str(value)
    for name in ("Prefer", "Idempotency-Key"):  # one would only wait, the other do nothing the second time
        headers.pop(name, None)
    bodies = operation.get("requestBody", {}).get("content", {})
    if not bodies:
        yield Sent(method.upper(), path, None, query, headers)
    for kind, body in bodies.items():
        for example in [*body.get("examples", {}).values(), {"value": body.get("example")}]:
            value = example["value"]
            if isinstance(value, str):
                yield Sent(method.upper(), path, value.encode(), query, {**headers, "Content-Type": kind})
            elif value is not None:
                yield Sent(method.upper(), path, value, query, headers)


def _first(parameter: Mapping[str, Any]) -> Any:
    if "examples" in parameter:
        return next(iter(parameter["examples"].values()))["value"]
    return parameter.get("example")


def _about(model: str) -> list[Sent]:
    rows = [[52, 134, "mild"], [36, None, "strong"]]
    asked = {"model": model, "instances": rows}
    return [
        Sent("POST", "/predict", asked | {"benefits": BENEFITS, "actions": ["wait", "treat"]}),
        Sent("POST", "/predict", asked | {"rule": "threshold", "threshold": "holdout", "benefits": BENEFITS}),
        Sent("POST", "/predict", asked | {"rule": "most_probable", "priors": {"ill": 0.1, "healthy": 0.9}}),
        Sent("POST", "/retrieve", asked | {"setting": "binary", "loss": {"name": "f_beta", "beta": 1}}),
        Sent("POST", "/retrieve", {"probabilities": [0.5, 0.1], "setting": "binary", "loss": {"name": "jaccard"}}),
        Sent("POST", f"/models/{model}/benefit", {"benefits": BENEFITS, "points": 3}),
        Sent("GET", f"/models/{model}"),
        Sent("GET", f"/models/{model}/versions/1"),
        Sent("PUT", f"/models/{model}/aliases/live", {"version": 1}),
    ]


def _arrays(model: str) -> list[Sent]:
    query = {"model": model, "rule": "most_probable"}
    numbers = io.BytesIO()
    np.save(numbers, np.random.default_rng(0).random(20))
    table = pa.table({"age": [52.0, 36.0], "pulse": [70.0, None], "pain": ["mild", "strong"]})
    rows = pa.BufferOutputStream()
    with pa.ipc.new_stream(rows, table.schema) as writer:
        writer.write_table(table)
    retrieve = {"setting": "binary", "loss": '{"name":"f_beta"}'}
    return [
        Sent("POST", "/predict", rows.getvalue().to_pybytes(), query, {"Content-Type": ARROW, "Accept": ARROW}),
        Sent("POST", "/predict", numbers.getvalue(), query, {"Content-Type": NPY, "Accept": NPY}),
        Sent("POST", "/retrieve", numbers.getvalue(), retrieve, {"Content-Type": NPY}),
    ]


def odd(valid: Sent, chance: random.Random) -> Sent:
    """The request with one oddity, or some."""
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        valid = chance.choices(_ODDITIES, _WEIGHTS)[0](valid, chance)
    return valid


def _odd_body(sent: Sent, chance: random.Random) -> Sent:
    if sent.body is None:
        return _odd_query(sent, chance)
    if isinstance(sent.body, bytes):
        return replace(sent, body=_odd_bytes(sent.body, chance))
    if chance.random() < 0.1:
        return replace(
            sent, body=_odd_bytes(written(sent.body), chance), headers={**sent.headers, "Content-Type": JSON}
        )
    return replace(sent, body=_odd_json(copy.deepcopy(sent.body), chance))


def _odd_bytes(content: bytes, chance: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 2, 8))):
        if not changed:
            break
        at = chance.randrange(len(changed))
        match chance.randrange(4):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                changed[at:at] = changed[max(at - 64, 0) : at]
            case 3:
                changed[at : at + 8] = chance.choice((b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7))
    return bytes(changed)


def _odd_json(body: Any, chance: random.Random) -> Any:
    """One place of it replaced, removed, doubled or renamed."""
    places = list(_places(body))
    if not places or chance.random() < 0.02:
        return chance.choice(_VALUES)
    holder, key = chance.choice(places)
    match chance.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(holder, list):
            holder.extend([holder[key]] * chance.choice((1, 50)))
        case 2 if isinstance(holder, dict):
            holder[chance.choice(_WORDS)] = holder.pop(key)
        case 3:
            other, place = chance.choice(places)
            holder[key] = copy.deepcopy(other[place])
        case _:
            holder[key] = copy.deepcopy(chance.choice(_VALUES))
    return body


def _places(body: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(body, dict | list):
        for key, value in list(body.items() if isinstance(body, dict) else enumerate(body)):
            yield body, key
            yield from _places(value)


def _odd_query(sent: Sent, chance: random.Random) -> Sent:
    name = chance.choice([*sent.query, "page_size", "page_token", "status", "model", "kind", "benefits", "rule"])
    value = chance.choice(_WORDS) if chance.random() < 0.7 else written(chance.choice(_VALUES)).decode()[:2000]
    return replace(sent, query={**sent.query, name: value})


def _odd_headers(sent: Sent, chance: random.Random) -> Sent:
    name = chance.choice(_HEADERS)
    return replace(sent, headers={**sent.headers, name: chance.choice(_HEADER_VALUES)})


def _odd_method(sent: Sent, chance: random.Random) -> Sent:
    methods = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "G", "CONNECT")
    return replace(sent, method=chance.choice(methods))


def _odd_path(sent: Sent, chance: random.Random) -> Sent:
    steps = sent.path.split("/")
    at = chance.randrange(1, len(steps))
    match chance.randrange(3):
        case 0:
            steps[at] = chance.choice(_STEPS)
        case 1:
            steps.insert(at, chance.choice(_STEPS))
        case 2:
            del steps[at]
    return replace(sent, path="/".join(steps) or "/")


_DEEP = RAW + "[" * 3000 + "]" * 3000
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 2**64, 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324,
    RAW + "NaN", RAW + "-Infinity", RAW + "1e999", RAW + "-1E-999", RAW + "01", RAW + "{", _DEEP,
    "", " ", "0", "nan", "\0", "\ud800", "é", "x" * 300, "a" * 70_000, "../../etc/passwd", "'; --", "%s%n", "${7*7}",
    [], {}, [[]], [None], [[None]], [{}], {"": None}, {"\0": 1}, [1e308, 1e308], [[1, 2], [3]], ["a", 1, None, [], {}],
    [[0, -1], [-10, 5]], [0.0] * 1000, {"name": "f_beta", "beta": 1e300}, {"kind": "logistic"}, {"version": 2**40},
)  # fmt: skip
_WORDS = (
    "", "0", "-1", "1e9", "99999999999999999999", "nan", "true", "null", "[]", "{}", "\0", "\ud800", "ward", "ward:1",
    "ward@live", "ward:0", "ward:999999999999", "@", ":", "benefits", "model", "instances", "rule", "threshold",
    "priors", "learner", "data", "features", "rows", "labels", "kind", "seed", "holdout", "é", "a" * 5000, "logistic",
)  # fmt: skip
_STEPS = (
    "", ".", "..", "%2e%2e", "%2F", "%00", "%ff%fe", "%", "%zz", "ward", "x" * 9000, "1", "0", "-1", "99999999999999",
    "1e3", "é", "%C3%A9", "ward:1", "ward@live", "ds_00000000000000ff", "job_00000000000000000000", "docs", ";a=b",
    "*", "static-offline-docs", "..%2f..%2f..%2fetc%2fpasswd", "%5c", "benefit", "versions", "aliases", "artifact",
)  # fmt: skip
_HEADERS = (
    "Content-Type", "Accept", "Content-Encoding", "Idempotency-Key", "X-Request-ID", "X-API-Key", "Authorization",
    "If-None-Match", "Range", "Expect", "Transfer-Encoding", "Content-Length", "Accept-Encoding", "Cookie", "Origin",
    "Connection", "Upgrade", "Host", "X-Forwarded-For", "X-Forwarded-Proto", "traceparent", "Last-Event-ID",
)  # fmt: skip
_HEADER_VALUES = (
    "", " ", "0", "-1", "99999999999999999999", "chunked", "gzip", "identity", "*/*", "text/html;q=x", "\0", "é" * 10,
    JSON, NPY, ARROW, "application/json; charset=utf-16", "multipart/form-data", "multipart/form-data; boundary=",
    "multipart/form-data; boundary=x", "application/x-www-form-urlencoded", "text/csv", "image/svg+xml", ";;;,,,",
    "a" * 9000, "bytes=0-", "100-continue", "close", "websocket", "Bearer x", "Basic Og==", '"x"', "W/*",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "for=unknown", "\x7f", "text/event-stream",
)  # fmt: skip
_ODDITIES: Sequence[Callable[[Sent, random.Random], Sent]]
_ODDITIES = (_odd_body, _odd_query, _odd_headers, _odd_method, _odd_path)
_WEIGHTS = (12, 3, 3, 1, 2)


class Wire:
    """Sends bytes over a connection that is opened anew when the server has closed it."""

    def __init__(self, port: int, seconds: float = 60.0) -> None:
        self._address = ("127.0.0.1", port)
        self._seconds = seconds
        self._socket: socket.socket | None = None

    def send(self, sent: Sent) -> tuple[int, str]:
        """The answer's status and all of its text, headers included; status 0 where the line was closed instead."""
        for _ in range(2):  # a kept connection may have been closed since
            fresh = self._socket is None
            try:
                return self._exchange(sent)
            except (HTTPException, ConnectionError, ValueError):
                self.close()
                if fresh:
                    break
            except TimeoutError:  # what it announced did not come, and the server waits for it
                self.close()
                return 0, ""
        return 0, ""

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _exchange(self, sent: Sent) -> tuple[int, str]:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=self._seconds)
        announced = sent.headers.get("Content-Length", "")
        if announced or "Transfer-Encoding" in sent.headers or "Upgrade" in sent.headers or "Expect" in sent.headers:
            self._socket.settimeout(0.5)
        self._socket.sendall(sent.to_bytes(f"127.0.0.1:{self._address[1]}"))
        response = HTTPResponse(self._socket, method=sent.method)
        response.begin()
        text = str(response.headers) + response.read().decode("utf-8", "replace")
        plain = not sent.headers.keys() & {"Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Expect"}
        if response.will_close or not plain:
            self.close()
        return response.status, text


def leaks(text: str, folders: Sequence[str]) -> list[str]:
    """What an answer tells of the machine it comes from: folders, files of code, traces."""
    places = {*folders, str(PROJECT), sys.prefix, sys.base_prefix, "/usr/lib", "site-packages", "dist-packages"}
    words = {"Traceback (most recent", 'File "', "sqlalchemy", "psycopg", "sqlite3", "botocore", "Errno"}
    return sorted(word for word in places | words if word in text)
