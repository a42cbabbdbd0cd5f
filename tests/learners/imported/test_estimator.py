"""The classes of an imported model among the labels of a data set."""

from __future__ import annotations

import numpy as np
import pytest

from app.errors import Invalid
from app.learners.imported import class_order
from tests.messages import says


@pytest.mark.parametrize(
    ("names", "classes", "expected"),
    [
        ([False, True], ("False", "True"), None),
        ([False, True], ("true", "false"), [1, 0]),
        (np.array([False, True]), (0, 1), None),
    ],
)
def test_boolean_classes_are_found_as_words(names, classes, expected):
    order = class_order(names, classes)
    assert (None if order is None else order.tolist()) == expected


@pytest.mark.parametrize(("names", "classes", "word"), [(["0", "1"], (0, 1), "types"), ([0, 1], ("0", "1"), "numbers")])
def test_numbers_for_words_have_advice(names, classes, word):
    with pytest.raises(Invalid) as caught:
        class_order(names, classes)
    assert says("/dataset", word) in caught.value.flaws
