"""scikit-learn's random forest as a learner of classes, labels and numbers, and what its leaves keep of the rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from payoff.acquisition.prices import Prices
from payoff.learners import members, multilabel, quantile_forest
from payoff.learners.multilabel import MultilabelForest, Neighbours
from payoff.learners.random_forest import FreeForest, RandomForest
from tests.reference.decisions import band_shares
from tests.reference.forests import near_numbers
from tests.reference.tables import drawn, mixed


@pytest.mark.parametrize("labels", [None, 1, 3])
@pytest.mark.parametrize(
    ("trees", "most"), [(1, "sqrt"), (16, 0.5), (16, 2), (16, "log2"), (37, None)]
)
def test_it_is_scikit_learns_forest(trees, most, labels):
    """Without calibration and categories: the probabilities of that forest, of classes or labels, grown in one go."""
    given = {
        "n_estimators": trees,
        "max_features": most,
        "min_samples_leaf": 2,
        "random_state": 3,
    }
    if labels is None:
        X, y, _ = mixed(200, 3, 0, words=())
        new, _, _ = mixed(100, 3, 1, words=())
        model, theirs = (
            RandomForest(calibration="none", **given),
            RandomForestClassifier(**given),
        )
        expected = theirs.fit(X, y).predict_proba(new)
    else:
        (X, y), new = drawn(200), drawn(100, 1)[0][:, :3]
        X, y = X[:, :3], y[:, :labels]
        model = MultilabelForest(calibration="none", **given)
        theirs = (
            RandomForestClassifier(**given)
            .fit(X, y if labels > 1 else y[:, 0])
            .predict_proba(new)
        )
        expected = np.column_stack(
            [p[:, 1] for p in (theirs if labels > 1 else [theirs])]
        ).clip(1e-15, 1 - 1e-15)
    np.testing.assert_allclose(model.fit(X, y).predict_proba(new), expected, atol=1e-6)


@given(values=st.lists(st.floats(-1e30, 1e30), min_size=2, max_size=30, unique=True))
@settings(deadline=None, max_examples=30)
def test_values_rounded_to_float32_are_split_where_scikit_learn_splits_them(values):
    """No float64 goes another way than its rounded self, however near two training values or a threshold are."""
    X = np.array(values)[:, None]
    y = np.arange(len(values)) % 2
    theirs = RandomForestClassifier(3, random_state=0).fit(X, y)
    model = RandomForest(
        n_estimators=3, min_samples_leaf=1, calibration="none", random_state=0
    ).fit(X, y)
    cuts = [
        tree.tree_.threshold[tree.tree_.feature == 0] for tree in theirs.estimators_
    ]
    at = np.concatenate([X[:, 0], *cuts])[:, None]
    near = np.concatenate(
        [at, np.nextafter(at, np.inf), np.nextafter(at, -np.inf), at * (1 + 1e-9)]
    )
    np.testing.assert_allclose(
        model.predict_proba(near), theirs.predict_proba(near), rtol=0, atol=1e-6
    )


def noisy_steps(n, noise):
    """Two classes that change at 0 of one of four columns, some of them wrong."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    return X, ((X[:, 0] > 0) ^ (rng.random(n) < noise)).astype(int)


def checkers(n):
    """Three classes without noise, in small squares."""
    X = np.random.default_rng(0).uniform(0, 4, size=(n, 2))
    return X, np.floor(X).sum(axis=1).astype(int) % 3


@pytest.mark.parametrize(
    ("rows", "leaf"), [(noisy_steps(400, 0.3), 5), (checkers(400), 1)]
)
def test_leaves_are_as_large_as_noise_asks(rows, leaf):
    """A forest of leaves of one row repeats the noise; large ones miss the squares."""
    model = RandomForest(random_state=0).fit(*rows)
    assert model.min_samples_leaf_ == leaf


@pytest.mark.parametrize(("noise", "leaf"), [(3.0, 10), (0.01, 1)])
def test_leaves_of_numbers_are_those_whose_quantiles_cost_least(noise, leaf):
    """On rows out of bag; the forest is that of the leaf chosen, and a refit keeps it."""
    X = np.random.default_rng(0).normal(size=(300, 4))
    y = X[:, 0] + noise * np.random.default_rng(1).normal(size=300)
    model = RandomForest(task="regression", n_estimators=30, random_state=0).fit(X, y)
    sizes = (1, 3, 10)
    given = [clone(model).set_params(min_samples_leaf=size).fit(X, y) for size in sizes]
    assert (
        model.min_samples_leaf_
        == leaf
        == sizes[np.argmin([one.model_.cost for one in given])]
    )
    np.testing.assert_array_equal(model.predict(X), given[sizes.index(leaf)].predict(X))
    assert model.refit(X[:200], y[:200]).min_samples_leaf_ == leaf


def test_label_vectors_are_those_of_the_rows_in_the_same_leaves(monkeypatch):
    """By scikit-learn's own leaves, after a refit as well; in as many trees as there is room for."""
    X, Y = drawn(200)
    X, new = X[:, :3], drawn(20, 1)[0][:, :3]
    model = (
        MultilabelForest(n_estimators=7, calibration="none", random_state=3)
        .fit(X[:100], Y[:100])
        .refit(X, Y)
    )
    theirs = RandomForestClassifier(7, min_samples_leaf=2, random_state=3).fit(X, Y)
    weights = np.ones(200)
    monkeypatch.setattr(multilabel, "MAX_ROWS_IN_LEAVES", 200 * 4 + 1)
    few = Neighbours.of(model.model_, X, Y, weights)

    assert (model.neighbours_.trees, few.trees) == (7, 4)
    for found, trees in (
        (model.label_vectors(new), 7),
        (few.find(model.model_, new), 4),
    ):
        own, leaves = theirs.apply(X)[:, :trees], theirs.apply(new)[:, :trees]
        for (vectors, shares, cut), leaf in zip(found, leaves, strict=True):
            beside = own == leaf
            near = (beside / beside.sum(axis=0)).mean(axis=1)
            expected = [near[(vector == Y).all(axis=1)].sum() for vector in vectors]
            assert shares == pytest.approx(expected, abs=1e-6)
            assert shares.sum() == pytest.approx(1, abs=1e-12)
            assert cut == pytest.approx(0, abs=1e-6)
    assert (
        model.label_vector_work(new[:1])
        == (theirs.apply(X) == theirs.apply(new[:1])).sum()
    )
    whole = list(model.label_vectors(new))
    monkeypatch.setattr(multilabel, "MAX_VECTORS", 2)
    for (_, shares, _), (vectors, kept, cut) in zip(
        whole, model.label_vectors(new), strict=True
    ):
        heaviest = np.sort(shares)[-2:]
        assert len(vectors) == len(heaviest)
        assert np.sort(kept) == pytest.approx(heaviest / heaviest.sum(), abs=1e-12)
        assert cut == pytest.approx(1 - heaviest.sum(), abs=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_numbers_have_the_distribution_of_the_leaves_corrected_out_of_bag(
    weighted, monkeypatch
):
    """By scikit-learn's own leaves, one row after the other; whatever rows are in memory together."""
    X, classes, _ = mixed(90, 3, 0, words=())
    new, y = mixed(12, 3, 1, words=())[0], np.round(np.nan_to_num(X[:, 0]) + classes, 1)
    weights = np.random.default_rng(1).uniform(0.5, 2, 90) if weighted else np.ones(90)
    given = {"n_estimators": 9, "min_samples_leaf": 2, "random_state": 3}
    theirs = RandomForestRegressor(**given).fit(X, y, weights if weighted else None)
    own, bags = theirs.apply(X), np.zeros((90, 9), dtype=bool)
    for t, drawn_rows in enumerate(theirs.estimators_samples_):
        bags[drawn_rows, t] = True
    kind, cuts = RandomForest(task="regression", **given), np.unique(y)
    plain, model = (
        clone(kind).set_params(calibration="none").fit(X, y, weights),
        kind.fit(X, y, weights),
    )
    monkeypatch.setattr(members, "CELLS", 300)

    near = [near_numbers(own, y, weights, leaves) for leaves in theirs.apply(new)]
    means = [
        sum(y * weight for y, weight in samples) / sum(weight for _, weight in samples)
        for samples in near
    ]
    np.testing.assert_allclose(model.predict(new), means, rtol=1e-12)
    shares = [band_shares(samples, cuts) for samples in near]
    np.testing.assert_allclose(plain.distribution(new).shares(cuts), shares, atol=1e-12)

    unseen, rows = np.where(bags, -1, own), np.flatnonzero(~bags.all(axis=1))
    line, less = np.arange(401) / 400, np.zeros(401)
    for i in rows:
        low, tied, _ = band_shares(
            near_numbers(own, y, weights, unseen[i], without=i),
            [y[i], np.nextafter(y[i], 99)],
        )
        passed = np.clip((line - low) / tied, 0, 1) if tied else low + 1e-12 < line
        less += weights[i] / weights[rows].mean() * passed
    curve = (less + 20 * line) / (len(rows) + 20)
    curve[-1] = 1
    if weighted:  # else shares are fractions of few numbers, which rounding takes to either side of the line
        np.testing.assert_allclose(model.model_.curve, curve, atol=1e-12)
    reached = np.interp(np.cumsum(shares, axis=1), line, model.model_.curve)
    np.testing.assert_allclose(
        np.cumsum(model.distribution(new).shares(cuts), axis=1), reached, atol=1e-9
    )


def test_as_many_trees_keep_their_rows_as_there_is_room_for(monkeypatch):
    """At least one; the mean is that of these."""
    X, y = noisy_steps(100, 0.3)
    monkeypatch.setattr(quantile_forest, "_MAX_MEMBERS", 399)
    model = RandomForest(
        task="regression", n_estimators=7, calibration="none", random_state=0
    ).fit(X, y)
    assert model.model_.forest.n_trees == 3
    np.testing.assert_allclose(
        model.distribution(X).shares([1.0])[:, 1], model.predict(X), atol=1e-12
    )


@pytest.mark.parametrize("free", [True, False])
def test_a_forest_of_free_features_asks_for_no_other(free):
    """Without a free feature it answers with the class shares, whatever a case has."""
    random = np.random.default_rng(0)
    y = np.arange(120) % 3 // 2
    X = np.column_stack((y + random.normal(size=120), y))
    prices = Prices.of([0.0 if free else 1.0, 5.0])
    model = FreeForest(n_estimators=40, feature_costs=prices, random_state=0).fit(X, y)
    model.learn_stops(X, y, prices)
    model.refit(X, y)

    assert model.model_.columns.tolist() == ([0] if free else [])
    P = model.posterior(X)
    if free:
        assert P[y == 1, 1].mean() > P[y == 0, 1].mean() + 0.2
    else:
        np.testing.assert_allclose(P, np.tile([2 / 3, 1 / 3], (120, 1)), atol=0.02)


def test_by_default_300_trees_answer_and_100_calibrate():
    """The folds' forests are smaller, so that a fit takes no longer than with 100 trees for all."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = (X[:, 0] + rng.normal(size=80) > 0).astype(int)
    model = RandomForest(min_samples_leaf=2, random_state=0).fit(X, y)
    small = RandomForest(n_estimators=100, min_samples_leaf=2, random_state=0).fit(X, y)

    assert model.model_.n_trees == 300
    assert vars(model.calibrator_) == vars(small.calibrator_)
    np.testing.assert_array_equal(
        model.model_.first(100).posterior(X), small.model_.posterior(X)
    )
    numbers = RandomForest(task="regression", min_samples_leaf=5, random_state=0)
    assert numbers.fit(X, X[:, 0]).model_.forest.n_trees == 100
