"""Where work is done: threads, of which one kind of work cannot occupy those of another."""

import asyncio
import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, TypeVarTuple, cast

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from app.api.codecs.json import INLINE_BYTES
from app.api.exchange import MAX_AT_ONCE, caller_of, exchange_of
from app.errors import Busy, NotFound
from app.registry.loaded import Loaded
from app.registry.registry import Registry

_RETRY_SECONDS = 2
_NO_LIMIT = CapacityLimiter(math.inf)  # of calls whose threads a limiter counts already
_LONG_BYTES = 1 << 20  # of a body; a longer one takes tenths of a second

_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")

Pace = Literal["now", "in a thread", "long"]
"""Where work is done: on the event loop, in a thread, or in one of the few for long work."""


def pace_of(size: int) -> Pace:
    """Where a body of so many bytes is read."""
    if size <= INLINE_BYTES:
        return "now"
    return "in a thread" if size <= _LONG_BYTES else "long"


async def run(request: Request, pace: Pace, work: Callable[[], _Result]) -> _Result:
    """Do the work at its pace."""
    if pace == "now":
        return work()
    limiter = (
        limiters(request).short if pace == "in a thread" else limiters(request).long
    )
    return await limiter.run(request, work)


@dataclass
class _Share:
    """The share of one key in a limiter: its threads, and its `calls` that run or wait."""

    threads: CapacityLimiter
    calls: int = 0


class Limiter:
    """Runs functions in at most `threads` threads at once, half of them for one key.

    `waiting` more calls of each key may wait: those of one key take no place from another's.
    """

    def __init__(self, threads: int, waiting: int) -> None:
        self._count = threads
        self._threads = CapacityLimiter(threads)
        self._max_calls = threads + waiting
        self._shares: dict[str | None, _Share] = {}  # of the keys with calls

    async def run(
        self, request: Request, function: Callable[[*_Args], _Result], *args: *_Args
    ) -> _Result:
        """The function's result, which `request` waits for; Busy (503) where too many calls of its
        key wait.

        No function is called for a client that disconnected while it waited; one that runs is
        bounded by its own limits.
        """
        key = exchange_of(
            request.scope
        ).caller.client  # those without one share all threads
        self._shares = {k: share for k, share in self._shares.items() if share.calls}
        threads = self._count if key is None else max(self._count // 2, 1)
        share = self._shares.setdefault(key, _Share(CapacityLimiter(threads)))
        if share.calls >= self._max_calls:
            raise Busy(
                "too many requests of this kind are waiting; try again later",
                seconds=_RETRY_SECONDS,
            )
        waits = any(
            limiter.available_tokens < 1 for limiter in (share.threads, self._threads)
        )
        share.calls += 1
        try:
            async with share.threads, self._threads:
                if waits and await request.is_disconnected():
                    raise ClientDisconnect
                return await to_thread.run_sync(function, *args, limiter=_NO_LIMIT)
        finally:
            share.calls -= 1


class Once:
    """Runs functions in at most `threads` threads at once, each once for all callers that wait for
    it; these hold no thread.
    """

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(
        self, function: Callable[[*_Args], _Result], *args: *_Args
    ) -> _Result:
        """The function's result, for all callers with these arguments; one that leaves does not end
        it for the rest.
        """
        key = (function, *args)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(
                to_thread.run_sync(function, *args, limiter=self._threads)
            )
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
        return cast(_Result, await asyncio.shield(task))


@dataclass(frozen=True)
class Limiters:
    """The threads of each kind of work: `health` for probes, `metrics` for `/metrics`, which may
    wait for the job table, `retrieve` for `/retrieve`, `short` for work that takes up to a second:
    reading bodies, decisions, the next features; `long` for work that takes seconds: simulations,
    reports on a hold-out, charts, parsing long bodies; `upload` for reading data sets, `load` for
    models that are not in memory, `looks` for jobs that are followed. The framework's forty threads
    wait for the database and the stores.
    """

    health: Limiter = field(default_factory=lambda: Limiter(2, 200))
    metrics: Limiter = field(default_factory=lambda: Limiter(2, 20))
    # A million numbers take a core and 200 MB for 1 s.
    retrieve: Limiter = field(default_factory=lambda: Limiter(4, 60))
    # More threads take the interpreter's lock from the event loop, and compute no faster.
    short: Limiter = field(default_factory=lambda: Limiter(4, MAX_AT_ONCE))
    long: Limiter = field(default_factory=lambda: Limiter(2, 16))
    # Each thread has a process that reads the file.
    upload: Limiter = field(default_factory=lambda: Limiter(2, 30))
    load: Once = field(default_factory=lambda: Once(8))
    looks: Once = field(default_factory=lambda: Once(1))


def limiters(request: Request) -> Limiters:
    """The limiters of the application."""
    return cast(Limiters, request.app.state.service.limiters)


async def loaded(request: Request, reference: str) -> Loaded:
    """The model, at once if it is in memory; Forbidden where the key is for other models, NotFound
    at `/model`.

    A store that hangs holds the few threads that load, and none of those that answer.
    """
    caller_of(request).need_model(reference)
    registry: Registry = request.app.state.service.stores.registry
    model = registry.cache.get(reference)
    if model is not None:
        return model
    return await limiters(request).load.run(registry.load, reference)


async def loaded_by_path(request: Request, reference: str) -> Loaded:
    """The model of a reference in the path: its errors have no place in the body."""
    try:
        return await loaded(request, reference)
    except NotFound as error:
        raise NotFound(error.detail) from error
