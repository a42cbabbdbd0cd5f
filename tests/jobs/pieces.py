"""What runs in pieces in these tests; imported by Dask's workers, too."""

import os
import time

import numpy as np
from joblib import Parallel, delayed

from payoff.progress import report

ROWS = np.arange(50_000.0)


def shares(count, seconds=0.0):
    """Sums of parts of an array that is large enough to be sent beforehand."""
    rows = ROWS.copy()
    sums = Parallel(return_as="generator")(
        delayed(share)(rows, number, seconds) for number in range(count)
    )
    for number, _sum in enumerate(sums, start=1):
        report(number / count, f"piece {number}")
        yield _sum


def share(rows, number, seconds):
    time.sleep(seconds)
    return float(rows[number::7].sum())


def die(number):
    os._exit(number)
