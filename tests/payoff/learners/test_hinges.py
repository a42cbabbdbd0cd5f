"""Curves of numeric features: what they are by definition, and folded into one product with the linear model."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import yeojohnson, yeojohnson_normmax

from payoff.learners.design import SHAPES, Design, fit_hinges, inverse, yeo_johnson
from tests.reference.tables import mixed

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


def heavy(n, seed=0):
    """A column with a heavy tail on both sides."""
    return np.random.default_rng(seed).standard_t(1.5, size=n)


def rarely(n, others, seed=0):
    """A column of zeros, but for one row in a hundred."""
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.01, others(rng, n), 0.0)


ONE_SIDED = rarely(2000, lambda rng, n: np.exp(3 * rng.normal(size=n)))
TWO_SIDED = rarely(2000, lambda rng, n: rng.standard_cauchy(size=n))


def quantiles(values, *shares):
    """The smallest values that at least these shares of the values do not exceed."""
    return np.quantile(values, shares, method="inverted_cdf")


def fitted(x, shape, weights=None):
    return fit_hinges(
        x[:, None],
        np.ones(len(x)) if weights is None else weights,
        np.array([0]),
        shape,
    )


@pytest.mark.parametrize(
    "values",
    [
        heavy(400),
        np.arange(300.0) % 7,
        np.repeat([0.0, 5.0], [395, 5]),
        ONE_SIDED,
        TWO_SIDED,
    ],
)
def test_clip_limits_to_the_quantiles(values):
    """The clipped value, up to a constant: within the 2 % and 98 % quantiles, of ten values or fewer within all; where
    both quantiles are one value, within the medians of the values below and above it.
    """
    new = np.concatenate((values, [-1e9, 0.3, 1e9]))
    found = fitted(values, "clip").curves(new[:, None])[:, 0]
    low, high = (
        quantiles(values, 0.02, 0.98)
        if len(np.unique(values)) > 10
        else (values.min(), values.max())
    )
    if low == high:
        below, above = values[values < low], values[values > low]
        low, high = (
            quantiles(side, 0.5)[0] if len(side) else low for side in (below, above)
        )
    expected = np.clip(new, low, high)
    np.testing.assert_allclose(found, expected - expected.min(), rtol=1e-9, atol=1e-12)


@given(FINITE, st.integers(-300, 300).map(lambda hundredths: hundredths / 100))
def test_the_power_is_the_published_one(x, power):
    """It agrees with scipy's, and its inverse leads back where the power is not saturated."""
    t = yeo_johnson(np.array([x]), power)
    np.testing.assert_allclose(
        t, yeojohnson(np.array([x]), power), rtol=1e-6, atol=1e-9
    )
    if abs(x) < 20:
        np.testing.assert_allclose(inverse(t, power)[0], x, rtol=1e-5, atol=1e-6)


def test_the_power_is_the_most_likely_one():
    """On a lognormal column the curve is scipy's transform, to the width of its straight pieces."""
    x = np.exp(np.random.default_rng(1).normal(size=2000))
    inside = np.clip(x, *quantiles(x, 0.02, 0.98))
    unit = inside.mean()
    expected = yeojohnson(inside / unit, yeojohnson_normmax(inside / unit))
    found = fitted(x, "power").curves(x[:, None])[:, 0]
    assert np.corrcoef(found, expected)[0, 1] > 0.999
    assert np.corrcoef(found, inside)[0, 1] < 0.97


def test_a_spline_bends_at_the_quartiles():
    """Its columns are x above each quartile, and nothing beyond the outer quantiles."""
    x = np.arange(1001.0)
    columns = fitted(x, "spline").curves(
        np.array([[-50.0], [300.0], [600.0], [5000.0]])
    )
    np.testing.assert_allclose(
        columns,
        [[0, 0, 0, 0], [280, 50, 0, 0], [580, 350, 100, 0], [960, 730, 480, 230]],
        atol=3,
    )


@pytest.mark.parametrize("shape", SHAPES)
def test_a_weight_counts_as_that_many_rows(shape):
    x = heavy(80)
    weights = np.random.default_rng(1).integers(1, 5, 80)
    one, many = (
        fitted(x, shape, weights.astype(float)),
        fitted(np.repeat(x, weights), shape),
    )
    for name in ("uppers", "knots", "slopes", "means"):
        np.testing.assert_allclose(
            getattr(one, name), getattr(many, name), rtol=1e-6, atol=1e-9
        )


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_folded_model_is_the_linear_model_of_the_columns(shape, missing):
    """Coefficients on `matrix` and the folded scores of raw rows agree, for complete and missing and far values."""
    X, _, categorical = mixed(300, 3, 2, missing=missing)
    design = Design.fit(X, np.ones(300), categorical, shape)
    rng = np.random.default_rng(0)
    coef, intercept = rng.normal(size=(3, design.width)), rng.normal(size=3)
    new, _, _ = mixed(100, 3, 3, missing=0.3)
    far = np.where(np.isin(np.arange(X.shape[1]), categorical), new, 1e6 * new)
    linear = design.fold(coef, intercept)
    for rows in (X, new, far, np.full_like(new, np.nan)):
        columns = design.matrix(rows)
        dense = columns if isinstance(columns, np.ndarray) else columns.toarray()
        np.testing.assert_allclose(
            linear.scores(rows), dense @ coef.T + intercept, rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("shape", SHAPES)
def test_columns_without_values_or_variance_are_harmless(shape):
    X = np.column_stack((np.full(20, np.nan), np.full(20, 3.0), np.arange(20.0)))
    design = Design.fit(X, np.ones(20), [], shape)
    columns = design.matrix(
        np.vstack((X, [[1.0, 1e300, -1e300], [np.nan, np.nan, np.nan]]))
    )
    assert np.isfinite(columns).all()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("x", [ONE_SIDED, -ONE_SIDED, TWO_SIDED])
def test_the_tail_of_a_feature_that_is_nearly_always_the_same_is_cut(shape, x):
    """Where both quantiles are the common value, a curve is flat beyond the half of the others on each side."""
    ends = [
        sign * np.quantile(sign * x[sign * x > 0], 0.6)
        for sign in (-1, 1)
        if (sign * x > 0).any()
    ]
    near, far = (
        fitted(x, shape).curves(factor * np.array(ends)[:, None]) for factor in (1, 1e6)
    )
    np.testing.assert_array_equal(near, far)
