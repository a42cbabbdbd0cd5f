"""The losses, their conventions for 0/0, and how they are named in requests."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.errors import Invalid
from app.retrieval.expected_loss import BY_QUADRATURE, MEANS, expected_losses
from app.retrieval.losses import LOSSES, check_empty, parse_loss
from tests.reference import losses
from tests.reference.retrieval import loss_of

EVERY = [
    losses.f_beta(1),
    losses.f_beta(0.3),
    *losses.PLAIN,
    losses.fractional_linear([0, -2, 1, 1], [0, -1, 1, 1]),
    losses.fractional_linear([0.5, -1, 0.2, 0.1], [1, 0.3, -0.9, -0.2]),
]


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: f"{loss.name}-{loss.beta}-{loss.d}")
@pytest.mark.parametrize("n", [0, 1, 2, 5])
@pytest.mark.parametrize("empty", [0, 1])
def test_losses_in_counts_agree_with_the_definitions(loss, n, empty):
    for k, positives in product(range(n + 1), repeat=2):
        for tp in range(max(0, k + positives - n), min(k, positives) + 1):
            s = [1] * k + [0] * (n - k)
            y = [1] * tp + [0] * (k - tp) + [1] * (positives - tp) + [0] * (n - k - positives + tp)
            expected = loss_of(loss, y, s, empty=empty)

            assert loss.of_counts(tp, k, positives, n, empty=empty) == pytest.approx(expected, abs=1e-15, rel=4e-16)


@pytest.mark.parametrize("loss", EVERY, ids=lambda loss: f"{loss.name}-{loss.beta}-{loss.d}")
def test_json_of_a_loss_is_parsed_as_the_same_loss(loss):
    assert parse_loss(loss.as_json()) == loss


def test_a_loss_without_beta_is_f1():
    assert parse_loss({"name": "f_beta"}) == losses.f_beta(1.0)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "/name"),
        ({"name": "f1"}, "/name"),
        ({"name": ["f_beta"]}, "/name"),
        ("f_beta", ""),
        ({"name": "f_beta", "beta": 0}, "/beta"),
        ({"name": "f_beta", "beta": -1}, "/beta"),
        ({"name": "f_beta", "beta": True}, "/beta"),
        ({"name": "f_beta", "beta": "1"}, "/beta"),
        ({"name": "f_beta", "beta": float("nan")}, "/beta"),
        ({"name": "f_beta", "beta": 1e200}, "/beta"),
        ({"name": "f_beta", "betta": 1}, "/betta"),
        ({"name": "jaccard", "beta": 1}, "/beta"),
        ({"name": "fractional_linear", "c": [1, 2, 3, 4]}, "/d"),
        ({"name": "fractional_linear", "c": [1, 2, 3], "d": [1, 2, 3, 4]}, "/c"),
        ({"name": "fractional_linear", "c": [1, 2, None, 4], "d": [1, 2, 3, 4]}, "/c/2"),
        ({"name": "fractional_linear", "c": [1, 2, 3, 4], "d": [1, float("inf"), 3, 4]}, "/d/1"),
        ({"name": "fractional_linear", "c": [1, 0, 0, 0], "d": [1e308, 0, 0, 0]}, "/d/0"),
        ({"name": "fractional_linear", "c": [10**400, 0, 0, 0], "d": [1, 0, 0, 0]}, "/c/0"),
        ({"name": "fractional_linear", "c": [1, 0, 0, 5e-324], "d": [1, 0, 0, 0]}, "/c/3"),
        ({"name": "f_beta", "beta": 10**400}, "/beta"),
        ({"name": "jaccard", "a/b~": 1}, "/a~1b~0"),
    ],
)
def test_an_invalid_loss_is_rejected_with_its_place(given, place):
    with pytest.raises(Invalid) as refused:
        parse_loss(given)

    assert [flaw.loc for flaw in refused.value.flaws] == [place]


@pytest.mark.parametrize("empty", [2, -1, 0.5, True, None])
def test_empty_is_0_or_1(empty):
    with pytest.raises(Invalid) as refused:
        check_empty(empty)

    assert refused.value.flaws[0].loc == "/empty"


def test_h_mean_of_two_vanishing_rates_is_the_full_loss():
    assert losses.h_mean().of_counts(np.array(0), np.array(1), np.array(1), 2) == 1.0


EXTREMES = st.sampled_from([0.0, -0.0, 1e100, -1e100, 1e-100, -1e-100, 1.0, -1.0])


@settings(max_examples=300)
@given(
    st.lists(EXTREMES, min_size=4, max_size=4), st.lists(EXTREMES, min_size=4, max_size=4), st.sampled_from([1, 3, 40])
)
def test_the_largest_coefficients_stay_within_the_floats(c, d, n):
    """A loss is refused, or its curve is finite, with a finite bound; no arithmetic warns or breaks down."""
    p = np.linspace(0, 1, n)
    try:
        curve = expected_losses(p, parse_loss({"name": "fractional_linear", "c": c, "d": d}))
    except Invalid:
        return
    assert np.isfinite(curve.values).all()
    assert np.isfinite(curve.error)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_a_curve(name):
    assert (name in BY_QUADRATURE) != (name in MEANS)
