"""Whole curves: every method against exact integers and double sums, around every size at which
something changes.
"""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.errors import Invalid, TooLarge
from payoff.retrieval import quadrature, windows
from payoff.retrieval.losses import SetTerms
from payoff.retrieval.quadrature import LANES, Curve, exponential_sum, rates
from payoff.retrieval.selection import (
    CURVES,
    DP_LIMIT,
    check_usable,
    expected_losses,
    select,
)
from payoff.retrieval.windows import MEANS, MeanOfRates
from tests.reference import losses
from tests.reference.losses import HOSTILE, LOSSES
from tests.reference.retrieval import one_loss
from tests.reference.retrieval_exact import ONE, exact_curve, exact_loss

EVERY = LOSSES | HOSTILE
ALMOST = float(np.nextafter(1, 0))
PROBABILITIES = {
    "uniform": lambda n, rng: rng.random(n),
    "rare": lambda n, rng: rng.random(n) ** 12,
    "frequent": lambda n, rng: 1 - rng.random(n) ** 12,
    "certain": lambda n, rng: rng.integers(0, 2, n).astype(float),
    "mixed": lambda n, rng: np.where(
        rng.random(n) < 0.3, rng.integers(0, 2, n), rng.integers(0, 5, n) / 4
    ),
    "tiny": lambda n, _rng: np.full(n, 1e-300),
    "smallest": lambda n, _rng: np.full(n, 5e-324),
    "zeros": lambda n, _rng: np.zeros(n),
    "ones": lambda n, _rng: np.ones(n),
    "halves": lambda n, _rng: np.full(n, 0.5),
    "almost 1": lambda n, _rng: np.full(n, ALMOST),
    "both ends": lambda n, _rng: np.where(np.arange(n) < n / 2, ALMOST, 2.0**-54),
    "one large": lambda n, _rng: np.where(np.arange(n) < 1, 0.999999, 1e-12),
    "one small": lambda n, _rng: np.where(np.arange(n) < n - 1, ALMOST, 1e-12),
    "all orders": lambda n, _rng: np.logspace(0, -20, n),
}


def ranked(kind, n):
    return np.sort(PROBABILITIES[kind](n, np.random.default_rng(n)))[::-1].copy()


def by_tables(p, loss, empty):
    """The method for small n."""
    found = select(p, SetTerms(loss, empty, curve=True))
    return Curve(found.curves, found.figures[3, 0])


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("empty", [0, 1])
def test_losses_in_counts_agree_with_the_definitions(name, empty):
    for n in (0, 1, 2, 5):
        for k, positives in product(range(n + 1), repeat=2):
            for tp in range(max(0, k + positives - n), min(k, positives) + 1):
                found = LOSSES[name].of_counts(tp, k, positives, n, empty=empty)
                expected = exact_loss(LOSSES[name], tp, k, positives, n, empty) / ONE

                assert found == pytest.approx(expected, abs=1e-15, rel=4e-16)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize(
    "n",
    [
        0,
        1,
        2,
        3,
        8,
        *(pytest.param(DP_LIMIT + i, marks=pytest.mark.sampled) for i in (0, 1)),
    ],
)
def test_the_error_of_every_entry_is_within_its_bound(name, n):
    """By the tables for small sets, and by the methods for large ones."""
    loss = EVERY[name]
    for kind, empty in (
        product(PROBABILITIES, (0, 1)) if n <= 8 else [("uniform", 0), ("both ends", 1)]
    ):
        p = ranked(kind, n)
        exact = exact_curve(p.tolist(), loss, empty)
        largest = max(1, *map(abs, exact))
        for found in (
            by_tables(p, loss, empty),
            *([CURVES[loss.name](p, loss, empty)] if n else []),
        ):
            off = max(
                abs(Fraction(value) - true)
                for value, true in zip(found.values.tolist(), exact, strict=True)
            )

            assert off <= found.error, (kind, empty)
            assert off <= 1e-12 * largest or name in HOSTILE, (kind, empty)


BLOCKS = (
    quadrature.CHUNK,
    windows.SPAN,
    2 * windows.SPAN,
    quadrature.BLOCK,
    2 * quadrature.BLOCK,
)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("kind", ["uniform", "rare"])
@pytest.mark.parametrize(
    "n", [block + offset for block in BLOCKS for offset in (-1, 0, 1)]
)
@pytest.mark.sampled
def test_entries_around_block_boundaries_are_right(name, kind, n):
    p = ranked(kind, n)
    found = CURVES[LOSSES[name].name](p, LOSSES[name], 0)
    places = {0, 1, n // 2, n - 1, n} | {
        b + i for b in BLOCKS for i in (-1, 0, 1) if b + i <= n
    }
    places = sorted(places)[:: 1 + n // 800 if n >= 600 else 1]

    for k in [*places, *(range(0, n, 97) if n == BLOCKS[-1] else ())]:
        off = abs(found.values[k] - one_loss(p, k, LOSSES[name]))
        assert off <= min(found.error, 1e-12) + 2e-14 * max(1, abs(found.values[k]))


@pytest.mark.parametrize("kind", ["uniform", "halves", "dense", "sparse"])
@pytest.mark.parametrize("name", ["g_mean", "h_mean"])
@pytest.mark.sampled
def test_means_are_right_on_both_sides_of_the_gauss_rules(kind, name):
    """Laws change from windows to Gauss rules where their variance passes GAUSS_FROM, in front and
    at the back.
    """
    rng = np.random.default_rng(5)
    p = {
        "uniform": lambda: rng.random(6000),
        "halves": lambda: np.full(5300, 0.5),
        "sparse": lambda: rng.random(16000) * 0.09,
        "dense": lambda: 1 - rng.random(16000) * 0.09,
    }[kind]()
    p = np.sort(p)[::-1].copy()
    n, variance = len(p), np.cumsum(p * (1 - p))
    front = int(np.searchsorted(variance, windows.GAUSS_FROM))
    back = int(np.searchsorted(variance, variance[-1] - windows.GAUSS_FROM))
    ks = np.unique(
        np.clip(
            [
                0,
                40,
                front - 1,
                front,
                front + 1,
                front + 2,
                n // 2,
                back - 1,
                back,
                back + 1,
                n,
            ],
            0,
            n,
        )
    )
    means = MeanOfRates(p, harmonic=MEANS[name])
    expected = [one_loss(p, k, LOSSES[name]) for k in ks]

    for in_full in (True, False):
        values, errors = means.losses(ks, in_full=in_full)

        np.testing.assert_allclose(values, expected, rtol=0, atol=2e-14)
        assert errors.max() <= means.rounding() + 2e-14


@pytest.mark.parametrize(
    "kind", ["uniform", "rare", "frequent", "mixed", "tiny", "zeros", "ones", "halves"]
)
@pytest.mark.parametrize("name", ["g_mean", "h_mean"])
@pytest.mark.parametrize("n", [1, 33, 700, 2500])
def test_the_certified_search_finds_the_minimum_of_the_curve(kind, name, n):
    p = ranked(kind, n)
    means = MeanOfRates(p, harmonic=MEANS[name])
    whole = means.curve().values
    for low, high in ((0, n), (n // 3, n // 2), (n, n)):
        best = means.best(rates(p), low, high)

        assert low <= best.k <= high
        assert best.loss <= whole[low : high + 1].min() + 1e-13
        assert best.loss == pytest.approx(whole[best.k], abs=1e-13)
        assert best.error < 1e-11
        assert best.proven


@pytest.mark.parametrize(
    ("special", "general"),
    [
        (losses.f_beta(1), losses.fractional_linear([0, -2, 1, 1], [0, 0, 1, 1])),
        (
            losses.f_beta(0.5),
            losses.fractional_linear([0, -1.25, 1, 0.25], [0, 0, 1, 0.25]),
        ),
        (losses.jaccard(), losses.fractional_linear([0, -2, 1, 1], [0, -1, 1, 1])),
    ],
)
@pytest.mark.parametrize("empty", [0, 1])
def test_f_and_jaccard_are_fractional_linear_losses(special, general, empty):
    """Also of a hundred thousand items, where no double sum reaches."""
    p = ranked("uniform", 5000) if empty else ranked("rare", 100_000)
    one, other = (
        expected_losses(p, special, empty=empty),
        expected_losses(p, general, empty=empty),
    )

    np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-12)
    assert one.error < 1e-10


@pytest.mark.parametrize(
    "loss",
    [losses.f_beta(), losses.jaccard(), losses.g_tp_pr(), losses.am()],
    ids=lambda loss: loss.name,
)
def test_losses_stay_within_0_and_1(loss):
    for p in (np.ones(20_000), np.zeros(20_000), np.full(20_000, np.nextafter(1, 0))):
        found = expected_losses(p, loss).values

        assert found.min() >= 0
        assert found.max() <= 1


EXTREMES = st.sampled_from([0.0, -0.0, 1e100, -1e100, 1e-100, -1e-100, 1.0, -1.0])


@settings(max_examples=300)
@given(
    st.lists(EXTREMES, min_size=4, max_size=4),
    st.lists(EXTREMES, min_size=4, max_size=4),
    st.sampled_from([1, 3, 40]),
)
def test_the_largest_coefficients_stay_within_the_floats(c, d, n):
    """A loss is refused, or its curve is finite, with a finite bound; no arithmetic warns or breaks
    down.
    """
    p = np.linspace(0, 1, n)
    try:
        loss = losses.fractional_linear(c, d)
        check_usable(loss, n)
        curve = expected_losses(p, loss)
    except (Invalid, TooLarge):
        return
    assert np.isfinite(curve.values).all()
    assert np.isfinite(curve.error)


ROUNDING = 2e-15


@pytest.mark.parametrize("power", [1.0, 0.5])
@pytest.mark.parametrize(
    ("low", "high"), [(1, 1), (1, 2), (2, 2e3), (1, 1e6), (1e-9, 1e9), (1e300, 1e305)]
)
def test_the_sum_is_within_its_error_in_the_interval(power, low, high):
    rule = exponential_sum(power, low, high)
    a = np.exp(np.linspace(np.log(low), np.log(high), 2001))
    relative = (
        np.exp(-np.outer(a, rule.t)) @ (rule.w / low**-power) * (a / low) ** power - 1
    )

    assert rule.error < 3e-16
    assert (
        np.abs(relative).max()
        <= rule.error + ROUNDING * np.log(a).max() / 14 + ROUNDING
    )


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_weights_are_positive(power):
    rule = exponential_sum(power, 1, 1e4)
    zero = rule.w == 0

    assert np.all(rule.w >= 0)
    assert zero.sum() < LANES
    assert len(rule.t) % LANES == 0
    assert np.all(np.diff(rule.t[~zero]) > 0)
