"""How often the stores of this process failed, for the metrics."""

from __future__ import annotations

from collections import Counter
from threading import Lock


class FailureCounts:
    """Failures by the name of the store."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def note(self, name: str) -> None:
        with self._lock:
            self._counts[name] += 1

    def counts(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


FAILURE_COUNTS = FailureCounts()
