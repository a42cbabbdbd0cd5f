"""Explanations: what each feature contributes to a score, and what would change a decision."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np


@dataclass(frozen=True)
class Contributions:
    """Contributions `values` (n, m) of the features of n rows, and the `base` (n,).

    Both add up to a score of the class `chosen` int (n,). The score is `log_odds`, of the class
    against all other classes, `log_ratio`, the log of its probability less the mean log of all
    classes, or `probability`. It is the score of the model before calibration, of a blend the
    weighted mean of its members' scores but for the kinds `without` contributions.
    """

    values: np.ndarray
    base: np.ndarray
    chosen: np.ndarray
    score: Literal["log_odds", "log_ratio", "probability"]
    without: tuple[str, ...] = ()


def of_terms(T: np.ndarray, base: np.ndarray, chosen: np.ndarray) -> Contributions:
    """Contributions from the terms T (n, m, L) of L scores.

    The terms and `base` (L,) add up to log probabilities, except for a constant of each row; a
    single score is the log-odds of the second of two classes. The contributions are to the second
    of two classes, and to the `chosen` of three or more. O(n m L).
    """
    n, _, L = T.shape
    if L <= 2:
        values = T[:, :, -1] - T[:, :, 0] if L == 2 else T[:, :, 0]
        start = base[-1] - base[0] if L == 2 else base[0]
        return Contributions(
            values, np.full(n, start), np.ones(n, dtype=np.intp), "log_odds"
        )
    values = T[np.arange(n), :, chosen] - T.mean(axis=2)
    return Contributions(values, (base - base.mean())[chosen], chosen, "log_ratio")


def mean_contributions(parts: Sequence[Contributions]) -> Contributions | None:
    """The means of contributions to the same scores of as many rows; None of no parts."""
    if not parts:
        return None
    values = np.mean([part.values for part in parts], axis=0)
    base = np.mean([part.base for part in parts], axis=0)
    return replace(parts[0], values=values, base=base)


def most_regretted(
    P: np.ndarray, B: np.ndarray, action: int, expected: np.ndarray
) -> np.ndarray:
    """The class int (n,) that carries most of the regret of an action.

    The regret is what the best other action is expected to earn more, by posteriors P (n, K),
    benefits B (K, A) or (n, K, A), and `expected` (n, A); a class carries its probability times
    what that action earns more in it. Of two classes it is the one in which that action earns most
    more: the regret grows with its log-odds. There are at least two actions. O(n K A).
    """
    n, K = P.shape
    alternatives = expected.copy()
    alternatives[:, action] = -np.inf
    matrices = np.broadcast_to(B, (n, *B.shape[-2:]))
    regrets = (
        matrices[np.arange(n), :, alternatives.argmax(axis=1)] - matrices[:, :, action]
    )
    if K > 2:
        regrets = regrets * np.maximum(P, _LEAST_PROBABILITY)
    carrier: np.ndarray = regrets.argmax(axis=1)
    return carrier


# of a class that may carry a regret: classes with the probability 0 differ, too
_LEAST_PROBABILITY = 1e-12
_MARGIN_OF_BOUND = (
    1 - 1e-6
)  # factor of a lower bound, so that rounding does not make it too large
_HALVINGS = 80  # of the interval in which a multiplier is searched


class Flips(NamedTuple):
    """What would change each of n decisions.

    `runner_up` int (n,) is the next best action, `margin` (n,) the difference of its expected
    benefit from that of the choice. `point` (n, K) are the nearest probabilities, in Euclidean
    distance, at which another action, `to` int (n,), has the same expected benefit; NaN and -1
    where there are none. `cell` int (n,) is the class in which the benefit of the runner-up has to
    grow least, by `change` (n,), until both actions have the same expected benefit.
    """

    runner_up: np.ndarray
    margin: np.ndarray
    point: np.ndarray
    to: np.ndarray
    cell: np.ndarray
    change: np.ndarray


def flips(P: np.ndarray, B: np.ndarray, choice: np.ndarray) -> Flips:
    """What would change decisions `choice` int (n,) with posteriors P (n, K) and benefits B (K, A)
    or (n, K, A).

    There are at least two actions. O(n A K log K) at most: an action is skipped where its plane of
    equal expected benefits is farther than the nearest point so far, or where it earns more than
    the choice in no class.
    """
    n = len(P)
    rows = np.arange(n)
    matrices = np.broadcast_to(B, (n, *B.shape[-2:]))
    chosen = matrices[rows, :, choice]
    gains = (
        chosen[:, :, None] - matrices
    )  # (n, K, A): of the choice over each action, by class
    margins = np.einsum("nk,nka->na", P, gains)
    margins[rows, choice] = np.inf
    runner_up = margins.argmin(axis=1)
    margin = np.maximum(margins[rows, runner_up], 0.0)
    cell = P.argmax(axis=1)
    nearest = np.full(n, np.inf)
    point = np.full(P.shape, np.nan)
    to = np.full(n, -1)
    planes = np.where(gains.min(axis=1) < 0, _distances(margins, gains), np.inf)
    # The loop starts with the nearest plane of each decision.
    for action in planes.argsort(axis=1, kind="stable").T:
        bounds = planes[rows, action]
        at = np.flatnonzero((bounds <= nearest) & (bounds < np.inf))
        if not len(at):
            break
        q = _nearest(P[at], -gains[at, :, action[at]])
        distance = ((q - P[at]) ** 2).sum(axis=1)
        closer = (distance < nearest[at]) | (
            (distance == nearest[at]) & (action[at] < to[at])
        )
        at, q, distance = at[closer], q[closer], distance[closer]
        nearest[at], point[at], to[at] = distance, q, action[at]
    return Flips(runner_up, margin, point, to, cell, margin / P[rows, cell])


def _distances(margins: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """Lower bounds (n, A) of the squared distance to the points of sum 1 at which each action has
    the expected benefit of the choice.
    """
    spread = ((gains - gains.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        squared = np.square(np.maximum(margins, 0.0)) / spread
    return np.where(np.isfinite(squared), squared * _MARGIN_OF_BOUND, 0.0)


def _nearest(P: np.ndarray, G: np.ndarray) -> np.ndarray:
    """The points (n, K) of the simplex nearest to P (n, K) with `sum_k g_k q_k >= 0` for G (n, K),
    which has a positive g_k in each row.

    The point is the projection of `p + u g` onto the simplex for the least multiplier u >= 0 that
    satisfies the inequality. Its left side grows with u, so bisection is exact but for rounding.
    """
    # Sums over few classes are faster in Fortran's order.
    P = np.asfortranarray(P)
    G = np.asfortranarray(G / np.abs(G).max(axis=1, keepdims=True))
    low, high = np.zeros(len(P)), np.ones(len(P))
    for _ in range(_HALVINGS):  # until the inequality holds
        short = _value(P, G, high) < 0
        if not short.any():
            break
        high[short] *= 2
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        holds = _value(P, G, middle) >= 0
        high, low = np.where(holds, middle, high), np.where(holds, low, middle)
    q = _simplex(P + high[:, None] * G)
    already = _value(P, G, np.zeros(len(P))) >= 0
    nearest: np.ndarray = np.where(already[:, None], P, q)
    return nearest


def _value(P: np.ndarray, G: np.ndarray, u: np.ndarray) -> np.ndarray:
    value: np.ndarray = (G * _simplex(P + u[:, None] * G)).sum(axis=1)
    return value


def _simplex(V: np.ndarray) -> np.ndarray:
    """The nearest points (n, K) of the probability simplex to V (n, K), by sorting (Held, Wolfe,
    Crowder 1974).
    """
    ordered = -np.sort(-V, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    counts = np.arange(1, V.shape[1] + 1)
    size = (ordered * counts > excess).sum(axis=1)
    shift = excess[np.arange(len(V)), size - 1] / size
    nearest: np.ndarray = np.maximum(V - shift[:, None], 0.0)
    return nearest
