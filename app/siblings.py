"""The metrics of several processes of one service, summed by the one that is asked."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from selectors import EVENT_READ, DefaultSelector
from tempfile import TemporaryDirectory, gettempdir
from time import monotonic, sleep, time

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

from app.pulse import Pulse

_TIMEOUT = 1.5  # seconds for the answers of all siblings, which may wait a second for the job table
_SEND_TIMEOUT = 0.2  # an answer fits into the buffer of a socket
_WAITING = 64  # connections that wait for an answer; each process may ask at the same time
_END = "# EOF\n"  # an answer without it was cut off
_ONE: dict[str, Callable[[Iterable[float]], float]] = {
    "payoff_build_info": max,
    "payoff_jobs": max,
    "payoff_expected_benefit_total": sum,
    "payoff_model_cache_bytes": sum,
    "payoff_models_cached": sum,
    "payoff_processes_replaced": max,  # a counter of the supervisor, which each of them reports
    "payoff_queue_age_seconds": max,
    "payoff_queue_oldest_seconds": max,
    "payoff_registry_age_seconds": max,
    "payoff_registry_revision": min,
    "payoff_worker_turn_age_seconds": max,
    "payoff_workers": max,
    "process_max_fds": sum,
    "process_open_fds": sum,
    "process_resident_memory_bytes": sum,
    "process_start_time_seconds": min,
    "process_virtual_memory_bytes": sum,
}
"""How the values of two processes become one; of other gauges the larger, of other counters the sum."""
_PREFIX = "payoff-processes-"
_NEW_SECONDS = 60.0  # a folder is not locked yet when it is made
_log = structlog.get_logger("payoff")


@contextmanager
def shared_folder() -> Iterator[Path]:
    """A folder of the processes of one service, which hold a lock on it until the last one has ended; those that killed
    services of this user have left are removed.
    """
    for folder in Path(gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # locked, or of another user
            _remove_unlocked(folder)
    with TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True) as name:
        lock = os.open(name, os.O_RDONLY)
        try:
            with suppress(OSError):  # on a disk without locks nothing is removed
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield Path(name)
        finally:
            os.close(lock)


def _remove_unlocked(folder: Path) -> None:
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        about = os.fstat(opened)
        if about.st_uid == os.getuid() and time() - about.st_mtime > _NEW_SECONDS:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
    finally:
        os.close(opened)


class Siblings:
    """Processes 0 … n-1 of one service, which share a folder, in which each answers at a socket.

    What a process reports is also kept in the folder, and counted by the next one of its number: sums do not fall when
    it ends. What it has counted since it was last asked is lost with it. Idle processes do nothing for this.
    """

    def __init__(self, folder: Path, number: int, pulse: Pulse | None = None) -> None:
        self.pulse = pulse or Pulse(1)
        self._folder = folder
        self._socket, self._file = folder / f"{number}.socket", folder / f"{number}.text"
        self._before: list[str] = []  # what the last process of this number has reported
        self._registry = CollectorRegistry()

    def start(self, registry: CollectorRegistry) -> None:
        """Answer the others, in a thread, with the metrics of `registry`."""
        self._registry = registry
        if self._file.exists():
            self._before = [self._file.read_text()]
        self.stop()  # where the last process was killed
        listener = socket.socket(socket.AF_UNIX)
        try:
            listener.bind(str(self._socket))
            listener.listen(_WAITING)
        except OSError as error:  # for example a folder for temporary files with too long a name
            listener.close()
            _log.warning("the other processes do not report the metrics of this one", reason=str(error))
            return
        threading.Thread(target=self._answer, args=(listener,), name="siblings", daemon=True).start()

    def stop(self) -> None:
        """Answer no longer."""
        self._socket.unlink(missing_ok=True)

    def report(self) -> bytes:
        """The metrics of all processes in Prometheus's text format; a process that does not answer in time counts with
        what it reported last.
        """
        texts = {self._socket.stem: self._text()}
        texts |= _asked(address for address in self._folder.glob("*.socket") if address != self._socket)
        left = [file.read_text() for file in self._folder.glob("*.text") if file.stem not in texts]
        return _summed(texts.values(), left)

    def _text(self) -> str:
        """The metrics of this process, with the counts of those before it."""
        own = generate_latest(self._registry)
        text = (_summed([own.decode()], self._before) if self._before else own).decode() + _END
        file = self._file.with_suffix(f".{threading.get_ident()}")
        with suppress(OSError):  # on a full disk there are still metrics
            file.write_text(text)
            file.replace(self._file)
        return text

    def _answer(self, listener: socket.socket) -> None:
        while True:
            try:
                with listener.accept()[0] as caller:
                    caller.settimeout(_SEND_TIMEOUT)
                    caller.sendall(self._text().encode())
            except (BrokenPipeError, TimeoutError):  # the other one waits no longer, or hangs
                pass
            except Exception as error:  # noqa: BLE001 - one answer fails, and the next is tried
                _log.warning("metrics were not sent to another process", error=type(error).__name__)
                sleep(_SEND_TIMEOUT)  # too few descriptors, for example: the next call would fail at once


def _summed(live: Iterable[str], left: Iterable[str]) -> bytes:
    """The metrics of processes as those of one."""
    combined = CollectorRegistry()
    combined.register(_Sum(live, left))
    return generate_latest(combined)


class _Sum(Collector):
    """Families of the same name as one: counters and histograms added up, those of ended processes included."""

    def __init__(self, live: Iterable[str], left: Iterable[str]) -> None:
        self._live, self._left = list(live), list(left)

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        families: dict[str, Metric] = {}
        samples: dict[str, dict[tuple[str, tuple[tuple[str, str], ...]], float]] = {}
        for text, gauges in [(text, True) for text in self._live] + [(text, False) for text in self._left]:
            for family in text_string_to_metric_families(text):
                if family.type == "gauge" and not gauges:
                    continue
                families.setdefault(family.name, family)
                found, how = samples.setdefault(family.name, {}), _rule(family)
                for sample in family.samples:
                    key = sample.name, tuple(sorted(sample.labels.items()))
                    found[key] = how((found[key], sample.value)) if key in found else sample.value
        for name, family in families.items():
            one = Metric(name, family.documentation, family.type)
            for (sample_name, labels), value in samples[name].items():
                one.add_sample(sample_name, dict(labels), value)
            yield one


def _rule(family: Metric) -> Callable[[Iterable[float]], float]:
    """How the values of two processes become one."""
    return _ONE.get(family.name, max if family.type == "gauge" else sum)


def _asked(addresses: Iterable[Path]) -> dict[str, str]:
    """What the processes at these sockets report, by number, asked side by side; without those that have ended, and
    those that have not answered in full after `_TIMEOUT`.
    """
    texts, until = {}, monotonic() + _TIMEOUT
    with ExitStack() as sockets, DefaultSelector() as waiting:
        for address in addresses:
            other = sockets.enter_context(socket.socket(socket.AF_UNIX))
            other.setblocking(False)
            with suppress(OSError):  # it has ended, or hangs and as many wait as can
                other.connect(str(address))
                waiting.register(other, EVENT_READ, (other, address.stem, bytearray()))
        while waiting.get_map() and (seconds := until - monotonic()) > 0:
            for key, _events in waiting.select(seconds):
                other, number, text = key.data
                part = b""
                with suppress(ConnectionError):
                    part = other.recv(2**18)
                text += part
                if not part:
                    waiting.unregister(other)
                    if text.endswith(_END.encode()):
                        texts[number] = text.decode()
    return texts
