"""The fork server from which jobs and the readers of uploads start, and the lock that its use needs."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterable
from multiprocessing import forkserver, get_context
from multiprocessing.connection import Connection

CONTEXT = get_context("forkserver")
LOCK = threading.Lock()  # multiprocessing collects ended processes whenever it starts one, from any thread


def preload(modules: Iterable[str]) -> None:
    """Name what the fork server imports once for all its processes; call this before it starts."""
    CONTEXT.set_forkserver_preload(list(modules))


def start() -> None:
    """Start the fork server now, so that its imports do not keep the first upload or job waiting; returns at once."""
    with LOCK:
        forkserver.ensure_running()


def end_with(parent_end: Connection) -> None:
    """In a process: let the end of the parent, however it comes, kill this process and all that it starts.

    The parent holds the other end of the pipe and never writes. On Linux the kernel itself sends SIGKILL to the
    process group when that end closes: a thread could not while a C loop holds the interpreter, and the "parent
    died" signal would not come, because the fork server lives as long as its children.
    """
    os.setsid()
    if sys.platform == "linux":
        fcntl.fcntl(parent_end, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(parent_end, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent_end, fcntl.F_SETFL, fcntl.fcntl(parent_end, fcntl.F_GETFL) | os.O_ASYNC)
    else:
        threading.Thread(target=_watch, args=(parent_end,), daemon=True).start()
    if parent_end.poll(0):  # it closed before the lines above
        os.killpg(0, signal.SIGKILL)


def _watch(parent_end: Connection) -> None:
    parent_end.poll(None)
    os.killpg(0, signal.SIGKILL)
