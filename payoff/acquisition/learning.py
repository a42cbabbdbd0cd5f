"""What training learns about stopping: the experience of trajectories, and what the probabilities of their states mean.

Apart from `stopping`, as scikit-learn takes 80 MB that answering can spare.
"""

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression

from payoff.acquisition.states import Trajectories
from payoff.acquisition.stopping import Experience, StageCurve, stage_inputs

_FREEDOM = 30.0  # inverse ridge of the curves: after few questions shares hardly differ, and mean much by it


def learn(
    rows: Trajectories, y: np.ndarray, n_features: int, finish: Callable[[np.ndarray], np.ndarray]
) -> Experience:
    """The experience of trajectories to the very end through forests that did not see the rows; y (n,) class codes.

    `finish` makes the probabilities (n, K) of finished rows out of the forests'. Some row must have been asked.
    """
    states = np.arange(rows.P.shape[1])
    before = states < rows.length[:, None]
    known = np.broadcast_to(states, before.shape)[before].astype(np.float64)
    typical = float(rows.length.mean())
    truth = np.repeat(y, before.sum(axis=1))
    # all states have the same weight: weights by the length of a trajectory would let its end tilt the shares at its
    # beginning
    weight = np.full(len(truth), len(rows) / len(truth))
    curve = fit_stages(rows.P[before], known, truth, weight, typical)
    P = np.full(rows.P.shape, 1 / rows.P.shape[2], dtype=np.float32)
    P[before] = curve.apply(rows.P[before], known)
    everyone = np.arange(len(rows))
    P[everyone, rows.length] = finish(rows.P[everyone, rows.length])
    return Experience(
        rows.asked.astype(np.int16), rows.missing, rows.length, P, y, curve, n_features
    )


def fit_stages(
    P: np.ndarray, known: np.ndarray, y: np.ndarray, weight: np.ndarray, typical: float
) -> StageCurve:
    """The curve of states: P (N, K), `known` (N,) features each, true class codes y (N,), weights (N,). O(N K^2)."""
    K, inputs = P.shape[1], stage_inputs(P, known, typical)
    model = LogisticRegression(C=_FREEDOM, max_iter=1000).fit(inputs, y, sample_weight=weight)
    weights, offset = np.zeros((model.coef_.shape[1], K)), np.full(K, -np.inf)
    if len(model.classes_) == 2:
        weights[:, model.classes_[1]] = model.coef_[0]
        offset[model.classes_] = (0.0, model.intercept_[0])
    else:
        weights[:, model.classes_], offset[model.classes_] = model.coef_.T, model.intercept_
    return StageCurve(weights, offset, typical, 1 / (weight.sum() + 2))
