"""What is done inside a transaction: nothing that waits, since a process that is stopped there stops all on SQLite."""

from contextlib import contextmanager
from threading import get_ident

import pytest

from app.access.caller import ANYBODY
from app.database import Database
from app.storage import Storage
from app.stores import make_ports, open_ports
from app.usecases import models, train
from tests.conftest import settings_for
from tests.usecases.stalling import trained


@pytest.fixture
def ports(tmp_path):
    settings = settings_for(tmp_path, database=f"sqlite:///{tmp_path / 'payoff.db'}")
    make_ports(settings).database.close()
    ports = open_ports(settings)
    yield ports
    ports.database.close()


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
                holding.pop()

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
        train.publish(ports, job, *trained(ports, job))
    ports.registry.stage(*trained(ports, job)[:2])
    train.clean_up_leftovers(ports, -60)
    ports.registry.refresh()
    models.set_alias(ports, "ward", "live", 1, by=ANYBODY)
    ports.registry.delete_version("ward", 2)
    ports.registry.delete_model("ward", "ann")

    assert {"publish", "read", "folders", "remove"} <= {name for name, _ in calls}
    assert not [name for name, inside in calls if inside]
