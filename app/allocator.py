"""What glibc's malloc does with large blocks once they are freed. Nothing happens here with another C library."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of mallopt, see malloc.h
_LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes: glibc allows no more
_SMALL_BLOCK = 1 << 16  # bytes
_VARIABLES = ("MALLOC_", "GLIBC_TUNABLES")  # by which an operator chooses


def keep_freed_memory() -> None:
    """Have malloc use large blocks again, of which it keeps up to 64 MB in all when they are freed.

    Otherwise it returns them to the kernel after each large request, and the next one pays for each page once more:
    half of the time of a batch. By itself glibc comes to these thresholds only after a block of 32 MB. One arena,
    because each would keep as much. Environment variables of glibc go before.
    """
    if not any(name.startswith(_VARIABLES) for name in os.environ):
        _set({_MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD, _TRIM_THRESHOLD: 2 * _LARGEST_MMAP_THRESHOLD, _ARENA_MAX: 1})


def return_freed_memory() -> None:
    """Have malloc give large blocks back to the kernel as soon as they are freed."""
    _set({_MMAP_THRESHOLD: _SMALL_BLOCK, _ARENA_MAX: 1})


def _set(options: dict[int, int]) -> None:
    with suppress(AttributeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)


def trim() -> None:
    """Give back what is free now, whatever is kept otherwise."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
