"""Looking again and again, in a thread, at what other processes may have changed."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread

_log = logging.getLogger(__name__)

SECONDS = 0.5  # half of the second within which every process sees a change


class Poller:
    """Calls `look` every `seconds` between `start` and `stop`, the first time `at_once` or after `seconds`.

    An error that `look` does not handle is logged, and the next look follows: whoever relies on it must not go blind.
    """

    def __init__(self, name: str, look: Callable[[], None], seconds: float = SECONDS, *, at_once: bool = False) -> None:
        self._name = name
        self._look = look
        self._seconds = seconds
        self._at_once = at_once
        self._awake = Event()
        self._stopped = Event()
        self._thread: Thread | None = None

    @property
    def alive(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self) -> None:
        self._stopped.clear()
        self._awake.clear()
        self._thread = Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Have it look now."""
        self._awake.set()

    def stop(self) -> None:
        self._stopped.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        if self._at_once:
            self._try()
        while not self._is_stopped():
            self._try()

    def _try(self) -> None:
        try:
            self._look()
        except Exception:  # noqa: BLE001 - whatever it is, the next look may succeed
            with suppress(Exception):  # a line that cannot be written ends no loop
                _log.exception("unexpected error in the thread %r, which goes on", self._name)

    def _is_stopped(self) -> bool:
        """After `seconds`, or as soon as it is woken or stopped."""
        self._awake.wait(self._seconds)
        self._awake.clear()
        return self._stopped.is_set()
