"""Cards: their bytes, their formats and what they are refused for."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from app.errors import Damaged
from app.registry.card import read_card
from tests.registry.making import make_card

NAMES = st.from_regex(r"\A[a-z0-9][a-z0-9_-]{0,63}\Z")
OTHER_FORMAT = make_card().to_bytes().replace(b'"format": 2', b'"format": 3')
FLOATS = st.floats(allow_nan=False, allow_infinity=False)


@given(
    NAMES,
    st.integers(1, 10**6),
    st.one_of(st.none(), st.lists(st.one_of(st.integers(), st.text()), max_size=4)),
    st.dictionaries(st.text(), FLOATS, max_size=4),
    st.lists(st.lists(FLOATS, max_size=3), max_size=3),
)
def test_a_card_survives_its_bytes(name, version, classes, metrics, benefits):
    """Reading what was written gives an equal card, and writing that gives the same bytes."""
    card = make_card(
        name,
        version,
        classes=classes,
        class_priors={},
        metrics=metrics,
        benefits=benefits,
    )

    again = read_card(card.to_bytes())

    assert again == card
    assert again.to_bytes() == card.to_bytes()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_card_holds_no_nan_or_infinity(number):
    assert read_card(make_card(metrics={"auc": number}).to_bytes()).metrics == {
        "auc": None
    }
    with pytest.raises(ValidationError):
        make_card(benefits=[[number]])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"[]",
        b"{}",
        b'{"format": "x"}',
        b'{"format": 1e999}',
        OTHER_FORMAT,
    ],
)
def test_what_is_no_card_is_damaged(content):
    with pytest.raises(Damaged):
        read_card(content)


def test_priors_come_in_the_order_of_the_classes():
    np.testing.assert_array_equal(make_card().priors(), [0.75, 0.25])
    assert make_card(class_priors={}).priors().size == 0
    assert make_card(classes=None, class_priors={}).priors().size == 0
    card = read_card(
        make_card(classes=[1, 0], class_priors={"0": 0.9, "1": 0.1}).to_bytes()
    )
    assert card.classes == [1, 0]
    np.testing.assert_array_equal(card.priors(), [0.1, 0.9])  # found by their text
