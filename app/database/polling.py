"""Polling, in a thread, for changes by other processes."""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from threading import Event, Thread
from time import monotonic
from typing import Any

from sqlalchemy import Connection

from app.errors import Unavailable

_SECONDS = 0.5  # half of the second within which every process sees a change
_LATE_SECONDS = 10.0  # after the last look; a look at a database that hangs ends sooner

log = logging.getLogger(__name__)


class Poller:
    """Calls `look` at once and then every `seconds` between `start` and `stop`.

    An error that `look` does not handle is logged, and the next look follows: one error must not
    end the polling.
    """

    def __init__(
        self, name: str, look: Callable[[], None], seconds: float = _SECONDS
    ) -> None:
        self._name = name
        self._look = look
        self._seconds = seconds
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
        while not self._stopped.is_set():
            try:
                self._look()
            except Exception:  # whatever it is, the next look may succeed
                log.exception(
                    "unexpected error in the thread %r, which goes on", self._name
                )
            self._awake.wait(self._seconds)
            self._awake.clear()


Follower = tuple[Callable[[Connection], Any], Callable[[Any], None]]


class Changes:
    """Queries what changes, for all followers together, every half second.

    A large service has hundreds of processes: each of them takes one connection and one transaction
    for this, not one for each follower.
    """

    def __init__(
        self, reading: Callable[[], AbstractContextManager[Connection]]
    ) -> None:
        self._reading = reading
        self._followers: tuple[Follower, ...] = ()
        self._poller = Poller("changes", lambda: self._look(self._followers))
        self._looked = monotonic()
        self._troubles: set[str] = set()  # of the last look

    @property
    def late(self) -> bool:
        """Whether there are followers, and no look has ended for `_LATE_SECONDS`."""
        return bool(self._followers) and monotonic() - self._looked > _LATE_SECONDS

    def follow(
        self, query: Callable[[Connection], Any], receive: Callable[[Any], None]
    ) -> None:
        """Have `receive` called with the result of `query`: now, and then in a thread, again and
        again until `stop`.

        `query` is one small query. `receive` returns soon, as all followers share the thread; it is
        not called while the database does not answer.
        """
        self._look([(query, receive)])
        self._followers += ((query, receive),)
        if not self._poller.alive:
            self._poller.start()

    def stop(self) -> None:
        """Call no follower any more."""
        self._followers = ()
        self._poller.stop()

    def _look(self, followers: Sequence[Follower]) -> None:
        try:
            with self._reading() as connection:
                answers = [query(connection) for query, _ in followers]
        except Unavailable:  # the database logs it; what was known before it stays
            pass
        else:
            troubles = set[str]()
            for (_, receive), answer in zip(followers, answers, strict=True):
                try:
                    receive(answer)
                # The failure of one follower does not concern the others.
                except Exception as error:
                    message = str(error)
                    troubles.add(message)
                    if (
                        message not in self._troubles
                    ):  # logged once: it is tried twice a second
                        is_odd = not isinstance(error, Unavailable)
                        log.warning(
                            "a change cannot be used, what was known stays: %s",
                            message,
                            exc_info=is_odd,
                        )
            self._troubles = troubles
        self._looked = monotonic()
