"""The fork server from which jobs and the readers of uploads start, and the lock that its use needs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from multiprocessing import forkserver, get_context

CONTEXT = get_context("forkserver")
LOCK = threading.Lock()  # multiprocessing collects ended processes whenever it starts one, from any thread


def preload(modules: Iterable[str]) -> None:
    """Name what the fork server imports once for all its processes; call this before it starts."""
    CONTEXT.set_forkserver_preload(list(modules))


def start() -> None:
    """Start the fork server now, so that its imports do not keep the first upload or job waiting; returns at once."""
    with LOCK:
        forkserver.ensure_running()
