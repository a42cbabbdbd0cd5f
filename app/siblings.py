"""The metrics of several processes of one service, summed by the one that is asked."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Client, Listener
from pathlib import Path

import structlog
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

_TIMEOUT = 1.5  # seconds for a sibling's answer, which may wait a second for the job table
_ADDED_GAUGES = {
    "payoff_models_cached",
    "payoff_model_cache_bytes",
    "process_resident_memory_bytes",
    "process_virtual_memory_bytes",
    "process_open_fds",
    "process_max_fds",
}
_LEAST_GAUGES = {"payoff_registry_revision", "process_start_time_seconds"}
_LARGEST_GAUGES = {
    "payoff_build_info",
    "payoff_jobs",
    "payoff_queue_age_seconds",
    "payoff_queue_oldest_seconds",
    "payoff_registry_age_seconds",
    "payoff_worker_turn_age_seconds",
    "payoff_workers",
}
_log = structlog.get_logger("payoff")


class Siblings:
    """Processes that share a folder, in which each answers at a socket.

    What a process reports is also kept in the folder: its counters stay in the sums after its end, so that sums never
    fall. What it has counted since it was last asked is lost with it. Idle processes do nothing for this.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pid = os.getpid()
        self._own = folder / f"{self._pid}.socket"
        self._registry = CollectorRegistry()

    def start(self, registry: CollectorRegistry) -> None:
        """Answer the others, in a thread, with the metrics of `registry`."""
        self._registry = registry
        try:
            listener = Listener(str(self._own), "AF_UNIX")
        except OSError as error:  # for example a folder for temporary files with too long a name
            _log.warning("the other processes do not report the metrics of this one", reason=str(error))
            return
        threading.Thread(target=self._answer, args=(listener,), name="siblings", daemon=True).start()

    def stop(self) -> None:
        """Answer no longer."""
        self._own.unlink(missing_ok=True)

    def report(self) -> bytes:
        """The metrics of all processes in Prometheus's text format; a process that does not answer in time counts with
        what it reported last.
        """
        others = [_asked(address) for address in self._folder.glob("*.socket") if address != self._own]
        texts = [self._kept(), *filter(None, others)]
        live = {text.partition("\n")[0] for text in texts}
        left = [
            text for file in self._folder.glob("*.text") if (text := file.read_text()).partition("\n")[0] not in live
        ]
        combined = CollectorRegistry()
        combined.register(_Sum(texts, left))
        return generate_latest(combined)

    def _kept(self) -> str:
        """The metrics of this process, after a line that names it."""
        text = f"# {self._pid}\n{generate_latest(self._registry).decode()}"
        file = self._own.with_suffix(f".{threading.get_ident()}")
        file.write_text(text)
        file.replace(self._own.with_suffix(".text"))
        return text

    def _answer(self, listener: Listener) -> None:
        while True:
            try:
                with listener.accept() as caller:
                    caller.send_bytes(self._kept().encode())
            except Exception as error:  # noqa: BLE001 - one answer fails, and the next is tried
                _log.warning("metrics were not sent to another process", error=type(error).__name__)


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
    if family.type != "gauge" or family.name in _ADDED_GAUGES:
        return sum
    return min if family.name in _LEAST_GAUGES else max  # a gauge of a library as those in _LARGEST_GAUGES


def _asked(address: Path) -> str | None:
    """What the process at a socket reports; None where it has ended or does not answer."""
    with suppress(OSError, EOFError):
        with Client(str(address), "AF_UNIX") as other:
            if other.poll(_TIMEOUT):
                return other.recv_bytes().decode()
        return None
    address.unlink(missing_ok=True)  # it was killed
    return None
