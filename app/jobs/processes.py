"""Processes that run a job or read an upload, from one fork server; each ends with the process that
started it.

And whether glibc's malloc keeps large blocks of a process that are freed.
"""

import ctypes
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Any

from threadpoolctl import threadpool_limits

CONTEXT = get_context("forkserver")
# multiprocessing collects ended processes whenever it starts a process, from any thread.
LOCK = threading.Lock()

# the options of mallopt, see malloc.h
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
_ARENA_MAX = -8
_LARGEST_MMAP_THRESHOLD = 32 << 20  # bytes: glibc allows no more
_SMALL_BLOCK = 1 << 16  # bytes


def preload(modules: Iterable[str]) -> None:
    """Name the modules that the fork server imports at its start, for all its processes."""
    CONTEXT.set_forkserver_preload(list(modules))


def start() -> None:
    """Start the fork server now, so that its imports do not keep the first upload or job waiting;
    returns at once.
    """
    with LOCK:
        forkserver.ensure_running()


@contextmanager
def started(
    target: Callable[..., None], *arguments: Any
) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """A process that runs `target(*arguments, parent_end, sender)`, and the receiver of the
    messages that it sends.

    `parent_end` is for `end_with`. The process is killed at the end, if it still runs, and its exit
    code known.
    """
    receiver, sender = CONTEXT.Pipe(duplex=False)
    parent_end, kept = CONTEXT.Pipe(duplex=False)
    with receiver, kept:
        with sender, parent_end:
            process = CONTEXT.Process(
                target=target, args=(*arguments, parent_end, sender)
            )
            with LOCK:
                process.start()
        try:
            yield process, receiver
        finally:
            kept.close()  # the processes that it has started end as well
            with LOCK:
                if process.is_alive():
                    process.kill()
                process.join()


def end_with(parent_end: Connection) -> None:
    """In a process: let the end of the parent, however it comes, kill this process and all that it
    starts.

    The parent holds the other end of the pipe and never writes. On Linux the kernel itself sends
    SIGKILL to the process group when that end closes: a thread could not while a C loop holds the
    interpreter, and the "parent died" signal would not come, because the fork server lives as long
    as its children.
    """
    os.setsid()
    if sys.platform == "linux":
        fcntl.fcntl(parent_end, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent_end, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(
            parent_end,
            fcntl.F_SETFL,
            fcntl.fcntl(parent_end, fcntl.F_GETFL) | os.O_ASYNC,
        )
    else:
        threading.Thread(target=_watch, args=(parent_end,), daemon=True).start()
    if parent_end.poll(0):  # it closed before the lines above
        os.killpg(0, signal.SIGKILL)


def _watch(parent_end: Connection) -> None:
    parent_end.poll(None)
    os.killpg(0, signal.SIGKILL)


def cap_threads(threads: int) -> None:
    """Let BLAS, OpenMP and numba use this many threads in this process, whether they are loaded
    already or later.
    """
    for library in ("OMP", "OPENBLAS", "MKL", "NUMBA"):
        os.environ[f"{library}_NUM_THREADS"] = str(threads)
    threadpool_limits(threads)
    numba = sys.modules.get("numba")
    if numba is not None:
        numba.config.reload_config()  # it read the variables when it was imported


# Memory


def keep_freed_memory() -> None:
    """Have malloc use large blocks again, of which it keeps up to 64 MB in all when they are freed.

    Otherwise it returns them to the kernel after each large request, and the next one pays for each
    page once more: half of the time of a batch. By itself glibc comes to these thresholds only
    after a block of 32 MB. One arena, because each would keep as much.
    """
    _set(
        {
            _MMAP_THRESHOLD: _LARGEST_MMAP_THRESHOLD,
            _TRIM_THRESHOLD: 2 * _LARGEST_MMAP_THRESHOLD,
            _ARENA_MAX: 1,
        }
    )


def return_freed_memory() -> None:
    """Have malloc give large blocks back to the kernel as soon as they are freed."""
    _set({_MMAP_THRESHOLD: _SMALL_BLOCK, _ARENA_MAX: 1})


def _set(options: dict[int, int]) -> None:
    with suppress(AttributeError):  # not glibc
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in options.items():
            mallopt(option, value)


def trim() -> None:
    """Return all free memory to the kernel now."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
