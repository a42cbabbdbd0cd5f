"""Several processes that answer on one port: started by forking, replaced when they end or hang, and ended together."""

from __future__ import annotations

import ctypes
import math
import os
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from multiprocessing.context import ForkProcess
from time import monotonic, sleep
from typing import Any

import structlog

from app.pulse import Pulse

_STEADY_SECONDS = 30.0  # after which an end counts as the first one again
_MAX_WAIT_SECONDS = 30.0
_LOOKS = 4  # in a row that find no sign of life, before a process counts as hung
_PR_SET_PDEATHSIG = 1  # of prctl
_END_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_log = structlog.get_logger("payoff")


class PortUnusable(Exception):
    """The port is in use, or not for this user; the text names it and the reason."""


def _report(event: str, **about: Any) -> None:
    """Log an error, unless the log's reader has stalled: a supervisor that waited for it would supervise nothing."""
    if select.select([], [sys.stdout], [], 0)[1]:
        _log.error(event, **about)


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
    beats: int = 0  # when it was last looked at
    missed: int = 0  # looks in a row that found no more of them
    hung: bool = False

    def delay(self, lived: float = 0.0) -> None:
        """Start again at once after a process that lived long, else later than the last time."""
        self.wait = 0.0 if lived >= _STEADY_SECONDS else min(max(2 * self.wait, 0.5), _MAX_WAIT_SECONDS)
        self.due = monotonic() + self.wait


class Supervisor:
    """Runs `serve(number)` in processes 0 … n-1, each forked from this one, which must have no other thread.

    One that ends is started again: at once after `_STEADY_SECONDS`, else after a wait that doubles from half a second
    to `_MAX_WAIT_SECONDS`; so is one that cannot be forked. One whose `pulse` has stood still for `silence` seconds, or
    a quarter more, is killed and started again; looks are counted, not time, since the supervisor may have been
    stopped, too. SIGTERM and SIGINT are passed on; what is left `grace` seconds later is killed. A process whose
    supervisor is killed ends likewise: it notices the end of a pipe, and the kernel continues it if it is stopped.
    """

    def __init__(
        self,
        serve: Callable[[int], None],
        processes: int,
        grace: float,
        *,
        pulse: Pulse | None = None,
        silence: float = math.inf,
    ) -> None:
        self._serve = serve
        self._slots = [_Slot() for _ in range(processes)]
        self._grace = grace
        self._pulse = pulse or Pulse(processes)
        self._look_seconds = silence / _LOOKS
        self._next_look = monotonic() + self._look_seconds
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
            self._reap()
            due = min([self._next_look, *(slot.due for slot in self._slots if slot.process is None)])
            self._wait(max(due - monotonic(), 0.0) if due < math.inf else None)
            if monotonic() >= self._next_look:
                self._end_hung()
                self._next_look = monotonic() + self._look_seconds
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
                slot.process = None
                slot.delay(lived)
                about = {"pid": process.pid, "exit_code": process.exitcode, "seconds": round(lived, 1)}
                _report("a process ended, and is replaced", process=number, **about, restart_seconds=slot.wait)
                self._pulse.replace(number, hung=slot.hung)
                slot.beats, slot.missed, slot.hung = 0, 0, False
            if slot.process is None and monotonic() >= slot.due and not self._stopping:
                slot.started = monotonic()
                process = get_context("fork").Process(target=self._run, args=(number,), name=f"serve-{number}")
                signal.pthread_sigmask(signal.SIG_BLOCK, _END_SIGNALS)  # it would lose one that comes before `_run`
                try:
                    process.start()
                    slot.process = process
                except OSError as error:  # no memory, or too many processes: those that run go on
                    slot.delay()
                    _report(
                        "a process cannot be started", process=number, error=error.strerror, restart_seconds=slot.wait
                    )
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, _END_SIGNALS)

    def _reap(self) -> None:
        """Collect what processes that ended have left running, and has ended since: as process 1 it is the parent."""
        own = {slot.process.pid for slot in self._slots if slot.process is not None}
        with suppress(ChildProcessError):
            while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) and ended.si_pid not in own:
                os.waitpid(ended.si_pid, 0)

    def _end_hung(self) -> None:
        """Kill what gave no sign of life at the last looks; one that has not begun to answer need not give any."""
        for number, slot in enumerate(self._slots):
            beats = self._pulse.beats(number)
            slot.missed = slot.missed + 1 if beats and beats == slot.beats else 0
            slot.beats = beats
            if slot.missed >= _LOOKS and slot.process is not None:
                about = {"pid": slot.process.pid, "seconds": round(slot.missed * self._look_seconds, 1)}
                slot.hung, slot.missed = True, 0
                slot.process.kill()  # one that is stopped would not notice SIGTERM
                _report("a process hangs, and is killed", process=number, **about)

    def _end(self) -> None:
        running = [slot.process for slot in self._slots if slot.process is not None]
        for process in running:
            process.terminate()
        until = monotonic() + self._grace
        for process in running:
            process.join(max(until - monotonic(), 0.0))
            if process.is_alive():
                process.kill()
                process.join()
                _report("a process did not end, and was killed", pid=process.pid)

    def _run(self, number: int) -> None:
        """In the new process."""
        signal.set_wakeup_fd(-1)
        for each in _END_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _END_SIGNALS)
        os.close(self._held)
        with suppress(AttributeError):  # not Linux
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGCONT)
        threading.Thread(target=self._end_with_supervisor, name="supervisor", daemon=True).start()
        self._serve(number)

    def _end_with_supervisor(self) -> None:
        os.read(self._alive, 1)  # nothing is ever written
        os.kill(os.getpid(), signal.SIGTERM)
        sleep(self._grace)
        os.kill(os.getpid(), signal.SIGKILL)
