"""Whole curves: every method against the double sum, around every size at which something changes."""

import numpy as np
import pytest

from app.retrieval import quadrature, windows
from app.retrieval.quadrature import BY_QUADRATURE, rates
from app.retrieval.selection import DP_LIMIT, MEANS, expected_losses
from app.retrieval.windows import MeanOfRates
from tests.reference import losses
from tests.reference.retrieval import curve, one_loss

LOSSES = {
    "f1": losses.f_beta(1),
    "f_pi": losses.f_beta(np.pi),
    "f_small": losses.f_beta(1e-3),
    "f_large": losses.f_beta(1e4),
    **{loss.name: loss for loss in losses.PLAIN},
    "precision": losses.fractional_linear([0, -1, 1, 0], [0, 0, 1, 0]),
    "recall": losses.fractional_linear([0, -1, 0, 1], [0, 0, 0, 1]),
    "fall_out": losses.fractional_linear([0, -1, 1, 0], [1, 0, 0, -1]),
    "signs": losses.fractional_linear([0.5, -1, 0.2, 0.1], [1, 0.3, -0.9, -0.2]),
    "negative": losses.fractional_linear([-0.5, 1, -0.2, -0.1], [-1, -0.3, 0.9, 0.2]),
    "near_zero": losses.fractional_linear([0.1, -1, 0.2, 1], [1, 0, -0.9999, 0]),
}
PROBABILITIES = {
    "uniform": lambda n, rng: rng.random(n),
    "rare": lambda n, rng: rng.random(n) ** 12,
    "frequent": lambda n, rng: 1 - rng.random(n) ** 12,
    "certain": lambda n, rng: rng.integers(0, 2, n).astype(float),
    "mixed": lambda n, rng: np.where(rng.random(n) < 0.3, rng.integers(0, 2, n), rng.integers(0, 5, n) / 4),
    "tiny": lambda n, _rng: np.full(n, 1e-300),
    "zeros": lambda n, _rng: np.zeros(n),
    "ones": lambda n, _rng: np.ones(n),
    "halves": lambda n, _rng: np.full(n, 0.5),
}


def ranked(kind, n):
    return np.sort(PROBABILITIES[kind](n, np.random.default_rng(n)))[::-1].copy()


def by_formula(p, loss, empty):
    """The method for large n, whatever n."""
    if loss.name in MEANS:
        return MeanOfRates(p, harmonic=MEANS[loss.name]).curve()
    return BY_QUADRATURE[loss.name](p, loss, empty)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("empty", [0, 1])
@pytest.mark.sampled
def test_both_methods_agree_with_the_double_sum(name, empty):
    loss = LOSSES[name]
    for kind in PROBABILITIES:
        for n in (1, 2, 3, 7, DP_LIMIT - 1, DP_LIMIT, DP_LIMIT + 1):
            p = ranked(kind, n)
            expected = curve(p, loss, empty=empty)
            for found in (expected_losses(p, loss, empty), by_formula(p, loss, empty)):
                off = np.abs(found.values - expected).max()
                largest = max(1.0, np.abs(expected).max())

                assert off <= min(found.error + 1e-14 * largest, 1e-12 * largest), (kind, n, off)


@pytest.mark.parametrize("name", LOSSES)
def test_the_loss_without_items_follows_the_conventions(name):
    for empty in (0, 1):
        loss = LOSSES[name]

        assert expected_losses(np.empty(0), loss, empty=empty).values == loss.of_counts(0, 0, 0, 0, empty=empty)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.sampled
def test_curves_of_2000_items_agree_with_the_double_sum(name):
    p = ranked("rare", 2000)
    found = expected_losses(p, LOSSES[name])
    expected = curve(p, LOSSES[name])

    np.testing.assert_allclose(found.values, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))
    assert np.abs(found.values - expected).max() <= found.error


BLOCKS = (quadrature.CHUNK, windows.SPAN, 2 * windows.SPAN, quadrature.BLOCK, 2 * quadrature.BLOCK)


@pytest.mark.parametrize("name", ["f1", *(loss.name for loss in losses.PLAIN), "signs"])
@pytest.mark.parametrize("n", [block + offset for block in BLOCKS for offset in (-1, 0, 1)])
@pytest.mark.sampled
def test_entries_around_block_boundaries_are_right(name, n):
    p = ranked("uniform", n)
    found = by_formula(p, LOSSES[name], 0).values
    places = {0, 1, n // 2, n - 1, n} | {b + i for b in BLOCKS for i in (-1, 0, 1) if b + i <= n}

    for k in places if n < 600 else sorted(places)[:: 1 + n // 800]:
        assert found[k] == pytest.approx(one_loss(p, k, LOSSES[name]), abs=2e-14)


@pytest.mark.parametrize("kind", ["uniform", "halves", "dense", "sparse"])
@pytest.mark.parametrize("name", ["g_mean", "h_mean"])
@pytest.mark.sampled
def test_means_are_right_on_both_sides_of_the_gauss_rules(kind, name):
    """Laws change from windows to Gauss rules where their variance passes GAUSS_FROM, in front and at the back."""
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
    ks = np.unique(np.clip([0, 40, front - 1, front, front + 1, front + 2, n // 2, back - 1, back, back + 1, n], 0, n))
    means = MeanOfRates(p, harmonic=MEANS[name])
    expected = [one_loss(p, k, LOSSES[name]) for k in ks]

    for in_full in (True, False):
        values, errors = means.losses(ks, in_full=in_full)

        np.testing.assert_allclose(values, expected, rtol=0, atol=2e-14)
        assert errors.max() <= means.rounding() + 2e-14


@pytest.mark.parametrize("kind", ["uniform", "rare", "frequent", "mixed", "tiny", "zeros", "ones", "halves"])
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
        (losses.f_beta(0.5), losses.fractional_linear([0, -1.25, 1, 0.25], [0, 0, 1, 0.25])),
        (losses.jaccard(), losses.fractional_linear([0, -2, 1, 1], [0, -1, 1, 1])),
    ],
)
@pytest.mark.parametrize("empty", [0, 1])
def test_f_and_jaccard_are_fractional_linear_losses(special, general, empty):
    """Also of a hundred thousand items, where no double sum reaches."""
    p = ranked("uniform", 5000) if empty else ranked("rare", 100_000)
    one, other = expected_losses(p, special, empty=empty), expected_losses(p, general, empty=empty)

    np.testing.assert_allclose(one.values, other.values, rtol=0, atol=1e-12)
    assert one.error < 1e-10


def test_the_input_is_not_modified():
    p = np.array([0.2, 0.9, 0.4] * 40)
    before = p.copy()
    for loss in LOSSES.values():
        expected_losses(p, loss)

    assert np.array_equal(p, before)


@pytest.mark.parametrize(
    "loss", [losses.f_beta(), losses.jaccard(), losses.g_tp_pr(), losses.am()], ids=lambda loss: loss.name
)
def test_losses_stay_within_0_and_1(loss):
    for p in (np.ones(20_000), np.zeros(20_000), np.full(20_000, np.nextafter(1, 0))):
        found = expected_losses(p, loss).values

        assert found.min() >= 0
        assert found.max() <= 1
