"""The folded model gives what scikit-learn's own pipeline gives, for every kind of row."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from app.errors import Invalid
from app.learners.design import Design
from app.learners.linear import LinearScorer
from app.learners.scikit import fit_linear
from tests.reference.tables import mixed

SHAPES = [(4, (3, 5)), (4, ()), (0, (3, 5)), (1, (2,)), (3, (40, 2))]


def pipeline(X, categorical):
    """The same columns by scikit-learn's transformers, fitted on X."""
    numeric = [j for j in range(X.shape[1]) if j not in categorical]
    steps = [
        ("numbers", make_pipeline(SimpleImputer(keep_empty_features=True), StandardScaler()), numeric),
        ("missing", MissingIndicator(features="missing-only", error_on_new=False), numeric),
        ("categories", OneHotEncoder(handle_unknown="ignore"), list(categorical)),
    ]
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0).fit(X)


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
    new, _, _ = mixed(120, K, 4, numbers=numbers, words=tuple(count + 2 for count in words), missing=0.3)
    design = Design.fit(X, np.ones(250), categorical)
    model, _ = fit_linear(design.matrix(X), y, np.ones(250), 1.0)
    scorer = LinearScorer(design.fold(model.coef_, model.intercept_), converged=True)
    twin = pipeline(X, categorical)
    for rows in (X, new, np.full_like(new, np.nan)):
        expected = model.predict_proba(twin.transform(unseen_as_missing(rows, X, categorical)))
        np.testing.assert_allclose(scorer.posterior(rows), expected, atol=1e-12, rtol=0)
        one_by_one = np.concatenate([scorer.posterior(rows[i : i + 1]) for i in range(len(rows))])
        np.testing.assert_allclose(one_by_one, expected, atol=1e-12, rtol=0)


def test_many_categories_stay_sparse():
    """A column of thousands of categories does not become thousands of dense columns."""
    codes = np.arange(3000, dtype=float)[:, None]
    columns = Design.fit(codes, np.ones(3000), [0]).matrix(codes)
    assert sparse.issparse(columns)
    assert columns.nnz == 3000


def test_numbers_beyond_measure_are_refused_in_training():
    """Squares that would overflow are refused with the column."""
    X = np.array([[0.0, 1.0], [1.0, 1e101]])
    with pytest.raises(Invalid, match="numbers must be at most") as error:
        Design.fit(X, np.ones(2), [])
    assert error.value.flaws[0].loc == "/columns/1"


@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("row", [[1e308, -1e308], [-1e308, np.nan], [1e200, 1.0], [0.0, 0.0]])
def test_no_row_overflows(K, row):
    """Rows of any finite numbers give probabilities that sum to 1."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 2))
    y = np.digitize(X[:, 0], [0.0, 0.7][: K - 1])
    design = Design.fit(X, np.ones(90), [])
    model, _ = fit_linear(design.matrix(X), y, np.ones(90), 1e4)
    scorer = LinearScorer(design.fold(model.coef_, model.intercept_), converged=True)
    P = scorer.posterior(np.array([row]))
    np.testing.assert_allclose(P.sum(axis=1), 1, rtol=1e-14)


def test_small_probabilities_keep_their_digits():
    """Both columns of two classes are computed, not one as 1 minus the other."""
    design = Design.fit(np.array([[-1.0], [1.0]]), np.ones(2), [])
    scorer = LinearScorer(design.fold(np.array([[1.0]]), np.zeros(1)), converged=True)
    np.testing.assert_allclose(scorer.posterior(np.array([[100.0]]))[0, 0], np.exp(-100), rtol=1e-12)
