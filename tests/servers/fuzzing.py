"""Valid requests, how they are sent over a connection, and what no answer may hold."""

from __future__ import annotations

import json
import random
import socket
import sys
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from http.client import HTTPException, HTTPResponse
from typing import Any

from tests.servers.program import PROJECT

JSON, NPY, ARROW = "application/json", "application/x-npy", "application/vnd.apache.arrow.stream"


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
        content = content_of(self)
        query = urllib.parse.urlencode(self.query, errors="surrogatepass")
        target = self.path + (f"?{query}" if query else "")
        kind = {} if self.body is None or isinstance(self.body, bytes) else {"Content-Type": JSON}
        headers = {"Host": host, **kind, "Content-Length": str(len(content)), **self.headers}
        lines = [f"{self.method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        return "\r\n".join(lines).encode("utf-8", "surrogatepass") + b"\r\n\r\n" + content


def content_of(sent: Sent) -> bytes:
    """The body as bytes: JSON in which lone surrogates, huge integers and repeated keys are written as they are."""
    if sent.body is None or isinstance(sent.body, bytes):
        return sent.body or b""
    return json.dumps(sent.body).encode()


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


def on_the_wire(sent: Sent, chance: random.Random) -> Sent:
    """The request; of some, the method or a header that a server reads is another one."""
    if chance.random() < 0.05:
        return replace(sent, method=chance.choice(_METHODS))
    if chance.random() < 0.15:
        return replace(sent, headers={**sent.headers, chance.choice(_HEADERS): chance.choice(_HEADER_VALUES)})
    return sent


_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND", "get", "G", "CONNECT")
_HEADERS = (
    "Content-Encoding", "X-Request-ID", "X-API-Key", "Authorization", "Range", "Expect", "Transfer-Encoding",
    "Content-Length", "Accept-Encoding", "Cookie", "Origin", "Connection", "Upgrade", "Host", "X-Forwarded-For",
    "X-Forwarded-Proto", "traceparent", "Last-Event-ID",
)  # fmt: skip
_HEADER_VALUES = (
    "", " ", "0", "-1", "99999999999999999999", "chunked", "gzip", "identity", "\0", "é" * 10, "a" * 9000, "bytes=0-",
    "100-continue", "close", "websocket", "Bearer x", "Basic Og==", "for=unknown", "\x7f",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
)  # fmt: skip


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
