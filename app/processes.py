"""The fork server from which jobs and the readers of uploads start, and the lock that its use needs."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from multiprocessing import get_context

CONTEXT = get_context("forkserver")
LOCK = threading.Lock()  # multiprocessing collects ended processes whenever it starts one, from any thread


def preload(modules: Iterable[str]) -> None:
    """Name what the fork server imports once for all its processes; it starts with the first, so call this before."""
    CONTEXT.set_forkserver_preload(list(modules))
