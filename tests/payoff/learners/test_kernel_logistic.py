"""Kernel logistic regression: right gradients, the right minimum, and the same numbers on every way to them."""

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import rbf_kernel

from payoff.learners import kernel_logistic
from payoff.learners.design import Design
from payoff.learners.kernel_logistic import KernelLogistic

KERNELS = ("rbf", "linear", "polynomial")


def uncalibrated(**parameters):
    """The likelihood fit as it is."""
    return KernelLogistic(calibration="none", **parameters)


def test_it_is_calibrated_by_a_sigmoid_and_reports_the_fit_of_all_rows():
    X, y, _ = problem(3, n=150)
    model = KernelLogistic(random_state=0).fit(X, y)

    assert model.calibration_ == "sigmoid"
    np.testing.assert_array_equal(
        model.model_.posterior(X), uncalibrated().fit(X, y).posterior(X)
    )
    assert model.n_components_ == len(X)
    assert model.converged_


def problem(K, *, n=60, m=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, m))
    y = (X @ rng.normal(size=(m, K)) + rng.gumbel(size=(n, K))).argmax(axis=1)
    y[:K] = np.arange(K)
    return X, y, rng.uniform(0.2, 3.0, n)


@pytest.mark.parametrize("C", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("name", KERNELS)
def test_it_is_scikit_learns_logistic_regression_on_a_root_of_the_kernel_matrix(
    K, C, name
):
    """Weighted and at the same penalty: a reference class changes nothing in the symmetric model. The
    default `gamma` is one over the summed variance.
    """
    X, y, weights = problem(K, n=300)
    X[:, 1] *= 50
    Z = Design.fit(X, weights, ()).matrix(X)
    gamma = 0.4 if name == "polynomial" else None
    centred = Z - np.average(Z, axis=0, weights=weights)
    default = 1 / np.average((centred**2).sum(axis=1), weights=weights)
    products = Z @ Z.T
    kernel = {
        "linear": products,
        "polynomial": (0.4 * products + 1) ** 2,
        "rbf": rbf_kernel(Z, gamma=default),
    }[name]
    values, vectors = np.linalg.eigh(kernel)
    root = vectors * np.sqrt(np.maximum(values, 0))
    theirs = LogisticRegression(C=C, tol=1e-9, max_iter=100_000).fit(root, y, weights)
    ours = uncalibrated(
        kernel=name, gamma=gamma, degree=2, C=C, tol=1e-8, numeric_transform="none"
    )
    np.testing.assert_allclose(
        ours.fit(X, y, weights).predict_proba(X), theirs.predict_proba(root), atol=1e-4
    )


@pytest.mark.parametrize("name", KERNELS)
def test_the_majority_has_no_function_and_changes_no_probability(name):
    """f_H = 0 for whichever class is H."""
    X, y, weights = problem(3)
    labels = np.array(["ill", "odd", "well"])[y]
    models = [
        uncalibrated(kernel=name, majority=H, tol=1e-8).fit(X, labels, weights)
        for H in ("ill", "well")
    ]
    for code, model in zip((0, 2), models, strict=True):
        if name != "linear":
            assert not model.model_.alpha[:, code].any()
            assert model.model_.intercept[code] == 0
    np.testing.assert_allclose(
        models[0].predict_proba(X), models[1].predict_proba(X), atol=1e-6
    )
    assert [model.majority_ for model in models] == ["ill", "well"]


def test_the_majority_is_the_class_that_weighs_most():
    X, y, _ = problem(3)
    assert uncalibrated().fit(X, y).majority_ == np.bincount(y).argmax()
    assert uncalibrated().fit(X, y, np.where(y == 1, 100.0, 1.0)).majority_ == 1
    assert uncalibrated(majority="2").fit(X, y).majority_ == 2


def test_all_rows_as_landmarks_are_the_exact_model(monkeypatch):
    """Beyond the change-over a draw is made; asked for at least as many landmarks as rows, none is."""
    X, y, _ = problem(3)
    exact = uncalibrated().fit(X, y)
    assert exact.n_components_ == len(X)
    np.testing.assert_array_equal(
        uncalibrated(n_components=999).fit(X, y).predict_proba(X),
        exact.predict_proba(X),
    )
    monkeypatch.setattr(kernel_logistic, "EXACT_ROWS", 50)
    monkeypatch.setattr(kernel_logistic, "LANDMARKS", 20)
    drawn = [uncalibrated(random_state=seed).fit(X, y) for seed in (0, 0, 1)]
    assert [model.n_components_ for model in drawn] == [20, 20, 20]
    np.testing.assert_array_equal(drawn[0].predict_proba(X), drawn[1].predict_proba(X))
    monkeypatch.setattr(kernel_logistic, "CELLS", 10 * len(X))
    assert (
        uncalibrated().fit(X, y).n_components_ == 10
    )  # a map of more numbers is not made
    assert not np.allclose(
        drawn[0].predict_proba(X), drawn[2].predict_proba(X), atol=1e-6
    )
    np.testing.assert_allclose(
        drawn[0].predict_proba(X), exact.predict_proba(X), atol=0.2
    )


def test_a_stop_before_the_minimum_is_told():
    """Too few steps give a warning and `converged_` False, with the gradient that is left."""
    X, y, _ = problem(3)
    with pytest.warns(
        ConvergenceWarning, match="kernel_logistic stopped after 2 steps"
    ):
        stopped = uncalibrated(max_iter=2).fit(X, y)
    done = uncalibrated().fit(X, y)
    assert not stopped.converged_
    assert stopped.gradient_norm_ > 1e-6 >= done.gradient_norm_
    assert done.converged_
    assert done.n_iter_ > stopped.n_iter_ == 2
