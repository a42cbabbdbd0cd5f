"""A Dask cluster as a backend of joblib's.

joblib brings one of its own. This one differs where that one was seen to fail: pieces run on a
cluster of a single thread, too, and not in the job's process; data go to every worker, once, so
that they are not lost with the one that has them; a lost piece ends the attempt at the job with a
clear message; and a waiting piece that is no longer needed never begins.

A worker does the same with a piece, in `run`, as the job's own process would.
"""

import logging
import platform
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from concurrent.futures import Future as LocalFuture
from contextlib import contextmanager, suppress
from functools import cache
from importlib.metadata import version
from pickle import dumps, loads
from typing import Any, NamedTuple
from uuid import uuid4

import numpy as np
from distributed import Client, Future, KilledWorker
from joblib.parallel import ParallelBackendBase

from app.errors import Unavailable
from app.jobs.job import Died
from app.jobs.processes import cap_threads

_CONNECT_SECONDS = 5.0
_WORKER_SECONDS = 20.0
_CLOSE_SECONDS = 2.0
# bytes from which an array goes to all workers beforehand, instead of along with each piece
_LARGE = 16_384

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
_MUST_AGREE = (
    "payoff",
    "scikit-learn",
    "numpy",
    "scipy",
    "numba",
    "joblib",
    "distributed",
)
Result = Any  # a future of Dask's, or a local one that holds an error


class Cluster(ParallelBackendBase):
    """Runs the pieces of joblib on the cluster whose scheduler is at `address`; connects with the
    first piece.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, address: str) -> None:
        super().__init__()
        for name in (
            "distributed",
            "distributed.client",
            "distributed.gc",
            "tornado",
            "tornado.application",
        ):
            # Dask would write its own lines between those of the log.
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
        self._address = address
        self._connected: Any = None
        self._unfinished: set[Result] = set()
        self._placed_arrays: dict[int, Future] = {}  # by identity

    # Called by joblib

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The threads of all workers; two at least, because joblib would run the pieces here if it
        were one.
        """
        del n_jobs  # the cluster is as large as it is
        with _answering():
            client = self._client()
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
            return int(max(2, sum(client.ncores().values())))

    def submit(
        self, func: Any, callback: Callable[[Result], None] | None = None
    ) -> Result:
        """Send a batch of calls; arrays in their arguments are sent the first time only."""
        try:
            future: Result = self._send(func.items)
        # joblib may call this in a thread of Dask's, where an error would be lost.
        except Exception as error:  # noqa: BLE001
            future = LocalFuture()
            future.set_exception(error)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Result) -> Any:
        self._unfinished.discard(out)
        with _answering():
            return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel all batches: those that wait never begin; Dask does not end those that run."""
        del ensure_ready  # it always is
        unfinished = list(self._unfinished)
        self._unfinished = set()
        if self._connected is not None and self._connected.status == "running":
            with suppress(Exception):  # there is an error on its way already
                self._connected.cancel(unfinished, force=True)

    # For the owner

    def close(self) -> None:
        """Leave the cluster, which deletes the pieces and their data."""
        if self._connected is not None:
            with suppress(OSError):  # it may be closed
                self._connected.close(timeout=_CLOSE_SECONDS)

    def _send(self, items: Sequence[Call]) -> Future:
        arrays: list[Future] = []

        def without_array(value: Any) -> Any:
            if not isinstance(value, np.ndarray) or value.nbytes < _LARGE:
                return value
            arrays.append(self._placed(value))
            return Elsewhere(len(arrays) - 1)

        calls = [
            (function, list(map(without_array, values)), keywords)
            for function, values, keywords in items
        ]
        name = f"{getattr(calls[0][0], '__name__', 'piece')}-{uuid4().hex}"
        # As bytes: the scheduler unpickles its arguments, and does not have the workers' modules.
        pickled = dumps(calls)
        future: Future = self._client().submit(
            run, pickled, versions(), *arrays, key=name, pure=False
        )
        self._unfinished.add(future)
        return future

    def _client(self) -> Any:
        if self._connected is None:
            connect: Any = Client  # which has no types
            self._connected = connect(
                self._address, timeout=_CONNECT_SECONDS, set_as_default=False
            )
        return self._connected

    def _placed(self, value: np.ndarray) -> Future:
        """An array as a reference to it on the workers."""
        if id(value) not in self._placed_arrays:
            self._placed_arrays[id(value)] = self._client().scatter(
                value, broadcast=True, hash=False, direct=True
            )
            # At exit all references end, and nothing needs to be removed.
            weakref.finalize(
                value, self._placed_arrays.pop, id(value), None
            ).atexit = False
        return self._placed_arrays[id(value)]


@contextmanager
def _answering() -> Iterator[None]:
    """An error of Dask as an error of this service."""
    try:
        yield
    except KilledWorker as error:
        raise Died(
            "a piece of its work ended several Dask workers in a row"
            " (perhaps it needed more memory)"
        ) from error
    except (CancelledError, OSError) as error:
        raise Unavailable(
            "the Dask cluster cannot be reached, has no workers, or lost what it was given"
        ) from error


# On a worker


class Elsewhere(NamedTuple):
    """Stands for an argument that is an array on the worker, by its number."""

    number: int


@cache
def versions() -> dict[str, str]:
    """The versions that decide whether results are the same on all machines, to the last bit."""
    return {
        "Python": platform.python_version(),
        **{name: version(name) for name in _MUST_AGREE},
    }


def run(pickled: bytes, expected: Mapping[str, str], *arrays: np.ndarray) -> list[Any]:
    """The results of the pickled calls, which may use one thread; Unavailable where versions are
    not as expected.
    """
    installed = versions()
    for name, required in expected.items():
        if installed.get(name) != required:
            raise Unavailable(
                f"a Dask worker has {name} {installed.get(name)} and the job {required}:"
                " run both from the same image"
            )
    # A client that can send a task to the cluster can run any code anyway.
    calls: Sequence[Call] = loads(pickled)  # noqa: S301

    def with_array(value: Any) -> Any:
        return arrays[value.number] if isinstance(value, Elsewhere) else value

    cap_threads(1)
    return [
        function(*map(with_array, values), **keywords)
        for function, values, keywords in calls
    ]
