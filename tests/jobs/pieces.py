"""What runs in pieces in these tests; imported by Dask's workers, too."""

import os
import time
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from app.jobs.parallel import pieces_run_on
from app.progress import report

ROWS = np.arange(50_000.0)


def shares(count, seconds=0.0):
    """Sums of parts of an array that is large enough to be sent beforehand."""
    rows = ROWS.copy()
    sums = Parallel(return_as="generator")(delayed(share)(rows, number, seconds) for number in range(count))
    for number, _sum in enumerate(sums, start=1):
        report(number / count, f"piece {number}")
        yield _sum


def share(rows, number, seconds):
    time.sleep(seconds)
    return float(rows[number::7].sum())


def die(number):
    os._exit(number)


def scribble(path, seconds):
    """Be busy for long, and show it."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        Path(path).write_text(str(time.time()))
        time.sleep(0.02)
        report(0.0)


def busy(_url, job):
    """A job whose pieces are busy on the cluster, two at once and more to come."""
    with pieces_run_on(job.spec["cluster"], 1):
        folder = Path(job.spec["folder"])
        report(0.1, "busy")
        Parallel()(delayed(scribble)(str(folder / f"piece {number}"), 60.0) for number in range(6))
