"""What evaluating the nodes of a tree costs, asked step by step and at once."""

import numpy as np
import pytest

from app.acquisition.session import Prices
from app.acquisition.tree_of_classifiers import TreeOfClassifiers
from tests.reference.stepwise import step

PRICES = Prices.unit(2)


class FirstFeature:
    """The first feature decides at all three nodes; each predicts its number."""

    def scores(self, X):
        return np.concatenate((np.repeat(X[:, :1], 3, axis=1), np.tile([0.0, 1.0, 2.0], (len(X), 1))), axis=1)


def tree():
    """The root asks for feature 0, its children ask for nothing: evaluating the upper costs 0.5, the lower nothing."""
    needs = np.array([[1, 0], [0, 0], [0, 0]], dtype=bool)
    upper, lower = np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32)
    return TreeOfClassifiers(upper, lower, np.zeros(3), needs, np.array([0.1, 0.5, 0]), FirstFeature(), np.zeros(1), 0)


@pytest.mark.parametrize("budget", [1.2, 1.6, None])
@pytest.mark.parametrize("x", [-1.0, 1.0])
def test_no_node_is_evaluated_beyond_the_budget(budget, x):
    """Also where all that it needs is known: the answer is that of the node before, as in a simulation."""
    X = np.array([[x, 0.0]])
    state = step(tree(), X, np.array([[1, 0]], np.int32), PRICES, budget)[0]
    run = tree().travel(X, PRICES, budget)
    stopped = budget == 1.2 and x > 0
    assert state.reason == ("budget" if stopped else "resolved")
    assert state.spent == pytest.approx(1.1 if stopped or x < 0 else 1.6)
    assert (state.next, state.value) == (None, 0 if stopped else 1 if x > 0 else 2)
    assert (run.spent[0, 1], run.vote[0, 1], run.resolved[0]) == (state.spent, state.value, not stopped)


def test_a_complete_row_pays_for_the_nodes_on_its_path():
    """What evaluating them costs, whatever the features cost."""
    np.testing.assert_allclose(tree().fees(np.array([[-1.0, 0], [1, 0]])), [0.1, 0.6])
