"""What would change a decision is the nearest that does, and it does."""

import numpy as np
import pytest

from payoff.decisions.benefit import decide
from payoff.decisions.explanations import flips, most_regretted
from tests.reference.decisions import most_regretted as slow_most_regretted
from tests.reference.decisions import nearest_flip


def problems(seed: int, count: int):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        K, A = rng.integers(2, 5), rng.integers(2, 8)
        B = rng.choice([rng.normal(size=(K, A)), rng.integers(-2, 3, (K, A))])
        B = B * 10.0 ** rng.uniform(-3, 6)
        p = rng.dirichlet(np.full(K, 0.4))
        if rng.random() < 0.2:
            p = np.eye(K)[rng.integers(K)]
        yield p, B, int(decide(p[None], B).choice[0])


def test_the_nearest_probabilities_are_those_of_all_supports_and_change_the_decision():
    """Beyond the point the decision is another, before it is not."""
    for p, B, choice in problems(0, 200):
        explanation = flips(p[None], B, np.array([choice]))
        distance, point = nearest_flip(p, B, choice)
        q, to = explanation.point[0], explanation.to[0]
        if point is None:
            assert to == -1
            assert np.isnan(q).all()
            continue
        assert q.sum() == pytest.approx(1, abs=1e-12)
        assert q.min() >= 0
        assert np.linalg.norm(q - p) == pytest.approx(distance, abs=1e-9)
        gains = B[:, to] - B[:, choice]
        assert q @ gains == pytest.approx(0, abs=1e-9 * np.abs(B).max())
        if np.linalg.norm(q - p) > 1e-9:
            before = p + 0.999 * (q - p)
            assert decide(before[None], B).choice[0] == choice
        assert (q + 1e-4 * (np.eye(len(p))[gains.argmax()] - q)) @ gains > 0


def test_the_cell_that_changes_least_flips_the_decision():
    for p, B, choice in problems(2, 100):
        explanation = flips(p[None], B, np.array([choice]))
        assert explanation.runner_up[0] != choice
        assert explanation.margin[0] == pytest.approx(
            p @ (B[:, choice] - B[:, explanation.runner_up[0]]),
            abs=1e-9 * np.abs(B).max(),
        )
        for share, flipped in ((0.99, False), (1.01, True)):
            changed = B.copy()
            changed[explanation.cell[0], explanation.runner_up[0]] += (
                share * explanation.change[0]
            )
            gain = p @ (changed[:, explanation.runner_up[0]] - changed[:, choice])
            assert bool(gain > 0) is flipped or abs(gain) <= 1e-9 * np.abs(B).max()
        for k in range(len(p)):
            for action in set(range(B.shape[1])) - {choice}:
                needed = (p @ (B[:, choice] - B[:, action])) / p[k] if p[k] else np.inf
                assert needed >= explanation.change[0] - 1e-9 * np.abs(B).max()


def test_many_rows_are_explained_as_each_alone_and_with_its_own_matrix():
    rng = np.random.default_rng(3)
    P, B = rng.dirichlet(np.ones(3), 50), rng.normal(size=(50, 3, 4))
    choice = decide(P, B).choice
    together = flips(P, B, choice)
    for i in range(50):
        alone = flips(P[i : i + 1], B[i], choice[i : i + 1])
        for of_row, of_rows in zip(alone, together, strict=True):
            np.testing.assert_allclose(of_row[0], of_rows[i], rtol=0, atol=1e-12)


def test_the_most_regretted_class_is_that_of_the_slow_twin():
    for p, B, choice in problems(3, 300):
        for action in {choice, B.shape[1] - 1}:
            [k] = most_regretted(p[None], B, action, (p @ B)[None])
            assert k in slow_most_regretted(p, B, action)


def test_of_two_classes_that_is_where_the_other_action_earns_most_more():
    """Also where the class has no probability, or cases have matrices of their own."""
    B = np.array([[0.0, 5.0], [0.0, -20.0]])
    P = np.array([[1.0, 0.0], [0.3, 0.7], [0.0, 1.0]])
    assert most_regretted(P, B, 1, P @ B).tolist() == [1, 1, 1]
    assert most_regretted(P, B, 0, P @ B).tolist() == [0, 0, 0]
    by_case = np.stack([B, -B, B])
    expected = np.einsum("nk,nka->na", P, by_case)
    assert most_regretted(P, by_case, 1, expected).tolist() == [1, 0, 1]
