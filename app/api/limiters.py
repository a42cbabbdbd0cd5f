"""Thread limiters, one for each kind of work, so that one kind cannot occupy the threads of another."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, TypeVarTuple, cast

from anyio import CapacityLimiter, to_thread
from fastapi import Request
from starlette.requests import ClientDisconnect

from app.errors import Busy

_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")
_RETRY_SECONDS = 2
_ANY = CapacityLimiter(math.inf)  # for what has its thread already
_asking: ContextVar[Request | None] = ContextVar("asking", default=None)  # the request that asks for a limiter


class Limiter:
    """Runs functions in at most `threads` threads at once, half of them for one key; `waiting` more calls may wait."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._share = max(threads // 2, 1)
        self._most = threads + waiting
        self._calls = 0
        self._of_key: dict[str, CapacityLimiter] = {}  # those with calls

    async def run(self, function: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """The function's result; Busy (503) where too many calls wait already.

        Nothing is begun for a client that has gone while it waited; what has begun is bounded by its own limits.
        """
        if self._calls >= self._most:
            raise Busy("too many requests of this kind are waiting; try again later", seconds=_RETRY_SECONDS)
        self._calls += 1
        try:
            asking = _asking.get()
            async with self._place(asking), self._threads:
                if asking is not None and await asking.is_disconnected():
                    raise ClientDisconnect
                return await to_thread.run_sync(function, *args, limiter=_ANY)
        finally:
            self._calls -= 1

    @asynccontextmanager
    async def _place(self, asking: Request | None) -> AsyncIterator[None]:
        """A place of the share of the request's key; callers without a key share all threads."""
        caller = None if asking is None else asking.scope["state"].get("caller")
        if (key := caller and caller.client) is None:
            yield
            return
        own = self._of_key.setdefault(key, CapacityLimiter(self._share))
        try:
            async with own:
                yield
        finally:
            if not own.borrowed_tokens and not own.statistics().tasks_waiting:
                self._of_key.pop(key, None)


class Once:
    """Runs functions in at most `threads` threads at once, each once for all who ask meanwhile; they hold no thread."""

    def __init__(self, threads: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._running: dict[Hashable, asyncio.Task[Any]] = {}

    async def run(self, function: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """The function's result, for all who ask with the same arguments; a caller that leaves ends it for no other."""
        key = (function, *args)
        task = self._running.get(key)
        if task is None:
            task = asyncio.create_task(to_thread.run_sync(function, *args, limiter=self._threads))
            self._running[key] = task
            task.add_done_callback(lambda _: self._running.pop(key))
        return cast(_Result, await asyncio.shield(task))


@dataclass(frozen=True)
class Limiters:
    """`health` for probes, `metrics` for `/metrics`, which may wait for the job table, `retrieve` for
    `/retrieve`, `long` for work that takes seconds: simulations, reports on a hold-out, charts, parsing long bodies;
    `upload` for reading data sets, `load` for models that are not in memory. All other work shares the framework's
    forty threads: short work, and waiting for the database or the stores.
    """

    health: Limiter = field(default_factory=lambda: Limiter(2, 200))
    metrics: Limiter = field(default_factory=lambda: Limiter(2, 20))
    retrieve: Limiter = field(default_factory=lambda: Limiter(4, 60))  # a million numbers: a core and 200 MB for 1 s
    long: Limiter = field(default_factory=lambda: Limiter(2, 16))
    upload: Limiter = field(default_factory=lambda: Limiter(2, 30))  # each with a process that reads the file
    load: Once = field(default_factory=lambda: Once(8))


def limiters(request: Request) -> Limiters:
    """The limiters, which count what they run for the request's key."""
    _asking.set(request)
    return cast(Limiters, request.app.state.limiters)
