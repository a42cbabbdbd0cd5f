"""Calls of the service: built once, sent by a blocking or an asynchronous client, and repeated where that is safe.

All methods of the client are coroutines, written once. An asynchronous client awaits them. A blocking one runs them to
their end (`blocking`): its wire never suspends them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar
from urllib.parse import quote

import httpx

from payoff_client.errors import InvalidAnswer, PayoffError, Unavailable, of_answer
from payoff_client.reading import LONGEST_LINE, Answer, Body
from payoff_client.shapes import Shape

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S")
JSON = "application/json"
Content = bytes | Callable[[], Iterator[bytes]] | None
Repeatable = bool | Callable[[], Coroutine[Any, Any, bool]]
LOG = logging.getLogger("payoff_client")
LOG.addHandler(logging.NullHandler())  # a library writes nothing of its own accord
_NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_FIRST_DELAY, _LONGEST_DELAY = 0.2, 10.0
_AT_ONCE = 2  # requests for the parts of one table
_NO_ROUTE = (404, 405, 501)  # of a server without this path; other errors may be those of a proxy
_HEARTBEATS = 60.0  # seconds that a stream of events may be silent: the service writes every 15


def step(name: str, *, safe: str = "") -> str:
    """A name as one step of a path; ValueError for one that leads to another path, as `..` does."""
    if name in ("", ".", ".."):
        raise ValueError(f"{name!r} is no name")
    return quote(name, safe=safe)


@dataclass(frozen=True, slots=True)
class Call:
    """A request. `content` is bytes, or makes blocks of them anew for each attempt.

    `repeatable`: sending it twice has the effect of sending it once; or what finds out when an answer was lost.
    """

    method: str
    path: str
    params: Mapping[str, Any] = field(default_factory=dict)
    content: Content = None
    headers: Mapping[str, str] = field(default_factory=dict)
    repeatable: Repeatable = True


def post(path: str, document: Any, **headers: str) -> Call:
    """A POST of JSON; ValueError where it holds NaN or infinity."""
    content = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return Call("POST", path, content=content, headers={"Content-Type": JSON, **sent})


def put(path: str, document: Any) -> Call:
    """A PUT of JSON; ValueError where it holds NaN or infinity."""
    return replace(post(path, document), method="PUT")


class Wire(Protocol):
    """What differs between blocking and asynchronous clients."""

    async def send(self, call: Call) -> Answer:
        """The response, read in full."""

    def lines(self, call: Call) -> AsyncIterator[bytes]:
        """The lines of a response as they come; PayoffError where it is an error."""

    async def each(self, work: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        """The results, two pieces of work at a time: one is prepared while the service computes another."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""

    async def close(self) -> None:
        """Close the connections."""


class BlockingWire:
    """Sends and waits in the calling thread: its coroutines never suspend."""

    def __init__(self, client: httpx.Client) -> None:
        self.client = client

    async def send(self, call: Call) -> Answer:
        content = call.content() if callable(call.content) else call.content
        client = self.client
        params = call.params or None
        request = client.build_request(call.method, call.path, params=params, content=content, headers=call.headers)
        response = client.send(request, stream=True)
        try:
            body = Body(response)
            for block in response.iter_bytes():
                body.add(block)
        finally:
            response.close()
        return body.answer()

    async def lines(self, call: Call) -> AsyncIterator[bytes]:
        with self.client.stream(call.method, call.path, headers=call.headers, timeout=_HEARTBEATS) as response:
            body = Body(response, LONGEST_LINE)
            if not response.is_success:
                raise of_answer(response.status_code, response.headers, b"")
            for block in response.iter_bytes():
                for line in body.lines(block):
                    yield line

    async def each(self, work: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        if len(work) == 1:
            return [await work[0]()]
        pool = ThreadPoolExecutor(_AT_ONCE)
        try:
            return list(pool.map(lambda piece: finished(piece()), work))
        finally:
            pool.shutdown(cancel_futures=True)

    async def sleep(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 - see the class

    async def close(self) -> None:
        self.client.close()


class AwaitedWire:
    """Sends and waits in the event loop."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client

    async def send(self, call: Call) -> Answer:
        content = _awaited(call.content) if callable(call.content) else call.content
        client = self.client
        params = call.params or None
        request = client.build_request(call.method, call.path, params=params, content=content, headers=call.headers)
        response = await client.send(request, stream=True)
        try:
            body = Body(response)
            async for block in response.aiter_bytes():
                body.add(block)
        finally:
            await response.aclose()
        return body.answer()

    async def lines(self, call: Call) -> AsyncIterator[bytes]:
        async with self.client.stream(call.method, call.path, headers=call.headers, timeout=_HEARTBEATS) as response:
            body = Body(response, LONGEST_LINE)
            if not response.is_success:
                raise of_answer(response.status_code, response.headers, b"")
            async for block in response.aiter_bytes():
                for line in body.lines(block):
                    yield line

    async def each(self, work: Sequence[Callable[[], Coroutine[Any, Any, T]]]) -> list[T]:
        free = asyncio.Semaphore(_AT_ONCE)

        async def done(piece: Callable[[], Coroutine[Any, Any, T]]) -> T:
            async with free:
                return await piece()

        tasks = [asyncio.ensure_future(done(piece)) for piece in work]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        await self.client.aclose()


async def _awaited(blocks: Callable[[], Iterator[bytes]]) -> AsyncIterator[bytes]:
    for block in blocks():
        yield block


class Link:
    """The service: calls it, and repeats calls that found it busy or unreachable for at most `retry_seconds`."""

    def __init__(self, wire: Wire, *, retry_seconds: float, progress: bool | None) -> None:
        self.wire = wire
        self.retry_seconds = retry_seconds
        self.progress = progress

    async def request(self, call: Call) -> Answer:
        """The answer to a call that succeeded; PayoffError otherwise."""
        until: float | None = None
        attempt = 0
        while True:
            try:
                answer = await self.wire.send(call)
                if 200 <= answer.status < 300:
                    return answer
                error = _refusal(call, answer)
                again, is_lost = answer.status in (429, 503), False
            except (httpx.InvalidURL, httpx.UnsupportedProtocol) as failure:  # httpx parses where redirects lead
                raise InvalidAnswer(f"{call.method} {call.path} is redirected to no address: {failure}") from failure
            except httpx.TransportError as failure:
                error, again, is_lost = _unreachable(failure), True, not isinstance(failure, _NEVER_SENT)
            until = time.monotonic() + self.retry_seconds if until is None else until
            if is_lost and not await _may_repeat(call):
                raise Unavailable(f"{error.detail}; the request is not repeated, as it may have had its effect")
            delay = _delay(attempt, error.retry_after)
            if not again or time.monotonic() + delay > until:
                raise error
            if attempt == 0:
                LOG.warning("%s; it is tried again for at most %.0f s", error, self.retry_seconds)
            attempt += 1
            await self.wire.sleep(delay)

    async def read(self, call: Call, reader: Callable[[Answer], T]) -> T:
        """What a pure function makes of the answer; InvalidAnswer for whatever it raises."""
        return (await self.request(call)).read(reader)

    async def document(self, call: Call, shape: Shape) -> Any:
        """The JSON of the answer, which has a shape."""
        return (await self.request(call)).document(shape)


def _refusal(call: Call, answer: Answer) -> PayoffError:
    """The error that an answer is; InvalidAnswer where no route of Payoff wrote it."""
    error = of_answer(answer.status, answer.headers, answer.content)
    is_problem = answer.headers.get("Content-Type", "").startswith("application/problem+json")
    if answer.status not in _NO_ROUTE or (is_problem and error.detail != error.title):
        return error
    base = str(answer.url.copy_with(query=None)).removesuffix(call.path)
    return InvalidAnswer(f"{base} is no Payoff service: it answers {call.method} {call.path} with {answer.status}")


async def _may_repeat(call: Call) -> bool:
    return await call.repeatable() if callable(call.repeatable) else call.repeatable


def _delay(attempt: int, asked: float | None) -> float:
    """Seconds before the next attempt: twice as long each time, never less than asked, and at random, so that many
    clients do not come back at once.
    """
    longest = min(_FIRST_DELAY * 2.0**attempt, _LONGEST_DELAY)
    spread = random.uniform(0.5, 1.0)  # noqa: S311 - no secret
    return max(longest * spread, 0.0 if asked is None else asked * (1 + (1 - spread) / 4))


def _unreachable(failure: httpx.TransportError) -> PayoffError:
    reason = str(failure) or type(failure).__name__
    asked = getattr(failure, "_request", None)
    place = f" at {asked.url.copy_with(path='/', query=None)}" if asked is not None else ""
    return Unavailable(f"the service{place} cannot be reached: {reason}")


def blocking(method: Callable[Concatenate[S, P], Coroutine[Any, Any, T]]) -> Callable[Concatenate[S, P], T]:
    """The method as one that returns its result; its coroutine must not wait for anything but a blocking wire."""

    @wraps(method)
    def call(owner: S, /, *arguments: P.args, **named: P.kwargs) -> T:
        return finished(method(owner, *arguments, **named))

    return call


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError("a coroutine was given to the blocking client; use AsyncPayoff")
