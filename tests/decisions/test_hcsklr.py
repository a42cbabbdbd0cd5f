"""The cost rules for rare classes against a majority class."""

from __future__ import annotations

import numpy as np

from app.decisions.rules import beta_delta, hierarchical
from tests.reference import decisions as reference

MATRICES, ROWS = 1_000, 100


def problems(seed, *, rows=ROWS, matrices=MATRICES):
    """Random posteriors (rows, K), K 2…8, majority classes and costs C_DD > 0, C_HD, C_DH of very different sizes."""
    rng = np.random.default_rng(seed)
    for _ in range(matrices):
        K = int(rng.integers(2, 9))
        P = rng.dirichlet(np.full(K, rng.choice([0.3, 1.0, 5.0])), rows)
        C_DD, C_HD, C_DH = 10.0 ** rng.uniform(-2, 2, 3)
        yield P, int(rng.integers(K)), C_DD, C_HD * (rng.random() < 0.95), C_DH * (rng.random() < 0.95)


def test_beta_delta_is_the_minimum_expected_cost():
    """100,000 random posteriors and costs, against enumeration of the paper's loss and against the rule as printed."""
    for P, majority, *costs in problems(1):
        answer = beta_delta(P, majority, *costs)
        cost = reference.expected_costs(P, majority, *costs)
        chosen = np.take_along_axis(cost, answer.choice[:, None], axis=1)[:, 0]

        np.testing.assert_allclose(chosen, cost.min(axis=1), rtol=1e-12, atol=1e-15)
        second = np.partition(cost, 1, axis=1)[:, 1]
        clear = second > cost.min(axis=1) * (1 + 1e-9) + 1e-9
        assert (answer.choice == cost.argmin(axis=1))[clear].all()
        assert (answer.choice == reference.printed_beta_delta(P, majority, *costs))[clear].all()
        assert clear.mean() > 0.5 or 0 in costs


def test_hierarchical_differs_exactly_where_the_second_stage_is_not_free():
    """With g = C_DH P(D) - C_HD P(H) and m = max P(D_v): where 0 <= g < C_DD (P(D) - m), and then it says minority."""
    differences = 0
    for P, majority, C_DD, C_HD, C_DH in problems(3):
        full = beta_delta(P, majority, C_DD, C_HD, C_DH).choice
        staged = hierarchical(P, majority, C_HD, C_DH).choice
        rare = np.delete(P, majority, axis=1)
        D, m, H = rare.sum(axis=1), rare.max(axis=1), P[:, majority]
        g = C_DH * D - C_HD * H
        clear = np.minimum(np.abs(g), np.abs(g - C_DD * (D - m))) > 1e-9 * (C_DD + C_HD + C_DH)
        differs = (g >= 0) & (g < C_DD * (D - m))
        differences += int((differs & clear).sum())

        assert ((full != staged) == differs)[clear].all()
        assert (full[differs & clear] == majority).all()
        assert (staged[differs & clear] != majority).all()
        cost = reference.expected_costs(P, majority, C_DD, C_HD, C_DH)
        extra = np.take_along_axis(cost, staged[:, None], axis=1)[:, 0] - cost.min(axis=1)
        assert (extra <= C_DD * D * (1 - 1 / rare.shape[1]) + 1e-12 * cost.max(axis=1)).all()

    assert differences > 5_000


def test_a_tie_goes_to_the_lowest_class_index():
    P = np.array([[0.25, 0.5, 0.25]])

    assert beta_delta(P, 1, 1, 1, 1).choice.tolist() == [1]
    assert beta_delta(P, 1, 1, 1, 1.5).choice.tolist() == [0]  # all three classes cost .75
    assert beta_delta(P[:, [1, 0, 2]], 0, 1, 1, 1.5).choice.tolist() == [0]


def test_hierarchical_calls_a_tie_the_minority_and_its_likeliest_class():
    """Posteriors that are shares of up to 30 rows and whole costs, also where p* or the posteriors are rounded."""
    ties = 0
    rng = np.random.default_rng(5)
    for trial in range(5_000):
        counts = rng.multinomial(rng.integers(1, 31), rng.dirichlet(np.ones(3)))
        majority = int(rng.integers(3))
        H, D = counts[majority], np.delete(counts, majority)
        # every other time costs that make it a tie: C_DH P(D) = C_HD P(H)
        C_HD, C_DH = (int(D.sum()), int(H)) if trial % 2 else rng.integers(1, 10, 2).tolist()
        ties += C_DH * D.sum() == C_HD * H
        expected = np.delete(np.arange(3), majority)[D.argmax()] if C_DH * D.sum() >= C_HD * H else majority
        P = (counts / counts.sum())[None]

        assert hierarchical(P, majority, C_HD, C_DH).choice.tolist() == [expected]
        assert hierarchical(P, majority, C_HD / 10, C_DH / 10).choice.tolist() == [expected]

    assert ties >= 2_500


def test_p_star_is_the_papers():
    P = np.array([[0.81, 0.19], [0.79, 0.21]])
    answer = hierarchical(P, 0, C_HD=1, C_DH=4)

    assert (answer.figures["threshold"], answer.choice.tolist(), answer.warnings) == (0.2, [0, 1], [])


def test_without_c_dd_the_rule_is_hierarchical_and_says_so():
    """All minority classes cost the same then: the likeliest is named, at the least expected cost."""
    rng = np.random.default_rng(4)
    P = rng.dirichlet(np.ones(4), 500)
    answer = beta_delta(P, 2, 0, 1, 3)
    cost = reference.expected_costs(P, 2, 0, 1, 3)

    assert "C_DD is 0" in answer.warnings[0]
    assert answer.choice.tolist() == hierarchical(P, 2, 1, 3).choice.tolist()
    np.testing.assert_allclose(cost[np.arange(500), answer.choice], cost.min(axis=1), rtol=1e-12)


def test_without_c_dd_the_threshold_stands_for_beta_and_delta():
    P = np.array([[0.6, 0.3, 0.1]])

    assert beta_delta(P, 0, 0, 1, 3).figures == {"beta": None, "delta": None, "threshold": 0.25}
    assert beta_delta(P, 0, 1, 2, 10).figures == {"beta": 11.0, "delta": 9.0}
    assert beta_delta(P, 0, 0, 0, 0).figures == {"beta": None, "delta": None}


def test_free_errors_are_defined_and_warned_about():
    P = np.array([[0.9, 0.06, 0.04], [1.0, 0.0, 0.0], [0.0, 0.4, 0.6]])

    both_free = hierarchical(P, 0, 0, 0)
    assert (both_free.figures["threshold"], both_free.choice.tolist()) == (None, [1, 1, 2])
    assert "p* is undefined" in both_free.warnings[0]

    false_alarms_free = hierarchical(P, 0, 0, 1)
    assert (false_alarms_free.figures["threshold"], false_alarms_free.choice.tolist()) == (0.0, [1, 1, 2])
    assert "C_HD is 0" in false_alarms_free.warnings[0]

    misses_free = hierarchical(P, 0, 1, 0)
    assert (misses_free.figures["threshold"], misses_free.choice.tolist()) == (1.0, [0, 0, 2])
    assert "C_DH is 0" in misses_free.warnings[0]

    nothing_costs = beta_delta(P, 0, 0, 0, 0)
    assert nothing_costs.choice.tolist() == [1, 1, 2]
    assert len(nothing_costs.warnings) == 2

    majority_is_free = beta_delta(P, 0, 1, 1, 0)
    assert majority_is_free.choice.tolist() == [0, 0, 0]
    assert "C_DH is 0" in majority_is_free.warnings[0]


def test_a_vanishing_c_dd_overflows_beta_but_not_the_decision():
    answer = beta_delta(np.array([[0.5, 0.3, 0.2]]), 0, 1e-300, 1e100, 1.1e100)

    assert (answer.figures, answer.choice.tolist()) == ({"beta": None, "delta": None}, [1])
