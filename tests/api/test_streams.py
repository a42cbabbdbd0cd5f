"""How often event streams look at the database."""

from contextlib import ExitStack

from sqlalchemy import event
from sqlalchemy.engine import Engine

from tests.conftest import serving, settings_for, two_class_rows
from tests.jobs.waiting import eventually

ORDER = {"model": "waiting", "learner": {"kind": "logistic"}, "data": two_class_rows(40), "holdout": 0}


def test_all_streams_of_a_job_share_one_look_at_the_database(tmp_path):
    """Thirty of one job look as often as one of another; without workers both wait."""
    asked = []

    def remember(connection, _cursor, statement, parameters, *_more):
        if "FROM jobs" in statement and str(tmp_path) in str(connection.engine.url):
            asked.append(f"{statement} {parameters}")

    with serving(settings_for(tmp_path, workers=0)) as client, ExitStack() as stack:
        job, other = (client.post("/train", json=ORDER | {"model": name}).json()["id"] for name in ("one", "other"))
        opened = [client.stream("GET", f"/train/{one}/events") for one in [job] * 30 + [other]]
        lines = [stack.enter_context(stream).iter_lines() for stream in opened]
        assert {next(each) for each in lines} == {"event: job"}
        event.listen(Engine, "before_cursor_execute", remember)
        stack.callback(event.remove, Engine, "before_cursor_execute", remember)
        eventually(lambda: sum(other in look for look in asked) >= 4)
        assert 3 <= sum(job in look for look in asked) <= 6
