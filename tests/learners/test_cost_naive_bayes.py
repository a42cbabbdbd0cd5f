"""Cost-based naive Bayes equals the product of shares, with missing values left out."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.naive_bayes import CategoricalNB

from app.learners.cost_naive_bayes import CostNaiveBayes
from tests.reference.learners import naive_bayes
from tests.reference.tables import mixed


@settings(max_examples=25)
@given(
    st.integers(2, 5),
    st.integers(0, 10**6),
    st.sampled_from([(3, (2, 4)), (3, ()), (0, (3,)), (1, (5, 2))]),
    st.sampled_from([0.1, 1.0, 3.0]),
    st.integers(2, 7),
)
def test_equals_the_product_value_by_value(K, seed, shape, alpha, bins):
    """Numbers and categories, missing and unseen values, weights, two to five classes, against loops."""
    numbers, words = shape
    X, y, categorical = mixed(40, K, seed, numbers=numbers, words=words, missing=0.2)
    new, _, _ = mixed(6, K, seed + 1, numbers=numbers, words=tuple(count + 1 for count in words), missing=0.2)
    weights = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], size=40)
    codes = np.unique(y, return_inverse=True)[1]
    model = CostNaiveBayes(alpha=alpha, bins=bins, calibration="none", categorical_features=categorical)
    got = model.fit(X, y, weights).posterior(new)
    np.testing.assert_allclose(got, naive_bayes(X, codes, weights, new, categorical, alpha, bins), rtol=1e-9)


def test_by_hand():
    """One word and one number, four rows: shares smoothed by one row for each value."""
    X = np.array([[0.0, 1.0], [0.0, 3.0], [1.0, 5.0], [1.0, 1.0]])
    y = np.array([0, 0, 0, 1])
    model = CostNaiveBayes(calibration="none", categorical_features=[0]).fit(X, y)
    zero = 3 / 4 * (2 + 1) / (3 + 2) * (1 + 1) / (3 + 3)
    one = 1 / 4 * (0 + 1) / (1 + 2) * (0 + 1) / (1 + 3)
    np.testing.assert_allclose(model.posterior(np.array([[0.0, 3.9]])), [[zero / (zero + one), one / (zero + one)]])


def test_categories_alone_equal_scikit_learns():
    """Complete categories: scikit-learn's CategoricalNB."""
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, size=(200, 5)).astype(float), rng.integers(0, 3, size=200)
    model = CostNaiveBayes(calibration="none", categorical_features=range(5)).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), CategoricalNB().fit(X, y).predict_proba(X), rtol=1e-10)


def test_a_row_without_any_value_has_the_class_shares():
    """The empty product: nothing known, nothing learned."""
    X, y, categorical = mixed(100, 3, 1)
    model = CostNaiveBayes(calibration="none", categorical_features=categorical).fit(X, y)
    P = model.posterior(np.full((1, X.shape[1]), np.nan))
    np.testing.assert_allclose(P[0], np.bincount(y) / 100)


def test_decisions_by_expected_cost_are_the_papers_rule():
    """argmin_k sum_q V[q][k] p(C_q) prod p(x_i|C_q) is expected benefit of -V on the posterior."""
    X, y, categorical = mixed(60, 3, 2, missing=0.0)
    V = np.array([[0.0, 1.13, 4.7], [2.9, 0.0, 1.41], [9.3, 3.17, 0.0]])  # no ties
    model = CostNaiveBayes(calibration="none", categorical_features=categorical).fit(X, y)
    joint = naive_bayes(X, y, np.ones(60), X, categorical, 1.0, 10) * 1e-5  # any factor per row
    np.testing.assert_array_equal((model.posterior(X) @ -V).argmax(axis=1), (joint @ V).argmin(axis=1))


def test_hundreds_of_features_do_not_underflow():
    """The product is taken in logs."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 2000))
    y = np.tile([0, 1], 25)
    P = CostNaiveBayes(calibration="none").fit(X, y).posterior(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P.argmax(axis=1) == y).all()


def test_bins_hold_about_equal_counts():
    """1000 distinct numbers in 4 bins: cut at the quartiles."""
    X = np.random.default_rng(4).permutation(1000.0 * np.arange(1000))[:, None]
    model = CostNaiveBayes(bins=4, calibration="none").fit(X, np.arange(1000) % 2)
    places = model.model_.places.find(X)[:, 0]
    np.testing.assert_array_equal(np.bincount(places), [250, 250, 250, 250])
