"""Training of a soft tree: node by node from the top, then all nodes in turn until none changes."""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

from payoff.learners.cost_tree.soft import (
    SMOOTH,
    Exit,
    Objective,
    ScoreLoss,
    SoftTree,
    Squared,
)
from payoff.progress import report

_STEPS = 8  # steps of L-BFGS between two updates of the auxiliary variables
_LEAF_ROUNDS = 25  # updates of a new leaf
_ROUNDS = 2  # updates of a node in one cycle
_LEAST_GAIN = 1e-4  # the relative gain of a cycle with which it is the last
_GAP = 0.5  # standard deviations between two rows' scores that make a place to cut
_EDGE = 0.2  # the share of rows that must be on each side of such a place
_TINY = 1e-12
_STILL = 10 * SMOOTH  # weights up to this size stay as they are


def grow(problem: Objective, depth: int, *, greedy: bool) -> SoftTree:
    """A tree whose nodes were each fitted as a leaf, when those above were there and none below.

    A node starts from all columns, which the costs shrink (the paper), or adds one column after the
    other as long as it lowers the loss by more than its price (`greedy`, Kusner et al. 2014): that
    reaches cheaper trees.
    """
    tree = SoftTree(problem, depth)
    for k in range(2**depth - 1):
        report(k / 2**depth)
        W = np.zeros(tree.weights.shape[1:])
        W[:, : problem.loss.outputs], b = (
            _greedy(tree, k) if greedy else _from_all(tree, k)
        )
        tree.put(k, W, b, 0.0)
        update(tree, k, _LEAF_ROUNDS)
        if 2 * k + 1 < 2**depth - 1:
            branch(tree, k)
    return tree


def improve(tree: SoftTree, cycles: int) -> list[float]:
    """Optimise one node after the other in at most `cycles`; the objective after each cycle.

    The objective never rises.
    """
    path = [tree.objective()]
    for cycle in range(cycles):
        for k in np.flatnonzero(tree.alive).tolist():
            update(tree, k, _ROUNDS)
        path.append(tree.objective())
        report((cycle + 1) / cycles)
        if path[-2] - path[-1] <= _LEAST_GAIN * abs(path[-2]):
            break
    return path


def update(tree: SoftTree, k: int, rounds: int) -> None:
    """Minimise over node k and over the auxiliary variables in turn."""
    for _ in range(rounds):
        if not NodeProblem(tree, k).solve():
            break


def branch(tree: SoftTree, k: int) -> None:
    """Let a leaf decide: by its score, or the main direction of its scores, see `halving`."""
    problem = tree.problem
    W = tree.weights[k].copy()
    weights = problem.shares * tree.reach(k)
    if problem.route:
        S = problem.columns @ W[:, : problem.route]
        centred = S - weights @ S / weights.sum()
        direction = np.linalg.eigh((centred * weights[:, None]).T @ centred)[1][:, -1]
        W[:, problem.route] = W[:, : problem.route] @ direction
    score = problem.columns @ W[:, problem.route]
    tree.put(k, W, tree.offsets[k], halving(score, weights))


def halving(score: np.ndarray, weights: np.ndarray) -> float:
    """A threshold for scores (n,): the middle of the wide gap next to the median, or the median."""
    order = np.argsort(score, kind="stable")
    score = score[order]
    share = np.cumsum(weights[order]) / weights.sum()
    wide = np.diff(score) > _GAP * float(score.std())
    wide &= (share[:-1] > _EDGE) & (share[:-1] < 1.0 - _EDGE)
    if wide.any():
        gaps = np.flatnonzero(wide)
        at = gaps[np.abs(share[gaps] - 0.5).argmin()]
        return float(score[at] + score[at + 1]) / 2
    return float(score[min(int(np.searchsorted(share, 0.5)), len(score) - 1)])


def _from_all(tree: SoftTree, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, L) and offsets (L,) of a new node on all columns, whatever they cost."""
    problem = tree.problem
    T, L = problem.columns.shape[1], problem.loss.outputs
    weights = problem.shares * tree.reach(k)
    ridge = 1e-4 * weights.sum()
    start = np.zeros((T, L)), np.zeros(L)
    return fit_columns(
        problem.columns, problem.targets, weights, problem.loss, ridge, start, 30
    )


def _greedy(tree: SoftTree, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Weights (T, L) and offsets (L,) of a new node, one column after the other."""
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
    """Weights (T, L) and offsets (L,) of a node for rows of `weights` (n,), which continue those of
    `start`: the column is added that lowers the loss most beyond its price, as long as there is
    one.

    The charges that are `paid` (S,) cost nothing more, nor do those of the columns of `start`. A
    column lowers the loss by more than `least` times what one without information does.
    """
    Phi, y = problem.columns, problem.targets
    loss = problem.loss
    members = problem.charges.members
    total = weights.sum()
    n_rows = total**2 / (weights @ weights)
    # The offset follows a column, so that only the spread about the mean counts.
    spread = weights @ np.square(Phi - weights @ Phi / total)
    curvature = loss.curvature * spread + _TINY
    W, b = start[0].copy(), start[1]
    chosen: np.ndarray = (W != 0).any(axis=1)
    while True:
        columns = Phi[:, chosen]
        W[chosen], b = fit_columns(
            columns, y, weights, loss, 1e-4 * total, (W[chosen], b), 10
        )
        losses, dS = loss(Phi @ W + b, y)
        gain = np.square(Phi.T @ (weights[:, None] * dS)).sum(axis=1) / (2 * curvature)
        noise = (
            weights @ losses
            if isinstance(loss, Squared)
            else 0.5 * loss.outputs * total
        )
        due = (
            np.where(paid | (members @ chosen > 0), 0.0, problem.charges.price)
            @ members
        )
        price = problem.lambda_ * total * due
        gain[chosen | (gain <= least * noise / n_rows)] = -np.inf
        worth = gain - price - problem.rho
        best = int(worth.argmax())
        if chosen.all() or worth[best] <= 1e-9:
            return W, b
        chosen[best] = True


class NodeProblem:
    """The objective as a function of node k's weights, offsets and threshold, as one vector.

    Every root `sqrt(g)` is replaced by `(g/z + z)/2`, with `z = sqrt(g)` at the present parameters:
    never less than the objective, equal to it there (the paper's lemma 1). Constants of other nodes
    are left out. Columns whose weights are next to nothing stay as they are: their auxiliary
    variables hold them there anyway.
    """

    def __init__(self, tree: SoftTree, k: int) -> None:
        self.tree = tree
        self.k = k
        self.problem = problem = tree.problem
        self.reach = problem.shares * tree.reach(k)
        squares = np.square(tree.weights[k])
        self.active = np.flatnonzero((squares > _STILL**2).any(axis=1))
        still = np.setdiff1d(np.arange(len(squares)), self.active)
        self.columns = (
            problem.columns[:, self.active] if len(still) else problem.columns
        )
        self.still_scores = (
            problem.columns[:, still] @ tree.weights[k][still] if len(still) else 0.0
        )
        self.still = squares[still].sum(axis=1), still
        self.absolute = np.sqrt(squares[self.active] + SMOOTH**2)
        self.forks = tree.has(2 * k + 1) or tree.has(2 * k + 2)
        if self.forks:
            self.risk_up, exits_up = tree.below(2 * k + 1)
            self.risk_down, exits_down = tree.below(2 * k + 2)
        else:
            exits_up = [Exit(tree.path(k), np.ones(len(self.reach)))]
            exits_down = []
        self.split = len(exits_up)
        exits = exits_up + exits_down
        self.onward = self.reach[:, None] * np.column_stack(
            [way.reach for way in exits]
        )
        self._auxiliary(exits)
        self.scale = self._scale()

    def _auxiliary(self, exits: list[Exit]) -> None:
        """The quadratic form of each exit's cost: `constant + slope . (squared weights) / 2`."""
        charges, tree = self.problem.charges, self.tree
        squares, still = self.still
        gaps = np.array([tree.gap(way.path) for way in exits])
        z = np.sqrt(gaps)
        slopes = (charges.price / z) @ charges.members
        roots = ((gaps - tree.mixed[self.k]) / z + z) @ charges.price
        self.slope = slopes[:, self.active]
        self.constant = (
            0.5 * (roots + slopes[:, still] @ squares) - SMOOTH * charges.price.sum()
        )

    def _scale(self) -> np.ndarray:
        """One over the root of a bound on the curvature by each parameter.

        In this scale the curvature is about the same in all directions.
        """
        problem, tree = self.problem, self.tree
        data = problem.loss.curvature * (self.reach @ np.square(self.columns))
        frequency = self._frequency(
            tree.up[self.k] if self.forks else np.ones(len(self.reach))
        )
        price = problem.lambda_ * (frequency @ self.slope)
        weights = (data + price)[:, None] + problem.rho / self.absolute
        offsets = np.full(
            problem.loss.outputs + 1, problem.loss.curvature * self.reach.sum()
        )
        return 1.0 / np.sqrt(np.concatenate((weights.ravel(), offsets)) + _TINY)

    def _frequency(self, q: np.ndarray) -> np.ndarray:
        """The share of rows that leave by each exit, if q (n,) of a row goes up; all of a leaf."""
        up = q @ self.onward[:, : self.split]
        down = (1.0 - q) @ self.onward[:, self.split :]
        return np.concatenate((up, down))

    def start(self) -> np.ndarray:
        """The present parameters, as one vector."""
        tree, k = self.tree, self.k
        weights = tree.weights[k][self.active].ravel()
        return np.concatenate((weights, tree.offsets[k], tree.thresholds[k : k + 1]))

    def split_up(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Weights of the active columns (T', C), offsets (L,) and threshold from one vector."""
        T, C = len(self.active), self.tree.weights.shape[2]
        return x[: T * C].reshape(T, C), x[T * C : -1], float(x[-1])

    def value_and_gradient(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        """The function and its gradient at x. O(n (T C + exits))."""
        problem = self.problem
        L = problem.loss.outputs
        W, b, threshold = self.split_up(x)
        S = self.columns @ W + self.still_scores
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
            frequency = self._frequency(q)
            value += float(self.reach @ (q * self.risk_up + (1.0 - q) * self.risk_down))
            cost_up = self.onward[:, : self.split] @ costs[: self.split]
            cost_down = self.onward[:, self.split :] @ costs[self.split :]
            dq = self.reach * (self.risk_up - self.risk_down)
            dq += problem.lambda_ * (cost_up - cost_down)
            turn = problem.steepness * dq * q * (1.0 - q)
            dS[:, problem.route] += turn
            dthreshold = -float(turn.sum())
        else:
            frequency = self._frequency(np.ones(len(S)))
        value += problem.lambda_ * float(frequency @ costs)
        value += 0.5 * problem.rho * float((np.square(W) / self.absolute).sum())
        penalty = (
            problem.lambda_ * (frequency @ self.slope)[:, None]
            + problem.rho / self.absolute
        )
        dW = self.columns.T @ dS + W * penalty
        return value, np.concatenate((dW.ravel(), db.sum(axis=0), [dthreshold]))

    def solve(self) -> bool:
        """Minimise by a few steps of L-BFGS; keep the result and return True if it is lower."""
        start, scale = self.start(), self.scale
        zero = np.zeros_like(start)

        def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
            value, gradient = self.value_and_gradient(start + u * scale)
            return value, gradient * scale

        before = scaled(zero)[0]
        options = {"maxiter": _STEPS, "gtol": 1e-7}
        minimum = minimize(scaled, zero, jac=True, method="L-BFGS-B", options=options)
        if not minimum.fun < before:
            return False
        W, offsets, threshold = self.split_up(start + minimum.x * scale)
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
    """Weights (T, L) and offsets (L,) with the least `sum_i w_i loss_i + ridge/2 |weights|^2`.

    columns (n, T), targets (n,), weights (n,) >= 0, `start` the same shapes as the answer. By
    L-BFGS, O(steps n T L); least squares are solved directly.
    """
    if isinstance(loss, Squared):
        return _least_squares(columns, targets, weights, ridge)
    T, L = columns.shape[1], loss.outputs
    total = weights.sum()
    of_weights = loss.curvature * (weights @ np.square(columns)) + ridge
    of_offsets = np.full(L, loss.curvature * total)
    curvature = np.concatenate((np.repeat(of_weights, L), of_offsets))
    scale = 1.0 / np.sqrt(curvature / total + _TINY)
    origin = np.concatenate((start[0].ravel(), start[1]))

    def scaled(u: np.ndarray) -> tuple[float, np.ndarray]:
        x = origin + u * scale
        W, b = x[: T * L].reshape(T, L), x[T * L :]
        losses, dS = loss(columns @ W + b, targets)
        value = weights @ losses + 0.5 * ridge * np.square(W).sum()
        dS *= weights[:, None]
        gradient = np.concatenate(
            ((columns.T @ dS + ridge * W).ravel(), dS.sum(axis=0))
        )
        return float(value / total), gradient * scale / total

    options = {"maxiter": steps, "gtol": 1e-8, "ftol": 1e-13}
    minimum = minimize(
        scaled, np.zeros_like(origin), jac=True, method="L-BFGS-B", options=options
    )
    x = origin + minimum.x * scale
    return x[: T * L].reshape(T, L), x[T * L :]


def _least_squares(
    columns: np.ndarray, targets: np.ndarray, weights: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    total = weights.sum()
    means = weights @ columns / total
    mean = weights @ targets / total
    centred = columns - means
    gram = (centred * weights[:, None]).T @ centred
    gram[np.diag_indices_from(gram)] += 0.5 * ridge
    W = np.linalg.lstsq(gram, centred.T @ (weights * (targets - mean)), rcond=None)[0]
    return W[:, None], np.array([mean - means @ W])
