"""What training learns about stopping: an experience, with calibrated probabilities of its states.

It is apart from `stopping`, as scikit-learn takes 80 MB that answering can spare.
"""

from collections.abc import Callable

import numpy as np
from sklearn.linear_model import LogisticRegression

from payoff.acquisition.states import Trajectories
from payoff.acquisition.stopping import Experience, StageCurve, stage_inputs

# of the curves: after few questions shares differ little, but mean much
_INVERSE_RIDGE = 30.0


def learn(
    rows: Trajectories,
    y: np.ndarray,
    n_features: int,
    finish: Callable[[np.ndarray], np.ndarray],
) -> Experience:
    """The experience of complete trajectories through forests that did not see the rows.

    `y` (n,) are class codes; `finish` makes the probabilities (n, K) of finished rows out of those
    of the forests. Some row must have a question.
    """
    states = np.arange(rows.P.shape[1])
    before = states < rows.length[:, None]
    known = np.broadcast_to(states, before.shape)[before].astype(np.float64)
    typical = float(rows.length.mean())
    truth = np.repeat(y, before.sum(axis=1))
    # All states have the same weight: weights by the length of a trajectory would let its end tilt
    # the shares at its beginning.
    weight = np.full(len(truth), len(rows) / len(truth))
    curve = fit_stages(rows.P[before], known, truth, weight, typical)
    P = np.full(rows.P.shape, 1 / rows.P.shape[2], dtype=np.float32)
    P[before] = curve.apply(rows.P[before], known)
    every = np.arange(len(rows))
    P[every, rows.length] = finish(rows.P[every, rows.length])
    return Experience(
        rows.asked.astype(np.int16), rows.missing, rows.length, P, y, curve, n_features
    )


def fit_stages(
    P: np.ndarray, known: np.ndarray, y: np.ndarray, weight: np.ndarray, typical: float
) -> StageCurve:
    """The curve for the probabilities P (N, K) of N states with `known` (N,) features. O(N K^2).

    `y` (N,) are true class codes; `typical` is the usual number of questions.
    """
    K = P.shape[1]
    inputs = stage_inputs(P, known, typical)
    model = LogisticRegression(C=_INVERSE_RIDGE, max_iter=1000).fit(
        inputs, y, sample_weight=weight
    )
    weights, offset = np.zeros((model.coef_.shape[1], K)), np.full(K, -np.inf)
    if len(model.classes_) == 2:
        weights[:, model.classes_[1]] = model.coef_[0]
        offset[model.classes_] = (0.0, model.intercept_[0])
    else:
        weights[:, model.classes_] = model.coef_.T
        offset[model.classes_] = model.intercept_
    return StageCurve(weights, offset, typical, 1 / (weight.sum() + 2))
