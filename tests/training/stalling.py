"""A process that stops itself (SIGSTOP) at a step of publishing or of cleaning up, and goes on when it is told."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import obstore
from sklearn.linear_model import LogisticRegression

from app.database.engine import Database
from app.errors import Conflict, Unavailable
from app.jobs.job import Job
from app.opening import open_stores
from app.registry.card import Card
from app.registry.loaded import Holdout
from app.settings import Settings
from app.training import fitting, publishing
from tests.registry.making import HOLDOUT, make_card, make_estimator

_STEPS = {
    obstore: ("get", "put", "rename", "delete", "list", "list_with_delimiter"),
    os: ("fsync",),
}


def stall(
    settings: dict[str, Any],
    environment: dict[str, str],
    work: str,
    job: Job,
    at: int,
    *,
    in_transactions: bool,
) -> None:
    """Do `work` for a job; exit code 0 also where it was told that the attempt is over."""
    os.environ.update(environment)  # the fork server has that of an earlier test
    fitting.trained = trained
    _stop_at(at, in_transactions=in_transactions)
    stores = open_stores(Settings.model_validate(settings))
    try:
        WORK[work](stores, job)
    except (Conflict, Unavailable):
        pass
    finally:
        stores.database.close()


def trained(
    _ports: object, job: Job
) -> tuple[Card, LogisticRegression, Holdout, list[str]]:
    """In place of the training, which takes long and is not what is stopped."""
    return make_card(job.spec["model"], job=job.id), make_estimator(), HOLDOUT, []


WORK: dict[str, Callable[[Any, Job], object]] = {
    "publish": fitting.run,
    "clean up": lambda stores, _job: publishing.clean_up_leftovers(stores, -60),
}


def _stop_at(at: int, *, in_transactions: bool) -> None:
    """Number the calls of the store and the transactions, and stop before that number."""
    numbers, inside = count(1), []

    def step() -> None:
        if (in_transactions or not inside) and next(numbers) == at:
            os.kill(os.getpid(), signal.SIGSTOP)

    for owner, names in _STEPS.items():
        for name in names:
            setattr(owner, name, _stepping(getattr(owner, name), step))
    writing = Database.writing

    @contextmanager
    def stepping(self: Database, **options: Any) -> Iterator[Any]:
        step()
        with writing(self, **options) as connection:
            inside.append(connection)
            step()
            yield connection
            step()
            inside.pop()
        step()

    Database.writing = stepping  # type: ignore[method-assign]


def _stepping(
    function: Callable[..., Any], step: Callable[[], None]
) -> Callable[..., Any]:
    def call(*arguments: Any, **named: Any) -> Any:
        step()
        return function(*arguments, **named)

    return call
