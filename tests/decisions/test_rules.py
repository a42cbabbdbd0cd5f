"""Which rules a matrix allows, and that each decides as it says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.decisions.benefit import decide
from app.decisions.folds import stratified_folds
from app.decisions.rules import Rows, apply_rules, equivalent_benefits, hierarchical, minority_costs, same_for_all
from app.decisions.threshold import HoldoutScores, decide_by_threshold

BINARY = np.array([[0.0, -1.0], [-10.0, 5.0]])
cost = st.floats(0.01, 100)


def rows(n=200, K=2, seed=0):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(K, 0.7), n)
    y = np.array([rng.choice(K, p=p) for p in P])
    return Rows(P, P, y, stratified_folds(y, 5, 0))


def names(B, **changes):
    return [rule.rule for rule in apply_rules(rows(K=len(B), **changes), B, list(range(len(B))))]


def test_two_classes_have_thresholds_and_no_minorities():
    assert names(BINARY) == ["expected_benefit", "most_probable", "threshold_posterior", "threshold_holdout"]


def test_more_actions_than_classes_have_neither():
    assert names(np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])) == ["expected_benefit", "most_probable"]


def test_three_classes_have_the_cost_rules_where_the_matrix_states_their_costs():
    form = equivalent_benefits(3, 1, 1.0, 2.0, 10.0)
    other = form + np.array([[0, 0, 0.5], [0, 0, 0], [0, 0, 0]])

    assert names(form) == ["expected_benefit", "most_probable", "beta_delta", "hierarchical"]
    assert names(other) == ["expected_benefit", "most_probable"]


@settings(max_examples=50)
@given(st.integers(3, 7), st.data(), cost, cost, cost, st.floats(0.01, 1000))
def test_costs_are_found_again_whatever_is_added_to_rows_and_whatever_the_scale(K, data, C_DD, C_HD, C_DH, scale):
    """Row constants change nothing, a factor scales the costs; the rules decide as they do on the plain costs."""
    majority = data.draw(st.integers(0, K - 1))
    shifts = np.array(data.draw(st.lists(st.floats(-50, 50), min_size=K, max_size=K)))
    priors = np.full(K, 0.1)
    priors[majority] = 1.0
    plain = equivalent_benefits(K, majority, C_DD, C_HD, C_DH)
    found = minority_costs(scale * plain + shifts[:, None], priors / priors.sum())

    assert found is not None
    assert found.majority == majority
    np.testing.assert_allclose(found[1:], scale * np.array([C_DD, C_HD, C_DH]), rtol=1e-6, atol=1e-9)


@settings(max_examples=50)
@given(st.integers(3, 6), st.integers(0, 10**6))
def test_beta_delta_is_expected_benefit_and_hierarchical_is_its_own_rule(K, seed):
    rng = np.random.default_rng(seed)
    majority, costs = int(rng.integers(K)), rng.uniform(0.1, 10, 3)
    B = equivalent_benefits(K, majority, *costs.tolist()) + rng.uniform(-5, 5, (K, 1))
    given_rows = rows(n=50, K=K, seed=seed)
    ruled = {rule.rule: rule for rule in apply_rules(given_rows, B, [f"c{k}" for k in range(K)])}

    assert (ruled["beta_delta"].choice == ruled["expected_benefit"].choice).all()
    assert ruled["beta_delta"].request["costs"]["majority"] == f"c{majority}"
    expected = hierarchical(given_rows.P, majority, costs[1], costs[2])
    assert (ruled["hierarchical"].choice == expected.choice).all()
    assert ruled["hierarchical"].figures["threshold"] == pytest.approx(expected.figures["threshold"])


def test_a_large_row_constant_does_not_hide_small_costs():
    """1e10 added to a row changes no decision, so it must not take rules away; nor let different costs pass as one."""
    large = np.array([1e10, 0.0, -1e10])[:, None]
    found = minority_costs(equivalent_benefits(3, 0, 1.0, 2.0, 5.0) + large, np.full(3, 1 / 3))

    assert found is not None
    assert found[1:] == pytest.approx((1, 2, 5), rel=1e-5)
    other = np.array([[0, -1, -2], [-3, 0, -4], [-5, -6, 0.0]])
    assert minority_costs(other + large, np.full(3, 1 / 3)) is None


def test_where_every_class_could_be_the_majority_the_likeliest_is():
    B = np.eye(4) - 1

    assert minority_costs(B, np.array([0.1, 0.2, 0.6, 0.1])).majority == 2
    assert minority_costs(B, np.full(4, 0.25)).majority == 0


@pytest.mark.parametrize(
    "B",
    [
        np.zeros((3, 3)),
        1 - np.eye(3),  # being right costs
        np.ones((3, 4)),
        np.array([[0, -1, -2], [-3, 0, -4], [-5, -6, 0.0]]),
        np.ones((1, 1)),
    ],
)
def test_other_matrices_state_no_such_costs(B):
    assert minority_costs(B, np.full(len(B), 1 / len(B))) is None


def test_the_cut_of_each_fold_is_sought_on_the_others():
    """What the fold's own rows would advise plays no part."""
    given_rows = rows(n=60)
    chosen = {rule.rule: rule for rule in apply_rules(given_rows, BINARY, [0, 1])}["threshold_holdout"]

    for fold in range(5):
        inside = given_rows.fold != fold
        cut, _ = HoldoutScores(given_rows.scores[inside, 1], given_rows.y[inside]).best(BINARY)
        assert (chosen.choice[~inside] == decide_by_threshold(given_rows.scores[~inside, 1], cut)).all()
    assert chosen.cross_validated
    whole, _ = HoldoutScores(given_rows.scores[:, 1], given_rows.y).best(BINARY)
    assert chosen.figures["threshold"] == whole.value


def test_one_row_of_a_class_is_too_few_for_a_cut():
    P = np.array([[0.2, 0.8], [0.6, 0.4], [0.7, 0.3]])
    y = np.array([1, 0, 0])
    found = apply_rules(Rows(P, P, y, stratified_folds(y, 5, 0)), BINARY, [0, 1])

    assert "threshold_holdout" not in [rule.rule for rule in found]


def test_the_likeliest_class_is_acted_on_with_its_best_action():
    B = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])
    given_rows = rows()
    blind = apply_rules(given_rows, B, ["a", "b"])[1]

    assert set(blind.choice[given_rows.P[:, 1] > 0.5]) == {0}
    assert set(blind.choice[given_rows.P[:, 1] < 0.5]) == {2}
    assert blind.request is None


def test_posteriors_and_scores_are_kept_apart():
    """Cuts on the hold-out are cuts on the model's own scores, all else decides on the corrected posteriors."""
    base = rows()
    corrected = base.P ** np.array([1.0, 3.0])
    corrected /= corrected.sum(axis=1, keepdims=True)
    priors = np.array([0.8, 0.2])
    found = {r.rule: r for r in apply_rules(Rows(corrected, base.P, base.y, base.fold, priors), BINARY, [0, 1])}

    assert (found["expected_benefit"].choice == decide(corrected, BINARY).choice).all()
    best, _ = HoldoutScores(base.P[:, 1], base.y).best(BINARY, priors)
    assert found["threshold_holdout"].figures["threshold"] == best.value


def test_one_action_for_all_is_the_best_column():
    B = np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 2.0]])

    assert same_for_all(4, B, np.array([0.5, 0.5])).choice.tolist() == [2, 2, 2, 2]
    assert same_for_all(1, B, np.array([0.0, 1.0])).figures == {"action": 0}
    assert same_for_all(1, np.zeros((2, 2)), np.array([0.5, 0.5])).choice.tolist() == [0]
