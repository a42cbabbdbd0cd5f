"""The progress of a long computation, reported from inside it to a listener.

Long loops call `report`; their caller may `listen`. Without a listener a report costs one look-up.
A listener may raise to stop the computation.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[float, str], None]

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


def report(fraction: float, stage: str = "") -> None:
    """Report that `fraction` (0…1) of the present part is done; `stage` names what is running, by
    default the part.
    """
    listener = _listener.get()
    if listener is not None:
        listener(min(max(fraction, 0.0), 1.0), stage)


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Call the listener with every report that is made in this context."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def part(low: float, high: float, stage: str = "") -> Iterator[None]:
    """Reports inside count from `low` to `high` (0…1) of the surrounding part."""
    outer = _listener.get()
    if outer is None:
        yield
        return
    with listen(
        lambda fraction, inner: outer(low + (high - low) * fraction, inner or stage)
    ):
        report(0.0)
        yield
