"""Class priors as sent, and posteriors under them."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.decisions.priors import as_priors, shift_priors, under_priors
from payoff.errors import Invalid


def test_priors_come_in_class_order_and_sum_to_one():
    priors = as_priors({"b": 0.333333, "a": 0.666667}, ["a", "b"])

    assert priors.tolist() == pytest.approx([2 / 3, 1 / 3], rel=1e-5)
    assert as_priors({"a": 1, "b": 0}, ["a", "b"]).tolist() == [1, 0]
    assert as_priors({"a": 0.3333333, "b": 0.6666660}, ["a", "b"]).sum() == 1


@pytest.mark.parametrize(
    ("value", "places"),
    [
        ({"a": 0.5}, [""]),
        ({"a": 0.5, "b/c": 0.5, "x~y": 0.0}, ["/x~0y"]),
        ({"a": -0.5, "b/c": 1.5}, ["/a", "/b~1c"]),
        ({"a": 0.5, "b/c": 0.4}, [""]),
        ({"a": 0, "b/c": 0}, [""]),
    ],
)
def test_bad_priors_are_refused_with_the_place(value, places):
    with pytest.raises(Invalid) as caught:
        as_priors(value, ["a", "b/c"])

    assert [flaw.loc for flaw in caught.value.flaws] == places


def test_a_row_without_any_mass_left_gets_the_priors_and_a_warning():
    P = np.array([[0.0, 0.0, 1.0], [0.5, 0.25, 0.25]])
    used = np.array([0.3, 0.7, 0.0])
    shifted, warnings = shift_priors(P, np.array([0.25, 0.25, 0.5]), used)

    assert shifted[0].tolist() == pytest.approx(used.tolist())
    assert shifted[1].tolist() == pytest.approx([0.15 / 0.325, 0.175 / 0.325, 0.0])
    assert "1 of 2 instances" in warnings[0]


def test_a_class_without_training_rows_cannot_occur_in_use():
    P, trained = np.array([[0.5, 0.5, 0.0]]), np.array([0.5, 0.5, 0.0])
    with pytest.raises(Invalid) as caught:
        under_priors(P, ["a", "b", 3], trained, {"a": 0.5, "b": 0, "3": 0.5})

    assert [flaw.loc for flaw in caught.value.flaws] == ["/priors/3"]
    assert shift_priors(P, trained, np.array([1.0, 0.0, 0.0]))[0].tolist() == [
        [1.0, 0.0, 0.0]
    ]


weights = st.lists(st.floats(1e-6, 1.0), min_size=3, max_size=3).map(
    lambda w: np.array(w) / sum(w)
)


tiny = st.sampled_from([0.0, 1e-150, 1e-9, 0.25, 0.7])


@given(
    st.lists(tiny, min_size=3, max_size=3).filter(any),
    weights,
    st.lists(tiny, min_size=3, max_size=3).filter(any),
)
def test_posteriors_follow_bayes_rule(row, trained, used):
    """With the other priors, in whole numbers, down to products of 1e-300."""
    P = np.array([row])
    shifted, warnings = shift_priors(P, trained, np.array(used))

    ratio = np.array(used) / trained
    exact = [
        Fraction(p) * Fraction(r) for p, r in zip(row, ratio.tolist(), strict=True)
    ]
    if sum(exact):
        assert shifted[0].tolist() == pytest.approx(
            [float(part / sum(exact)) for part in exact], rel=1e-12, abs=1e-30
        )
    assert bool(warnings) == (not sum(exact))
