"""The chain of forests in plain loops: one tree asked, and what answers where features are lost."""

from typing import Any

import numpy as np

from payoff.acquisition.nodes import MISSING_LEFT


def leaf(trees: Any, root: int, x: list[float]) -> list[float]:
    """The class shares at the leaf that x reaches in the tree that begins at `root`."""
    node: int = root
    while trees.right[node] >= 0:
        column, left_if_missing = (
            int(trees.feature[node]) % MISSING_LEFT,
            trees.feature[node] >= MISSING_LEFT,
        )
        value = x[column]
        left = left_if_missing if np.isnan(value) else value <= trees.threshold[node]
        node = node + 1 if left else int(trees.right[node])
    shares: list[float] = trees.value[-1 - trees.right[node]].tolist()
    return shares


def shares(trees: Any, forest: int, forests: int, x: list[float]) -> np.ndarray:
    """The mean over the trees of one of so many forests."""
    T = len(trees.roots) // forests
    return np.mean(
        [
            leaf(trees, int(root), x)
            for root in trees.roots[forest * T : (forest + 1) * T]
        ],
        axis=0,
    )


def substitute(model: Any, available: list[bool]) -> int:
    """What answers with these features: the state of the chain, S + 1 + a reduced forest, or -1 (masked)."""
    S, reduced = len(available), model.reduced
    sets = [set(range(s)) for s in range(S + 1)]
    sets += [set(range(length)) - set(lost) for length, lost in reduced.lacking]
    known = {j for j in range(S) if available[j]}
    best = min(
        (k for k in range(len(sets)) if sets[k] <= known),
        key=lambda k: (reduced.loss[k], k),
    )
    few = 2 * len(sets[best]) < len(known)
    return -1 if few and reduced.masked_loss < reduced.loss[best] else best


def without(model: Any, x: list[float], state: int) -> np.ndarray:
    """Probabilities of a case with gaps that forests do not know; those of states and the masked are not calibrated."""
    S, reduced = len(x), model.reduced
    k = (
        -1
        if reduced is None
        else substitute(
            model,
            [
                j < state and not (np.isnan(x[j]) and not model.gaps[j])
                for j in range(S)
            ],
        )
    )
    if k < 0:
        return shares(
            model.masked, 0, 1, [x[j] if j < state else np.nan for j in range(S)]
        )
    if k <= S:
        return shares(model.forests, k - 1, S, x) if k else model.forests.prior
    one, F = k - S - 1, len(reduced.lacking)
    T, prior = len(reduced.forests.roots) // F, reduced.forests.prior
    parts = [one]
    if one and reduced.lacking[one - 1][1] == reduced.lacking[one][1]:
        parts.append(one - 1)
    told = [
        (T * shares(reduced.forests, part, F, x) + prior / 2) / (T + 0.5)
        for part in parts
    ]
    if not reduced.blends:
        return told[0]
    blend = reduced.blends[one]
    logs = [np.log(np.maximum(P, 1e-3)) for P in told]
    scores = (
        sum(
            power * (log - log.mean())
            for power, log in zip(blend.powers, logs, strict=True)
        )
        + blend.offset
    )
    P = np.maximum(np.exp(scores) / np.exp(scores).sum(), blend.lowest)
    return P / P.sum()
