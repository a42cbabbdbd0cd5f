"""One node's share of the objective, all other nodes and the auxiliary variables fixed: smooth, with its gradient."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from app.learners.cost_tree.soft import SMOOTH, Exit, SoftTree

_TINY = 1e-12
_STILL = 10 * SMOOTH


class NodeProblem:
    """The objective as a function of node k's weights, offsets and threshold, as one vector.

    Every root `sqrt(g)` is replaced by `(g/z + z)/2`, with `z = sqrt(g)` at the present parameters: never less than the
    objective, equal to it there (the paper's lemma 1). Constants of other nodes are left out. Columns whose weights are
    next to nothing stay as they are: their auxiliary variables hold them there anyway.
    """

    def __init__(self, tree: SoftTree, k: int) -> None:
        self.tree, self.k, self.problem = tree, k, tree.problem
        problem = self.problem
        self.reach = problem.shares * tree.reach(k)
        squares = np.square(tree.weights[k])
        self.active = np.flatnonzero((squares > _STILL**2).any(axis=1))
        still = np.setdiff1d(np.arange(len(squares)), self.active)
        self.columns = problem.columns[:, self.active] if len(still) else problem.columns
        self.rest = problem.columns[:, still] @ tree.weights[k][still] if len(still) else 0.0
        self.still = squares[still].sum(axis=1), still
        self.absolute = np.sqrt(squares[self.active] + SMOOTH**2)
        self.forks = tree.has(2 * k + 1) or tree.has(2 * k + 2)
        if self.forks:
            (self.risk_up, ways_up), (self.risk_down, ways_down) = tree.below(2 * k + 1), tree.below(2 * k + 2)
        else:
            ways_up, ways_down = [Exit(tree.path(k), np.ones(len(self.reach)))], []
        self.split = len(ways_up)
        ways = ways_up + ways_down
        self.onward = self.reach[:, None] * np.column_stack([way.reach for way in ways])
        self._auxiliary(ways)
        self.scale = self._scale()

    def _auxiliary(self, ways: list[Exit]) -> None:
        """For each way out the quadratic form of its cost: `constant + slope . (squared weights) / 2`."""
        charges, tree = self.problem.charges, self.tree
        slopes, constants = [], []
        for way in ways:
            gap = tree.gap(way.path)
            z = np.sqrt(gap)
            slope, (squares, still) = charges.spread(charges.price / z), self.still
            slopes.append(slope[self.active])
            constants.append(
                0.5 * float(charges.price @ ((gap - tree.mixed[self.k]) / z + z))
                - SMOOTH * charges.price.sum()
                + 0.5 * float(slope[still] @ squares)
            )
        self.slope, self.constant = np.array(slopes), np.array(constants)

    def _scale(self) -> np.ndarray:
        """One over the root of a bound on the curvature by each parameter: steps in this scale are round."""
        problem, tree = self.problem, self.tree
        data = problem.loss.curvature * (self.reach @ np.square(self.columns))
        taken = self._taken(tree.up[self.k])
        price = problem.lambda_ * (taken @ self.slope)
        weights = (data + price)[:, None] + problem.rho / self.absolute
        rest = np.full(problem.loss.outputs + 1, problem.loss.curvature * self.reach.sum())
        return 1.0 / np.sqrt(np.concatenate((weights.ravel(), rest)) + _TINY)

    def _taken(self, q: np.ndarray) -> np.ndarray:
        """How often each way out is taken."""
        up = q @ self.onward[:, : self.split] if self.forks else self.onward.sum(axis=0)
        return np.concatenate((up, (1.0 - q) @ self.onward[:, self.split :])) if self.forks else up

    def start(self) -> np.ndarray:
        """The present parameters."""
        tree, k = self.tree, self.k
        return np.concatenate((tree.weights[k][self.active].ravel(), tree.offsets[k], tree.thresholds[k : k + 1]))

    def split_up(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Weights of the active columns (T', C), offsets (L,) and threshold from one vector."""
        T, C = len(self.active), self.tree.weights.shape[2]
        return x[: T * C].reshape(T, C), x[T * C : -1], float(x[-1])

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The function and its gradient at x. O(n (T C + exits))."""
        problem, L = self.problem, self.problem.loss.outputs
        W, b, threshold = self.split_up(x)
        S = self.columns @ W + self.rest
        squares = np.square(W).sum(axis=1)
        costs = self.constant + 0.5 * (self.slope @ squares)
        losses, db = problem.loss(S[:, :L] + b, problem.targets)
        db *= self.reach[:, None]
        value = float(self.reach @ losses)
        dS = np.zeros_like(S)
        dS[:, :L] = db
        dthreshold = 0.0
        if self.forks:
            q = expit(problem.steepness * (S[:, problem.route] - threshold))
            taken = self._taken(q)
            value += float(self.reach @ (q * self.risk_up + (1.0 - q) * self.risk_down))
            better = self.reach * (self.risk_up - self.risk_down) + problem.lambda_ * (
                self.onward[:, : self.split] @ costs[: self.split] - self.onward[:, self.split :] @ costs[self.split :]
            )
            turn = problem.steepness * better * q * (1.0 - q)
            dS[:, problem.route] += turn
            dthreshold = -float(turn.sum())
        else:
            taken = self._taken(S[:, 0])
        value += problem.lambda_ * float(taken @ costs)
        value += 0.5 * problem.rho * float((np.square(W) / self.absolute).sum())
        dW = self.columns.T @ dS + W * (problem.lambda_ * (taken @ self.slope)[:, None] + problem.rho / self.absolute)
        return value, np.concatenate((dW.ravel(), db.sum(axis=0), [dthreshold]))

    def solve(self, steps: int) -> bool:
        """Minimise by so many steps of L-BFGS and keep what is lower; whether it is."""
        from scipy.optimize import minimize  # noqa: PLC0415 - 30 MB that predictions can spare

        start, scale = self.start(), self.scale

        def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(start + u * scale)
            return value, gradient * scale

        before = scaled(np.zeros_like(start))[0]
        found = minimize(
            scaled, np.zeros_like(start), jac=True, method="L-BFGS-B", options={"maxiter": steps, "gtol": 1e-7}
        )
        if not found.fun < before:
            return False
        W, offsets, threshold = self.split_up(start + found.x * scale)
        weights = self.tree.weights[self.k].copy()
        weights[self.active] = W
        self.tree.put(self.k, weights, offsets, threshold)
        return True
