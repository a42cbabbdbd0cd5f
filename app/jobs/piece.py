"""What a Dask worker does with a piece of a job's work: the same as the job's own process would."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pickle import loads
from typing import Any, NamedTuple

import numpy as np
from distributed import get_worker

from app.errors import Unavailable
from app.jobs.threads import cap_threads
from app.progress import interruptible

Call = tuple[Callable[..., Any], Sequence[Any], Mapping[str, Any]]
_MUST_AGREE = ("payoff", "scikit-learn", "numpy", "scipy", "numba", "joblib", "distributed")


class Elsewhere(NamedTuple):
    """Stands for an argument that did not come along with the call: the array of this number."""

    number: int


class Abandoned(Exception):
    """The result is no longer needed."""


@cache
def versions() -> dict[str, str]:
    """What decides whether a result here is the same as elsewhere, to the last bit."""
    return {"Python": platform.python_version(), **{name: version(name) for name in _MUST_AGREE}}


def run(key: str, pickled: bytes, expected: Mapping[str, str], *arrays: np.ndarray) -> list[Any]:
    """The results of the pickled calls, which may use one thread; Unavailable where versions are not as expected.

    Between two reports of progress it is seen whether anybody still waits for this task, `key`. If not, it ends.
    """
    _check(expected)
    calls: Sequence[Call] = loads(pickled)  # noqa: S301 - a client that can send a task can run any code anyway

    def here(value: Any) -> Any:
        return arrays[value.number] if isinstance(value, Elsewhere) else value

    cap_threads(1)
    with interruptible(_go_on_while_wanted(key)):
        return [function(*map(here, values), **named) for function, values, named in calls]


def _check(expected: Mapping[str, str]) -> None:
    here = versions()
    for name, wanted in expected.items():
        if here.get(name) != wanted:
            raise Unavailable(
                f"a Dask worker has {name} {here.get(name)} and the job {wanted}: run both from the same image"
            )


def _go_on_while_wanted(key: str) -> Callable[[], None]:
    """A check for a task: the scheduler notifies its worker when one is released."""
    tasks = get_worker().state.tasks

    def check() -> None:
        task = tasks.get(key)
        if task is None or task.state == "cancelled":
            raise Abandoned

    return check
