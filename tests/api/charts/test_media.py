"""Which form of an answer `Accept` asks for."""

import pytest
from fastapi import Request

from app.api.charts.media import wants_svg


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("image/svg+xml", True),
        ("image/avif,image/svg+xml,image/*,*/*;q=0.8", True),
        ("text/html,*/*, image/svg+xml", False),
        ("application/json;q=0.5, image/svg+xml", True),
        ("image/svg+xml;q=0.5, application/json", False),
        ("image/svg+xml;q=0, */*;q=0.1", False),
        ("image/svg+xml;q=0", False),
        ("IMAGE/SVG+XML; q=0.9, application/json; q=0.2", True),
    ],
)
def test_what_is_wanted_most_is_sent(accept, wanted):
    """By weight, of equals the first; a weight of 0 is a refusal."""
    request = Request({"type": "http", "headers": [(b"accept", accept.encode())]})

    assert wants_svg(request) is wanted
