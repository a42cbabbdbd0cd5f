"""The table of transitions, walked event by event."""

from itertools import product

import pytest

from app.errors import Conflict, Invalid
from app.jobs.job import ENDED, TRANSITIONS, Event, Problem, Status, after
from tests.jobs.diagram import diagram

LEGAL = {
    ("queued", "claim"): "running",
    ("queued", "cancel"): "cancelled",
    ("running", "cancel"): "running",
    ("running", "stop"): "cancelled",
    ("running", "succeed"): "succeeded",
    ("running", "fail"): "failed",
    ("running", "retry"): "queued",
}


@pytest.mark.parametrize(("status", "event"), list(product(Status, Event)))
def test_every_event_in_every_status_is_a_known_step_or_a_conflict(status, event):
    if (status, event) in LEGAL:
        assert after(status, event) == LEGAL[status, event]
    else:
        with pytest.raises(Conflict, match=f"the job is {status}"):
            after(status, event)


def test_the_ends_are_the_statuses_that_nothing_leaves():
    assert {"succeeded", "failed", "cancelled"} == ENDED


def test_the_diagram_shows_every_transition_once():
    lines = diagram().splitlines()
    arrows = [f"    {start} --> {end}: {event}" for (start, event), end in TRANSITIONS.items()]
    assert lines[:2] == ["stateDiagram-v2", "    [*] --> queued"]
    assert lines[2 : 2 + len(arrows)] == arrows
    assert sorted(lines[2 + len(arrows) :]) == [f"    {end} --> [*]" for end in sorted(ENDED)]


def test_a_problem_repeats_the_words_of_an_error_made_for_callers():
    problem = Problem.of(Invalid.at("/C", "must be positive"))
    assert problem.as_dict() == {
        "title": "Invalid request",
        "detail": "must be positive",
        "errors": [{"loc": "/C", "msg": "must be positive"}],
        "family": "Invalid",
    }


def test_a_problem_tells_only_the_class_of_any_other_error():
    problem = Problem.of(KeyError("/srv/secret"))
    assert "KeyError" in problem.detail
    assert "secret" not in str(problem.as_dict())
