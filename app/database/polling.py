"""Looking again and again, in a thread, at what other processes may have changed."""

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

    An error that `look` does not handle is logged, and the next look follows: whoever relies on it
    must not go blind.
    """

    def __init__(self, name: str, look: Callable[[], None], seconds: float = _SECONDS) -> None:
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
                log.exception("unexpected error in the thread %r, which goes on", self._name)
            self._awake.wait(self._seconds)
            self._awake.clear()


Follower = tuple[Callable[[Connection], Any], Callable[[Any], None]]


class Changes:
    """Asks for what differs after a change, every half second, while anything follows.

    A service has hundreds of processes where it is large: each of them takes one connection and one
    transaction for this, not one for each thing that may change.
    """

    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._reading = reading
        self._followers: tuple[Follower, ...] = ()
        self._poller = Poller("changes", lambda: self._look(self._followers))
        self._looked = monotonic()
        self._troubles: set[str] = set()  # of the last look

    @property
    def late(self) -> bool:
        """Whether there are followers, and no look has ended for long."""
        return bool(self._followers) and monotonic() - self._looked > _LATE_SECONDS

    def follow(self, ask: Callable[[Connection], Any], tell: Callable[[Any], None]) -> None:
        """Have `tell` called with what `ask` finds: now, and then in a thread, again and again
        until `stop`.

        `ask` makes one small query. `tell` returns soon, as all followers share the thread; it is
        not called while the database does not answer.
        """
        self._look([(ask, tell)])
        self._followers += ((ask, tell),)
        if not self._poller.alive:
            self._poller.start()

    def stop(self) -> None:
        """Tell nobody any more."""
        self._followers = ()
        self._poller.stop()

    def _look(self, followers: Sequence[Follower]) -> None:
        try:
            with self._reading() as connection:
                found = [ask(connection) for ask, _ in followers]
        except Unavailable:  # the database logs it; what was known before it stays
            pass
        else:
            troubles = set[str]()
            for (_, tell), answer in zip(followers, found, strict=True):
                try:
                    tell(answer)
                # what goes wrong with one follower is no matter of the others
                except Exception as error:
                    troubles.add(why := str(error))
                    if why not in self._troubles:  # said once: it is tried twice a second
                        is_odd = not isinstance(error, Unavailable)
                        log.warning(
                            "a change cannot be used, what was known stays: %s",
                            why,
                            exc_info=is_odd,
                        )
            self._troubles = troubles
        self._looked = monotonic()
