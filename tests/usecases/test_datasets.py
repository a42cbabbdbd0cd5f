"""Use cases around data sets."""

from __future__ import annotations

import io

import pytest

from app.access.audit import AuditLog
from app.access.caller import ANYBODY
from app.access.keys import Keys
from app.data.store import DataLimits, DatasetStore
from app.database import Database
from app.errors import Conflict, Invalid, NotFound
from app.jobs.queue import Queue
from app.migrations import migrate
from app.registry.registry import Registry
from app.usecases import datasets
from app.usecases.ports import Ports


@pytest.fixture
def ports(tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'test.db'}")
    queue = Queue(database, attempts=1, lease_seconds=10)
    migrate(database)
    audit = AuditLog(database)
    store = DatasetStore(str(tmp_path / "datasets"), DataLimits(1000, 100, 100, 10_000))
    registry = Registry(
        str(tmp_path / "models"), database, signing_key=None, allow_version_skew=False, cache_bytes=1_000_000
    )
    yield Ports(database, store, queue, registry, audit, Keys(database, audit))
    database.close()


@pytest.fixture
def dataset(ports):
    return datasets.upload(ports, io.BytesIO(b"a,y\n1,0\n2,1\n3,0\n4,1\n"), ["y"], "small")


def test_upload_find_page(ports, dataset):
    assert datasets.find(ports, dataset.id) == dataset
    assert datasets.page(ports, 10, None) == ([dataset.summary()], None)
    assert datasets.largest_upload(ports) == 10_000


@pytest.mark.parametrize("size", [0, 501])
def test_page_size(ports, size):
    with pytest.raises(Invalid) as caught:
        datasets.page(ports, size, None)

    assert caught.value.flaws[0].loc == "/page_size"


def test_delete(ports, dataset):
    datasets.delete(ports, dataset.id, by=ANYBODY)

    with pytest.raises(NotFound):
        datasets.find(ports, dataset.id)
    with pytest.raises(NotFound):
        datasets.delete(ports, dataset.id, by=ANYBODY)


def test_data_that_a_job_needs_stays(ports, dataset):
    """A queued job's data set cannot be deleted; once the job has ended, it can."""
    job = ports.queue.submit("train", {}, dataset=dataset.id)

    with pytest.raises(Conflict, match="uses"):
        datasets.delete(ports, dataset.id, by=ANYBODY)
    assert datasets.find(ports, dataset.id) == dataset

    ports.queue.cancel(job.id)
    datasets.delete(ports, dataset.id, by=ANYBODY)
    assert datasets.page(ports, 10, None) == ([], None)
