"""A tree whose nodes are linear classifiers, and complete rows on their way through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.special import expit

Nodes = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Scorer(Protocol):
    """Linear scores of raw rows."""

    def scores(self, X: np.ndarray) -> np.ndarray:
        """Scores (n, N + N L) for rows (n, m), NaN where missing; checks nothing."""
        ...


@dataclass(frozen=True, eq=False)
class TreeOfClassifiers:
    """N nodes over m features, the root first; K classes, or 0 for numbers.

    `upper`, `lower` (N,) int32: where a case goes whose score is above `thresholds` (N,), and else; -1 is out.
    `needs` (N, m) bool: the features that a node has weight on. `evaluation` (N,): what its weak learners cost, those
    evaluated above left out. `scorer` gives the N deciding scores, and then each node's L predicting ones: the value,
    or the log odds of the second of two classes, or one score for each class. `prior` (L,): the same before any node.
    """

    upper: np.ndarray
    lower: np.ndarray
    thresholds: np.ndarray
    needs: np.ndarray
    evaluation: np.ndarray
    scorer: Scorer
    prior: np.ndarray
    n_classes: int

    @property
    def n_nodes(self) -> int:
        return len(self.upper)

    @property
    def n_features(self) -> int:
        return int(self.needs.shape[1])

    @property
    def columns(self) -> np.ndarray:
        """The features that some node may ask for, ascending."""
        return np.flatnonzero(self.needs.any(axis=0))

    def posterior(self, X: np.ndarray) -> np.ndarray:
        """Class probabilities (n, K) of complete rows (n, m), NaN where missing; checks nothing."""
        return self.probabilities(self._final(X))

    def values(self, X: np.ndarray) -> np.ndarray:
        """Predicted numbers (n,) of complete rows (n, m), NaN where missing; checks nothing."""
        final: np.ndarray = self._final(X)[:, 0]
        return final

    def predict(self, X: np.ndarray) -> np.ndarray:
        """Class codes, or numbers, (n,) of complete rows (n, m), NaN where missing; checks nothing."""
        return self.chosen(self._final(X))

    def chosen(self, answers: np.ndarray) -> np.ndarray:
        """Class codes, or numbers, (n,) from nodes' answers (n, L)."""
        if self.n_classes == 0:
            return answers[:, 0]
        codes: np.ndarray = self.probabilities(answers).argmax(axis=1).astype(np.int32)
        return codes

    def probabilities(self, answers: np.ndarray) -> np.ndarray:
        """Probabilities (n, K) from nodes' answers (n, L); (n, 0) for numbers."""
        if self.n_classes == 0:
            return np.empty((len(answers), 0))
        if self.n_classes == 2:
            P: np.ndarray = expit(np.concatenate((-answers, answers), axis=1))
            return P
        P = np.exp(answers - answers.max(axis=1, keepdims=True))
        P /= P.sum(axis=1, keepdims=True)
        return P

    def reach(self, X: np.ndarray) -> np.ndarray:
        """The node (n,) at which complete rows (n, m) leave the tree."""
        return self._leave(self.scorer.scores(X))

    def fees(self, X: np.ndarray) -> np.ndarray:
        """What evaluating the nodes on their way costs complete rows (n, m), (n,)."""
        paid = self.evaluation.astype(np.float64)
        waiting = [0]
        while waiting:
            node = waiting.pop()
            for child in {int(self.upper[node]), int(self.lower[node])} - {-1}:
                paid[child] += paid[node]
                waiting.append(child)
        fees: np.ndarray = paid[self.reach(X)]
        return fees

    def answers(self, Z: np.ndarray, reached: np.ndarray) -> np.ndarray:
        """Predicting scores (n, L) at the nodes reached (n,), `prior` where that is -1, from all scores Z."""
        L = len(self.prior)
        rows = np.arange(len(Z))[:, None]
        found: np.ndarray = Z[rows, self.n_nodes + L * np.maximum(reached, 0)[:, None] + np.arange(L)]
        if len(reached) and reached.min() < 0:
            found[reached < 0] = self.prior
        return found

    def nodes(self) -> Nodes:
        """The arrays that the compiled walks read."""
        return self.upper, self.lower, self.needs, self.evaluation

    def _final(self, X: np.ndarray) -> np.ndarray:
        Z = self.scorer.scores(X)
        return self.answers(Z, self._leave(Z))

    def _leave(self, Z: np.ndarray) -> np.ndarray:
        n = len(Z)
        rows, node = np.arange(n), np.zeros(n, dtype=np.intp)
        up = Z[:, : self.n_nodes] > self.thresholds
        while True:
            following = np.where(up[rows, node], self.upper[node], self.lower[node])
            inside = following >= 0
            if not inside.any():
                return node
            node = np.where(inside, following, node)
            # A row that is out goes on to be sent out of the same node by the same score.
