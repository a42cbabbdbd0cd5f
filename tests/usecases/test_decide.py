"""Rules that decide, and which requests the matrix alone decides."""

from __future__ import annotations

import pytest

from app.usecases.predict import PredictRequest


class WithMore(PredictRequest):
    """A request with a field that nobody has thought of yet."""

    more: bool = False


@pytest.mark.parametrize(
    "extra", [{"priors": {"a": 1}}, {"explain": True}, {"explore": 0.1}, {"limits": {"a": 1}}, {"more": True}]
)
def test_any_field_but_those_of_matrix_and_ids_needs_the_whole_way(extra):
    asked = {"model": "m", "instances": [[1]], "benefits": [[0, -1], [-10, 5]], "record": True}

    assert WithMore(**asked).is_plain
    assert not WithMore(**asked, **extra).is_plain
