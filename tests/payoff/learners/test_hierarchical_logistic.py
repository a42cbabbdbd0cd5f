"""The hierarchical model: a product of two stages, and nothing but that."""

import numpy as np
import pytest
from sklearn.base import clone

from payoff.errors import Invalid
from payoff.learners.benefit_logistic import BenefitLogistic, rest_weights
from payoff.learners.hierarchical_logistic import HierarchicalLogistic
from payoff.learners.kernel_logistic import KernelLogistic
from payoff.learners.logistic import Logistic

STAGES = [
    (None, None),
    (BenefitLogistic(), Logistic()),
    (KernelLogistic(kernel="linear"), KernelLogistic()),
]


def table(K=4, n=300, seed=0):
    """Class 2 (or the last of fewer) is the majority; a category and missing values."""
    rng = np.random.default_rng(seed)
    H = min(2, K - 1)
    y = rng.choice(K, n, p=np.where(np.arange(K) == H, 0.6, 0.4 / (K - 1)))
    X = rng.normal(size=(n, 3)) + y[:, None] * np.array([0.7, -0.5, 0.0])
    X[:, 2] = rng.integers(0, 3, n)
    X[::9, 0] = np.nan
    return X, y, rng.uniform(0.5, 2.0, n)


@pytest.mark.parametrize(("first", "second"), STAGES)
def test_probabilities_are_the_product_of_the_stages(first, second):
    """Stages fitted by hand, the second on minority rows only, multiply to the same numbers."""
    X, y, weights = table()
    model = HierarchicalLogistic(
        first=first, second=second, categorical_features=[2], random_state=0
    )
    P = model.fit(X, y, weights).predict_proba(X)
    one, two = (
        clone(stage or KernelLogistic()).set_params(
            categorical_features=[2], random_state=0
        )
        for stage in (first, second)
    )
    D = one.fit(X, (y != 2).astype(int), weights).predict_proba(X)
    minority = y != 2
    inner = two.fit(X[minority], y[minority], weights[minority]).predict_proba(X)
    np.testing.assert_array_equal(two.classes_, [0, 1, 3])
    np.testing.assert_allclose(P[:, 2], D[:, 0], rtol=1e-12)
    np.testing.assert_allclose(P[:, [0, 1, 3]], D[:, 1:] * inner, rtol=1e-12)
    np.testing.assert_allclose(P.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.posterior(X), P)


def test_two_classes_need_no_second_stage():
    """The order of the classes stays, whichever is the majority."""
    X, y, _ = table(K=2)
    options = {"categorical_features": [2], "random_state": 0}
    for majority in (0, 1):
        model = HierarchicalLogistic(majority=majority, **options).fit(X, y)
        minority = (y != majority).astype(int)
        alone = KernelLogistic(**options).fit(X, minority).predict_proba(X)
        assert model.model_.second is None
        assert model.model_.majority == majority
        assert model.converged_
        in_order = alone if majority == 0 else alone[:, ::-1]
        np.testing.assert_allclose(model.predict_proba(X), in_order, rtol=1e-12)


def test_benefits_decide_as_in_the_paper():
    """A K x K matrix becomes one weight, that of the majority against the minority: minority where the weighted first
    stage says so, then the likeliest minority class.
    """
    X, y, _ = table()
    B = -np.random.default_rng(1).uniform(1, 9, (4, 4))
    np.fill_diagonal(B, [1.0, 2.0, 3.0, 4.0])
    B[[0, 1, 3], 2] -= 20.0  # to miss a minority class is dear
    model = HierarchicalLogistic(
        first=BenefitLogistic(), benefits=B, categorical_features=[2]
    ).fit(X, y)
    shares = np.bincount(y)[[0, 1, 3]] / np.sum(y != 2)
    spared = B[2, 2] - B[2, [0, 1, 3]] @ shares
    gained = np.diag(B)[[0, 1, 3]] @ shares - B[[0, 1, 3], 2] @ shares
    first = model.model_.first.model_
    assert np.exp(first.shifts[0]) == pytest.approx(spared / gained)
    assert spared / gained == pytest.approx(
        1 / rest_weights(B, np.bincount(y) / len(y))[2]
    )
    P, decided = model.predict_proba(X), model.predict(X)
    minority = first.weighted(X)[:, 1] > 0.5
    expected = np.where(
        minority, np.array([0, 1, 3])[P[:, [0, 1, 3]].argmax(axis=1)], 2
    )
    np.testing.assert_array_equal(decided, expected)
    assert (decided == 2).sum() < (P.argmax(axis=1) == 2).sum()


def test_benefits_that_give_no_weight_are_refused():
    """At the entries of the majority that are to blame; what other classes would need alone does not matter."""
    X, y, _ = table(K=3)
    model = HierarchicalLogistic(first=BenefitLogistic(), categorical_features=[2])
    for B, places in (
        (np.eye(2), ["/benefits"]),
        (np.full((3, 3), np.nan), ["/benefits"]),
        (np.diag([1.0, 1.0, -1.0]), ["/benefits/2/2"]),
        (np.diag([-1.0, -1.0, 1.0]), ["/benefits/0/2", "/benefits/1/2"]),
    ):
        with pytest.raises(Invalid) as refusal:
            clone(model).set_params(benefits=B).fit(X, y)
        assert [flaw.loc for flaw in refusal.value.flaws] == places
    own = clone(model).set_params(benefits=np.diag([1.0, -0.1, 1.0])).fit(X, y)
    assert np.exp(own.model_.first.model_.shifts[0]) > 0
