"""Thread limiters, one for each kind of work, so that one kind cannot occupy the threads of another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple, cast

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from app.errors import Busy

_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")
_RETRY_SECONDS = 2
_key: ContextVar[str | None] = ContextVar("key", default=None)  # of the request that asks for a limiter


class Limiter:
    """Runs functions in at most `threads` threads at once, half of them for one key; `waiting` more calls may wait."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._share = max(threads // 2, 1)
        self._most = threads + waiting
        self._calls = 0
        self._of_key: dict[str, CapacityLimiter] = {}  # those with calls

    async def run(self, function: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """The function's result; Busy (503) where too many calls wait already."""
        if self._calls >= self._most:
            raise Busy("too many requests of this kind are waiting; try again later", seconds=_RETRY_SECONDS)
        self._calls += 1
        try:
            async with self._place(_key.get()):
                return await to_thread.run_sync(function, *args, limiter=self._threads)
        finally:
            self._calls -= 1

    @asynccontextmanager
    async def _place(self, key: str | None) -> AsyncIterator[None]:
        """A place of the key's share; callers without a key share all threads."""
        if key is None:
            yield
            return
        own = self._of_key.setdefault(key, CapacityLimiter(self._share))
        try:
            async with own:
                yield
        finally:
            if not own.borrowed_tokens and not own.statistics().tasks_waiting:
                self._of_key.pop(key, None)


@dataclass(frozen=True)
class Limiters:
    """`health` for probes, `metrics` for `/metrics`, which may wait for the job table, `retrieve` for
    `/retrieve`, `long` for work that takes seconds: simulations, reports on a hold-out, charts, parsing long bodies;
    `upload` for reading data sets. All other work shares the framework's forty threads: short work, and waiting for the
    database or the stores.
    """

    health: Limiter = field(default_factory=lambda: Limiter(2, 200))
    metrics: Limiter = field(default_factory=lambda: Limiter(2, 20))
    retrieve: Limiter = field(default_factory=lambda: Limiter(4, 60))  # a million numbers: a core and 200 MB for 1 s
    long: Limiter = field(default_factory=lambda: Limiter(2, 16))
    upload: Limiter = field(default_factory=lambda: Limiter(2, 30))  # each with a process that reads the file


def limiters(request: Request) -> Limiters:
    """The limiters, which count what they run for the request's key."""
    caller = request.scope["state"].get("caller")
    _key.set(None if caller is None else caller.client)
    return cast(Limiters, request.app.state.limiters)
