"""A tree for readers: what each node asks for, and what its path costs."""

import numpy as np
import pytest

from app.acquisition.session import Prices
from app.acquisition.tree_of_classifiers import TreeOfClassifiers
from tests.reference.stepwise import simulate

PRICES = Prices(np.array([1.0, 5, 4, 2]), np.array([1.0, 3, 1, 2]), np.array([-1, 0, 0, -1], np.int32), ("g",))


class Columns:
    """Deciding scores are the first features, one for each node; predicting ones are 0."""

    def __init__(self, nodes):
        self.nodes = nodes

    def scores(self, X):
        decided = np.nan_to_num(X[:, : self.nodes])
        return np.concatenate((decided, np.zeros_like(decided)), axis=1)


def tree():
    """The root asks for 0, then goes to 1, which asks for 1 and 2, or to 2, which asks for 0 again and leads to 3."""
    needs = np.array([[1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 1, 1]], dtype=bool)
    return TreeOfClassifiers(
        np.array([1, -1, 3, -1], np.int32), np.array([2, -1, -1, -1], np.int32), np.array([0.5, 0, 0.25, 0]), needs,
        Columns(4), np.zeros(1), 0,
    )  # fmt: skip


def test_each_node_with_what_it_asks_for_and_what_has_been_paid():
    """Cheapest first, of a group the discount for the second; nothing twice."""
    assert [tuple(node.values()) for node in tree().outline(PRICES, "abcd")] == [
        (["a"], 1.0, 0.5, 1, 2),
        (["c", "b"], 1 + 4 + 3.0, 0.0, None, None),
        ([], 1.0, 0.25, 3, None),
        (["d", "c"], 1 + 2 + 4.0, 0.0, None, None),
    ]


def test_costs_are_those_that_cases_pay():
    """Of every row at the node where it ends."""
    X = np.random.default_rng(0).normal(size=(50, 4))
    run = simulate(tree(), X, PRICES)
    nodes = tree().outline(PRICES, "abcd")
    reached = np.where(X[:, 0] > 0.5, 1, np.where(X[:, 2] > 0.25, 3, 2)).tolist()
    assert run.cost == pytest.approx([nodes[node]["cost"] for node in reached])
    assert set(reached) == {1, 2, 3}
