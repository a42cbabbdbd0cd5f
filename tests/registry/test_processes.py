"""Several processes on one registry, for real."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from app.database import Database
from app.migrations import migrate

_PROCESSES, _EACH = 3, 5
_ROOT = Path(__file__).resolve().parents[2]

_WORK = f"""
    import json, sys
    from app.database import Database
    from app.registry.registry import Registry
    from tests.registry.making import make_card

    database = Database(sys.argv[1])
    registry = Registry(sys.argv[2], database)
    sys.stdin.readline()  # all begin together
    numbers = []
    for _ in range({_EACH}):
        card = registry.stage(make_card("triage", registry.reserve("triage"), job=sys.argv[3]), sys.argv[3])
        registry.announce(card)
        with database.writing() as connection:
            registry.add(connection, card)
        registry.set_alias("triage", "newest", card.version, sys.argv[3])
        numbers.append(card.version)
    print(json.dumps(numbers))
"""


@pytest.fixture
def database(database_url):
    database = Database(database_url)
    migrate(database)
    yield database
    database.close()


def test_processes_that_publish_at_once_never_get_the_same_number(registry, database, models):
    command = [
        sys.executable,
        "-c",
        textwrap.dedent(_WORK),
        database.engine.url.render_as_string(hide_password=False),
        str(models),
    ]
    workers = [
        subprocess.Popen([*command, f"job_{i}"], cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for i in range(_PROCESSES)
    ]
    answers = []
    for worker in workers:
        worker.stdin.write("\n")
        worker.stdin.flush()
    for worker in workers:
        output, _ = worker.communicate(timeout=120)
        assert worker.returncode == 0
        answers.append(json.loads(output))

    numbers = [number for answer in answers for number in answer]
    assert sorted(numbers) == list(range(1, _PROCESSES * _EACH + 1))
    registry.refresh()
    for i, answer in enumerate(answers):
        for number in answer:
            loaded = registry.load(f"triage:{number}")
            assert (loaded.estimator, loaded.card.job) == (f"job_{i}", f"job_{i}")
    page = registry.model("triage")
    assert [move.seq for move in page.history] == list(range(1, len(numbers) + 1))
    chain = [None, *[move.to_version for move in page.history]]
    assert [move.from_version for move in page.history] == chain[:-1]
    assert page.aliases == {"newest": chain[-1]}
    before = page
    registry.rebuild()
    assert registry.model("triage") == before
