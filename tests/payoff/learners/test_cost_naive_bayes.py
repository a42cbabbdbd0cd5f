"""Cost-based naive Bayes equals the product of shares, with missing values left out."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.learners.cost_naive_bayes import CostNaiveBayes
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
    new, _, _ = mixed(
        6,
        K,
        seed + 1,
        numbers=numbers,
        words=tuple(count + 1 for count in words),
        missing=0.2,
    )
    weights = np.random.default_rng(seed).choice([0.5, 1.0, 2.0], size=40)
    codes = np.unique(y, return_inverse=True)[1]
    model = CostNaiveBayes(
        alpha=alpha, bins=bins, calibration="none", categorical_features=categorical
    )
    got = model.fit(X, y, weights).posterior(new)
    np.testing.assert_allclose(
        got, naive_bayes(X, codes, weights, new, categorical, alpha, bins), rtol=1e-9
    )


def test_hundreds_of_features_do_not_underflow():
    """The product is taken in logs."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(50, 2000))
    y = np.tile([0, 1], 25)
    P = CostNaiveBayes(calibration="none").fit(X, y).posterior(X)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert (P.argmax(axis=1) == y).all()
