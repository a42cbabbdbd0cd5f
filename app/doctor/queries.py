"""Ask a Dask scheduler for its workers, and tell them as JSON: `python asked.py tcp://… numpy …`.

A program of its own, since the client of a scheduler that hangs cannot be given up within a process: it goes on trying,
and complains at the end.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import distributions
from typing import Any

from distributed import Client

_SECONDS = 8


def versions_of(packages: list[str]) -> dict[str, str | None]:
    """Runs on each worker, which gets this function by its bytes."""
    there = {distribution.name: distribution.version for distribution in distributions()}
    return {name: there.get(name) for name in packages}


def workers_of(address: str, packages: list[str]) -> list[dict[str, Any]]:
    """Threads, bytes of memory (0: no limit) and versions of the packages (None: not installed) of each worker."""
    connect: Any = Client  # which has no types
    with connect(address, timeout=_SECONDS, set_as_default=False) as client:
        workers = client.scheduler_info(n_workers=-1)["workers"]
        versions = client.run(versions_of, packages)
    return [
        {
            "threads": told["nthreads"],
            "memory": told["memory_limit"] or 0,
            "packages": versions.get(worker, {}),
        }
        for worker, told in workers.items()
    ]


if __name__ == "__main__":
    sys.stdout.write(json.dumps(workers_of(sys.argv[1], sys.argv[2:])))
