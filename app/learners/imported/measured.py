"""How much memory and time a foreign model takes for a row, measured: nothing in its file says so."""

from __future__ import annotations

import ctypes
import resource
import time
from pathlib import Path

import numpy as np

from app.errors import Invalid, PayoffError
from app.learners.base import Scorer

BATCH_BYTES = 64 * 2**20  # that a batch of rows may take
BATCH_ROWS = 4096
_SIZES = 32, 256, BATCH_ROWS  # numbers of rows: some models take more than in proportion
_MOST_BYTES, _MOST_SECONDS = 2**20, 0.020  # of a row
_LONG = 2.0  # seconds that tell with few rows
_KINDS = 99  # of numbers that stand for any: whole ones above zero, as sparse matrices leave zeros out


def measure(scorer: Scorer, X: np.ndarray, words: frozenset[int]) -> tuple[float, float]:
    """Bytes and seconds that each row takes of a model, the most of rows X (n, m) and of others without zeros.

    `words` are the columns that hold codes of categories. Invalid at /file where it takes more than a service should
    spend. The number of rows grows as long as a batch stays within `BATCH_BYTES`.
    """
    full = np.random.default_rng(0).integers(1, _KINDS, (BATCH_ROWS, X.shape[1])).astype(np.float64)
    for j in words:
        full[:, j] = np.resize(X[:, j], BATCH_ROWS)
    _once(scorer, full[:1])  # what it does once is not counted
    ours, others = _measured(scorer, X), _measured(scorer, full)
    return max(ours[0], others[0]), max(ours[1], others[1])


def batch_rows(row_bytes: float) -> int:
    """How many rows of `row_bytes` each a model may get at once."""
    return int(min(max(BATCH_BYTES / max(row_bytes, 1.0), 1), BATCH_ROWS))


def _measured(scorer: Scorer, X: np.ndarray) -> tuple[float, float]:
    row_bytes = seconds = 0.0
    for size in _SIZES:
        n = min(size, batch_rows(row_bytes))
        row_bytes, seconds = _once(scorer, X[np.arange(n) % len(X)])
        if n * row_bytes > BATCH_BYTES / 2 and row_bytes > _MOST_BYTES:
            what = f"the model takes {row_bytes / 2**20:,.1f} MB of memory for a row"
            raise Invalid.at("/file", f"{what}; at most {_MOST_BYTES / 2**20:,.0f} MB are allowed")
        if seconds > _MOST_SECONDS and (n > _SIZES[0] or n * seconds > _LONG):
            what = f"the model takes {seconds * 1000:,.0f} ms for a row"
            raise Invalid.at("/file", f"{what}; at most {_MOST_SECONDS * 1000:,.0f} ms are allowed")
        if n < size:
            break
    return row_bytes, seconds


def _once(scorer: Scorer, X: np.ndarray) -> tuple[float, float]:
    """Bytes and seconds of a row, when rows X (n, m) are answered together."""
    _forget_peak()
    before, start = _peak_bytes(), time.perf_counter()
    try:
        scorer.posterior(X)
    except (MemoryError, PayoffError):
        raise
    except Exception:  # noqa: BLE001, S110 - it refuses some row, which other checks report
        pass
    seconds = time.perf_counter() - start
    return max(_peak_bytes() - before, 0) / len(X), seconds / len(X)


def _forget_peak() -> None:
    """Give back what is free, and have the peak begin with what is left, as far as the system can."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")
    except (OSError, AttributeError):
        return


def _peak_bytes() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
        return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
