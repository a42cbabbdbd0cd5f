"""Learning from rewards: the parts as defined, the guard, what is refused, what is learned."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from payoff.errors import Invalid
from payoff.learners.compiled.forests import grow_forests
from payoff.learners.random_forest import RandomForest
from payoff.learners.rewards import levels, stack
from payoff.learners.rewards.estimator import Rewards
from payoff.learners.rewards.log import RewardLog, with_taken
from payoff.learners.rewards.model import Constant, RewardModel
from payoff.learners.rows import ALL, FoldedRows
from tests.messages import says
from tests.reference import rewards as twin

ACTIONS = np.array(["call", "mail", "wait"])


def rewards_of(n, seed=0):
    """Rows with a category and gaps, drawn actions and their rewards, the rewards of all actions."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 3))
    X[:, 2] = random.integers(3, size=n)
    every = np.stack([X[:, 0], X[:, 2] - 1.0, np.zeros(n)], axis=1)
    X[random.random(n) < 0.05, 1] = np.nan
    codes = random.integers(3, size=n)
    rewards = every[np.arange(n), codes] + 0.3 * random.normal(size=n)
    return X, codes, rewards, every


def log_of(n, seed):
    """A log with drawn weights and chances."""
    X, codes, rewards, _ = rewards_of(n, seed)
    random = np.random.default_rng(seed)
    codes[:12] = np.arange(12) % 3
    chances = random.dirichlet(np.ones(3), n)
    fold = random.permutation(n) % 4
    weights = random.uniform(0.5, 2, n)
    return RewardLog(X, codes, rewards, weights, fold, chances, [2], 0)


@pytest.fixture(scope="module")
def fitted():
    X, codes, rewards, _ = rewards_of(300)
    return Rewards(categorical_features=[2], random_state=0).fit(
        X, rewards, actions=ACTIONS[codes], propensities=np.full(300, 1 / 3)
    )


@given(seed=st.integers(0, 2**31), n=st.integers(15, 40))
def test_doubly_robust_as_defined(seed, n):
    log = log_of(n, seed)
    level = np.random.default_rng(seed).normal(size=(n, 3))
    expected = twin.doubly_robust(log.actions, log.rewards, log.chances, level)
    np.testing.assert_allclose(stack.doubly_robust(log, level), expected)


@given(seed=st.integers(0, 2**31), k=st.integers(1, 4))
def test_weights_are_the_best_of_those_above_zero(seed, k):
    random = np.random.default_rng(seed)
    columns, numbers = random.normal(size=(20, k)), random.normal(size=20)
    weights = random.uniform(0.1, 3, 20)
    np.testing.assert_allclose(
        stack.non_negative(columns, numbers, weights),
        twin.non_negative(columns, numbers, weights),
        atol=1e-9,
    )


@given(seed=st.integers(0, 2**31))
def test_answers_as_defined(seed):
    random = np.random.default_rng(seed)
    parts = tuple(Constant(random.normal(size=3)) for _ in range(6))
    levels_of = np.append(random.uniform(0, 1, 3), np.zeros(3))
    contrasts = random.uniform(0, 1, 6) * (random.random(6) < 0.5)
    model = RewardModel(parts, 0.7, levels_of, contrasts, random.dirichlet(np.ones(3)))
    x = np.zeros((1, 1))
    np.testing.assert_allclose(model.expected(x)[0], twin.expected(model, x))
    # The mean by the log's shares is that of the level.
    level = 0.7 + sum(
        w * (part.numbers - 0.7) for w, part in zip(levels_of, parts, strict=True)
    )
    assert model.expected(x)[0] @ model.shares == pytest.approx(level @ model.shares)


@settings(max_examples=3)
@given(seed=st.integers(0, 2**31), n=st.integers(20, 40))
def test_forest_answers_rows_by_trees_without_them(seed, n):
    log = log_of(n, seed)
    rows = np.ones(n, dtype=bool)
    numbers = np.random.default_rng(seed).normal(size=(n, 2))
    forest, unseen = levels.mean_forest(log, rows, numbers, 3)
    assert forest.means.shape[1] == 2
    # The bags are those of the trees: they are drawn by the seed.
    like = RandomForest(
        task="regression",
        n_estimators=50,
        max_features=1,
        categorical_features=[2],
        random_state=0,
    )
    like.n_features_in_ = 3
    training = FoldedRows.in_no_fold(log.X, numbers, log.weights)
    ((_, flat, bags),) = grow_forests(like, training, [ALL], 3)
    np.testing.assert_allclose(
        unseen, twin.out_of_bag(flat, bags, log.X, numbers, log.weights)
    )


@given(seed=st.integers(0, 2**31))
def test_guard_takes_the_constant_contrast_where_nothing_gains(seed):
    log = log_of(30, seed)
    random = np.random.default_rng(seed)
    answers = random.normal(size=(6, 30, 3))
    answers[3] = [0.1, 0.3, 0.2]
    robust = np.zeros((30, 3))
    robust[:, 1] = 1.0  # one action is best for all
    weights = stack.contrast_weights(log, answers, random.normal(size=30), robust)
    assert weights.tolist() == [0, 0, 0, 1, 0, 0]


def test_stated_chances_stay_and_the_rest_is_shared():
    P = with_taken(
        np.array([[0.2, 0.2, 0.6], [0.5, 0.25, 0.25]]),
        np.array([0, 1]),
        np.array([0.6, 1.0]),
    )
    np.testing.assert_allclose(P, [[0.6, 0.1, 0.3], [0.0, 1.0, 0.0]])


def test_learns_who_gets_what(fitted):
    X, _, _, every = rewards_of(1000, seed=1)
    chosen = fitted.posterior(X).argmax(axis=1)
    value = every[np.arange(1000), chosen].mean()
    single = every.mean(axis=0).max()
    assert fitted.classes_.tolist() == ["call", "mail", "wait"]
    assert value - single > 0.85 * (every.max(axis=1).mean() - single)
    assert set(fitted.predict(X)) <= set(ACTIONS)


def test_uplift_is_over_the_baseline(fitted):
    X, _, _, every = rewards_of(500, seed=2)
    uplift = fitted.uplift(X, "wait")
    np.testing.assert_array_equal(uplift[:, 2], np.zeros(500))
    gaps = fitted.posterior(X)[:, 0] - fitted.posterior(X)[:, 2]
    np.testing.assert_array_equal(uplift[:, 0], gaps)
    assert np.corrcoef(uplift[:, 0], every[:, 0])[0, 1] > 0.95
    with pytest.raises(Invalid) as error:
        fitted.uplift(X, "none")
    assert error.value.flaws == (says("/baseline", "none", "wait"),)


@pytest.mark.parametrize("stated", ["none", "taken", "all"])
def test_all_kinds_of_chances(stated):
    X, codes, rewards, every = rewards_of(200)
    propensities = {
        "none": None,
        "taken": np.full(200, 1 / 3),
        "all": np.full((200, 3), 1 / 3),
    }[stated]
    model = Rewards(categorical_features=[2], random_state=0).fit(
        X, rewards, actions=ACTIONS[codes], propensities=propensities
    )
    assert model.estimated_ == (stated == "none")
    chosen = model.posterior(X).argmax(axis=1)
    assert every[np.arange(200), chosen].mean() > every.mean(axis=0).max()


def test_same_seed_same_model(fitted):
    X, codes, rewards, _ = rewards_of(300)
    again = Rewards(categorical_features=[2], random_state=0).fit(
        X, rewards, actions=ACTIONS[codes], propensities=np.full(300, 1 / 3)
    )
    np.testing.assert_array_equal(again.posterior(X), fitted.posterior(X))


def test_rows_of_weight_zero_do_not_count(fitted):
    X, codes, rewards, _ = rewards_of(300)
    weights = np.r_[np.ones(300), np.zeros(40)]
    rows = np.r_[np.arange(300), np.arange(40)]
    again = Rewards(categorical_features=[2], random_state=0).fit(
        X[rows],
        np.r_[rewards, np.full(40, 1e6)],
        weights,
        actions=ACTIONS[codes][rows],
        propensities=np.full(340, 1 / 3),
    )
    np.testing.assert_array_equal(again.posterior(X), fitted.posterior(X))


def test_one_action_for_all_where_rewards_are_noise():
    random = np.random.default_rng(4)
    X, codes = random.normal(size=(200, 3)), random.integers(3, size=200)
    model = Rewards(random_state=0).fit(
        X,
        np.where(codes == 1, 5.0, 0.0) + random.normal(size=200),
        actions=ACTIONS[codes],
    )
    assert set(model.predict(X)) == {"mail"}


def test_rare_actions_are_left_out():
    X, codes, rewards, _ = rewards_of(200)
    names = ACTIONS[codes].astype(object)
    names[:9] = "rare"
    chances = np.tile([0.3, 0.3, 0.1, 0.3], (200, 1))
    for propensities in (None, np.full(200, 0.3), chances):
        model = Rewards(random_state=0).fit(
            X, rewards, actions=names, propensities=propensities
        )
        assert model.classes_.tolist() == ["call", "mail", "wait"]


@pytest.mark.parametrize(
    ("change", "flaw"),
    [
        ({"y": [np.nan]}, says("/rewards/0", "finite")),
        ({"y": [np.inf]}, says("/rewards/0", "finite")),
        ({"propensities": [0.0]}, says("/propensities/0", "above 0")),
        ({"propensities": [1.1]}, says("/propensities/0", "at most 1")),
        ({"propensities": [[0.5, 0.4, 0.2]]}, says("/propensities/0", "sum to 1")),
        ({"actions": ["call"] * 40}, says("/actions", "10 rows", "two")),
    ],
)
def test_refused(change, flaw):
    X, codes, rewards, _ = rewards_of(40)
    data = {"y": rewards, "actions": ACTIONS[codes]} | {
        name: np.array(value * 40 if len(value) == 1 else value)
        for name, value in change.items()
    }
    with pytest.raises(Invalid) as error:
        Rewards().fit(X, **data)
    assert error.value.flaws == (flaw,)
