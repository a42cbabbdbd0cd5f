"""Calls of the service by a blocking or an asynchronous client, repeated where that is safe.

All methods of the client are coroutines, written once and decorated with `shared`. An asynchronous
client returns them to be awaited. A blocking one runs them to their end: its requests never suspend
them.
"""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import (
    Any,
    Concatenate,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    cast,
    overload,
)
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from payoff_client.documents import Object, adapter
from payoff_client.errors import InvalidAnswer, PayoffError, Unavailable, of_answer

__version__ = "0.1.0"

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
JSON, NPY, CSV, GZIP = (
    "application/json",
    "application/x-npy",
    "text/csv",
    "application/gzip",
)
ARROW, PARQUET = "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet"
SVG = "image/svg+xml"
LOG = logging.getLogger("payoff_client")
LOG.addHandler(
    logging.NullHandler()
)  # a library writes no log unless its user configures one
FIRST_DELAY, LONGEST_DELAY = 0.2, 10.0
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
# The statuses of a server without this path; other errors may be those of a proxy.
_NO_ROUTE = (404, 405, 501)
_SHOWN_CHARACTERS = 60  # of an answer that cannot be read
# Parameters that are texts; the values of other parameters are JSON.
_TEXTS = frozenset(
    (
        "drop_classes",
        "model",
        "rule",
        "setting",
        "method",
        "delimiter",
        "decimal",
        "encoding",
    )
) | frozenset(("header", "id", "name", "label_type"))


def step(name: str, *, safe: str = "") -> str:
    """A name as one step of a path; ValueError for one that leads to another path, as `..` does."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name")
    return quote(name, safe=safe)


def query(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields as query parameters: texts, and lists of texts, as they are, others as JSON."""
    return {
        name: value if name in _TEXTS else json.dumps(value)
        for name, value in fields.items()
    }


@dataclass(frozen=True, slots=True)
class Call:
    """A request.

    `repeatable`: sending it twice has the effect of sending it once.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    content: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: bool = True


def json_of(document: Any) -> bytes:
    """The document as JSON; ValueError where it holds NaN or infinity."""
    return json.dumps(
        document, ensure_ascii=False, allow_nan=False, separators=(",", ":")
    ).encode()


def post(path: str, document: Any, headers: Mapping[str, str] | None = None) -> Call:
    """A POST of JSON; ValueError where it holds NaN or infinity."""
    headers = {"Content-Type": JSON, **(headers or {})}
    return Call("POST", path, content=json_of(document), headers=headers)


def form(path: str, fields: Mapping[str, Any], name: str, content: bytes) -> Call:
    """A POST of a file under its name, with other fields."""
    upload = httpx.Request(
        "POST", "http://form", data=fields, files={"file": (name, content)}
    )
    headers = {"Content-Type": upload.headers["Content-Type"]}
    return Call("POST", path, content=upload.read(), headers=headers)


def put(path: str, document: Any) -> Call:
    """A PUT of JSON; ValueError where it holds NaN or infinity."""
    return replace(post(path, document), method="PUT")


def delete(path: str) -> Call:
    """A DELETE, repeated only if it did not arrive: the name may have a new owner since."""
    return Call("DELETE", path, repeatable=False)


class Link:
    """The service: calls it, and repeats calls while it is busy or unreachable.

    That takes at most `retry_seconds`. With the blocking client of httpx its coroutines never
    suspend.
    """

    def __init__(
        self,
        client: httpx.Client | httpx.AsyncClient,
        retry_seconds: float,
        progress: bool | None,
    ) -> None:
        self._client = client
        self.retry_seconds = retry_seconds
        self.progress = progress
        self.is_blocking = isinstance(client, httpx.Client)

    async def sleep(self, seconds: float) -> None:
        """Wait, without holding up an event loop."""
        if self.is_blocking:
            time.sleep(seconds)
        else:
            await asyncio.sleep(seconds)

    async def close(self) -> None:
        """Close the connections."""
        if isinstance(self._client, httpx.Client):
            self._client.close()
        else:
            await self._client.aclose()

    async def request(self, call: Call) -> httpx.Response:
        """The answer to a call that succeeded; PayoffError otherwise."""
        until: float | None = None
        attempt = 0
        while True:
            try:
                answer = await self._answer(call)
                if answer.is_success:
                    return answer
                error = _refusal(call, answer)
                again = error.status in (429, 503)
                may_have_arrived = False
            # An address is invalid where a redirection leads to one.
            except (httpx.RequestError, httpx.InvalidURL) as failure:
                error = _unreachable(failure)
                again = True
                may_have_arrived = not isinstance(failure, _NEVER_SENT)
            if until is None:
                until = time.monotonic() + self.retry_seconds
            if may_have_arrived and not call.repeatable:
                raise Unavailable(
                    f"{error.detail}; the request is not repeated, as it may have had its effect"
                )
            delay = _delay(attempt, error.retry_after)
            if not again or time.monotonic() + delay > until:
                raise error
            if attempt == 0:
                LOG.warning(
                    "%s; it is tried again for at most %.0f s",
                    error,
                    self.retry_seconds,
                )
            attempt += 1
            await self.sleep(delay)

    async def _answer(self, call: Call) -> httpx.Response:
        """The answer to one attempt."""
        answer = self._client.request(
            call.method, call.path, params=call.params or None, content=call.content,
            headers=call.headers,
        )  # fmt: skip
        return answer if isinstance(answer, httpx.Response) else await answer

    async def read(self, call: Call, reader: Callable[[httpx.Response], T]) -> T:
        """The result of a pure function of the answer; InvalidAnswer for any error in it."""
        answer = await self.request(call)
        try:
            return reader(answer)
        except Exception as error:
            request = answer.request
            start = answer.content[:_SHOWN_CHARACTERS].decode("utf-8", "replace")
            reason = f"{type(error).__name__}: {str(error)[:300]}"
            if isinstance(error, ValidationError):
                first = error.errors()[0]
                reason = f"{'/'.join(['', *map(str, first['loc'])])}: {first['msg']}"
            raise InvalidAnswer(
                f"the answer to {request.method} {request.url.path} cannot be read ({reason});"
                f" it begins {start!r}: is {request.url.copy_with(path='/', query=None)}"
                " a Payoff service?"
            ) from error

    async def document(self, call: Call, kind: type[T]) -> T:
        """The JSON of the answer, a document of a kind."""

        def reader(answer: httpx.Response) -> T:
            return cast(T, adapter(kind).validate_json(answer.content))

        return await self.read(call, reader)

    async def items(self, path: str, name: str) -> list[Object]:
        """The items of all pages of a list."""
        items: list[Object] = []
        tokens: list[str] = []
        params: dict[str, Any] = {"page_size": 200}
        while True:
            page = await self.document(Call("GET", path, params), dict[str, Any])
            items += page.get(name, [])
            token = page.get("next_page_token")
            if token is None:
                return items
            if token in tokens:
                raise InvalidAnswer(
                    f"the pages of {path} have no end: a page token comes again"
                )
            tokens.append(token)
            params["page_token"] = token


def _refusal(call: Call, answer: httpx.Response) -> PayoffError:
    """The error that an answer is; InvalidAnswer where no route of Payoff wrote it."""
    error = of_answer(answer.status_code, answer.headers, answer.content)
    is_problem = answer.headers.get("Content-Type", "").startswith(
        "application/problem+json"
    )
    if answer.status_code not in _NO_ROUTE or (
        is_problem and error.detail != error.title
    ):
        return error
    base = str(answer.request.url.copy_with(query=None)).removesuffix(call.path)
    return InvalidAnswer(
        f"{base} is no Payoff service: it answers {call.method} {call.path}"
        f" with {answer.status_code}"
    )


def _delay(attempt: int, retry_after: float | None) -> float:
    """Seconds before the next attempt: twice as long each time, and never less than `retry_after`.

    It is random, so that many clients do not return at once.
    """
    longest = min(FIRST_DELAY * 2.0**attempt, LONGEST_DELAY)
    spread = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    least = 0.0 if retry_after is None else retry_after * (1 + (1 - spread) / 4)
    return max(longest * spread, least)


def _unreachable(failure: httpx.RequestError | httpx.InvalidURL) -> PayoffError:
    reason = str(failure) or type(failure).__name__
    request = getattr(failure, "_request", None)
    place = (
        f" at {request.url.copy_with(path='/', query=None)}"
        if request is not None
        else ""
    )
    return Unavailable(f"the service{place} cannot be reached: {reason}")


# The client of httpx: with the blocking one methods return results, with the other one coroutines.
Mode = TypeVar("Mode")


class Linked(Generic[Mode]):
    """An object with methods that call the service, in one of the modes."""

    def __init__(self, link: Link) -> None:
        self._link = link


class _Method(Protocol[P, T_co]):
    """The type of a method in both modes."""

    @overload
    def __get__(self, owner: Linked[httpx.Client], kind: type) -> Callable[P, T_co]: ...
    @overload
    def __get__(
        self, owner: Linked[httpx.AsyncClient], kind: type
    ) -> Callable[P, Coroutine[Any, Any, T_co]]: ...


def shared(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> _Method[P, T]:
    """The method: of a blocking client it returns the result, of an asynchronous one the coroutine.

    Methods call one another as coroutines, by functions that are not decorated.
    """

    @wraps(method)
    def call(owner: Linked[Any], /, *arguments: P.args, **named: P.kwargs) -> Any:
        coroutine = method(owner, *arguments, **named)
        return _finished(coroutine) if owner._link.is_blocking else coroutine

    return cast(_Method[P, T], call)


def _finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine was given to the blocking client; use AsyncPayoff")
