"""Training of a tree of classifiers: node by node from the top, then all nodes in turn until nothing moves."""

from __future__ import annotations

import numpy as np

from app.learners.cost_tree.node import NodeProblem
from app.learners.cost_tree.refit import fit_columns
from app.learners.cost_tree.soft import Problem, SoftTree
from app.progress import report

_LEAF_STEPS = 8  # of L-BFGS between two updates of the auxiliary variables
_LEAF_ROUNDS = 25
_ROUNDS = 2  # updates of a node in one cycle
_ENOUGH = 1e-4  # relative gain of a cycle below which it was the last
_GAP = 0.5  # standard deviations between two rows' scores that make a place to cut
_EDGE = 0.2  # of the rows are on each side of such a place


def grow(problem: Problem, depth: int, initialiser: str) -> SoftTree:
    """A tree whose nodes were each fitted as a leaf, when those above were there and none below.

    `leaf` starts a node from all columns and lets the costs shrink them (the paper); `greedy` adds one column after
    the other as long as it lowers the loss by more than its price (Kusner et al. 2014).
    """
    tree = SoftTree(problem, depth)
    for k in range(2**depth - 1):
        report(k / 2**depth)
        if initialiser == "greedy":
            _greedy(tree, k)
        else:
            _shrink(tree, k)
        if 2 * k + 1 < 2**depth - 1:
            branch(tree, k)
    return tree


def improve(tree: SoftTree, cycles: int) -> list[float]:
    """Optimise one node after the other, at most so many cycles; the objective after each, never rising."""
    path = [tree.objective()]
    for cycle in range(cycles):
        for k in tree.nodes():
            update(tree, k, _ROUNDS)
        path.append(tree.objective())
        report((cycle + 1) / cycles)
        if path[-2] - path[-1] <= _ENOUGH * abs(path[-2]):
            break
    return path


def update(tree: SoftTree, k: int, rounds: int, steps: int = _LEAF_STEPS) -> None:
    """Minimise over node k and over the auxiliary variables in turn."""
    for _ in range(rounds):
        if not NodeProblem(tree, k).solve(steps):
            break


def branch(tree: SoftTree, k: int) -> None:
    """Let a leaf decide: by its score, or the main direction of its scores, at a cut that halves the rows."""
    problem = tree.problem
    W, weights = tree.weights[k].copy(), problem.shares * tree.reach(k)
    if problem.route:
        S = problem.columns @ W[:, : problem.route]
        centred = S - weights @ S / weights.sum()
        direction = np.linalg.eigh((centred * weights[:, None]).T @ centred)[1][:, -1]
        W[:, problem.route] = W[:, : problem.route] @ direction
    score = problem.columns @ W[:, problem.route]
    tree.put(k, W, tree.offsets[k], halving(score, weights))


def halving(score: np.ndarray, weights: np.ndarray) -> float:
    """A threshold for scores (n,): the middle of the wide gap nearest to the median, or else the median."""
    order = np.argsort(score, kind="stable")
    score, share = score[order], np.cumsum(weights[order]) / weights.sum()
    wide = np.diff(score) > _GAP * float(score.std())
    wide &= (share[:-1] > _EDGE) & (share[:-1] < 1.0 - _EDGE)
    if wide.any():
        gaps = np.flatnonzero(wide)
        at = gaps[np.abs(share[gaps] - 0.5).argmin()]
        return float(score[at] + score[at + 1]) / 2
    return float(score[min(int(np.searchsorted(share, 0.5)), len(score) - 1)])


def _shrink(tree: SoftTree, k: int) -> None:
    problem = tree.problem
    T, L = problem.columns.shape[1], problem.loss.outputs
    weights = problem.shares * tree.reach(k)
    start = (np.zeros((T, L)), np.zeros(L))
    W, b = fit_columns(problem.columns, problem.targets, weights, problem.loss, 1e-4 * weights.sum(), start, 30)
    _put(tree, k, W, b)
    update(tree, k, _LEAF_ROUNDS)


def _put(tree: SoftTree, k: int, W: np.ndarray, b: np.ndarray) -> None:
    full = np.zeros(tree.weights.shape[1:])
    full[:, : W.shape[1]] = W
    tree.put(k, full, b, 0.0)


def _greedy(tree: SoftTree, k: int) -> None:
    problem = tree.problem
    Phi, y, loss = problem.columns, problem.targets, problem.loss
    weights = problem.shares * tree.reach(k)
    total = weights.sum()
    curvature = loss.curvature * (weights @ np.square(Phi - weights @ Phi / total)) + 1e-12  # the offset follows
    paid = tree.mixed[list(tree.path(k)[:-1])].sum(axis=0) > 0
    T, L = Phi.shape[1], loss.outputs
    W, b = np.zeros((T, L)), np.zeros(L)
    chosen = np.zeros(T, dtype=np.bool_)
    while True:
        W[chosen], b = fit_columns(Phi[:, chosen], y, weights, loss, 1e-4 * total, (W[chosen], b), 10)
        slopes = Phi.T @ (weights[:, None] * loss(Phi @ W + b, y)[1])
        gain = np.square(slopes).sum(axis=1) / (2 * curvature)
        price = problem.lambda_ * total * problem.charges.spread(np.where(paid, 0.0, problem.charges.price))
        worth = np.where(chosen, -np.inf, gain - price - problem.rho)
        best = int(worth.argmax())
        if chosen.all() or worth[best] <= 1e-9:
            break
        chosen[best] = True
        paid |= problem.charges.mix(np.arange(T) == best) > 0
    _put(tree, k, W, b)
    update(tree, k, _LEAF_ROUNDS)
