"""Use cases around data sets."""

import dataclasses
import tempfile
import time
from operator import attrgetter
from types import SimpleNamespace

import pytest

from app import workers as job_processes
from app.access.caller import ANYBODY
from app.opening import prepare_stores
from app.requests import datasets
from app.tables.store import DatasetStore
from app.tables.upload_request import UploadRequest
from app.training import fitting, train
from app.workers import make_worker
from tests.conftest import settings_for
from tests.jobs.waiting import eventually

KEEP = 1000.0  # seconds that inline data sets are kept here
DATA = {"features": ["a"], "rows": [[1], [2], [3], [4]], "labels": ["u", "v", "u", "v"]}
ORDER = {"model": "m", "learner": {"kind": "logistic"}, "data": DATA, "holdout": 0.0}


@pytest.fixture
def clock():
    """The time of the store, which tests set."""
    return SimpleNamespace(now=1_000_000_000.0)


@pytest.fixture
def expiring(stores, clock, tmp_path):
    """The same stores, where inline data sets expire."""
    store = DatasetStore(
        settings_for(tmp_path).datasets_url,
        stores.datasets.limits,
        keep_inline=KEEP,
        clock=lambda: clock.now,
    )
    return dataclasses.replace(stores, datasets=store)


def there(stores):
    return {dataset.id for dataset in stores.datasets.all()}


def submit(stores, key=None, **changes):
    return train.submit(
        stores, train.TrainRequest(**(ORDER | changes)), key=key, caller=ANYBODY
    )


def cancelled(stores, job):
    stores.queue.cancel(job.id)
    return job.dataset


def published(stores, job):
    """Publish what the job was to make, as its process does."""
    assert stores.queue.claim("worker").id == job.id
    fitting.run(stores, stores.queue.get(job.id))
    return job.dataset


def test_what_expires(expiring, clock):
    """Inline data sets that are old; no upload, none that an unfinished job needs, none that a model was made from."""
    unused = cancelled(expiring, submit(expiring))
    clock.now += 1.01 * KEEP
    young = cancelled(expiring, submit(expiring))
    assert datasets.expire(expiring) == 1
    assert there(expiring) == {young}
    assert unused != young

    clock.now += 1.01 * KEEP
    with tempfile.TemporaryFile() as same:
        same.write(b"a,label\n1,u\n2,v\n3,u\n4,v\n")
        uploaded = expiring.datasets.upload(same, UploadRequest(label=("label",))).id
    queued = submit(expiring)
    clock.now += 1.01 * KEEP
    assert datasets.expire(expiring) == 1
    assert there(expiring) == {uploaded, queued.dataset}

    published(expiring, queued)
    clock.now += 10 * KEEP
    assert datasets.expire(expiring) == 0
    assert expiring.registry.index.card("m", 1).data.dataset == queued.dataset

    expiring.registry.delete_model("m", "ann")
    assert datasets.expire(expiring) == 1
    assert there(expiring) == {uploaded}


PAUSES = [
    "datasets.expired",
    "queue.uses_dataset",
    "registry.index.datasets",
    "datasets.remove",
]


@pytest.mark.parametrize("pause", PAUSES)
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(
    ("age", "state"),
    [
        *((age, "queued") for age in (0.01, 0.49, 0.51, 0.99, 1.01, 1.51, 2.5)),
        (1.01, "running"),
        (1.01, "published"),
    ],
)
@pytest.mark.thorough
def test_an_order_that_comes_while_data_sets_expire_has_its_data(
    expiring, clock, monkeypatch, pause, before, age, state
):
    """The same content is ordered again at any step of the expiry, whatever age what is there has by then."""
    for start in (0.0, 0.2, 0.45):
        clock.now = KEEP * (1_000_000 + start)
        old = cancelled(expiring, submit(expiring))
        clock.now += age * KEEP
        came = []

        def come(came=came):
            if came:
                return
            job = submit(expiring, model=f"m{len(there(expiring))}")
            came.append(job.dataset)
            if state == "running":
                expiring.queue.claim("worker")
            if state == "published":
                published(expiring, job)

        path, _, name = pause.rpartition(".")
        owner = attrgetter(path)(expiring)
        step = getattr(owner, name)

        def paused(*values, step=step, come=come):
            if before:
                come()
            result = step(*values)
            if not before:
                come()
            return result

        with monkeypatch.context() as patched:
            patched.setattr(owner, name, paused)
            datasets.expire(expiring)
        come()
        assert came[0] in there(expiring)
        assert expiring.datasets.table(came[0]).y.tolist() == [0, 1, 0, 1]
        expiring.datasets.remove(came[0])
        if old in there(expiring):
            expiring.datasets.remove(old)


def test_what_another_worker_has_just_removed_is_no_error(expiring, clock, monkeypatch):
    cancelled(expiring, submit(expiring))
    clock.now += 2 * KEEP
    remove = expiring.datasets.remove
    monkeypatch.setattr(
        expiring.datasets, "remove", lambda found: (remove(found), remove(found))
    )
    assert datasets.expire(expiring) == 0
    assert there(expiring) == set()


def test_a_worker_removes_what_expired(tmp_path, monkeypatch):
    """At its start and then from time to time, in a thread of its own."""
    monkeypatch.setattr(job_processes, "_UPKEEP_SECONDS", 0.1)
    chosen = settings_for(tmp_path)
    started = prepare_stores(chosen)
    days = 86_400.0
    store = DatasetStore(
        chosen.datasets_url,
        started.datasets.limits,
        keep_inline=30 * days,
        clock=lambda: time.time() - 31 * days,
    )
    old = store.keep(
        store.draft_inline(DATA["features"], DATA["rows"], DATA["labels"])
    ).id
    young = started.datasets.keep(
        started.datasets.draft_inline(DATA["features"], DATA["rows"], DATA["labels"])
    ).id
    assert there(started) == {old, young}

    make_worker(chosen, started)
    eventually(lambda: there(started) == {young})
    monkeypatch.setattr(job_processes, "_UPKEEP_SECONDS", 3600.0)
    started.database.close()
