"""What is looked at in a Dask cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import sklearn

from app.doctor.finding import Finding, ok, warning, wrong

_SECONDS = 5
_COMPARED = {"numpy": np.__version__, "sklearn": sklearn.__version__}


def check_dask(address: str) -> Iterator[Finding]:
    """The scheduler answers, has workers, and they have the packages that we have. Nothing where no address is set."""
    if not address:
        return
    try:
        from distributed import Client  # noqa: PLC0415 - an extra, without types
    except ImportError:
        yield wrong("dask", "PAYOFF_DASK is set, and distributed is not installed", "pip install 'payoff[dask]'")
        return
    try:
        connect: Any = Client
        with connect(address, timeout=_SECONDS, set_as_default=False) as client:
            workers = client.scheduler_info(n_workers=-1)["workers"]
            versions = client.get_versions(packages=list(_COMPARED))["workers"]
    except (OSError, ValueError) as error:
        yield wrong("dask", f"the scheduler {address} does not answer: {error}", "PAYOFF_DASK names it; is it running?")
        return
    yield from _workers(address, workers, versions)


def _workers(address: str, workers: Mapping[str, Any], versions: Mapping[str, Any]) -> Iterator[Finding]:
    if not workers:
        yield warning("dask", f"{address} has no workers: jobs wait for them", f"run `dask worker {address}`")
        return
    others = {
        f"{package} {there}"
        for told in versions.values()
        for package, ours in _COMPARED.items()
        if (there := told["packages"].get(package)) != ours
    }
    if others:
        yield wrong(
            "dask",
            f"workers of {address} have {', '.join(sorted(others))}, and here are numpy {np.__version__} and"
            f" scikit-learn {sklearn.__version__}",
            "install the same versions everywhere, from the project's lock",
        )
        return
    threads = sum(worker["nthreads"] for worker in workers.values())
    least = min(worker["memory_limit"] for worker in workers.values()) / 2**20
    yield ok("dask", f"{address}: {len(workers)} workers, {threads} threads, {least:,.0f} MB each at least")
