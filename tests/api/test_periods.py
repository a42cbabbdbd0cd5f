"""`since` and `until` are read in one way, wherever decisions are chosen by their time."""

import pytest

from app.api.app import create_app
from app.api.routes import outcome_reports, outcomes, replay
from app.usecases import dataset_from_outcomes
from app.wiring import wire
from tests.api.callers import ask, called_by
from tests.conftest import settings_for


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    service = wire(settings_for(tmp_path_factory.mktemp("periods"), workers=0))
    yield create_app(service)
    service.ports.database.close()


@pytest.fixture(params=["report", "replay", "data set"])
def read(app, request, monkeypatch):
    """What a route makes of a period: its two ends, or the places of errors."""
    found = []

    def note(*args, since=None, until=None, **_):
        found.append((since, until) if len(args) < 3 or request.param != "replay" else (args[2].since, args[2].until))
        raise outcomes.usecase.NotFound("stopped")

    monkeypatch.setattr(outcome_reports, "report", note)
    monkeypatch.setattr(replay.usecase, "submit", note)
    monkeypatch.setattr(dataset_from_outcomes, "make", note)

    def answer(**period):
        found.clear()
        if request.param == "report":
            response = ask(called_by(app), "GET", "/models/ward/outcomes", params=period)
        elif request.param == "replay":
            response = ask(called_by(app), "POST", "/models/ward/replay", json={"rules": [{}]} | period)
        else:
            response = ask(called_by(app), "POST", "/datasets/from-outcomes", json={"model": "ward"} | period)
        if found:
            return found[0]
        assert response.status_code == 422, response.text
        return [(error["loc"], error["msg"]) for error in response.json()["errors"]]

    return answer


def test_a_plus_that_became_a_blank_is_named(read):
    ((_, message),) = read(since="2026-03-01T12:00:00 02:00")
    assert "%2B" in message


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        ("2026-03-01T12:00:00Z", 1772366400.0),
        ("2026-03-01T14:00:00+02:00", 1772366400.0),
        ("2026-03-01", 1772323200.0),
        (1772366400, 1772366400.0),
        (253402300799, 253402300799.0),  # not milliseconds
        (-1, -1.0),
    ],
)
def test_a_moment_means_the_same_everywhere(read, sent, seconds):
    assert read(since=sent) == (seconds, None)
    assert read(until=sent) == (None, seconds)


@pytest.mark.parametrize(
    "sent", ["yesterday", "", "2026-13-01", "0001-01-01T00:00:00+14:00", 253402300900, 1e300, "nan"]
)
def test_what_is_no_moment_is_refused_at_its_place(read, sent):
    for name in ("since", "until"):
        ((place, message),) = read(**{name: sent})
        assert place == f"/{name}"
        assert "ISO 8601" in message or "years 1 to 9999" in message


def test_a_period_that_ends_before_it_begins_is_refused_at_its_end(read):
    for period in ({"since": "2026-03-02", "until": "2026-03-01"}, {"since": 5, "until": 5}):
        assert read(**period) == [("/until", "until must be after since")]
    assert read(since=5, until="1970-01-01T00:00:06Z") == (5.0, 6.0)
