"""How many connections a process holds, so that files, stores and health checks always have descriptors left."""

from __future__ import annotations

import resource
from typing import Protocol
from weakref import WeakKeyDictionary

from uvicorn.server import ServerState

MAX_CONNECTIONS = 10_000
_MAX_DESCRIPTORS = 65_536  # asked for where the system sets no limit
_BACKLOG = 2048


def raise_descriptor_limit() -> None:
    """Raise the soft limit of open files to the hard limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def most_connections() -> int:
    """Half of the open files that the process may have, at most `MAX_CONNECTIONS`."""
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else max(min(MAX_CONNECTIONS, soft // 2), 1)


def backlog() -> int:
    """Connections that the kernel holds for the process: the server accepts all of them before it counts them, so
    they must fit beside the others and leave descriptors for files.
    """
    return max(min(_BACKLOG, most_connections() // 2), 1)


class Evictable(Protocol):
    """A connection that can be closed at once."""

    def evict(self) -> None: ...


class Crowd:
    """The connections of one server that wait for a request, longest first; each operation is O(1)."""

    def __init__(self) -> None:
        self._waiting: dict[Evictable, None] = {}

    def wait(self, connection: Evictable) -> None:
        """The connection has no request in progress from now on."""
        self._waiting.pop(connection, None)
        self._waiting[connection] = None

    def leave(self, connection: Evictable) -> None:
        """The connection has a request in progress, or has ended."""
        self._waiting.pop(connection, None)

    def make_room(self) -> None:
        """Close the connection that has waited longest: a client that sends whole requests does not wait."""
        connection = next(iter(self._waiting), None)
        if connection is not None:
            self.leave(connection)
            connection.evict()


_crowds: WeakKeyDictionary[ServerState, Crowd] = WeakKeyDictionary()


def crowd_of(state: ServerState) -> Crowd:
    """The connections of the server with this state."""
    return _crowds.setdefault(state, Crowd())
