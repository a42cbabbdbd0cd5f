"""Of two attempts at a job one publishes, and no transaction waits, since it would stop all others on SQLite."""

from contextlib import contextmanager
from threading import get_ident

import pytest

from app.access.caller import ANYBODY
from app.database.engine import Database
from app.errors import Conflict
from app.jobs.job import RELEASED, Job
from app.opening import open_stores, prepare_stores
from app.storage import Storage
from app.training import models, publishing
from tests.conftest import settings_for
from tests.registry.making import HOLDOUT, make_card, make_estimator


@pytest.fixture
def stores(tmp_path):
    settings = settings_for(tmp_path, database=f"sqlite:///{tmp_path / 'payoff.db'}")
    prepare_stores(settings).database.close()
    stores = open_stores(settings)
    yield stores
    stores.database.close()


def trained(job: Job):
    """In place of the training."""
    return make_card("ward", job=job.id), make_estimator(), HOLDOUT, []


@pytest.mark.parametrize("cleaned", [False, True])
def test_an_attempt_that_goes_on_after_the_job_was_finished_publishes_nothing(
    stores, monkeypatch, cleaned
):
    """As of a machine that was suspended between writing the folder and the transaction."""
    stores.queue.submit("train", {}, model="ward")
    first, stage = stores.queue.claim("ann"), stores.registry.stage

    def suspended(*arguments, **options):
        monkeypatch.undo()
        card = stage(*arguments, **options)
        stores.queue.end(first, RELEASED)
        publishing.publish(stores, stores.queue.claim("bob"), *trained(first))
        if cleaned:
            publishing.clean_up_leftovers(stores, -60)
        return card

    monkeypatch.setattr(stores.registry, "stage", suspended)
    with pytest.raises(Conflict):
        publishing.publish(stores, first, *trained(first))
    with pytest.raises(Conflict):  # which finds out before it has a number
        publishing.publish(stores, first, *trained(first))
    publishing.clean_up_leftovers(stores, -60)
    stores.registry.refresh()
    assert (
        stores.registry.files.numbers("ward")
        == list(stores.registry.index.models("", 10)[0].versions)
        == [2]
    )
    assert stores.registry.load("ward").card.job == first.id


def test_no_store_is_called_while_a_job_holds_the_write_lock(stores, monkeypatch):
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
    for name in (
        "publish",
        "read",
        "read_each",
        "open",
        "folders",
        "exists",
        "write",
        "remove",
    ):
        monkeypatch.setattr(Storage, name, watched(name, getattr(Storage, name)))

    for _ in range(2):
        stores.queue.submit("train", {"model": "ward"}, model="ward")
        job = stores.queue.claim("ann")
        publishing.publish(stores, job, *trained(job))
    stores.registry.stage(*trained(job)[:2])
    publishing.clean_up_leftovers(stores, -60)
    stores.registry.refresh()
    models.set_alias(stores, "ward", "live", 1, by=ANYBODY)
    stores.registry.delete_version("ward", 2)
    stores.registry.delete_model("ward", "ann")

    assert {"publish", "read", "folders", "remove"} <= {name for name, _ in calls}
    assert not [name for name, inside in calls if inside]
