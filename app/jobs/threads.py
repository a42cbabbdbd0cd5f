"""How many threads the numerical libraries use in this process."""

from __future__ import annotations

import os
import sys

from threadpoolctl import threadpool_limits

_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


def cap_threads(threads: int) -> None:
    """Let BLAS, OpenMP and numba use this many threads, whether they are loaded already or later."""
    for variable in _VARIABLES:
        os.environ[variable] = str(threads)
    threadpool_limits(threads)
    if numba := sys.modules.get("numba"):
        numba.config.reload_config()  # it read the variables when it was imported
