"""Thread limiters, one for each kind of work, so that one kind cannot occupy the threads of another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar, TypeVarTuple, cast

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from app.errors import Busy

_Args = TypeVarTuple("_Args")
_Result = TypeVar("_Result")
_RETRY_SECONDS = 2


class Limiter:
    """Runs functions in at most `threads` threads at once; at most `waiting` more calls may wait for one."""

    def __init__(self, threads: int, waiting: int) -> None:
        self._threads = CapacityLimiter(threads)
        self._most = threads + waiting
        self._calls = 0

    async def run(self, function: Callable[[*_Args], _Result], *args: *_Args) -> _Result:
        """The function's result; Busy (503) where too many calls wait already."""
        if self._calls >= self._most:
            raise Busy("too many requests of this kind are waiting; try again later", seconds=_RETRY_SECONDS)
        self._calls += 1
        try:
            return await to_thread.run_sync(function, *args, limiter=self._threads)
        finally:
            self._calls -= 1


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
    return cast(Limiters, request.app.state.limiters)
