"""Rows of classes and their probabilities, as requests send them."""

import pytest

from app.requests.labelled_rows import as_probabilities
from payoff.errors import Invalid


def test_a_sum_beyond_the_tolerance_is_reported_with_the_digits_that_differ():
    with pytest.raises(Invalid) as caught:
        as_probabilities([[1.0000011, 0], [0.5, 0.5000009]], ["a", "b"])
    assert [flaw.loc for flaw in caught.value.flaws] == ["/probabilities/0"]
    assert "sum to 1.0000011," in caught.value.flaws[0].msg
