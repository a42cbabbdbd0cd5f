"""`since` and `until` are read in one way, wherever decisions are chosen by their time."""

from datetime import datetime

import pytest


@pytest.fixture
def read(service, ward):
    """What a report makes of a period: its two ends, or the errors."""

    def answer(**period):
        report = service.get(f"/models/{ward}/outcomes", params=period).json()
        if "errors" in report:
            return [(error["loc"], error["msg"]) for error in report["errors"]]
        return [
            one and datetime.fromisoformat(one).timestamp()
            for one in (report["since"], report["until"])
        ]

    return answer


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
def test_a_moment_is_text_or_seconds(read, sent, seconds):
    assert read(since=sent) == [seconds, None]
    assert read(until=sent) == [None, seconds]


@pytest.mark.parametrize(
    "sent",
    [
        "yesterday",
        "",
        "2026-13-01",
        "0001-01-01T00:00:00+14:00",
        253402300900,
        1e300,
        "nan",
    ],
)
def test_what_is_no_moment_is_refused_at_its_place(read, sent):
    for name in ("since", "until"):
        ((place, message),) = read(**{name: sent})
        assert place == f"/{name}"
        assert "ISO 8601" in message or "years 1 to 9999" in message
    assert (
        "%2B" in read(since="2026-03-01T12:00:00 02:00")[0][1]
    )  # a plus that became a blank


@pytest.mark.parametrize(
    "period", [{"since": "2026-03-02", "until": "2026-03-01"}, {"since": 5, "until": 5}]
)
def test_a_period_that_ends_before_it_begins_is_refused_at_its_end(
    service, read, period
):
    flaw = ("/until", "until must be after since")
    assert read(**period) == [flaw]
    for path, body in (
        ("/models/ward/replay", {"rules": [{}]}),
        ("/datasets/from-outcomes", {"model": "ward"}),
    ):
        (error,) = service.post(path, json=body | period).json()["errors"]
        assert (error["loc"], error["msg"]) == flaw
