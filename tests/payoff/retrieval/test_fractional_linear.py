"""Which fractional-linear losses may be used, and with which counts the others fail."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.errors import Invalid, TooLarge
from payoff.retrieval.losses import Loss, SetTerms, check_monotone, denominator
from payoff.retrieval.selection import select, select_class_set
from tests.reference import losses

COEFFICIENTS = st.lists(st.integers(-3, 3), min_size=4, max_size=4)


def feasible(n):
    for k, positives in product(range(n + 1), repeat=2):
        yield k, positives, range(max(0, k + positives - n), min(k, positives) + 1)


@given(COEFFICIENTS, COEFFICIENTS, st.integers(1, 7))
def test_a_loss_is_accepted_exactly_when_all_counts_allow_it(c, d, n):
    """The corners decide what looking at every feasible count decides, and give the range of the
    denominator.
    """
    loss = losses.fractional_linear(c, d)
    counts = [(tp, k, q) for k, q, tps in feasible(n) for tp in tps]
    above, below = ({one: np.dot(form, [n, *one]) for one in counts} for form in (c, d))
    signs = {np.sign(value) for value in below.values() if value}
    defined = len(signs) == 1 and all(
        value or (above[one] == 0 and (one[1] in (0, n) or one[2] in (0, n)))
        for one, value in below.items()
    )
    falls = defined and all(
        above[tp + 1, k, q] * below[tp, k, q] <= above[tp, k, q] * below[tp + 1, k, q]
        for tp, k, q in counts
        if (tp + 1, k, q) in above
    )

    try:
        form = denominator(loss, n)
    except Invalid:
        assert not defined
    else:
        nonzero = [abs(value) for value in below.values() if value]
        assert (form.low, form.high) == (min(nonzero), max(nonzero))
    try:
        check_monotone(loss, n)
        accepted = True
    except Invalid:
        accepted = False

    assert accepted == falls


@pytest.mark.parametrize(
    ("c", "d", "place", "named"),
    [
        ([1, 0, 0, 0], [1, 0, -2, 0], "/loss/d", "."),
        ([1, 0, 0, 0], [1, -1, 0, 0], "/loss/d", "."),
        ([1, 0, 0, 0], [0, 0, 0, 0], "/loss/d", "."),
        ([1, 0, 0, 0], [-1, 0, 0, 1.5], "/loss/d", "."),
        ([1, -1, 0, 0], [1, 0, -1 + 1e-13, 0], "/loss/d", r"\b3e-13\b"),
        ([0.25, 0.5, -0.2, 0], [1, 1, 0, 0], "/loss", r"\b3\b.*\b\d\b.*\b\d\b.*\b\d\b"),
    ],
)
def test_what_makes_a_loss_unusable_is_said_at_its_place(c, d, place, named):
    """A denominator that is zero, or nearly, or changes its sign; a loss whose best set has the
    least likely items.
    """
    with pytest.raises(Invalid, match=named) as refused:
        select([0.5, 0.5, 0.1], SetTerms(losses.fractional_linear(c, d)))

    assert refused.value.flaws[0].loc == place


def test_the_error_bound_of_class_sets_grows_where_the_denominator_nearly_cancels():
    loss = losses.fractional_linear([0.1, -1, 0.2, 1], [1, 0, -0.9999999, 0])
    c, d = ([Fraction(one) for one in given] for given in (loss.c, loss.d))
    exact = (3 * c[0] + 3 * c[2] + c[1] + c[3]) / (3 * d[0] + 3 * d[2])
    found = select_class_set([[0.25, 0.25, 0.5]], SetTerms(loss, k_min=3))

    assert 0 < abs(Fraction(float(found.figures[0, 0])) - exact) <= found.figures[3, 0]


def test_a_denominator_that_is_nearly_zero_is_none():
    """It was taken for zero, and its outcomes for `empty`."""
    exact = losses.fractional_linear([1, -1, 0, 0], [1, 0, -1 + 1e-13, 0])
    below = 1 + Fraction(-1 + 1e-13)
    assert exact.of_counts(np.array(1), np.array(3), np.array(1), 3)[
        ()
    ] == pytest.approx(float(Fraction(2, 3) / below))


def test_only_exact_zeros_give_the_empty_loss():
    """However the sum of the terms rounds."""
    part, rest = 2 / 3, 0.25
    c = d = [part + rest, -part, 0, -rest]
    assert Fraction(d[0]) + Fraction(d[1]) + Fraction(d[3]) == 0
    for n in (1, 3, 7, 11):
        loss = losses.fractional_linear(c, d)
        assert (
            loss.of_counts(np.array(n), np.array(n), np.array(n), n, empty=0)[()] == 0
        )
        assert (
            loss.of_counts(np.array(n), np.array(n), np.array(n), n, empty=1)[()] == 1
        )


def test_a_loss_that_rises_slowly_is_rejected():
    """At the corners the comparison is exact."""
    with pytest.raises(Invalid, match="rise"):
        check_monotone(losses.fractional_linear([1, 1e-14, 0, 0], [1, 0, 0, 0]), 4)
    check_monotone(losses.fractional_linear([1, 0, 0, 0], [1, 0, 0, 0]), 4)
    check_monotone(losses.fractional_linear([1, -1e-14, 0, 0], [1, 0, 0, 0]), 4)


def test_a_denominator_that_ranges_too_far_is_refused_before_it_is_computed():
    """Nodes grow with the logarithm of the range: 200,000 items took 39 s."""
    wide = Loss("fractional_linear", c=(1e-100, 1, 1, 1), d=(1, 1e100, 1, 1))
    with pytest.raises(TooLarge, match=r"200000 items; at most a factor of 1e\+20"):
        denominator(wide, 200_000)
