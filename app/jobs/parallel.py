"""Where the independent pieces of a job's work run: on threads of its process, or on a Dask
cluster.

Learners hand their pieces (trees, folds, fits) to joblib, and joblib to the backend that is set
here.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from joblib import parallel_config
from joblib.parallel import ThreadingBackend
from threadpoolctl import threadpool_limits

from payoff.errors import Invalid


class Threads(ThreadingBackend):
    """Threads that run a piece each, while BLAS and OpenMP have one for each piece, as on a
    cluster: else the last bits of a result would depend on the place.
    """

    def start_call(self) -> None:
        self._limits = threadpool_limits(1)

    def stop_call(self) -> None:
        self._limits.restore_original_limits()


@contextmanager
def pieces_run_on(cluster: str, threads: int) -> Iterator[None]:
    """In this context joblib runs pieces on the Dask cluster of that scheduler; where it is "", on
    so many threads.

    The cluster is called when the first piece is to run. Where it does not answer, or loses a
    piece, the error is Unavailable: the attempt at the job is over, and another one begins.
    """
    if not cluster:
        with parallel_config(backend=Threads(), n_jobs=threads):
            yield
        return
    from app.jobs.cluster import Cluster  # noqa: PLC0415 - only needed with a cluster

    backend = Cluster(cluster)
    with parallel_config(backend=backend):
        try:
            yield
        finally:
            backend.close()


def check_installed(cluster: str) -> None:
    """Raise Invalid, with the fix, where a cluster is set and its library is not installed."""
    if cluster and find_spec("distributed") is None:
        raise Invalid(
            "PAYOFF_DASK needs Dask; in the clone: pip install -r requirements-scale.lock"
        )
