"""Training of a soft tree: node by node from the top, then all nodes in turn until nothing moves."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from payoff.learners.cost_tree.soft import SMOOTH, Exit, Objective, ScoreLoss, SoftTree, Squared
from payoff.progress import report

_STEPS = 8  # of L-BFGS between two updates of the auxiliary variables
_LEAF_ROUNDS = 25
_ROUNDS = 2  # updates of a node in one cycle
_ENOUGH = 1e-4  # relative gain of a cycle below which it was the last
_GAP = 0.5  # standard deviations between two rows' scores that make a place to cut
_EDGE = 0.2  # of the rows are on each side of such a place
_TINY = 1e-12
_STILL = 10 * SMOOTH


def grow(problem: Objective, depth: int, *, greedy: bool) -> SoftTree:
    """A tree whose nodes were each fitted as a leaf, when those above were there and none below.

    A node starts from all columns, which the costs shrink (the paper), or adds one column after the other as long as it
    lowers the loss by more than its price (`greedy`, Kusner et al. 2014): that reaches cheaper trees.
    """
    tree = SoftTree(problem, depth)
    for k in range(2**depth - 1):
        report(k / 2**depth)
        W = np.zeros(tree.weights.shape[1:])
        W[:, : problem.loss.outputs], b = _greedy(tree, k) if greedy else _from_all(tree, k)
        tree.put(k, W, b, 0.0)
        update(tree, k, _LEAF_ROUNDS)
        if 2 * k + 1 < 2**depth - 1:
            branch(tree, k)
    return tree


def improve(tree: SoftTree, cycles: int) -> list[float]:
    """Optimise one node after the other, at most so many cycles; the objective after each, never rising."""
    path = [tree.objective()]
    for cycle in range(cycles):
        for k in np.flatnonzero(tree.alive).tolist():
            update(tree, k, _ROUNDS)
        path.append(tree.objective())
        report((cycle + 1) / cycles)
        if path[-2] - path[-1] <= _ENOUGH * abs(path[-2]):
            break
    return path


def update(tree: SoftTree, k: int, rounds: int) -> None:
    """Minimise over node k and over the auxiliary variables in turn."""
    for _ in range(rounds):
        if not NodeProblem(tree, k).solve():
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


def _from_all(tree: SoftTree, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, L) and offsets (L,) of a new node, with which costs have nothing to do yet."""
    problem = tree.problem
    T, L = problem.columns.shape[1], problem.loss.outputs
    weights = problem.shares * tree.reach(k)
    start = (np.zeros((T, L)), np.zeros(L))
    return fit_columns(
        problem.columns, problem.targets, weights, problem.loss, 1e-4 * weights.sum(), start, 30
    )


def _greedy(tree: SoftTree, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The same of one column after the other."""
    problem = tree.problem
    T, L = problem.columns.shape[1], problem.loss.outputs
    paid = tree.mixed[list(tree.path(k)[:-1])].sum(axis=0) > 0
    start = np.zeros((T, L)), np.zeros(L)
    return add_columns(problem, problem.shares * tree.reach(k), paid, start)


def add_columns(
    problem: Objective,
    weights: np.ndarray,
    paid: np.ndarray,
    start: tuple[np.ndarray, np.ndarray],
    least: float = 0.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, L) and offsets (L,) of a node for rows of `weights` (n,), which continue those of `start`: the column
    is added that lowers the loss most beyond its price, as long as there is one.

    The charges that are `paid` (S,) cost nothing more, nor do those of the columns of `start`. A column lowers the loss
    by more than `least` times what one without information does.
    """
    Phi, y, loss, members = problem.columns, problem.targets, problem.loss, problem.charges.members
    total, n_rows = weights.sum(), weights.sum() ** 2 / (weights @ weights)
    # The offset follows a column, so that only the spread about the mean counts.
    spread = weights @ np.square(Phi - weights @ Phi / total)
    curvature = loss.curvature * spread + _TINY
    W, b = start[0].copy(), start[1]
    chosen: np.ndarray = (W != 0).any(axis=1)
    while True:
        W[chosen], b = fit_columns(
            Phi[:, chosen], y, weights, loss, 1e-4 * total, (W[chosen], b), 10
        )
        losses, dS = loss(Phi @ W + b, y)
        gain = np.square(Phi.T @ (weights[:, None] * dS)).sum(axis=1) / (2 * curvature)
        noise = weights @ losses if isinstance(loss, Squared) else 0.5 * loss.outputs * total
        due = np.where(paid | (members @ chosen > 0), 0.0, problem.charges.price) @ members
        price = problem.lambda_ * total * due
        gain[chosen | (gain <= least * noise / n_rows)] = -np.inf
        worth = gain - price - problem.rho
        best = int(worth.argmax())
        if chosen.all() or worth[best] <= 1e-9:
            return W, b
        chosen[best] = True


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
            (self.risk_up, ways_up), (self.risk_down, ways_down) = (
                tree.below(2 * k + 1),
                tree.below(2 * k + 2),
            )
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
        gaps = np.array([tree.gap(way.path) for way in ways])
        z = np.sqrt(gaps)
        slopes, (squares, still) = (charges.price / z) @ charges.members, self.still
        roots = ((gaps - tree.mixed[self.k]) / z + z) @ charges.price
        self.slope = slopes[:, self.active]
        self.constant = 0.5 * (roots + slopes[:, still] @ squares) - SMOOTH * charges.price.sum()

    def _scale(self) -> np.ndarray:
        """One over the root of a bound on the curvature by each parameter: steps in this scale are round."""
        problem, tree = self.problem, self.tree
        data = problem.loss.curvature * (self.reach @ np.square(self.columns))
        taken = self._taken(tree.up[self.k] if self.forks else np.ones(len(self.reach)))
        price = problem.lambda_ * (taken @ self.slope)
        weights = (data + price)[:, None] + problem.rho / self.absolute
        rest = np.full(problem.loss.outputs + 1, problem.loss.curvature * self.reach.sum())
        return 1.0 / np.sqrt(np.concatenate((weights.ravel(), rest)) + _TINY)

    def _taken(self, q: np.ndarray) -> np.ndarray:
        """How often each way out is taken by rows of which q (n,) go up; of a leaf all do."""
        return np.concatenate(
            (q @ self.onward[:, : self.split], (1.0 - q) @ self.onward[:, self.split :])
        )

    def start(self) -> np.ndarray:
        """The present parameters."""
        tree, k = self.tree, self.k
        return np.concatenate(
            (tree.weights[k][self.active].ravel(), tree.offsets[k], tree.thresholds[k : k + 1])
        )

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
                self.onward[:, : self.split] @ costs[: self.split]
                - self.onward[:, self.split :] @ costs[self.split :]
            )
            turn = problem.steepness * better * q * (1.0 - q)
            dS[:, problem.route] += turn
            dthreshold = -float(turn.sum())
        else:
            taken = self._taken(np.ones(len(S)))
        value += problem.lambda_ * float(taken @ costs)
        value += 0.5 * problem.rho * float((np.square(W) / self.absolute).sum())
        dW = self.columns.T @ dS + W * (
            problem.lambda_ * (taken @ self.slope)[:, None] + problem.rho / self.absolute
        )
        return value, np.concatenate((dW.ravel(), db.sum(axis=0), [dthreshold]))

    def solve(self) -> bool:
        """Minimise by a few steps of L-BFGS and keep what is lower; whether it is."""
        start, scale = self.start(), self.scale

        def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(start + u * scale)
            return value, gradient * scale

        before = scaled(np.zeros_like(start))[0]
        found = minimize(
            scaled,
            np.zeros_like(start),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": _STEPS, "gtol": 1e-7},
        )
        if not found.fun < before:
            return False
        W, offsets, threshold = self.split_up(start + found.x * scale)
        weights = self.tree.weights[self.k].copy()
        weights[self.active] = W
        self.tree.put(self.k, weights, offsets, threshold)
        return True


def fit_columns(
    columns: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray,
    loss: ScoreLoss,
    ridge: float,
    start: tuple[np.ndarray, np.ndarray],
    steps: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, L) and offsets (L,) with the least `sum_i w_i loss_i + ridge/2 |weights|^2`, by L-BFGS;
    least squares at once.

    columns (n, T), targets (n,), weights (n,) >= 0, `start` the same shapes as the answer. O(steps n T L).
    """
    if isinstance(loss, Squared):
        return _least_squares(columns, targets, weights, ridge)
    T, L = columns.shape[1], loss.outputs
    total = weights.sum()
    curve = loss.curvature * (weights @ np.square(columns)) + ridge
    scale = 1.0 / np.sqrt(
        np.concatenate((np.repeat(curve, L), np.full(L, loss.curvature * total))) / total + 1e-12
    )
    origin = np.concatenate((start[0].ravel(), start[1]))

    def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
        x = origin + u * scale
        W, b = x[: T * L].reshape(T, L), x[T * L :]
        losses, dS = loss(columns @ W + b, targets)
        value = weights @ losses + 0.5 * ridge * np.square(W).sum()
        dS *= weights[:, None]
        gradient = np.concatenate(((columns.T @ dS + ridge * W).ravel(), dS.sum(axis=0)))
        return float(value / total), gradient * scale / total

    options = {"maxiter": steps, "gtol": 1e-8, "ftol": 1e-13}
    found = minimize(scaled, np.zeros_like(origin), jac=True, method="L-BFGS-B", options=options)
    x = origin + found.x * scale
    return x[: T * L].reshape(T, L), x[T * L :]


def _least_squares(
    columns: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    total = weights.sum()
    means, mean = weights @ columns / total, weights @ targets / total
    centred = columns - means
    gram = (centred * weights[:, None]).T @ centred
    gram[np.diag_indices_from(gram)] += 0.5 * ridge
    W = np.linalg.lstsq(gram, centred.T @ (weights * (targets - mean)), rcond=None)[0]
    return W[:, None], np.array([mean - means @ W])
