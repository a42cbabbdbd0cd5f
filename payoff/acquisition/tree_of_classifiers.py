"""A tree whose nodes are linear classifiers: complete rows, and cases acquired feature by feature.

The kernels read `nodes`: upper, lower and needs, as in `TreeOfClassifiers`. `up` (n, N): whether a
case goes to `upper`; it is valid only if all features that the node needs are known.
"""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import expit

from payoff.acquisition.forest import price_of, spent_on
from payoff.acquisition.nodes import PriceArrays
from payoff.acquisition.prices import Prices, slack_of
from payoff.acquisition.states import States, Trajectories, checked
from payoff.arrays import F64, I32, Bools, Indices, Ints
from payoff.compiled import copy, kernel
from payoff.stored import Stored

Nodes = tuple[I32, I32, Bools]


class Scorer(Protocol):
    """Linear scores of raw rows."""

    def scores(self, X: F64) -> F64:
        """Scores (n, N + N L) for rows (n, m), NaN where missing; checks nothing."""


@dataclass(frozen=True, eq=False)
class TreeOfClassifiers(Stored):
    """N nodes over m features, the root first; K classes, or 0 for numbers.

    `upper`, `lower` (N,): the next node of a case whose score is above `thresholds` (N,), and of
    others; -1 leaves the tree. `needs` (N, m): the features that a node has weight on. `scorer`
    returns the N deciding scores, and then each node's L predicting ones: the value, or the log
    odds of the second of two classes, or one score for each class. `prior` (L,): the predicting
    scores before any node.
    """

    can_settle: ClassVar[bool] = False
    upper: I32
    lower: I32
    thresholds: F64
    needs: Bools
    scorer: Scorer
    prior: F64
    n_classes: int

    @property
    def n_nodes(self) -> int:
        return len(self.upper)

    @property
    def n_features(self) -> int:
        return int(self.needs.shape[1])

    @property
    def columns(self) -> Indices:
        """The features that some node needs, ascending."""
        return np.flatnonzero(self.needs.any(axis=0))

    def posterior(self, X: F64) -> F64:
        """Class probabilities (n, K) of complete rows (n, m), NaN where missing; checks nothing."""
        return self.probabilities(self._final(X))

    def values(self, X: F64) -> F64:
        """Predicted numbers (n,) of complete rows (n, m), NaN where missing; checks nothing."""
        return self._final(X)[:, 0]

    def predict(self, X: F64) -> np.ndarray:
        """Class codes or numbers (n,) of complete rows (n, m), as in `posterior`."""
        return self.chosen(self._final(X))

    def chosen(self, answers: np.ndarray) -> np.ndarray:
        """Class codes, or numbers, (n,) from nodes' answers (n, L)."""
        if self.n_classes == 0:
            return answers[:, 0]
        return self.probabilities(answers).argmax(axis=1).astype(np.int32)

    def probabilities(self, answers: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) from nodes' answers (n, L); (n, 0) for numbers."""
        if self.n_classes == 0:
            return np.empty((len(answers), 0))
        if self.n_classes == 2:
            return expit(np.concatenate((-answers, answers), axis=1))
        P = np.exp(answers - answers.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return P

    def step(
        self, X: F64, status: Ints, prices: Prices, budget: float | None = None
    ) -> States:
        """The states of n cases (`StepwiseModel.step`).

        A case stays at a node until all features that the node needs are known; then the node sends
        it up or down. The answer is that of the deepest node evaluated, or the prior. An
        unavailable feature and NaN count as the training mean. Features are requested cheapest
        first, ties to the earlier column. A part of what a node needs decides nothing, so none is
        requested unless the budget pays for all of it.
        O(n (m N L + depth m^2)).
        """
        X, status, limit = checked(self.n_features, X, status, prices, budget)
        n, m = X.shape
        Z = self.scorer.scores(np.where(status >= 1, X, np.nan))
        spent, total, price = np.zeros(n), np.zeros(n), np.zeros((n, m))
        reached, n_waiting = np.empty(n, dtype=np.int32), np.zeros(n, dtype=np.int32)
        left_tree, missed = np.zeros((2, n), dtype=np.bool_)
        order, waiting = np.zeros((2, n, m), dtype=np.int32)
        walk(
            self.nodes(), Z[:, : self.n_nodes] > self.thresholds, status, prices.arrays,
            len(prices.groups), spent, reached, left_tree, missed, n_waiting, total, order, waiting,
            price,
        )  # fmt: skip
        answers = self.answers(Z, reached)
        resolved = left_tree.astype(np.int32)
        if self.n_classes:
            prediction, value = self.chosen(answers), np.full(n, np.nan)
        else:
            prediction, value = np.zeros(n, dtype=np.int32), self.chosen(answers)
        affordable = (n_waiting > 0) & (spent + total <= limit + slack_of(limit))
        return States(
            waiting, price, order, n_waiting, spent, self.probabilities(answers), resolved,
            missed.astype(np.int32), np.where(resolved == 1, prediction, -1), prediction,
            np.where(affordable, order[:, 0], -1), value, 1, limit,
        )  # fmt: skip

    def travel(
        self,
        X: F64,
        prices: Prices,
        budget: float | None = None,
        missing: Bools | None = None,
    ) -> Trajectories:
        """Trajectories of n rows (`StepwiseModel.travel`).

        O(n (m N L + depth m^2)); memory n S (K + L + 6).
        """
        unknown = np.zeros(np.shape(X), dtype=np.int32)
        X, _, limit = checked(self.n_features, X, unknown, prices, budget)
        free = (
            np.isnan(X)
            if missing is None
            else np.ascontiguousarray(missing, dtype=np.bool_)
        )
        n, S = len(X), len(self.columns)
        Z = self.scorer.scores(X)
        features, price = np.full((n, S), -1, dtype=np.int32), np.zeros((n, S))
        node = np.full((n, S + 1), -1, dtype=np.int32)
        length, resolved = np.zeros(n, dtype=np.int32), np.zeros(n, dtype=np.bool_)
        trace(
            self.nodes(), Z[:, : self.n_nodes] > self.thresholds, free, prices.arrays,
            limit + slack_of(limit), len(prices.groups), features, price, node, length, resolved,
        )  # fmt: skip
        states = int(length.max(initial=0)) + 1
        answers = np.stack([self.answers(Z, node[:, s]) for s in range(states)], axis=1)
        flat = answers.reshape(n * states, -1)
        P = self.probabilities(flat).reshape(n, states, -1)
        vote = self.chosen(flat).reshape(n, states)
        settled = np.where(resolved, length, -1)
        return Trajectories.cut(
            features, price, free, P, vote, length, settled, resolved
        )

    def answers(self, Z: F64, reached: np.ndarray) -> np.ndarray:
        """Predicting scores (n, L), of all scores Z, at the nodes `reached` (n,); `prior` at -1."""
        L = len(self.prior)
        rows = np.arange(len(Z))[:, None]
        first = self.n_nodes + L * np.maximum(reached, 0)[:, None]
        answers: np.ndarray = Z[rows, first + np.arange(L)]
        if len(reached) and reached.min() < 0:
            answers[reached < 0] = self.prior
        return answers

    def nodes(self) -> Nodes:
        """The arrays that the compiled kernels read."""
        return self.upper, self.lower, self.needs

    def _final(self, X: F64) -> np.ndarray:
        Z = self.scorer.scores(X)
        return self.answers(Z, self._leave(Z))

    def _leave(self, Z: F64) -> np.ndarray:
        n = len(Z)
        rows, node = np.arange(n), np.zeros(n, dtype=np.intp)
        up = Z[:, : self.n_nodes] > self.thresholds
        while True:
            following = np.where(up[rows, node], self.upper[node], self.lower[node])
            inside = following >= 0
            if not inside.any():
                return node
            node = np.where(inside, following, node)
            # A row that leaves stays at its node: the same score sends it out again.


@kernel
def bill(needs: Bools, done: Bools, opened: Bools, prices: PriceArrays, order: I32,
         price: F64) -> tuple[int, float]:  # fmt: skip
    """Write the columns of `needs` that are not done, and their prices; return count and sum.

    The cheapest comes first, of equal ones the earlier.
    """
    known, begun = (
        np.empty(done.shape[0], np.bool_),
        np.empty(opened.shape[0], np.bool_),
    )
    group = prices[2]
    copy(done, known)
    copy(opened, begun)
    count, total = 0, 0.0
    while True:
        best, lowest = -1, np.inf
        for j in range(needs.shape[0]):
            if needs[j] and not known[j] and price_of(j, begun, prices) < lowest:
                best, lowest = j, price_of(j, begun, prices)
        if best < 0:
            return count, total
        order[count], price[count] = best, lowest
        count += 1
        total += lowest
        known[best] = True
        if group[best] >= 0:
            begun[group[best]] = True


@kernel
def trace(nodes: Nodes, up: Bools, missing: Bools, prices: PriceArrays, limit: float, n_groups: int,
          features: I32, price: F64, stood: I32, length: I32,
          resolved: Bools) -> None:  # fmt: skip
    """Acquire the features of complete rows one by one; fills the last five arguments.

    In state s: the feature requested and its price, and the deepest node evaluated (-1: none); the
    last state, and whether the row leaves the tree there. No feature is requested for a node that
    the budget does not pay for. A missing value costs nothing and changes the prices of the rest of
    its group.
    """
    upper, lower, needs = nodes
    n, m = missing.shape
    order, offered = np.empty(m, dtype=np.int32), np.empty(m)
    for i in range(n):
        done, opened = np.zeros(m, dtype=np.bool_), np.zeros(n_groups, dtype=np.bool_)
        node, spent, s = 0, 0.0, 0
        while node >= 0:
            count, total = bill(needs[node], done, opened, prices, order, offered)
            if spent + total > limit:
                break
            surprised = False
            for c in range(count):
                j = order[c]
                done[j] = True
                features[i, s], price[i, s] = j, offered[c]
                s += 1
                stood[i, s] = stood[i, s - 1]
                if missing[i, j]:
                    surprised = True
                    break
                spent += offered[c]
                if prices[2][j] >= 0:
                    opened[prices[2][j]] = True
            if not surprised:
                stood[i, s] = node
                node = upper[node] if up[i, node] else lower[node]
        length[i], resolved[i] = s, node < 0


@kernel
def walk(nodes: Nodes, up: Bools, status: I32, prices: PriceArrays, n_groups: int,
         spent: F64, reached: I32, resolved: Bools, missed: Bools, n_waiting: I32,
         total: F64, order: I32, waiting: I32, price: F64) -> None:  # fmt: skip
    """The states of cases with `status` (n, m) as in `StepwiseModel.step`.

    Fills the cost so far, the deepest node evaluated (-1: none), whether the case has left the
    tree, whether a feature on its path is unavailable, and the columns to request (`n_waiting` of
    them, `total` together): in order, and by column whether it is one, and its price.
    """
    upper, lower, needs = nodes
    n, m = status.shape
    opened, first = (
        np.zeros(n_groups, dtype=np.bool_),
        np.zeros(n_groups, dtype=np.int64),
    )
    done, offered = np.empty(m, dtype=np.bool_), np.empty(m)
    for i in range(n):
        for j in range(m):
            done[j] = status[i, j] != 0
        spent[i] = spent_on(status[i], prices, opened, first)
        node, reached[i] = 0, -1
        while node >= 0:
            count, sum_ = bill(needs[node], done, opened, prices, order[i], offered)
            if count:
                n_waiting[i], total[i] = count, sum_
                for place in range(count):
                    waiting[i, order[i, place]], price[i, order[i, place]] = (
                        1,
                        offered[place],
                    )
                break
            for j in range(m):
                missed[i] |= needs[node, j] and status[i, j] < 0
            reached[i] = node
            node = upper[node] if up[i, node] else lower[node]
        resolved[i] = node < 0
