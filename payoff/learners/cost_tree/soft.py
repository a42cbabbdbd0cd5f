"""The training objective of a tree of classifiers: soft traversal, expected loss and expected cost.

Node k of a complete binary tree (children 2k+1, taken above the threshold, and 2k+2) holds weights
W_k (T, C) of the T columns, offsets b_k (L,) and a threshold theta_k. Its scores are phi'W_k; the
first L, with b_k, predict, and the one numbered `route` decides: `q = sigmoid(steepness (score -
theta))` of a row goes up (the paper's steepness is 1). With one output the predicting score decides
(C = L = 1), with one for each class a further one of its own does (C = L + 1), so that all classes
share one traversal and one cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.special import expit

from payoff.acquisition.prices import Prices
from payoff.stored import Stored

SMOOTH = 1e-5
"""`sqrt(g)` is `sqrt(g + SMOOTH^2) - SMOOTH`, so that no auxiliary variable is zero."""


@dataclass(frozen=True)
class Squared(Stored):
    """`(s - y)^2` for numbers."""

    outputs: int = 1
    curvature: float = 2.0

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        difference = S - y[:, None]
        return np.square(difference[:, 0]), 2.0 * difference


@dataclass(frozen=True)
class TwoClasses(Stored):
    """`log(1 + exp(-s))` for class 1 and `log(1 + exp(s))` for class 0."""

    outputs: int = 1
    curvature: float = 0.25

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sign = 1.0 - 2.0 * y
        margin = sign * S[:, 0]
        small = np.exp(-np.abs(margin))
        wrong = np.where(margin >= 0, 1.0, small) / (1.0 + small)
        return np.maximum(margin, 0.0) + np.log1p(small), (sign * wrong)[:, None]


@dataclass(frozen=True)
class Classes(Stored):
    """Cross-entropy of a softmax over `outputs` scores, one for each class."""

    outputs: int
    curvature: float = 0.5

    def __call__(self, S: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(len(S))
        P = S - S.max(axis=1, keepdims=True)
        of_truth = P[rows, y]
        np.exp(P, out=P)
        total = P.sum(axis=1)
        P /= total[:, None]
        P[rows, y] -= 1.0
        return np.log(total) - of_truth, P


ScoreLoss = Squared | TwoClasses | Classes
"""A convex loss of scores (n, `outputs`) against targets (n,).

Returns the loss of each row (n,), and its derivative by each score (n, outputs). `curvature` bounds
its second derivative.
"""


def loss_of(n_classes: int) -> ScoreLoss:
    """The loss for a number of classes; 0 is regression."""
    if n_classes == 0:
        return Squared()
    return TwoClasses() if n_classes == 2 else Classes(n_classes)


@dataclass(frozen=True, eq=False)
class Charges:
    """S prices, each paid once on a path where any of its columns has weight.

    `members` (S, T) sparse 0/1: whether a column needs the charge; `price` (S,) > 0.
    """

    members: sparse.csr_matrix
    price: np.ndarray

    @classmethod
    def of(cls, prices: Prices, uses: np.ndarray) -> Charges:
        """From the prices of m features, and `uses` (m, T) bool (the paper's F); its e_t are 0.

        A feature in a group charges its discounted price, and the group what its first member costs
        more: the largest difference among them.
        """
        surcharge = np.zeros(len(prices.groups))
        grouped = np.flatnonzero(prices.group >= 0)
        np.maximum.at(
            surcharge, prices.group[grouped], (prices.cost - prices.discounted)[grouped]
        )
        opens = prices.group[None, :] == np.arange(len(prices.groups))[:, None]
        by_group = (opens.astype(np.float64) @ uses.astype(np.float64)) > 0
        price = np.concatenate((prices.discounted, surcharge))
        paid = price > 0
        members = sparse.vstack(
            (sparse.csr_matrix(uses), sparse.csr_matrix(by_group)), format="csr"
        )
        return cls(members[paid].astype(np.float64), price[paid])


@dataclass(frozen=True, eq=False)
class Objective:
    """The training objective: loss plus `lambda_` times expected price plus `rho` |weights|_1.

    Of columns (n, T), targets (n,), and `shares` (n,) of rows that sum to 1.
    """

    columns: np.ndarray
    targets: np.ndarray
    shares: np.ndarray
    loss: ScoreLoss
    charges: Charges
    lambda_: float
    rho: float
    steepness: float = 1.0

    @property
    def route(self) -> int:
        """The score that decides where a row goes."""
        return 0 if self.loss.outputs == 1 else self.loss.outputs

    @property
    def scores(self) -> int:
        """Scores of a node."""
        return self.route + 1


class Exit(NamedTuple):
    """An exit: the nodes on the path to it, and each row's probability (n,) to reach it."""

    path: tuple[int, ...]
    reach: np.ndarray


class SoftTree:
    """The parameters of the `alive` nodes, with each row's losses and branching probabilities."""

    def __init__(self, problem: Objective, depth: int) -> None:
        self.problem = problem
        N = 2**depth - 1
        n, T = problem.columns.shape
        self.weights = np.zeros((N, T, problem.scores))
        self.offsets = np.zeros((N, problem.loss.outputs))
        self.thresholds = np.zeros(N)
        self.alive = np.zeros(N, dtype=np.bool_)
        self.up = np.empty((N, n))
        self.losses = np.empty((N, n))
        self.mixed = np.zeros((N, len(problem.charges.price)))

    def put(
        self, k: int, weights: np.ndarray, offsets: np.ndarray, threshold: float
    ) -> None:
        """Set a node's parameters, and what follows from them. O(n T C)."""
        problem = self.problem
        self.weights[k] = weights
        self.offsets[k] = offsets
        self.thresholds[k] = threshold
        self.alive[k] = True
        S = problem.columns @ weights
        self.up[k] = expit(problem.steepness * (S[:, problem.route] - threshold))
        self.losses[k] = problem.loss(
            S[:, : problem.loss.outputs] + offsets, problem.targets
        )[0]
        self.mixed[k] = problem.charges.members @ np.square(weights).sum(axis=1)

    def posed(self, problem: Objective) -> SoftTree:
        """The same nodes with other trade-offs (`lambda_`, `rho`), or on other rows."""
        tree = SoftTree(problem, len(self.alive).bit_length())
        for k in np.flatnonzero(self.alive):
            tree.put(
                int(k), self.weights[k], self.offsets[k], float(self.thresholds[k])
            )
        return tree

    def has(self, k: int) -> bool:
        """Whether the tree has node k."""
        return k < len(self.alive) and bool(self.alive[k])

    @staticmethod
    def path(k: int) -> tuple[int, ...]:
        """The nodes from the root to k."""
        return (k,) if k == 0 else (*SoftTree.path((k - 1) // 2), k)

    def reach(self, k: int) -> np.ndarray:
        """Each row's probability (n,) to come to node k."""
        p = np.ones(len(self.problem.columns))
        while k:
            parent = (k - 1) // 2
            p *= self.up[parent] if k % 2 else 1.0 - self.up[parent]
            k = parent
        return p

    def below(self, k: int) -> tuple[np.ndarray, list[Exit]]:
        """Expected loss (n,) from node k on, and the exits below it, for rows that are there."""
        n = len(self.problem.columns)
        if not self.has(k):
            return np.zeros(n), [Exit(self.path((k - 1) // 2), np.ones(n))]
        upper, lower = 2 * k + 1, 2 * k + 2
        if not (self.has(upper) or self.has(lower)):
            return self.losses[k], [Exit(self.path(k), np.ones(n))]
        risk = self.losses[k].copy()
        exits = []
        for child, q in ((upper, self.up[k]), (lower, 1.0 - self.up[k])):
            expected, ways = self.below(child)
            risk += q * expected
            exits += [Exit(way.path, q * way.reach) for way in ways]
        return risk, exits

    def gap(self, path: tuple[int, ...]) -> np.ndarray:
        """Squared weights on a path, mixed by charge (S,), and smoothed."""
        mixed: np.ndarray = self.mixed[list(path)].sum(axis=0)
        return mixed + SMOOTH**2

    def cost(self, path: tuple[int, ...]) -> float:
        """The relaxed price of a path: `sum_s price_s sqrt(g_s)`."""
        return float(self.problem.charges.price @ (np.sqrt(self.gap(path)) - SMOOTH))

    def objective(self) -> float:
        """Expected loss + rho |weights|_1 + lambda expected cost (Xu et al. 2013, eq. 5).

        O(nodes n).
        """
        problem = self.problem
        risk, exits = self.below(0)
        cost = sum(
            float(problem.shares @ way.reach) * self.cost(way.path) for way in exits
        )
        size = float(
            (np.sqrt(np.square(self.weights[self.alive]) + SMOOTH**2) - SMOOTH).sum()
        )
        return (
            float(problem.shares @ risk) + problem.rho * size + problem.lambda_ * cost
        )
