"""Probabilities are checked before anything is computed."""

import numpy as np
import pytest

from app.errors import Invalid
from app.retrieval.probabilities import check_probabilities


@pytest.mark.parametrize(
    ("p", "place"),
    [([0.5, np.nan], "/1"), ([0.1, 0.2, 1.5], "/2"), ([-1e-9], "/0"), ([[0.5]], ""), (["a"], ""), (0.5, "")],
)
def test_a_value_outside_0_and_1_is_rejected_with_its_place(p, place):
    with pytest.raises(Invalid) as refused:
        check_probabilities(p)

    assert refused.value.flaws[0].loc == place
