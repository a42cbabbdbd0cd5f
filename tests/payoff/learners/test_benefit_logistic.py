"""Benefit-based logistic regression follows the paper, and still gives honest posteriors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from payoff.errors import Invalid
from payoff.learners.benefit_logistic import BenefitLogistic, rest_weights
from payoff.learners.logistic import Logistic
from tests.reference.learners import rest_weights as slow_rest_weights
from tests.reference.learners import weighted_logistic
from tests.reference.tables import mixed

BINARY = [[0.0, -1.0], [-5.0, 0.0]]  # eta = 1/5
THREE = [[2.0, -1.0, -3.0], [-1.0, 1.0, -2.0], [-6.0, -4.0, 3.0]]


def table(K, n=300, seed=0):
    X, y, _ = mixed(n, K, seed, words=(), missing=0.0)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@given(
    st.integers(2, 6),
    st.integers(0, 10**6),
    st.sampled_from(["normalised", "as_printed"]),
)
def test_weights_equal_the_sums_term_by_term(K, seed, one_vs_rest):
    """Both ways of combining the rest's benefits, against loops."""
    rng = np.random.default_rng(seed)
    B = rng.uniform(-9, 0, size=(K, K))
    np.fill_diagonal(B, rng.uniform(0.1, 9, size=K))
    shares = rng.dirichlet(np.ones(K) * 3)
    expected = slow_rest_weights(
        B.tolist(), shares.tolist(), normalised=one_vs_rest == "normalised"
    )
    np.testing.assert_allclose(
        rest_weights(B, shares, one_vs_rest), expected, rtol=1e-9
    )


PAYS_LESS = [
    [-1.0, -1.1, -1.1],
    [-1.1, -1.0, -1.1],
    [-1.1, -1.1, -1.0],
]  # than being right, and both are negative


@pytest.mark.parametrize(
    ("B", "places"),
    [
        (PAYS_LESS, ["/0/0", "/1/1", "/2/2"]),
        ([[0.0, 1.0], [-5.0, 0.0]], ["/0/1"]),
        ([[0.0, -1.0], [3.0, 3.0]], ["/1/1"]),
        ([[-1.0, 1.0], [5.0, 0.0]], ["/0/1", "/1/1"]),
        ([[1e-300, 0.0], [0.0, 1e300]], [""]),
        ([[0.0, -1.0, 2.0], [0.0, 1.0, 0.0]], [""]),
        ([[0.0, np.nan], [0.0, 1.0]], [""]),
        ([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [5.0, 5.0, 1.0]], ["/2/0", "/2/1", "/2/2"]),
        (
            [[1.0, 0.0, 9.0], [0.0, 1.0, 9.0], [0.0, 0.0, 10.0]],
            ["/0/0", "/1/1", "/0/2", "/1/2"],
        ),
    ],
)
def test_a_matrix_without_usable_weights_is_refused_at_its_row(B, places):
    """Where being right pays no more than being wrong, the flaw names the entry; both signs wrong is not right. Printed
    sums fail where a negative benefit for being right loses to shares that do not add up to 1; normalised ones do not.
    """
    shares, sums = (
        np.ones(len(B)) / len(B),
        "as_printed" if B is PAYS_LESS else "normalised",
    )
    assert B is not PAYS_LESS or np.isfinite(rest_weights(np.array(B), shares)).all()
    with pytest.raises(Invalid) as error:
        rest_weights(np.array(B), shares, sums)
    assert [flaw.loc for flaw in error.value.flaws] == places


@pytest.mark.parametrize(
    ("B", "one_vs_rest"),
    [(BINARY, "normalised"), (THREE, "normalised"), (THREE, "as_printed")],
)
def test_scores_minimise_the_papers_objective(B, one_vs_rest):
    """Found by a general-purpose optimiser. More than two classes are one against the rest, each with its own weight;
    the largest score is predicted.
    """
    K = len(B)
    X, y = table(K)
    model = BenefitLogistic(
        benefits=B,
        C=0.5,
        calibration="none",
        one_vs_rest=one_vs_rest,
        numeric_transform="none",
    )
    scores = model.fit(X, y).model_.weighted(X)
    shares = np.bincount(y) / len(y)
    etas = (
        [1 / 5]
        if K == 2
        else slow_rest_weights(
            B, shares.tolist(), normalised=one_vs_rest == "normalised"
        )
    )
    for k, eta in zip(range(K)[-len(etas) :], etas, strict=True):
        theta = weighted_logistic(X, y == k, eta, 0.5)
        np.testing.assert_allclose(
            scores[:, k], 1 / (1 + np.exp(-(X @ theta[:-1] + theta[-1]))), atol=1e-5
        )
    np.testing.assert_allclose(np.exp(model.model_.shifts), etas, rtol=1e-12)
    np.testing.assert_array_equal(model.predict(X), scores.argmax(axis=1))


@pytest.mark.parametrize(("K", "B"), [(2, BINARY), (3, THREE)])
def test_the_weighting_is_undone(K, B):
    """With s = q/(q + eta (1 - q)), q renormalised over the classes is what `predict_proba` gives, row by row."""
    X, y = table(K)
    model = BenefitLogistic(
        benefits=B, calibration="none", numeric_transform="none"
    ).fit(X, y)
    eta = np.exp(model.model_.shifts)
    eta = eta if K > 2 else np.array([1 / eta[0], eta[0]])
    s = model.model_.weighted(X)
    q = s * eta / (s * eta + 1 - s)
    np.testing.assert_allclose(
        model.predict_proba(X), q / q.sum(axis=1, keepdims=True), rtol=1e-9
    )


def test_without_benefits_two_classes_are_plain_logistic_regression():
    """Weights of 1 give the very same model."""
    X, y = table(2)
    weighted, plain = (
        BenefitLogistic(random_state=0).fit(X, y),
        Logistic(random_state=0).fit(X, y),
    )
    np.testing.assert_allclose(
        weighted.predict_proba(X), plain.predict_proba(X), rtol=1e-12
    )
