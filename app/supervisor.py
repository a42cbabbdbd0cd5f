"""Several processes that answer on one port: started by forking, replaced when they end, and ended together."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from time import monotonic

import structlog

_STEADY_SECONDS = 30.0  # after which an end counts as the first one again
_MAX_WAIT_SECONDS = 30.0
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = structlog.get_logger("payoff")


class PortUnusable(Exception):
    """The port is in use, or not for this user; the text names it and the reason."""


@contextmanager
def reserved(host: str, port: int) -> Iterator[int]:
    """Keep a port for the sockets of this service, without listening; 0 takes a free one. PortUnusable where it is in
    use, also by a service that does not listen yet: the kernel decides which of two gets it.
    """
    try:
        with listener(host, port, shared=False) as first:
            first.listen()  # only one socket can; the next one is bound before this one is closed
            first.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            port = first.getsockname()[1]
            kept = listener(host, port)
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # otherwise it would not refuse others
    except OSError as error:
        raise PortUnusable(f"cannot listen at {host}:{port} ({error.strerror})") from error
    with kept:
        yield port


def listener(host: str, port: int, *, shared: bool = True) -> socket.socket:
    """A socket at the port, not listening yet. The kernel spreads connections over the shared ones that listen, by
    their addresses; one socket that all processes inherit would be emptied by the process that wakes first.
    """
    families = {found[0] for found in socket.getaddrinfo(host or None, port, flags=socket.AI_PASSIVE)}
    bound = socket.socket(socket.AF_INET if socket.AF_INET in families else socket.AF_INET6)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


@dataclass
class _Slot:
    """The place of one process, and when it may start again."""

    process: ForkProcess | None = None
    started: float = 0.0
    wait: float = 0.0  # seconds that the last start was delayed
    due: float = 0.0


class Supervisor:
    """Runs `serve(number)` in processes 0 … n-1, each forked from this one, which must have no other thread.

    One that ends is started again: at once after `_STEADY_SECONDS`, else after a wait that doubles from half a second
    to `_MAX_WAIT_SECONDS`. SIGTERM and SIGINT are passed on; what is left `grace` seconds later is killed. A process
    whose supervisor is killed gets SIGTERM, too: it notices the end of a pipe.
    """

    def __init__(self, serve: Callable[[int], None], processes: int, grace: float) -> None:
        self._serve = serve
        self._slots = [_Slot() for _ in range(processes)]
        self._grace = grace
        self._stopping = False
        self._alive, self._held = os.pipe()  # the second end is open in this process only
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)

    def run(self) -> None:
        """Return when a signal has ended all processes."""
        for number in _END_SIGNALS:
            signal.signal(number, self._stop)
        signal.set_wakeup_fd(self._wake)
        while not self._stopping:
            self._fill()
            due = [slot.due - monotonic() for slot in self._slots if slot.process is None]
            self._wait(max(min(due), 0.0) if due else None)
        self._end()

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopping = True

    def _wait(self, seconds: float | None) -> None:
        """Until a signal, the end of a process, or so many seconds."""
        running = [slot.process.sentinel for slot in self._slots if slot.process is not None]
        if self._woken in connection.wait([*running, self._woken], seconds):
            os.read(self._woken, 4096)

    def _fill(self) -> None:
        """Start what is due, after a look at what has ended."""
        for number, slot in enumerate(self._slots):
            process = slot.process
            if process is not None and not process.is_alive():
                lived = monotonic() - slot.started
                slot.wait = 0.0 if lived >= _STEADY_SECONDS else min(max(2 * slot.wait, 0.5), _MAX_WAIT_SECONDS)
                slot.process, slot.due = None, monotonic() + slot.wait
                about = {"pid": process.pid, "exit_code": process.exitcode, "seconds": round(lived, 1)}
                _log.error("a process ended, and is replaced", process=number, **about, restart_seconds=slot.wait)
            if slot.process is None and monotonic() >= slot.due and not self._stopping:
                slot.started = monotonic()
                slot.process = get_context("fork").Process(target=self._run, args=(number,), name=f"serve-{number}")
                signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)  # it would lose one that comes before `_run`
                try:
                    slot.process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END_SIGNALS)

    def _end(self) -> None:
        running = [slot.process for slot in self._slots if slot.process is not None]
        for process in running:
            process.terminate()
        until = monotonic() + self._grace
        for process in running:
            process.join(max(until - monotonic(), 0.0))
            if process.is_alive():
                _log.warning("a process does not end and is killed", pid=process.pid)
                process.kill()
                process.join()

    def _run(self, number: int) -> None:
        """In the new process."""
        signal.set_wakeup_fd(-1)
        for each in _END_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _END_SIGNALS)
        os.close(self._held)
        threading.Thread(target=self._end_with_supervisor, name="supervisor", daemon=True).start()
        self._serve(number)

    def _end_with_supervisor(self) -> None:
        os.read(self._alive, 1)  # nothing is ever written
        os.kill(os.getpid(), signal.SIGTERM)
