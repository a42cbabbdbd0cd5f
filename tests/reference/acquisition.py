"""Slow, literal twins of the budgeted forest: trees as nested dictionaries, states by walking them one by one."""

import itertools
import math
from collections import Counter


def pairs(counts, alpha):
    """Threshold-pairs by its definition, over ordered pairs."""
    total = 0.0
    for i, j in itertools.permutations(range(len(counts)), 2):
        total += max(
            max(counts[i] - alpha, 0) * max(counts[j] - alpha, 0) - alpha**2, 0
        )
    return total


def counts_of(S, K):
    found = Counter(label for _, label in S)
    return [found[k] for k in range(K)]


def cuts(values):
    """Every way to part rows by one feature, as (threshold, whether missing goes left), in order of preference."""
    known = sorted({v for v in values if not math.isnan(v)})
    middles = [(a + b) / 2 for a, b in itertools.pairwise(known)]
    if len(known) == len(set(values)) and not any(map(math.isnan, values)):
        return [(middle, False) for middle in middles]
    alone = [(math.inf, False)] if known else []
    return (
        [(middle, False) for middle in middles]
        + alone
        + [(middle, True) for middle in middles]
    )


def goes_left(x, threshold, missing_left):
    return missing_left if math.isnan(x) else x <= threshold


def greedy_tree(S, K, prices, alpha, max_depth=math.inf, path=()):
    """GreedyTree on a list of (row, label), each drawn row listed as often as it was drawn."""
    node = {"counts": counts_of(S, K), "feature": -1}
    F = pairs(node["counts"], alpha)
    if F == 0 or len(path) >= max_depth:
        return node
    recent = list(dict.fromkeys(reversed(path)))
    best = None
    for t in recent + [t for t in range(len(prices)) if t not in recent]:
        for threshold, missing_left in cuts([x[t] for x, _ in S]):
            left = [(x, y) for x, y in S if goes_left(x[t], threshold, missing_left)]
            right = [
                (x, y) for x, y in S if not goes_left(x[t], threshold, missing_left)
            ]
            drop = F - max(
                pairs(counts_of(left, K), alpha), pairs(counts_of(right, K), alpha)
            )
            if drop > 0 and (best is None or (prices[t] / drop, -drop) < best[0]):
                best = (
                    (prices[t] / drop, -drop),
                    t,
                    threshold,
                    missing_left,
                    left,
                    right,
                )
    if best is None:
        return node
    _, t, threshold, missing_left, left, right = best
    if not any(math.isnan(x[t]) for x, _ in S):
        missing_left = len(left) >= len(right)
    below = [
        greedy_tree(side, K, prices, alpha, max_depth, (*path, t))
        for side in (left, right)
    ]
    return {
        **node,
        "feature": t,
        "threshold": threshold,
        "missing_left": missing_left,
        "below": below,
    }


def nested(tree, node=0):
    """A grown tree in the same form."""
    out = {"counts": tree.counts[node].tolist(), "feature": int(tree.feature[node])}
    if out["feature"] < 0:
        return out
    left, right = int(tree.left[node]), int(tree.right[node])
    return {
        **out,
        "threshold": float(tree.threshold[node]),
        "missing_left": bool(tree.missing[node] == left),
        "below": [nested(tree, left), nested(tree, right)],
    }


def depth(tree):
    return 0 if tree["feature"] < 0 else 1 + max(map(depth, tree["below"]))


def first_largest(values):
    return max(range(len(values)), key=lambda k: (values[k], -k))


def label(tree):
    return first_largest(tree["counts"])


def leaf_labels(tree):
    return (
        {label(tree)}
        if tree["feature"] < 0
        else set().union(*map(leaf_labels, tree["below"]))
    )


def walk(tree, known):
    """Down to a leaf or an unknown feature; `known` maps features to values, NaN where they cannot be had."""
    missed = False
    while tree["feature"] in known:
        x = known[tree["feature"]]
        missed |= math.isnan(x)
        tree = tree["below"][
            0 if goes_left(x, tree["threshold"], tree["missing_left"]) else 1
        ]
    return tree, missed


def vote(labels, K):
    return first_largest([labels.count(k) for k in range(K)])


def full_class(trees, x, K):
    """The class of a complete row."""
    return vote([label(walk(tree, dict(enumerate(x)))[0]) for tree in trees], K)


def state(trees, known, K, prices, budget=math.inf):
    """Where a case stands; `known` in the order of acquisition, `prices` a Prices."""
    acquired = [j for j, x in known.items() if not math.isnan(x)]
    spent = sum(prices.paid(acquired))
    walked = [walk(tree, known) for tree in trees]
    waiting = Counter(tree["feature"] for tree, _ in walked if tree["feature"] >= 0)
    frontier = []
    for j, trees_waiting in waiting.items():
        price = prices.paid([*acquired, j])[-1]
        frontier.append(
            (-trees_waiting / price if price else -math.inf, price, -trees_waiting, j)
        )
    ordered = [(j, price, -less) for _, price, less, j in sorted(frontier)]
    affordable = [wanted for wanted in ordered if wanted[1] <= budget - spent + 1e-9 * budget] if (
        math.isfinite(budget)
    ) else ordered  # fmt: skip
    outcomes = {
        vote(list(labels), K)
        for labels in itertools.product(*(leaf_labels(tree) for tree, _ in walked))
    }
    shares = [[c / sum(tree["counts"]) for c in tree["counts"]] for tree, _ in walked]
    return {
        "spent": spent,
        "frontier": ordered,
        "next": affordable[0][0] if affordable else None,
        "resolved": sum(tree["feature"] < 0 for tree, _ in walked),
        "missed": any(missed for _, missed in walked),
        "settled": len(outcomes) == 1,
        "prediction": outcomes.pop()
        if len(outcomes) == 1
        else vote([label(tree) for tree, _ in walked], K),
        "probabilities": [
            sum(column) / len(trees) for column in zip(*shares, strict=True)
        ],
    }
