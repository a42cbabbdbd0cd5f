"""A Dask cluster as a backend of joblib's.

joblib brings one of its own. This one differs where that one was seen to fail: pieces run on a
cluster of a single thread, too, and not in the job's process; data go to every worker, once, so
that they are not lost with the one that has them; what the cluster loses ends the attempt at the
job in clear words; and what waits unwanted never begins.

`run` is what a worker does with a piece: the same as the job's own process would.
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
_MUST_AGREE = ("payoff", "scikit-learn", "numpy", "scipy", "numba", "joblib", "distributed")
Result = Any  # a future of Dask's, or a local one that holds why there is none


class Cluster(ParallelBackendBase):
    """Runs what joblib is given on the cluster whose scheduler is at `address`; connects with the
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
            # Dask would write lines of its own kind between those of the log
            logging.getLogger(name).handlers.clear()
            logging.getLogger(name).propagate = True
        self._address = address
        self._connected: Any = None
        self._waiting: set[Result] = set()
        self._sent: dict[int, Future] = {}  # by identity

    # What joblib calls

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """The threads of all workers; two at least, because joblib would run the pieces here if it
        were one.
        """
        del n_jobs  # the cluster is as large as it is
        with _answering():
            client = self._client()
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
            return int(max(2, sum(client.ncores().values())))

    def submit(self, func: Any, callback: Callable[[Result], None] | None = None) -> Result:
        """Send a batch of calls; arrays in their arguments are sent the first time only."""
        try:
            future: Result = self._send(func.items)
        except Exception as error:  # noqa: BLE001 - joblib sends from a thread of Dask's, where it would be lost
            future = LocalFuture()
            future.set_exception(error)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    def retrieve_result_callback(self, out: Result) -> Any:
        self._waiting.discard(out)
        with _answering():
            return out.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Have what was sent given up: what waits never begins; Dask does not end what runs."""
        del ensure_ready  # it always is
        waiting, self._waiting = list(self._waiting), set()
        if self._connected is not None and self._connected.status == "running":
            with suppress(Exception):  # there is an error on its way already
                self._connected.cancel(waiting, force=True)

    # For the owner

    def close(self) -> None:
        """Leave the cluster, which forgets what was sent."""
        if self._connected is not None:
            with suppress(OSError):  # it may be closed
                self._connected.close(timeout=_CLOSE_SECONDS)

    def _send(self, items: Sequence[Call]) -> Future:
        arrays: list[Future] = []

        def lightened(value: Any) -> Any:
            if not isinstance(value, np.ndarray) or value.nbytes < _LARGE:
                return value
            arrays.append(self._placed(value))
            return Elsewhere(len(arrays) - 1)

        calls = [
            (function, list(map(lightened, values)), named) for function, values, named in items
        ]
        name = f"{getattr(calls[0][0], '__name__', 'piece')}-{uuid4().hex}"
        # As bytes: the scheduler reads what it passes on, and need not load all that the workers
        # do.
        pickled = dumps(calls)
        future: Future = self._client().submit(
            run, pickled, versions(), *arrays, key=name, pure=False
        )
        self._waiting.add(future)
        return future

    def _client(self) -> Any:
        if self._connected is None:
            connect: Any = Client  # which has no types
            self._connected = connect(self._address, timeout=_CONNECT_SECONDS, set_as_default=False)
        return self._connected

    def _placed(self, value: np.ndarray) -> Future:
        """An array as a reference to it on the workers."""
        if id(value) not in self._sent:
            self._sent[id(value)] = self._client().scatter(
                value, broadcast=True, hash=False, direct=True
            )
            # At exit all references end, and nothing needs to be removed.
            weakref.finalize(value, self._sent.pop, id(value), None).atexit = False
        return self._sent[id(value)]


@contextmanager
def _answering() -> Iterator[None]:
    """An error of Dask as an error of this service."""
    try:
        yield
    except KilledWorker as error:
        raise Died(
            "a piece of its work ended several Dask workers in a row (perhaps it needed more memory)"
        ) from error
    except (CancelledError, OSError) as error:
        raise Unavailable(
            "the Dask cluster cannot be reached, has no workers, or lost what it was given"
        ) from error


# On a worker


class Elsewhere(NamedTuple):
    """Stands for an argument that did not come along with the call: the array of this number."""

    number: int


@cache
def versions() -> dict[str, str]:
    """What decides whether a result here is the same as elsewhere, to the last bit."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _MUST_AGREE}}


def run(pickled: bytes, expected: Mapping[str, str], *arrays: np.ndarray) -> list[Any]:
    """The results of the pickled calls, which may use one thread; Unavailable where versions are
    not as expected.
    """
    own = versions()
    for name, wanted in expected.items():
        if own.get(name) != wanted:
            raise Unavailable(
                f"a Dask worker has {name} {own.get(name)} and the job {wanted}: run both from the same image"
            )
    calls: Sequence[Call] = loads(pickled)  # noqa: S301 - a client that can send a task can run any code anyway

    def here(value: Any) -> Any:
        return arrays[value.number] if isinstance(value, Elsewhere) else value

    cap_threads(1)
    return [function(*map(here, values), **named) for function, values, named in calls]
