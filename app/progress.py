"""How far a long computation has come, told from inside it to whoever listens.

Long loops call `report`; who runs them may `listen`. Without a listener a report costs one look-up. A listener may
raise to stop the computation; so may who runs a piece of it elsewhere, where nobody listens (`interruptible`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

Listener = Callable[[float, str], None]


@dataclass(frozen=True)
class _Span:
    """The part [low, high] of the whole that the code now running accounts for."""

    listener: Listener
    low: float
    high: float
    stage: str


_span: ContextVar[_Span | None] = ContextVar("span", default=None)
_check: ContextVar[Callable[[], None] | None] = ContextVar("check", default=None)


def checkpoint() -> None:
    """A moment at which the computation may be stopped: what `interruptible` was given is called, and may raise."""
    check = _check.get()
    if check is not None:
        check()


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Call `check` at every report and checkpoint in this context."""
    token = _check.set(check)
    try:
        yield
    finally:
        _check.reset(token)


def report(fraction: float, stage: str = "") -> None:
    """Tell that `fraction` (0…1) of the present part is done; `stage` names it, by default after the part."""
    checkpoint()
    span = _span.get()
    if span is not None:
        inside = min(max(fraction, 0.0), 1.0)
        span.listener(span.low + (span.high - span.low) * inside, stage or span.stage)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Hear every report made in this context."""
    token = _span.set(_Span(listener, 0.0, 1.0, ""))
    try:
        yield
    finally:
        _span.reset(token)


@contextmanager
def part(low: float, high: float, stage: str = "") -> Iterator[None]:
    """Reports inside count from `low` to `high` (0…1) of the surrounding part."""
    outer = _span.get()
    if outer is None:
        yield
        return
    width = outer.high - outer.low
    inner = _Span(outer.listener, outer.low + width * low, outer.low + width * high, stage or outer.stage)
    token = _span.set(inner)
    try:
        report(0.0)
        yield
    finally:
        _span.reset(token)
