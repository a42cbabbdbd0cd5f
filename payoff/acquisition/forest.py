"""A forest of any learner: ranks of categories, its answers, and cases that are known in part,
whose features have a status as in `walks`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from payoff.acquisition.nodes import (
    MISSING_LEFT,
    Nodes,
    PriceArrays,
    add_values,
    child,
    leaves,
    tested,
)
from payoff.acquisition.prices import Prices, slack_of
from payoff.acquisition.states import States, Trajectories, checked
from payoff.arrays import F32, F64, I32, I64, Bools, Ints
from payoff.compiled import copy, kernel
from payoff.decisions.explanations import Contributions
from payoff.decisions.tree_contributions import Trees, tree_contributions
from payoff.stored import Stored

_ROWS_AT_ONCE = 65_536  # rows whose categories are ranked together


@dataclass(frozen=True, eq=False)
class Orders(Stored):
    """The ranks of categories, which trees split: `ranks[i][code]` in column `columns[i]`.

    A category that is unknown has the rank NaN.
    """

    columns: tuple[int, ...] = ()
    ranks: tuple[np.ndarray, ...] = ()

    def apply(self, X: np.ndarray) -> F32:
        """A copy of `X` (n, m) with ranks in place of codes; unknown codes are missing. O(n)."""
        # A number that float32 cannot hold becomes infinite, and stays above every threshold.
        with np.errstate(over="ignore"):
            rows: F32 = X.astype(np.float32, order="C")
        if self.columns:
            for start in range(0, len(X), _ROWS_AT_ONCE):
                block = slice(start, start + _ROWS_AT_ONCE)
                rows[block, self.columns] = self._ranked(X[block].take(self.columns, 1))
        return rows

    def _ranked(self, codes: F64) -> F64:
        """The ranks of codes (n, c) in the `columns`."""
        sizes, offsets, table = self._table
        known = (codes >= 0) & (codes < sizes) & (codes == np.floor(codes))
        places = np.where(known, codes, 0.0).astype(np.intp) + offsets
        ranks: F64 = np.where(known, table[places], np.nan)
        return ranks

    @cached_property
    def _table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The number of ranks in each column, where they begin, and all of them."""
        sizes = np.array([len(ranks) for ranks in self.ranks])
        return sizes, np.cumsum(sizes) - sizes, np.concatenate(self.ranks)


def order_categories(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    n_classes: int,
    columns: Sequence[int],
) -> Orders:
    """The order of the categories in each of `columns`, by their class distributions.

    X (n, m) float64 with codes 0, 1, … in `columns`, y (n,) class codes, weight (n,). For several
    labels y (n, K) is 0 or 1, and the share of each label takes the place of a class's. Categories
    are ranked once, before any tree is grown, by the first principal component of their class
    distributions: exact for two classes and one split, and in forests as good as searching subsets
    at every node. A category without rows has no rank.
    Sources: Coppersmith, Hong, Hosking (1999); Wright, König, "Splitting on categorical predictors"
            (2019).
    """
    return Orders(
        tuple(columns), tuple(_ranks(X[:, j], y, weight, n_classes) for j in columns)
    )


def _ranks(
    code: np.ndarray, y: np.ndarray, weight: np.ndarray, n_classes: int
) -> np.ndarray:
    known = ~np.isnan(code)
    if not known.any():
        return np.full(1, np.nan)
    code = code[known].astype(np.intp)
    counts = np.zeros((code.max() + 1, n_classes))
    if y.ndim == 1:
        np.add.at(counts, (code, y[known]), weight[known])
    else:
        np.add.at(counts, code, weight[known, None] * y[known])
    total = np.bincount(code, weight[known])
    seen = np.flatnonzero(total)
    share = counts[seen] / total[seen, None]
    centred = share - total[seen] @ share / total.sum()
    _, vectors = np.linalg.eigh((centred * total[seen, None]).T @ centred)
    axis = vectors[:, -1]
    if axis[np.argmax(abs(axis))] <= 0:  # the sign of an eigenvector is arbitrary
        axis = -axis
    # Rounding keeps categories of one distribution together, in the order of their codes, on every
    # machine.
    order = np.argsort(np.round(centred @ axis, 12), kind="stable")
    ranks = np.full(len(counts), np.nan)
    ranks[seen[order]] = np.arange(len(seen))
    return ranks


@dataclass(frozen=True, eq=False)
class FlatForest(Stored):
    """Trees that vote, over m columns and K classes; `orders` ranks categories."""

    can_settle: ClassVar[bool] = True
    nodes: Nodes
    n_features: int
    orders: Orders = field(default_factory=Orders)

    @property
    def n_trees(self) -> int:
        """The number of trees, T."""
        return len(self.nodes.roots)

    @property
    def n_classes(self) -> int:
        """The number of classes, K."""
        return len(self.nodes.prior)

    @property
    def columns(self) -> np.ndarray:
        """The features that some node tests, ascending."""
        used = np.unique(self.nodes.column)
        return used[used >= 0]

    def first(self, trees: int) -> Self:
        """The forest of its first trees."""
        return type(self)(self.nodes.first(trees), self.n_features, self.orders)

    def posterior(self, X: F64) -> F64:
        """Averaged leaf distributions (n, K) of rows X (n, m); checks nothing. O(n T depth).

        X is NaN where a value is missing.
        """
        P, first = np.zeros((len(X), self.n_classes)), np.zeros(len(X), dtype=np.int32)
        if not self.n_trees:
            return P + self.nodes.prior
        add_values(self.nodes, self.orders.apply(X), first, self.n_trees, P)
        P /= P.sum(axis=1, keepdims=True)
        return P

    def contributions(self, X: F64, chosen: I64) -> Contributions | None:
        """Contributions to the mean probability of a class; None without trees.

        The class is the second of two, or of more classes the `chosen` one (n,). Values are as in
        `tree_contributions`, and with their base add up to `posterior`.
        """
        nodes = self.nodes
        if not self.n_trees:
            return None
        ranks = self.orders.apply(X)
        if self.n_classes <= 2:
            chosen = np.ones(len(X), dtype=np.intp)
        column = nodes.column
        left_child = np.arange(1, len(nodes.right) + 1, dtype=np.int32)

        def next_nodes(rows: slice) -> I32:
            x = ranks[rows][:, np.maximum(column, 0)]
            goes_left = (x <= nodes.threshold) | (
                np.isnan(x) & (nodes.feature >= MISSING_LEFT)
            )
            return np.where(goes_left, left_child, nodes.right)

        trees = Trees(nodes.roots, column, left_child, nodes.right, nodes.cover)
        value = nodes.value.astype(np.float64)
        values, base = tree_contributions(
            trees, next_nodes, value, nodes.share, chosen, X.shape[1]
        )
        # The total is nearly T: the shares of a leaf are rounded to 32 bits.
        total = value.sum(axis=1)[nodes.share[self.leaves(X)]].sum(axis=1)
        return Contributions(
            values / total[:, None], base / total, chosen, "probability"
        )

    def predict(self, X: F64) -> np.ndarray:
        """The class (n,) with most votes, ties to the first; without trees the most frequent."""
        if not self.n_trees:
            return np.full(len(X), self.nodes.prior.argmax())
        label = self.nodes.label[self.nodes.share[self.leaves(X)]]
        votes = np.stack(
            [(label == k).sum(axis=1) for k in range(self.n_classes)], axis=1
        )
        return votes.argmax(axis=1)

    def leaves(self, X: F64) -> I32:
        """The node (n, T) at which each row ends in each tree, for rows as in `posterior`."""
        ends = np.empty((len(X), self.n_trees), dtype=np.int32)
        leaves(self.nodes, self.orders.apply(X), ends)
        return ends

    def step(
        self, X: F64, status: Ints, prices: Prices, budget: float | None = None
    ) -> States:
        """The states of n cases (`StepwiseModel.step`).

        Unavailable features and NaN take each node's branch for missing values. Every tree is
        walked until an unknown feature stops it. The next feature is the affordable one with the
        most waiting trees per price; free ones come first; equal ratios go to the lower price, then
        to more trees, then to the earlier column. The vote is settled when the leader's sure votes
        are more than any rival can still get from trees that have a leaf for it (ties as in the
        full vote, to the first class): then the class is that of the complete row.
        O(n T depth); about 10 microseconds a case.
        """
        X, status, limit = checked(self.n_features, X, status, prices, budget)
        n, m = X.shape
        waiting, order = (
            np.zeros((n, m), dtype=np.int32),
            np.empty((n, m), dtype=np.int32),
        )
        price, spent = np.empty((n, m)), np.empty(n)
        spending(status, prices.arrays, len(prices.groups), spent, price)
        P = np.empty((n, self.n_classes))
        counts, outcome = (
            np.zeros((n, 3), dtype=np.int32),
            np.empty((n, 3), dtype=np.int32),
        )
        states(
            self.nodes, self.orders.apply(X), status, price, limit + slack_of(limit) - spent,
            waiting, order, P, counts, outcome,
        )  # fmt: skip
        resolved, missed, n_waiting = counts.T
        leader, prediction, following = outcome.T
        return States(
            waiting, price, order, n_waiting, spent, P, resolved, missed, leader, prediction,
            following, np.full(n, np.nan), self.n_trees, limit,
        )  # fmt: skip

    def travel(
        self,
        X: F64,
        prices: Prices,
        budget: float | None = None,
        missing: Bools | None = None,
    ) -> Trajectories:
        """Trajectories of n rows (`StepwiseModel.travel`).

        O(n questions (T K + m)); memory n S (K + 4).
        """
        free = np.isnan(X) if missing is None else missing
        unknown = np.zeros(np.shape(X), dtype=np.int32)
        X, _, limit = checked(self.n_features, X, unknown, prices, budget)
        n, S, K = len(X), len(self.columns), self.n_classes
        features, price = np.full((n, S), -1, dtype=np.int32), np.zeros((n, S))
        P, vote = np.zeros((n, S + 1, K)), np.zeros((n, S + 1), dtype=np.int32)
        length, settled = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        resolved = np.zeros(n, dtype=np.bool_)
        trace(
            self.nodes, self.orders.apply(X), free, prices.arrays, limit + slack_of(limit),
            features, price, P, vote, length, settled, resolved,
        )  # fmt: skip
        return Trajectories.cut(
            features, price, free, P, vote, length, settled, resolved
        )


@kernel
def _advance(nodes: Nodes, x: F32, status: Ints, node: int) -> tuple[int, bool]:
    """The leaf or node of an unknown feature below `node`; and whether a missing value was met."""
    j, missed = tested(nodes, node), False
    while j >= 0 and status[j] != 0:
        missed |= np.isnan(x[j])
        node = child(nodes, node, x[j])
        j = tested(nodes, node)
    return node, missed


@kernel
def _walk(
    nodes: Nodes, x: F32, status: Ints, at: I64, waiting: Ints
) -> tuple[int, int]:
    """Advance every tree from its node `at` (T,), and count the trees that wait in `waiting` (m,).

    Returns how many trees have reached a leaf, and how many met a missing value on the way.
    """
    waiting[:] = 0
    resolved = missed = 0
    for t in range(at.shape[0]):
        at[t], has_missed = _advance(nodes, x, status, at[t])
        missed += has_missed
        f = tested(nodes, at[t])
        if f >= 0:
            waiting[f] += 1
        else:
            resolved += 1
    return resolved, missed


@kernel
def largest(values: Any) -> int:
    """The place of the largest number, the first of equal ones."""
    best = 0
    for k in range(1, values.shape[0]):
        if values[k] > values[best]:
            best = k
    return best


@kernel
def _settled(nodes: Nodes, at: I64, sure: I64, possible: I64) -> int:
    """The class that wins the full vote whatever the unknown values are, or -1.

    A tree's vote is sure if all leaves below its node `at` vote alike; else it is possible for each
    class that a leaf below votes for. `possible` (K,) includes the sure votes. With more than 64
    classes every class counts as possible.
    """
    K = sure.shape[0]
    sure[:] = 0
    possible[:] = 0
    for t in range(at.shape[0]):
        if nodes.right[at[t]] < 0:
            sure[nodes.label[nodes.share[at[t]]]] += 1
            possible[nodes.label[nodes.share[at[t]]]] += 1
            continue
        reach = nodes.reach[at[t]]
        candidate, n_candidates = 0, 0
        for k in range(K):
            if (reach >> np.uint64(k & 63)) & np.uint64(1):
                possible[k] += 1
                candidate = k
                n_candidates += 1
        if n_candidates == 1:
            sure[candidate] += 1
    leader = largest(sure)
    for k in range(K):
        ahead = possible[k] > sure[leader] or (
            possible[k] == sure[leader] and k < leader
        )
        if k != leader and ahead:
            return -1
    return leader


@kernel
def _conclude(nodes: Nodes, at: I64, leader: int, votes: I64, P: F64) -> int:
    """Write mean distribution P (K,) and `votes` (K,) of the trees' nodes; return the class."""
    votes[:] = 0
    P[:] = 0.0
    for t in range(at.shape[0]):
        for k in range(P.shape[0]):
            P[k] += nodes.value[nodes.share[at[t]], k]
        votes[nodes.label[nodes.share[at[t]]]] += 1
    if at.shape[0] == 0:
        copy(nodes.prior, P)
        return largest(P)
    total = 0.0
    for k in range(P.shape[0]):
        total += P[k]
    for k in range(P.shape[0]):
        P[k] /= total
    return largest(votes) if leader < 0 else leader


@kernel
def price_of(j: int, opened: Bools, prices: PriceArrays) -> float:
    """The present price of feature j, where `opened` marks the groups with an acquired feature."""
    price, discounted, group = prices
    return discounted[j] if group[j] >= 0 and opened[group[j]] else price[j]


@kernel
def _sooner(trees: int, price: float, other_trees: int, other_price: float) -> bool:
    """Whether a feature that so many trees wait for is requested before another one.

    Free ones come first, then more trees per price, then the lower price, then more trees.
    """
    ratio = trees / price if price > 0.0 else np.inf
    other_ratio = other_trees / other_price if other_price > 0.0 else np.inf
    if ratio != other_ratio:
        return ratio > other_ratio
    return price < other_price if price != other_price else trees > other_trees


@kernel
def _choose(waiting: Ints, price: F64, limit: float) -> int:
    """The feature of price <= `limit` to request, of equal ones the earlier; -1 for none."""
    best = -1
    for j in range(waiting.shape[0]):
        allowed = waiting[j] > 0 and price[j] <= limit
        if allowed and (
            best < 0 or _sooner(waiting[j], price[j], waiting[best], price[best])
        ):
            best = j
    return best


@kernel
def _rank(waiting: Ints, price: F64, order: I32) -> int:
    """Write the features that trees wait for to `order`, the first to acquire first; count them."""
    count = 0
    for j in range(waiting.shape[0]):
        if waiting[j] > 0:
            place = count
            while place > 0:
                before = order[place - 1]
                if not _sooner(waiting[j], price[j], waiting[before], price[before]):
                    break
                order[place] = before
                place -= 1
            order[place] = j
            count += 1
    return count


@kernel
def spent_on(status: Ints, prices: PriceArrays, opened: Bools, first: I64) -> float:
    """The cost of the features acquired, in the order of their status; sets `opened` by group."""
    price, discounted, group = prices
    first[:] = -1
    for j in range(status.shape[0]):
        g = group[j]
        if g >= 0 and status[j] > 0 and (first[g] < 0 or status[j] < status[first[g]]):
            first[g] = j
    spent = 0.0
    for j in range(status.shape[0]):
        if status[j] > 0:
            spent += price[j] if group[j] < 0 or first[group[j]] == j else discounted[j]
    for g in range(first.shape[0]):
        opened[g] = first[g] >= 0
    return spent


@kernel
def spending(
    status: I32, prices: PriceArrays, n_groups: int, spent: F64, price: F64
) -> None:
    """Write the cost of each case so far to `spent` (n,), the present prices to `price` (n, m)."""
    opened, first = np.zeros(n_groups, np.bool_), np.zeros(n_groups, np.int64)
    for i in range(status.shape[0]):
        spent[i] = spent_on(status[i], prices, opened, first)
        for j in range(status.shape[1]):
            price[i, j] = price_of(j, opened, prices)


@kernel
def states(
    nodes: Nodes, X: F32, status: I32, price: F64, funds: F64,
    waiting: Ints, order: I32, P: F64, counts: I32, outcome: I32,
) -> None:  # fmt: skip
    """The state of every case, with `funds` (n,) to spend at the `price` (n, m) of each feature.

    Fills the last five arguments, one row per case.

    `waiting` (n, m); `order` (n, m) the features that trees wait for, best first; `P` (n, K);
    `counts` (n, 3) resolved trees, trees that met a missing value, features in `order`; `outcome`
    (n, 3) the settled class or -1, the prediction, the feature to acquire next or -1.
    """
    T, K = nodes.roots.shape[0], P.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, standing = (
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
    )
    for i in range(X.shape[0]):
        copy(nodes.roots, at)
        counts[i, 0], counts[i, 1] = _walk(nodes, X[i], status[i], at, waiting[i])
        leader = _settled(nodes, at, sure, possible)
        outcome[i, 0] = leader
        outcome[i, 1] = _conclude(nodes, at, leader, standing, P[i])
        counts[i, 2] = _rank(waiting[i], price[i], order[i])
        outcome[i, 2] = _choose(waiting[i], price[i], funds[i])


@kernel
def trace(
    nodes: Nodes, X: F32, free: Bools, prices: PriceArrays, limit: float,
    features: I32, price: F64, P: F64, vote: I32, length: I32, settled: I32,
    resolved: Bools,
) -> None:  # fmt: skip
    """Acquire the features of complete rows X (n, m) one by one and record every state.

    `free` (n, m) marks features that are unavailable and cost nothing. Fills the last arguments:
    `features`, `price` (n, S): the feature requested in state s, and its price there; `P`
    (n, S + 1, K) and `vote` (n, S + 1): the answer in state s; `length` (n,): the number of
    requests until no feature is affordable; `settled` (n,): the number until the vote is settled,
    or
    -1; `resolved` (n,): whether all trees reach a leaf.
    """
    T, K, m = nodes.roots.shape[0], P.shape[2], X.shape[1]
    at = np.empty(T, np.int64)
    sure, possible, votes = (
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
        np.zeros(K, np.int64),
    )
    status, waiting, offered = np.zeros(m, np.int64), np.zeros(m, np.int64), np.empty(m)
    full, discounted, group = prices
    for i in range(X.shape[0]):
        status[:] = 0
        copy(full, offered)
        copy(nodes.roots, at)
        spent, s = 0.0, 0
        settled[i] = -1
        while True:
            in_leaves, _ = _walk(nodes, X[i], status, at, waiting)
            leader = _settled(nodes, at, sure, possible)
            if leader >= 0 and settled[i] < 0:
                settled[i] = s
            vote[i, s] = _conclude(nodes, at, leader, votes, P[i, s])
            j = _choose(waiting, offered, limit - spent)
            if j < 0:
                break
            features[i, s], price[i, s] = j, offered[j]
            if not free[i, j]:
                spent += price[i, s]
                for f in range(m):
                    if group[j] >= 0 and group[f] == group[j]:
                        offered[f] = discounted[f]
            s += 1
            status[j] = s
        length[i], resolved[i] = s, in_leaves == T
