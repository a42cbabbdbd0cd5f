"""The trees of every forest in one set of small arrays: how they are made, stored, and walked."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np

from payoff.arrays import F32, F64, I32, U64, Ints
from payoff.compiled import kernel
from payoff.stored import attributes_of, with_format

PriceArrays = tuple[F64, F64, I32]  # cost, discounted, group of each feature
MISSING_LEFT = 1 << 30
"""Added to a node's feature where missing values go left."""
_FORMAT = 1  # the number of the format in which a pickle holds nodes


class Tree(NamedTuple):
    """One tree as it was grown, nodes in any order; node 0 is the root, `feature` -1 marks a leaf.

    `x <= threshold` goes left; a missing value goes to node `missing`: where missing values were
    split best in training, or the heavier child where none were there. `counts` (N, K): training
    rows per class at every node, or a distribution of them where `cover` (N,) has the numbers of
    rows.
    """

    feature: np.ndarray
    threshold: np.ndarray
    left: np.ndarray
    right: np.ndarray
    missing: np.ndarray
    counts: np.ndarray
    cover: np.ndarray | None = None


class Nodes(NamedTuple):
    """The N nodes of T trees over rows of float32, depth first from the `roots` (T,) of the trees.

    The left child of an inner node i is i + 1, and `right[i]` the other; a leaf has -1 - (its row
    in `value`) there. `x <= threshold` goes left; NaN does where `feature` has `MISSING_LEFT`.
    `value` (V, K): the distinct class distributions, `label` (V,) their most frequent class, ties
    to the first; `prior` (K,): the answer without trees. Where rows may stop at inner nodes, else
    empty: `share` (N,), the node's row in `value`; `cover` (N,), its training rows; `reach` (N,),
    bit k of which is set if a leaf below votes for class k (all bits if K > 64). A pickle holds
    about 5 bytes for each node without these.
    """

    feature: I32
    threshold: F32
    right: I32
    value: F32
    label: I32
    roots: I32
    prior: F64
    share: I32
    cover: F32
    reach: U64

    @classmethod
    def of(
        cls, feature: I32, threshold: F32, right: I32, value: F32, roots: I32, prior: F64,
        share: I32, cover: F32,
    ) -> Self:  # fmt: skip
        """Nodes whose `label` and `reach` follow from the other arrays."""
        label = value.argmax(axis=1).astype(np.int32)
        reach = np.zeros(len(share), dtype=np.uint64)
        if value.shape[1] > 64:
            reach[:] = np.iinfo(np.uint64).max
        elif len(share):
            find_reach(right, label, reach)
        return cls(
            feature, threshold, right, value, label, roots, prior, share, cover, reach
        )

    @property
    def column(self) -> I32:
        """The column that each node tests (N,), -1 of a leaf."""
        return np.where(self.right >= 0, self.feature & ~MISSING_LEFT, np.int32(-1))

    def first(self, trees: int) -> Self:
        """The first of the trees."""
        end = int(self.roots[trees]) if trees < len(self.roots) else len(self.right)
        names = ("feature", "threshold", "right", "share", "cover", "reach")
        return self._replace(
            **{name: getattr(self, name)[:end] for name in names},
            roots=self.roots[:trees],
        )

    def shares(self, X: F32, state: Ints, forests: int = 1) -> F64:
        """Mean class shares (n, K) of complete rows X (n, m), each from forest `state` - 1.

        The trees are those of `forests` forests of one size.
        """
        # Rows of one forest come together: its nodes stay in the processor's cache.
        turn = np.argsort(state, kind="stable")
        trees = len(self.roots) // max(forests, 1)
        rows = np.ascontiguousarray(X[turn], dtype=np.float32)
        first = ((state[turn] - 1) * trees).astype(np.int32)
        sums, shares = np.zeros((2, len(X), self.value.shape[1]))
        add_values(self, rows, first, trees, sums)
        shares[turn] = sums / max(trees, 1)
        return shares

    def __reduce__(self) -> tuple[Any, ...]:
        inner = self.right >= 0
        jump = self.right[inner] - np.flatnonzero(inner)
        missing_left = np.packbits(self.feature[inner] >= MISSING_LEFT)
        stops = self.share[inner] if len(self.share) else self.share
        attributes = {
            "size": len(inner),
            "inner": np.packbits(inner),
            "jump": _narrow(jump),
            "column": _narrow(self.column[inner]),
            "missing_left": missing_left,
            "threshold": self.threshold[inner],
            "leaf": _narrow(-1 - self.right[~inner]),
            "value": self.value,
            "roots": self.roots,
            "prior": self.prior,
            "stops": _narrow(stops),
            "cover": self.cover,
        }
        return nodes_of, (with_format(_FORMAT, attributes),)


def nodes_of(state: dict[str, Any]) -> Nodes:
    """The nodes that a pickle holds: which are inner ones as bits, and numbers in few bytes."""
    packed = attributes_of(Nodes.__name__, _FORMAT, state)
    size, jump, leaf, stops = (
        packed[name] for name in ("size", "jump", "leaf", "stops")
    )
    inner = np.unpackbits(packed["inner"], count=size).astype(bool)
    missing_left = np.unpackbits(packed["missing_left"], count=len(jump)).astype(
        np.int32
    )
    feature, threshold = np.zeros(size, np.int32), np.zeros(size, np.float32)
    feature[inner] = packed["column"] + missing_left * np.int32(MISSING_LEFT)
    threshold[inner] = packed["threshold"]
    right, share = np.empty(size, np.int32), np.empty(len(packed["cover"]), np.int32)
    right[inner], right[~inner] = (
        np.flatnonzero(inner) + jump,
        -1 - leaf.astype(np.int32),
    )
    if len(share):
        share[inner], share[~inner] = stops, leaf
    return Nodes.of(
        feature, threshold, right, packed["value"], packed["roots"], packed["prior"], share,
        packed["cover"],
    )  # fmt: skip


def _narrow(numbers: np.ndarray) -> np.ndarray:
    """Numbers >= 0 in the smallest type that holds them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


def flatten(trees: Iterable[Tree], prior: np.ndarray) -> Nodes:
    """The nodes of trees; rows may stop at each of them.

    The `counts` of the trees are anything proportional to the class distributions.

    O(nodes K).
    """
    return beside([_of_one(tree, prior) for tree in trees], prior)


def beside(parts: Sequence[Nodes], prior: np.ndarray) -> Nodes:
    """The trees of all parts, in this order. O(nodes)."""
    prior = np.asarray(prior, dtype=np.float64)
    no_values = np.empty((0, len(prior)), np.float32)
    values, places = distinct_rows(
        np.concatenate([no_values, *(part.value for part in parts)])
    )
    right, roots, share = [], [], []
    first_node = first_value = 0
    for part in parts:
        leaf_values = places[first_value - 1 - np.minimum(part.right, -1)]
        right.append(
            np.where(part.right >= 0, part.right + first_node, -1 - leaf_values)
        )
        roots.append(part.roots + first_node)
        share.append(places[first_value + part.share])
        first_node += len(part.right)
        first_value += len(part.value)

    def joined(
        columns: Iterable[np.ndarray], kind: type[np.generic] = np.int32
    ) -> np.ndarray:
        return np.concatenate(
            [np.empty(0, kind), *columns], dtype=kind, casting="same_kind"
        )

    feature = joined(part.feature for part in parts)
    threshold = joined((part.threshold for part in parts), np.float32)
    cover = joined((part.cover for part in parts), np.float32)
    return Nodes.of(
        feature,
        threshold,
        joined(right),
        values,
        joined(roots),
        prior,
        joined(share),
        cover,
    )


def _of_one(tree: Tree, prior: np.ndarray) -> Nodes:
    order, place = np.empty((2, len(tree.feature)), dtype=np.int32)
    depth_first(tree.left, tree.right, tree.feature, order, place)
    feature = tree.feature[order]
    threshold = _last_left(tree.threshold[order])
    inner = feature >= 0
    cover = tree.counts.sum(axis=1) if tree.cover is None else tree.cover
    counts = tree.counts[order]
    shares = np.ascontiguousarray(
        counts / counts.sum(axis=1, keepdims=True), dtype=np.float32
    )
    value, share = distinct_rows(shares)
    missing_left = inner & (tree.missing[order] == tree.left[order])
    right = np.where(inner, place[tree.right[order]], 0)
    right[~inner] = -1 - share[~inner]
    feature = np.where(inner, feature, 0) + missing_left * np.int32(MISSING_LEFT)
    return Nodes.of(
        feature, threshold, right.astype(np.int32), value, np.zeros(1, np.int32), prior,
        share.astype(np.int32), cover[order].astype(np.float32),
    )  # fmt: skip


def distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The distinct rows, and the place of each row among them.

    Most nodes of a tree share their distribution with others.
    """
    width = f"V{rows.shape[1] * rows.itemsize}"
    distinct, places = np.unique(rows.view(width).ravel(), return_inverse=True)
    return distinct.view(rows.dtype).reshape(-1, rows.shape[1]), places


def converted(tree: Any) -> Tree:
    """The tree that decides exactly as one fitted tree of scikit-learn's forest (its `tree_`)."""
    left_child, right_child = tree.children_left, tree.children_right
    feature = np.where(left_child < 0, -1, tree.feature).astype(np.int32)
    missing = np.where(tree.missing_go_to_left.astype(bool), left_child, right_child)
    return Tree(
        feature, tree.threshold, left_child, right_child, missing, tree.value[:, 0, :],
        tree.weighted_n_node_samples,
    )  # fmt: skip


def _last_left(threshold: np.ndarray) -> F32:
    """The largest float32 that is not above `threshold`."""
    below = threshold.astype(np.float32)
    return np.where(below > threshold, np.nextafter(below, np.float32(-np.inf)), below)


@kernel
def depth_first(
    left_child: I32, right_child: I32, feature: I32, order: I32, place: I32
) -> None:
    """Write the nodes (N,), each before its left child, to `order`, and their places to `place`."""
    waiting = np.empty(len(order), np.int64)
    waiting[0], top = 0, 1
    for i in range(len(order)):
        top -= 1
        node = waiting[top]
        order[i], place[node] = node, i
        if feature[node] >= 0:
            waiting[top], waiting[top + 1] = right_child[node], left_child[node]
            top += 2


@kernel
def find_reach(right: I32, label: I32, reach: U64) -> None:
    """Bit k of a node: some leaf below it votes for class k. O(nodes), as parents come first."""
    for i in range(len(right) - 1, -1, -1):
        if right[i] < 0:
            reach[i] = np.uint64(1) << np.uint64(label[-1 - right[i]])
        else:
            reach[i] = reach[i + 1] | reach[right[i]]


@kernel
def tested(nodes: Nodes, node: int) -> int:
    """The column that a node tests, -1 of a leaf."""
    return nodes.feature[node] & ~MISSING_LEFT if nodes.right[node] >= 0 else -1


@kernel
def child(nodes: Nodes, node: int, x: float) -> int:
    """The child of an inner node for the value of its column."""
    if x <= nodes.threshold[node] or (
        nodes.feature[node] >= MISSING_LEFT and np.isnan(x)
    ):
        return node + 1
    return int(nodes.right[node])


@kernel
def leaf_of(nodes: Nodes, node: int, x: F32) -> int:
    """The leaf below `node` that a complete row x (m,) reaches."""
    while nodes.right[node] >= 0:
        node = child(nodes, node, x[nodes.feature[node] & ~MISSING_LEFT])
    return node


@kernel
def add_values(nodes: Nodes, X: F32, first: I32, trees: int, P: F64) -> None:
    """Add the values of leaves to P (n, K): those that complete rows X (n, m) reach.

    They are the leaves of so many trees from tree `first` (n,) on.
    """
    for t in range(trees):
        for i in range(X.shape[0]):
            leaf = -1 - nodes.right[leaf_of(nodes, nodes.roots[first[i] + t], X[i])]
            for k in range(P.shape[1]):
                P[i, k] += nodes.value[leaf, k]


@kernel
def leaves(nodes: Nodes, X: F32, ends: I32) -> None:
    """Write the leaf that each complete row of X (n, m) reaches in each tree to `ends` (n, T)."""
    for t in range(nodes.roots.shape[0]):
        for i in range(X.shape[0]):
            ends[i, t] = leaf_of(nodes, nodes.roots[t], X[i])
