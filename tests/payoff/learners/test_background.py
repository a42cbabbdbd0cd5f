"""Rows that lack what no row in training lacked: who lends values to them, and the answers to them."""

import numpy as np
import pytest

from payoff.decisions.quantities import Distribution, Samples
from payoff.learners.background import DRAWS, Background
from payoff.learners.catalogue import KINDS
from tests.reference.learners import lenders
from tests.reference.tables import SMALL, mixed

AVERAGING = (
    "benefit_logistic",
    "budget_forest",
    "cost_tree",
    "gradient_boosting",
    "hierarchical_logistic",
    "kernel_logistic",
    "logistic",
    "random_forest",
)


def table(n=120, seed=0):
    """Rows without gaps but in column 2, their classes, and the columns of categories."""
    X, y, categorical = mixed(n, 3, seed, missing=0.0)
    X[::5, 2] = np.nan
    return X, y, categorical


def with_gaps(X, seed=1):
    """A copy in which two of five rows lack some values, and one row lacks all."""
    rng = np.random.default_rng(seed)
    rows = X.copy()
    rows[(rng.random(X.shape) < 0.4) & (np.arange(len(X)) % 5 < 2)[:, None]] = np.nan
    rows[0] = np.nan
    return rows


def background(X, categorical, weights=None):
    weights = np.ones(len(X)) if weights is None else weights
    return Background.of(X, weights, categorical, lambda rows: rows[:, -1])


def fitted(name, X, y, categorical, **options):
    small = {
        "trade_off" if key == "lambda" else key: value
        for key, value in SMALL.get(name, {}).items()
    }
    return KINDS[name](categorical_features=list(categorical), **(small | options)).fit(
        X, y
    )


def test_gaps_are_what_training_never_lacked_and_categories_that_it_did_not_have():
    X, _, categorical = table()
    model = background(X, categorical)
    rows = X[:5].copy()
    assert model.gaps(rows) is None
    assert model.gaps(np.empty((0, X.shape[1]))) is None
    rows[1, 2] = np.nan  # as some rows in training
    assert model.gaps(rows) is None
    rows[1, 1] = rows[2, categorical[0]] = np.nan
    rows[3, categorical[1]] = 17

    gaps = model.gaps(rows)

    assert np.argwhere(gaps.marks).tolist() == [
        [1, 1],
        [2, categorical[0]],
        [3, categorical[1]],
    ]


def test_a_category_between_others_that_training_did_not_have_is_a_gap():
    X = np.array([[0.0, 1.0], [2.0, 2.0], [2.0, 3.0]])
    model = background(X, [0])

    assert model.gaps(X) is None
    assert np.argwhere(
        model.gaps(np.array([[1.0, 1.0], [2.0, 1.0]])).marks
    ).tolist() == [[0, 0]]


@pytest.mark.parametrize(("n", "seed"), [(3, 0), (40, 1), (120, 2)])
def test_lenders_are_those_of_the_slow_twin(n, seed):
    X, _, categorical = table(n, seed)
    model = background(X, categorical)
    rows = with_gaps(table(30, seed + 10)[0], seed)
    gaps = model.gaps(rows).marks

    expected = [
        lenders(model.rows, model.complete, categorical, row, gap)
        for row, gap in zip(rows, gaps, strict=True)
    ]

    np.testing.assert_array_equal(model.lenders(rows, gaps), expected)


def test_large_weights_are_drawn_first_and_wide_tables_keep_fewer_rows():
    X = np.arange(2000.0).reshape(-1, 1)
    weights = np.where(X[:, 0] < 400, 1e200, 1e-200)

    assert set(range(400)) < set(background(X, [], weights).rows[:, 0])
    assert background(np.ones((600, 1000)), []).rows.shape == (200, 1000)


@pytest.mark.parametrize("name", AVERAGING)
def test_answers_are_averaged_where_a_row_has_gaps_and_no_other_answer_changes(name):
    X, y, categorical = table()
    model = fitted(name, X, y, categorical)
    rows = with_gaps(X)
    kept = model.gaps(rows).background
    gaps = model.gaps(rows).marks

    P = model.posterior(rows)

    for i in range(30):
        if gaps[i].any():
            chosen = lenders(kept.rows, kept.complete, categorical, rows[i], gaps[i])
            parts = np.where(gaps[i], kept.rows[chosen], rows[i])
            expected = model.complete_posterior(parts).mean(axis=0)
        else:
            expected = model.complete_posterior(rows[i : i + 1])[0]
        np.testing.assert_allclose(P[i], expected, atol=1e-12)
    np.testing.assert_array_equal(model.posterior(X), model.complete_posterior(X))


@pytest.mark.parametrize("name", [*AVERAGING, "cost_naive_bayes", "forest_chain"])
def test_without_the_feature_that_decides_all_the_answer_is_near_the_share(name):
    """The same for a category that training did not contain."""
    rng = np.random.default_rng(6)
    n = 300
    noise = rng.normal(size=n)
    temperature = rng.uniform(36, 41, n)
    ill = rng.random(n) < 1 / (1 + np.exp(-3 * (temperature - 38.5)))
    ward = rng.integers(0, 4, n)
    risky = rng.random(n) < np.where(ward == 0, 0.9, 0.1)

    for feature, truth, categorical, unknown in (
        (temperature, ill, [], np.nan),
        (ward, risky, [1], 9.0),
    ):
        model = fitted(name, np.column_stack((noise, feature)), truth, categorical)
        P = model.posterior(np.column_stack((noise, np.full(n, unknown))))

        assert abs(P[:, 1].mean() - truth.mean()) < 0.1
        assert (np.abs(P[:, 1] - truth.mean()) > 0.3).mean() < 0.1


@pytest.mark.parametrize("name", ["multilabel_forest", "multilabel_logistic"])
def test_several_labels_and_numbers_are_averaged_too(name):
    X, y, categorical = table()
    model = fitted(name, X, np.column_stack((y == 1, y == 2)).astype(int), categorical)
    rows = with_gaps(X)[:12]
    draws = [model.complete_posterior(draw) for draw in model.gaps(rows).draws()]

    np.testing.assert_allclose(
        model.posterior(rows), np.mean(draws, axis=0), atol=1e-12
    )


@pytest.mark.parametrize("name", ["random_forest", "gradient_boosting"])
def test_the_distribution_of_a_number_is_the_mixture_over_likely_values(name):
    X, y, categorical = table()
    number = X[:, 1] + y
    model = fitted(name, X, number, categorical, task="regression")
    rows = with_gaps(X)[:12]
    cuts = np.quantile(number, [0.2, 0.5, 0.8])
    draws = model.gaps(rows).draws()

    distribution = model.distribution(rows)

    parts = [model.model_.distribution(draw).shares(cuts) for draw in draws]
    np.testing.assert_allclose(
        distribution.shares(cuts), np.mean(parts, axis=0), atol=0.02
    )
    means = np.mean([model.complete_values(draw) for draw in draws], axis=0)
    np.testing.assert_allclose(model.values(rows), means)
    np.testing.assert_allclose(distribution.expected, means)


def test_mixtures_come_in_the_order_of_the_rows():
    X = np.arange(20.0).reshape(-1, 2)
    model = background(X, [])
    rows = X.copy()
    rows[[1, 2, 7], 0] = np.nan

    def distribution(part):
        return Distribution(part[:, 1], lambda: [Samples(part[:, 1:], np.ones((1, 1)))])

    mixtures = model.gaps(rows).mixtures(distribution)
    numbers = np.concatenate([samples.values[:, 0] for samples in mixtures])

    np.testing.assert_array_equal(numbers, rows[:, 1])


@pytest.mark.parametrize("name", ["random_forest", "gradient_boosting", "logistic"])
def test_contributions_of_rows_with_gaps_add_up_to_the_mean_score(name):
    X, y, categorical = table()
    model = fitted(name, X, y, categorical, calibration="none")
    rows = with_gaps(X)[:12]
    chosen = model.posterior(rows).argmax(axis=1)

    def score(draw):
        P = model.complete_posterior(draw)
        if name != "random_forest":
            P = np.log(P)
            P = P - P.mean(axis=1, keepdims=True)
        return P[np.arange(len(P)), chosen]

    scores = [score(draw) for draw in model.gaps(rows).draws()]
    attribution = model.contributions(rows, chosen)

    assert len(scores) == DRAWS
    total = attribution.base + attribution.values.sum(axis=1)
    np.testing.assert_allclose(total, np.mean(scores, axis=0), atol=1e-5)


def test_the_background_is_that_of_the_last_fit():
    X, y, categorical = table()
    model = fitted("logistic", X, y, categorical)
    X = X.copy()
    X[:7, 1] = np.nan

    model.refit(X, y)

    row = X[:1]
    np.testing.assert_array_equal(model.posterior(row), model.complete_posterior(row))
