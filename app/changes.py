"""What other processes change in the database, seen within a second: one transaction for all who follow it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Lock
from time import monotonic
from typing import Any

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from app.errors import PayoffError
from app.polling import Poller

_LATE_SECONDS = 10.0  # after the last look; a look at a database that hangs ends sooner
_NOTHING = object()

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class _Follower:
    """One who follows; what goes wrong with it is logged once, and is no matter of the others."""

    ask: Callable[[Connection], Any]
    tell: Callable[[Any], None]
    failed: bool = False

    def asked(self, connection: Connection) -> Any:
        try:
            return self.ask(connection)
        except (SQLAlchemyError, PayoffError, OSError):
            raise
        except Exception as error:  # noqa: BLE001
            return self._fail(error)

    def told(self, answer: Any) -> None:
        if answer is _NOTHING:
            return
        try:
            self.tell(answer)
        except Exception as error:  # noqa: BLE001
            self._fail(error)
        else:
            self.failed = False

    def _fail(self, error: Exception) -> object:
        if not self.failed:
            _log.error("a change cannot be used, what was known before it stays", exc_info=error)
        self.failed = True
        return _NOTHING


class Changes:
    """Asks for what differs after a change, every half second, while anything follows.

    A service has hundreds of processes where it is large: each of them takes one connection and one transaction for
    this, not one for each thing that may change.
    """

    def __init__(self, reading: Callable[[], AbstractContextManager[Connection]]) -> None:
        self._reading = reading
        self._followers: tuple[_Follower, ...] = ()
        self._poller = Poller("changes", self._look)
        self._away = False
        self._looked = monotonic()
        self._telling = Lock()
        self._overtaken = 0

    @property
    def late(self) -> bool:
        """Whether there are followers, and no look has ended for long."""
        return bool(self._followers) and monotonic() - self._looked > _LATE_SECONDS

    def follow(self, ask: Callable[[Connection], Any], tell: Callable[[Any], None]) -> Callable[[], None]:
        """Have `tell` called in a thread with what `ask` finds, again and again; what is returned ends it.

        `ask` makes one small query. `tell` returns soon, as all followers share the thread; it is not called while the
        database does not answer.
        """
        follower = _Follower(ask, tell)
        first = not self._followers
        self._followers += (follower,)
        if first:
            self._looked = monotonic()
            self._poller.start()
        return lambda: self._leave(follower)

    def overtake(self, tell: Callable[[], None]) -> None:
        """Call `tell` after a change that this process has committed; what a look found before it is told nobody."""
        with self._telling:
            self._overtaken += 1
            tell()

    def _leave(self, follower: _Follower) -> None:
        self._followers = tuple(other for other in self._followers if other is not follower)
        if not self._followers:
            self._poller.stop()

    def _look(self) -> None:
        followers = self._followers
        if not followers:
            return
        overtaken = self._overtaken
        try:
            with self._reading() as connection:
                found = [follower.asked(connection) for follower in followers]
        except (SQLAlchemyError, PayoffError, OSError) as error:
            if not self._away:
                _log.warning("changes of keys and models cannot be read, the last view of them stays: %s", error)
            self._away = True
        else:
            self._away = False
            with self._telling:
                for follower, answer in zip(followers, found, strict=True) if overtaken == self._overtaken else ():
                    follower.told(answer)
        self._looked = monotonic()
