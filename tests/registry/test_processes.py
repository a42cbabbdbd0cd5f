"""Several processes on one registry, for real."""

import pytest

from app.database import Database
from app.migrations import migrate
from app.processes import CONTEXT
from tests.registry.making import publish_many

pytestmark = pytest.mark.thorough

_PROCESSES, _EACH = 3, 5


@pytest.fixture
def database(database_url):
    database = Database(database_url)
    migrate(database)
    yield database
    database.close()


def test_processes_that_publish_at_once_never_get_the_same_number(registry, database, models):
    url, begin = database.engine.url.render_as_string(hide_password=False), CONTEXT.Barrier(_PROCESSES)
    ends = [CONTEXT.Pipe(duplex=False) for _ in range(_PROCESSES)]
    workers = [
        CONTEXT.Process(target=publish_many, args=(url, str(models), f"job_{i}", _EACH, begin, ends[i][1]))
        for i in range(_PROCESSES)
    ]
    for worker in workers:
        worker.start()
    for worker, (_, sender) in zip(workers, ends, strict=True):
        sender.close()
        worker.join(120)
        assert worker.exitcode == 0
    answers = [receiver.recv() for receiver, _ in ends]

    numbers = [number for answer in answers for number in answer]
    assert sorted(numbers) == list(range(1, _PROCESSES * _EACH + 1))
    registry.refresh()
    for i, answer in enumerate(answers):
        for number in answer:
            loaded = registry.load(f"triage:{number}")
            assert (loaded.estimator, loaded.card.job) == (f"job_{i}", f"job_{i}")
    page = registry.index.model("triage")
    assert len(page.history) == len(numbers)
    chain = [None, *[move.to_version for move in page.history]]
    assert [move.from_version for move in page.history] == chain[:-1]
    assert page.aliases == {"newest": chain[-1]}
    assert sorted(registry.files.numbers("triage")) == sorted(numbers)
