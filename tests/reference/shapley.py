"""Shapley values of trees by their definition: over all subsets of the features."""

from itertools import combinations
from math import factorial


def shapley(value, m):
    """The values (m,) of a game whose coalitions, frozensets of features, earn `value(coalition)`."""
    found = []
    for j in range(m):
        total = 0.0
        others = [i for i in range(m) if i != j]
        for size in range(m):
            weight = factorial(size) * factorial(m - size - 1) / factorial(m)
            for chosen in combinations(others, size):
                total += weight * (
                    value(frozenset({*chosen, j})) - value(frozenset(chosen))
                )
        found.append(total)
    return found


def expectation(node, known, goes, children, feature, cover, leaf):
    """What a tree is expected to return below `node` if only the features `known` are: all are functions of a node."""
    if feature(node) < 0:
        return leaf(node)
    if feature(node) in known:
        return expectation(goes(node), known, goes, children, feature, cover, leaf)
    return sum(
        cover(child)
        / cover(node)
        * expectation(child, known, goes, children, feature, cover, leaf)
        for child in children(node)
    )
