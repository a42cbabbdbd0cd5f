"""Linear models give what scikit-learn's own pipeline gives; the transform of numeric features that `auto` chooses."""

import numpy as np
import pytest
from scipy import sparse
from scipy.special import expit
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from payoff.learners import scikit
from payoff.learners.design import Design
from payoff.learners.linear import LinearScorer
from payoff.learners.logistic import Logistic, choose_transform
from payoff.learners.scikit import fit_linear
from tests.reference.tables import mixed

SHAPES = [(4, (3, 5)), (4, ()), (0, (3, 5)), (1, (2,)), (3, (40, 2))]


def pipeline(X, categorical):
    """The same columns by scikit-learn's transformers, fitted on X."""
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    steps = [
        (
            "numbers",
            make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()),
            numeric,
        ),
        (
            "missing",
            MissingIndicator(features="missing-only", error_on_new=False),
            numeric,
        ),
        ("categories", OneHotEncoder(handle_unknown="ignore"), list(categorical)),
    ]
    return ColumnTransformer(
        [step for step in steps if step[2]], sparse_threshold=0
    ).fit(X)


def unseen_as_missing(rows, X, categorical):
    """Categories that X does not have as missing values: scikit-learn's encoder has no such rule."""
    rows = rows.copy()
    for j in categorical:
        rows[~np.isin(rows[:, j], X[:, j]), j] = np.nan
    return rows


@pytest.mark.parametrize(("numbers", "words"), SHAPES)
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.sampled
def test_folded_probabilities_equal_the_pipelines(numbers, words, K, missing):
    """One product gives `predict_proba` of scikit-learn's pipeline to 1e-12: complete, missing and unseen values."""
    X, y, categorical = mixed(250, K, 3, numbers=numbers, words=words, missing=missing)
    new, _, _ = mixed(
        120,
        K,
        4,
        numbers=numbers,
        words=tuple(count + 2 for count in words),
        missing=0.3,
    )
    design = Design.fit(X, np.ones(250), categorical)
    model, _ = fit_linear(design.matrix(X), y, np.ones(250), 1.0)
    scorer = LinearScorer(design.fold(model.coef_, model.intercept_), converged=True)
    twin = pipeline(X, categorical)
    for rows in (X, new, np.full_like(new, np.nan)):
        columns = twin.transform(unseen_as_missing(rows, X, categorical))
        np.testing.assert_allclose(
            scorer.posterior(rows), model.predict_proba(columns), atol=1e-12, rtol=0
        )


@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("C", [0.01, 1.0, 30.0])
def test_uncalibrated_it_is_the_pipeline_people_write(K, C):
    """Scaler, one-hot encoder and LogisticRegression fitted on their own agree, with another solver."""
    X, y, categorical = mixed(300, K, 1, missing=0.0)
    twin = make_pipeline(
        pipeline(X, categorical), LogisticRegression(C=C, tol=1e-9, max_iter=5000)
    ).fit(X, y)
    model = Logistic(
        C=C,
        numeric_transform="none",
        calibration="none",
        categorical_features=categorical,
    ).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), twin.predict_proba(X), atol=1e-5)
    assert model.converged_


def test_many_categories_stay_sparse():
    """A column of thousands of categories does not become thousands of dense columns."""
    codes = np.arange(3000, dtype=float)[:, None]
    columns = Design.fit(codes, np.ones(3000), [0]).matrix(codes)
    assert sparse.issparse(columns)
    assert columns.nnz == 3000


def test_small_probabilities_keep_their_digits():
    """Both columns of two classes are computed, not one as 1 minus the other."""
    design = Design.fit(np.array([[-1.0], [1.0]]), np.ones(2), [])
    scorer = LinearScorer(design.fold(np.array([[1.0]]), np.zeros(1)), converged=True)
    np.testing.assert_allclose(
        scorer.posterior(np.array([[100.0]]))[0, 0], np.exp(-100), rtol=1e-12
    )


def test_a_fit_that_runs_out_of_steps_says_so(monkeypatch):
    """No warning is lost: `converged_` is False."""
    monkeypatch.setattr(scikit, "MAX_STEPS", 2)
    X, y, categorical = mixed(200, 3, 3)
    assert not Logistic(C=1e3, categorical_features=categorical).fit(X, y).converged_


def rare_in_a_tail(seed, n=3000):
    """A positive feature far out in which 1 % of the rows are of class 1."""
    rng = np.random.default_rng(seed)
    X = np.exp(0.5 * rng.normal(size=(n, 4)))
    return X, (rng.random(n) < expit(12 * np.log(X[:, 0]) - 14)).astype(int)


def heavy_tailed(seed, n=3000):
    """Features with a few values far out that say nothing about the class, as incomes and claims have."""
    rng = np.random.default_rng(seed)
    Z = rng.normal(size=(n, 4))
    return Z * np.where(rng.random((n, 4)) < 0.01, 1000, 1), (
        rng.random(n) < expit(2 * Z[:, 0])
    ).astype(int)


def bent(seed, n=3000):
    """Features of which the logarithm counts."""
    rng = np.random.default_rng(seed)
    X = np.exp(1.5 * rng.normal(size=(n, 4)))
    return X, (rng.random(n) < expit(2 * np.log(X[:, 0]))).astype(int)


def chosen(X, y):
    return choose_transform(Logistic(), X, y, np.ones(len(X)), 1.0)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("rows", "shapes"),
    [(rare_in_a_tail, {"none"}), (heavy_tailed, {"clip", "power"}), (bent, {"power"})],
)
def test_auto_is_the_shape_that_the_rows_call_for(rows, shapes, seed):
    """No limit where rare cases are far out, a limit where a tail is noise, a bend where there is one."""
    assert chosen(*rows(seed)) in shapes


def test_labels_are_judged_together():
    """The shape is that of the labels' sum, whatever their order; a label that is the same in all rows has no say."""
    X, y = rare_in_a_tail(0)
    constant = np.zeros(len(y), dtype=int)
    assert (
        chosen(X, np.column_stack((constant, y)))
        == chosen(X, y[:, None])
        == chosen(X, y)
    )
    assert chosen(X, constant[:, None]) == "clip"
    single = np.eye(len(y), 1, dtype=int)  # a label of one row cannot be held out
    assert chosen(X, np.hstack((single, y[:, None]))) == "none"


def test_few_rows_are_limited():
    assert chosen(*(one[:199] for one in rare_in_a_tail(0))) == "clip"
