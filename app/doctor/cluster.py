"""Checks of a Dask cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import sklearn

from app.doctor.finding import Finding, ok, warning, wrong

_SECONDS = 15.0
_OURS = {"numpy": np.__version__, "scikit-learn": sklearn.__version__}


def check_dask(address: str) -> Iterator[Finding]:
    """The scheduler answers, has workers, and they have the packages that we have. Nothing where no address is set."""
    if not address:
        return
    if find_spec("distributed") is None:
        yield wrong("dask", "PAYOFF_DASK is set, but `distributed` is not installed", "pip install 'payoff[dask]'")
        return
    workers = _asked(address)
    if workers is None:
        yield wrong(
            "dask", f"the scheduler {address} does not answer", "check PAYOFF_DASK, and whether the scheduler runs"
        )
    else:
        yield _judged(address, workers)


def _asked(address: str) -> list[dict[str, Any]] | None:
    line = [
        sys.executable,
        "-P",
        str(Path(__file__).with_name("queries.py")),
        address,
        *_OURS,
    ]  # fast: imports Dask alone
    try:
        told = subprocess.run(line, capture_output=True, timeout=_SECONDS, check=True)  # noqa: S603 - our own command
        workers: list[dict[str, Any]] = json.loads(told.stdout)
    except (subprocess.SubprocessError, ValueError):
        return None
    return workers


def _judged(address: str, workers: list[dict[str, Any]]) -> Finding:
    if not workers:
        return warning("dask", f"{address} has no workers: jobs wait for them", f"run `dask worker {address}`")
    others = {
        f"{package} {version or 'not at all'}"
        for worker in workers
        for package, version in worker["packages"].items()
        if version != _OURS[package]
    }
    if others:
        here = " and ".join(f"{package} {version}" for package, version in _OURS.items())
        text = f"workers of {address} have {', '.join(sorted(others))}; here are {here}"
        return wrong("dask", text, "install the same versions everywhere, from the project's lock")
    limits = [worker["memory"] for worker in workers if worker["memory"]]
    memory = f", {min(limits) / 2**20:,.0f} MB or more each" if limits else ", without limits on memory"
    threads = sum(worker["threads"] for worker in workers)
    return ok("dask", f"{address} has {len(workers)} workers with {threads} threads in all{memory}")
