"""The chain of forests as a learner: its order, its answers, and what it needs to learn."""

from dataclasses import replace

import numpy as np
import pytest

from payoff.acquisition.extra_trees import Rule
from payoff.acquisition.prices import Prices
from payoff.learners.forest_chain import ForestChain

SMALL = {"n_estimators": 4, "steps": 3}


def informative(n, seed=0):
    """Two classes; column 0 tells nothing, 1 a little, 2 much and 3 the same much."""
    random = np.random.default_rng(seed)
    y = random.integers(0, 2, n)
    X = random.normal(size=(n, 4)) + y[:, None] * np.array([0, 0.7, 2.5, 2.5])
    return X, y


def test_the_order_is_by_what_a_feature_tells_for_its_price():
    """With equal prices one of the best two is first; a price of fifty times as much puts it last or leaves it out."""
    X, y = informative(400)
    plain = ForestChain(n_estimators=10, random_state=0).fit(X, y)
    assert plain.order_[0] in (2, 3)
    assert sorted(plain.order_) == [0, 1, 2, 3]
    dear = ForestChain(
        n_estimators=10, random_state=0, feature_costs=[1, 1, 50, 50]
    ).fit(X, y)
    assert dear.order_[0] == 1
    assert 0 not in dear.order_


def test_a_chain_finds_sharp_thresholds():
    """Classes behind two sharp thresholds of skewed columns: its error is near that of the best splits, as it chooses
    more than one random threshold there; with a leaf size of one's own it still does.
    """
    random = np.random.default_rng(0)
    X = np.exp(2 * random.normal(size=(1600, 3)))
    y = np.where(X[:, 0] > 5, 1 + (X[:, 1] > 4), 0)
    for least in (None, 1):
        model = ForestChain(
            n_estimators=15, random_state=0, min_samples_leaf=least
        ).fit(X[:800], y[:800])
        assert model.order_[:2] == [0, 1]
        assert (model.predict(X[800:]) != y[800:]).mean() < 0.02
        assert max(rule.tries for rule in model.rules_) > 1
        assert least in (None, *(rule.least for rule in model.rules_))


def test_a_rule_changes_only_for_what_is_no_chance():
    """Where classes are random every forest keeps the usual rule."""
    random = np.random.default_rng(0)
    model = ForestChain(n_estimators=4, random_state=0).fit(
        random.normal(size=(600, 2)), random.integers(0, 2, 600)
    )
    assert set(model.rules_) == {Rule(5, 1)}


def test_a_discount_brings_the_rest_of_a_group_forward():
    """Once the first of the two good features is paid for, the other costs nothing and comes before a third."""
    X, y = informative(400)
    cost, group = np.array([5.0, 5.0, 9.0, 9.0]), np.array([-1, -1, 0, 0], np.int32)
    prices = Prices(cost, np.array([5.0, 5.0, 0.0, 0.0]), group, ("blood",))
    order = (
        ForestChain(n_estimators=10, least=0.0, random_state=0, feature_costs=prices)
        .fit(X, y)
        .order_
    )
    assert abs(order.index(2) - order.index(3)) == 1


def test_refit_keeps_order_calibration_and_experience():
    """Only the forests are grown again, from all rows."""
    X, y = informative(300)
    model = ForestChain(**SMALL, random_state=0).fit(X[:200], y[:200])
    order, experience, before = list(model.order_), model.experience_, model.model_
    model.refit(X, y)
    assert (model.order_, model.experience_) == (order, experience)
    assert model.model_.blends is before.blends
    assert model.model_.reduced.loss is before.reduced.loss
    assert len(model.model_.reduced.forests.right) > len(before.reduced.forests.right)
    assert (model.posterior(X) != before.posterior(X)).any()


def test_a_lost_feature_costs_little_more_than_a_chain_without_it():
    """The best of five noisy measurements cannot be had: the loss on new rows is near that of a chain trained on the
    other four, and clearly below that of the masked forest and of the prior; complete cases are better than both.
    """

    def measured(n, seed):
        random = np.random.default_rng(seed)
        z = random.normal(size=n)
        return z[:, None] + random.normal(size=(n, 5)) * [
            0.1,
            0.6,
            0.6,
            0.6,
            0.6,
        ], np.digitize(z, [-0.7, 0, 0.7])

    X, y = measured(600, 0)
    new, truth = measured(2000, 1)
    model = ForestChain(n_estimators=12, random_state=0).fit(X, y).model_
    without = ForestChain(n_estimators=12, random_state=0).fit(X[:, 1:], y)
    assert model.order[0] == 0
    lost = np.where(np.arange(5) == 0, np.nan, new)
    masked = replace(model, reduced=None)
    answers = (
        model.posterior(new),
        without.posterior(new[:, 1:]),
        model.posterior(lost),
        masked.posterior(lost),
    )
    best, near, loss, before = (
        -np.log(P[np.arange(2000), truth]).mean() for P in answers
    )
    assert best < near < 1.2 * near < before
    assert loss < 1.2 * near
    assert loss < 0.9 * before
    assert loss < 0.6 * -np.log(model.forests.prior[truth]).mean()


@pytest.mark.parametrize(
    "y", [[0, 1, 0, 1], [0, 0, 0, 0, 1], [0, 1], [0, 1, 2, 0, 1, 2, 3]]
)
def test_a_few_rows_are_enough(y):
    """It answers, and has experience where every class can be held out."""
    X = np.arange(len(y) * 2.0).reshape(-1, 2)
    model = ForestChain(random_state=0).fit(X, y)
    assert model.posterior(X).shape == (len(y), len(set(y)))
    assert (model.experience_ is None) == (min(np.bincount(y)) < 2)


def test_the_card_has_the_order_with_prices():
    """With the discount of a group that is open."""
    X, y = informative(200)
    prices = Prices(
        np.array([1.0, 2, 3, 3]),
        np.array([1.0, 2, 1, 1]),
        np.array([-1, -1, 0, 0], np.int32),
        ("blood",),
    )
    model = ForestChain(
        n_estimators=4, least=0.0, random_state=0, feature_costs=prices
    ).fit(X, y)
    steps = model.findings("abcd")["chain"]
    assert [step["asks"] for step in steps] == ["abcd"[j] for j in model.order_]
    assert [step["price"] for step in steps] == prices.paid(model.order_)
    assert steps[-1]["spent"] == sum(prices.paid(model.order_))


def test_a_free_feature_is_asked_for_first_however_many_are_more_important():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, 400)
    noise = np.append(np.full(25, 1.5), 2.5)
    X = y[:, None] + random.normal(size=(400, 26)) * noise
    prices = np.append(np.full(25, 2.0), 0.0)
    prices[0] = 3.0

    model = ForestChain(
        n_estimators=3, steps=2, feature_costs=prices, random_state=0
    ).fit(X, y)

    assert model.order_[0] == 25
