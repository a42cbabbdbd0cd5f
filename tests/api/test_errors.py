"""Problem documents of errors that a request or a job raised."""

import json
from dataclasses import asdict

import pytest

from app import wiring
from app.api.errors import respond, stored_problem
from app.database import DatabaseAway
from app.errors import PayoffError
from app.jobs.job import Problem

assert wiring  # it imports every module that defines errors


def kinds(parent):
    for kind in parent.__subclasses__():
        if kind.__module__.startswith("app."):
            yield kind
            yield from kinds(kind)


KINDS = sorted(kinds(PayoffError), key=lambda kind: kind.__qualname__)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_of_a_job_has_the_status_and_title_that_it_has_in_a_response(kind):
    error = kind("words")

    stored = stored_problem(json.loads(json.dumps(asdict(Problem.of(error)))))

    assert stored == json.loads(respond(error).body)


def test_an_error_defined_outside_of_the_errors_module_has_the_status_and_title_of_its_family():
    assert DatabaseAway in KINDS
    stored = stored_problem(asdict(Problem.of(DatabaseAway("words"))))

    assert (stored["status"], stored["title"]) == (503, "A part of the service cannot be reached")
