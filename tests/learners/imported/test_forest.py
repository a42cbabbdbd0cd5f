"""Imported forests as flat trees: the same leaves, whatever preprocessing of single columns came before."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)

from app.features import Feature, Schema
from app.learners.imported.forest import NotFoldable, folded
from app.learners.imported.sklearn_model import scorer

N = 200
RNG = np.random.default_rng(0)
WORDS = ("a", "b", "c", "d", "e")
SCHEMA = Schema([Feature("age", "numeric"), Feature("word", "categorical", WORDS), Feature("pulse", "numeric")])
NUMBERS = Schema([Feature("age", "numeric"), Feature("pulse", "numeric"), Feature("pain", "numeric")])
CLASSES = ("dead", "healthy", "ill")

Z = np.column_stack((RNG.normal(50, 10, N), RNG.normal(70, 9, N), RNG.integers(0, 9, N)))
codes = RNG.integers(0, 5, N).astype(float)
y = np.array(CLASSES)[np.digitize(Z[:, 0] - 50 + 9 * np.isin(codes, (1, 3)) + RNG.normal(0, 6, N), (-5, 8))]
X = np.column_stack((Z[:, 0], codes, Z[:, 1]))
ROWS = np.array([[a, WORDS[int(c)], p] for a, c, p in X], dtype=object)


def grown(*steps: object, rows: np.ndarray = Z) -> object:
    forest = RandomForestClassifier(8, random_state=0)
    return (make_pipeline(*steps, forest) if steps else forest).fit(rows, y)


def with_gaps(X: np.ndarray) -> np.ndarray:
    gaps = X.copy()
    gaps[RNG.random(X.shape) < 0.2] = np.nan
    return gaps


NUMERIC = {
    "none": grown,
    "standard": lambda: grown(StandardScaler()),
    "several": lambda: grown(MinMaxScaler(), RobustScaler(), MaxAbsScaler(), FunctionTransformer()),
    "imputed": lambda: grown(SimpleImputer(), StandardScaler()),
    "by column": lambda: grown(
        make_column_transformer((StandardScaler(), [2, 0]), (MinMaxScaler(clip=True), [1])), "passthrough"
    ),
    "dropped": lambda: grown(make_column_transformer((StandardScaler(), [2]), remainder="passthrough", verbose=True)),
}


def near_thresholds(model: object) -> np.ndarray:
    """Rows beside the splits of the first trees, a rounding error apart."""
    steps = model[:-1] if hasattr(model, "steps") else None
    trees = (model[-1] if steps is not None else model).estimators_[:3]
    rows = []
    for tree in trees:
        inner = tree.tree_.feature >= 0
        for column, threshold in zip(tree.tree_.feature[inner], tree.tree_.threshold[inner], strict=True):
            for row in Z[:3]:
                spread = np.repeat(row[None], 20, axis=0)
                place = column if steps is None else None
                if place is not None:
                    spread[:, place] = threshold + np.linspace(-1e-5, 1e-5, 20)
                    rows.append(spread)
    return np.concatenate(rows) if rows else np.repeat(Z, 3, axis=0) + np.repeat([[1e-9], [0.0], [-1e-9]], N, axis=0)


@pytest.mark.parametrize("name", NUMERIC)
def test_numbers_are_split_where_the_model_splits_them(name):
    """The same vote of every tree: on the rows, beside them, beside splits, and on rows of any size."""
    model = NUMERIC[name]()
    found = scorer(model, NUMBERS, CLASSES)
    rows = np.concatenate((Z, near_thresholds(model), RNG.normal(0, 1e6, (200, 3)), Z + RNG.normal(0, 5, Z.shape)))

    forest = folded(found, NUMBERS, Z[:1])

    np.testing.assert_allclose(forest.posterior(rows), found.posterior(rows), rtol=0, atol=1e-7)
    P = forest.posterior(Z[:5])
    parts = forest.contributions(Z[:5], P.argmax(axis=1))
    np.testing.assert_allclose(parts.values.sum(axis=1) + parts.base, P.max(axis=1), rtol=0, atol=1e-9)


def test_a_bound_is_the_largest_number_that_goes_left():
    """At every bound and at the next number the model decides as the trees do."""
    model = grown(StandardScaler(), MinMaxScaler((3, 11)))
    found = scorer(model, NUMBERS, CLASSES)
    forest = folded(found, NUMBERS, Z[:1])
    inner = np.flatnonzero(forest.nodes.feature == 1)[:300]
    rows = np.repeat(Z[:1], 2 * len(inner), axis=0)
    bounds = forest.nodes.threshold[inner]
    rows[:, 1] = np.concatenate((bounds, np.nextafter(bounds, np.inf)))

    np.testing.assert_allclose(forest.posterior(rows), found.posterior(rows), rtol=0, atol=1e-7)
    half = len(inner)
    assert (np.abs(forest.leaves(rows[:half]) - forest.leaves(rows[half:])).max(axis=1) > 0).any()


def test_imputed_numbers_go_where_the_mean_goes():
    model = grown(SimpleImputer(strategy="median"), StandardScaler(), rows=with_gaps(Z))
    found = scorer(model, NUMBERS, CLASSES)
    rows = with_gaps(Z)

    np.testing.assert_allclose(folded(found, NUMBERS, Z[:1]).posterior(rows), found.posterior(rows), rtol=0, atol=1e-7)


def test_missing_numbers_go_where_the_forest_sends_them():
    rows = with_gaps(Z)
    found = scorer(grown(StandardScaler(), rows=rows), NUMBERS, CLASSES)

    np.testing.assert_allclose(folded(found, NUMBERS, Z[:1]).posterior(rows), found.posterior(rows), rtol=0, atol=1e-7)


ENCODED = {
    "one-hot": OneHotEncoder(),
    "one-hot without the first": OneHotEncoder(drop="first", sparse_output=False),
    "ordinal": OrdinalEncoder(),
    "ordinal in another order": OrdinalEncoder(categories=[["c", "e", "a", "d", "b"]]),
    "scaled afterwards": make_pipeline(OneHotEncoder(sparse_output=False), StandardScaler()),
}


@pytest.mark.parametrize("name", ENCODED)
@pytest.mark.thorough
def test_categories_are_split_as_their_columns_are(name):
    model = grown(make_column_transformer((ENCODED[name], [1]), (StandardScaler(), [2, 0])), rows=ROWS)
    found = scorer(model, SCHEMA, ("ill", "dead", "healthy"))
    rows = np.array([[a, code, p] for a, _, p in X[:80] for code in range(5)])

    forest = folded(found, SCHEMA, X[:1])

    np.testing.assert_allclose(forest.posterior(rows), found.posterior(rows), rtol=0, atol=1e-7)
    assert forest.columns.tolist() == [0, 1, 2]
    shared = len(forest.nodes.feature) > sum(tree.tree_.node_count for tree in model[-1].estimators_)
    assert (forest.contributions(rows, np.zeros(len(rows), dtype=np.intp)) is None) == shared


@pytest.mark.parametrize(
    ("model", "named"),
    [
        (lambda: grown(PCA(2)), "PCA"),
        (lambda: grown(FunctionTransformer(np.square)), "FunctionTransformer"),
        (lambda: grown(make_column_transformer((OneHotEncoder(), [2]), remainder="passthrough")), "OneHotEncoder"),
        (lambda: LogisticRegression(max_iter=1000).fit(Z, y), "LogisticRegression"),
    ],
)
def test_what_cannot_be_folded_is_named(model, named):
    with pytest.raises(NotFoldable, match=named):
        folded(scorer(model(), NUMBERS, CLASSES), NUMBERS, Z[:1])
