"""Of two attempts at a job one publishes, and no transaction waits, since it would stop all others on SQLite."""

from contextlib import contextmanager
from threading import get_ident

import pytest

from app.access.caller import ANYBODY
from app.database import Database
from app.errors import Conflict
from app.jobs.job import RELEASED, Job
from app.storage import Storage
from app.stores import make_ports, open_ports
from app.usecases import models, train
from tests.conftest import settings_for
from tests.registry.making import HOLDOUT, make_card, make_estimator


@pytest.fixture
def ports(tmp_path):
    settings = settings_for(tmp_path, database=f"sqlite:///{tmp_path / 'payoff.db'}")
    make_ports(settings).database.close()
    ports = open_ports(settings)
    yield ports
    ports.database.close()


def trained(job: Job):
    """In place of the training."""
    return make_card("ward", job=job.id), make_estimator(), HOLDOUT, []


@pytest.mark.parametrize("cleaned", [False, True])
def test_an_attempt_that_goes_on_after_the_job_was_finished_publishes_nothing(
    ports, monkeypatch, cleaned
):
    """As of a machine that was suspended between writing the folder and the transaction."""
    ports.queue.submit("train", {}, model="ward")
    first, stage = ports.queue.claim("ann"), ports.registry.stage

    def suspended(*arguments, **options):
        monkeypatch.undo()
        card = stage(*arguments, **options)
        ports.queue.end(first, RELEASED)
        train.publish(ports, ports.queue.claim("bob"), *trained(first))
        if cleaned:
            train.clean_up_leftovers(ports, -60)
        return card

    monkeypatch.setattr(ports.registry, "stage", suspended)
    with pytest.raises(Conflict):
        train.publish(ports, first, *trained(first))
    with pytest.raises(Conflict):  # which finds out before it has a number
        train.publish(ports, first, *trained(first))
    train.clean_up_leftovers(ports, -60)
    ports.registry.refresh()
    assert (
        ports.registry.files.numbers("ward")
        == list(ports.registry.index.models("", 10)[0].versions)
        == [2]
    )
    assert ports.registry.load("ward").card.job == first.id


def test_no_store_is_called_while_a_job_holds_the_write_lock(ports, monkeypatch):
    holding, calls = [], []
    writing = Database.writing

    @contextmanager
    def noted(self, **options):
        with writing(self, **options) as connection:
            holding.append(get_ident())
            try:
                yield connection
            finally:
                holding.remove(get_ident())

    def watched(name, call):
        def watch(*arguments, **named):
            calls.append((name, get_ident() in holding))
            return call(*arguments, **named)

        return watch

    monkeypatch.setattr(Database, "writing", noted)
    for name in ("publish", "read", "read_each", "open", "folders", "exists", "write", "remove"):
        monkeypatch.setattr(Storage, name, watched(name, getattr(Storage, name)))

    for _ in range(2):
        ports.queue.submit("train", {"model": "ward"}, model="ward")
        job = ports.queue.claim("ann")
        train.publish(ports, job, *trained(job))
    ports.registry.stage(*trained(job)[:2])
    train.clean_up_leftovers(ports, -60)
    ports.registry.refresh()
    models.set_alias(ports, "ward", "live", 1, by=ANYBODY)
    ports.registry.delete_version("ward", 2)
    ports.registry.delete_model("ward", "ann")

    assert {"publish", "read", "folders", "remove"} <= {name for name, _ in calls}
    assert not [name for name, inside in calls if inside]
