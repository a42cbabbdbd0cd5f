"""The library in four calls, for notebooks and programs: `decide`, `threshold`, `best_set`,
`next_feature`.

Arguments are checked, and may be lists or arrays. Names, formats and caches belong to the service.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from payoff.acquisition.prices import Prices
from payoff.acquisition.stopping import Experience, at_stake, state_probabilities
from payoff.decisions import benefit
from payoff.decisions.calibration import Calibrator
from payoff.decisions.limits import Limits, decide_within
from payoff.decisions.threshold import Cut, HoldoutScores, posterior_threshold
from payoff.errors import Invalid, below, pointer
from payoff.learners.stepwise import prices_of
from payoff.probabilities import are_shares, clipped
from payoff.retrieval.losses import LOSSES, Loss, SetTerms
from payoff.retrieval.selection import select


class AskingModel(Protocol):
    """A fitted learner whose `model_` acquires features one at a time."""

    model_: Any
    calibrator_: Calibrator | None

    @property
    def acquires(self) -> bool: ...

    @property
    def asker(self) -> AskingModel: ...


class Decisions(NamedTuple):
    """The action of each row, int (n,), and the expected benefit of every action, float64 (n,
    A).
    """

    actions: np.ndarray
    expected_benefits: np.ndarray


class BestSet(NamedTuple):
    """The items of the best set, most probable first, int (k,), with its expected loss, precision
    and recall.
    """

    items: np.ndarray
    loss: float
    precision: float
    recall: float


class Questions(NamedTuple):
    """For each case the next feature to acquire, int (n,), -1 to stop, its price (n,), 0 at a stop,
    and the probabilities (n, K) of the classes under the features that are known.
    """

    features: np.ndarray
    prices: np.ndarray
    probabilities: np.ndarray


def decide(
    probabilities: ArrayLike, benefits: ArrayLike, *, limits: Limits | None = None
) -> Decisions:
    """The action with the largest expected benefit for each row.

    `probabilities` (n, K); `benefits` (K, A), the benefit of each action for each true class, or
    (n, K, A), one matrix for each row. Ties go to the first action. With `limits` the decisions are
    those of the largest total within them. Raises Invalid at the argument that is wrong, and at
    `/limits` where no decisions are within them. O(n K A).

    >>> decide([[0.95, 0.05], [0.6, 0.4]], [[0, -1], [-10, 5]]).actions
    array([0, 1])
    >>> limits = Limits.of(2, at_most={1: 1})
    >>> decide([[0.7, 0.3], [0.6, 0.4]], [[0, -1], [-10, 5]], limits=limits).actions
    array([0, 1])
    """
    P = _as_probabilities(probabilities)
    B = _as_benefits(benefits, *P.shape)
    decision = benefit.decide(P, B)
    if limits is None:
        return Decisions(*decision)
    if len(limits.lower) != B.shape[-1]:
        raise Invalid.at(
            "/limits",
            f"limits of {len(limits.lower)} actions for {B.shape[-1]} actions",
        )
    within = decide_within(P, B, decision.choice.astype(np.int64), limits)
    return Decisions(within.choice, decision.expected_benefits)


def threshold(
    benefits: ArrayLike,
    scores: ArrayLike | None = None,
    labels: ArrayLike | None = None,
) -> Cut:
    """The cut on the probability of the second of two classes, for two actions.

    `benefits` (2, 2) alone determine the cut. With `scores` (n,) of the second class and `labels`
    (n,), 0 or 1, of rows that the model was not fitted on, it is the cut of the largest mean
    benefit on these rows. Raises Invalid at the argument. Source: Benefit-Based Performance Metric.

    >>> round(threshold([[0, -1], [-10, 5]]).value, 4)
    0.0625
    """
    B = _as_benefits(benefits, 1, 2)
    if B.shape != (2, 2):
        raise Invalid.at("/benefits", "a threshold needs two classes and two actions")
    if scores is None or labels is None:
        return posterior_threshold(B)
    y = np.asarray(labels)
    if y.shape != np.shape(scores) or not np.isin(y, (0, 1)).all():
        raise Invalid.at("/labels", "labels are 0 or 1, one for each score")
    with below("/labels"):
        cut, _ = HoldoutScores(
            np.asarray(scores, dtype=np.float64), y.astype(np.intp)
        ).best(B)
    return cut


def best_set(
    probabilities: ArrayLike,
    loss: str = "f_beta",
    *,
    beta: float | None = None,
    min_size: int = 0,
    max_size: int | None = None,
) -> BestSet:
    """The set with the smallest expected loss, of `min_size` to `max_size` items.

    `probabilities` (n,) that each item is relevant, independent of the others. `loss` is a name of
    `payoff.retrieval.losses.LOSSES` without coefficients. Raises Invalid at the argument, TooLarge
    for a loss that takes too long for so many items. O(n log n). Source: Natarajan et al. (2016),
    Theorem 1.

    >>> best_set([0.9, 0.1, 0.6]).items
    array([0, 2])
    """
    p = clipped(np.asarray(probabilities, dtype=np.float64))
    if p.ndim != 1 or not ((p >= 0) & (p <= 1)).all():
        raise Invalid.at(
            "/probabilities", "probabilities are a list of numbers from 0 to 1"
        )
    if loss not in LOSSES or loss == "fractional_linear":
        names = ", ".join(name for name in LOSSES if name != "fractional_linear")
        raise Invalid.at("/loss", f"a loss is one of {names}")
    sets = select(p, SetTerms(Loss(loss, beta), k_min=min_size, k_max=max_size))
    expected, precision, recall, _ = sets.figures[:, 0].tolist()
    return BestSet(sets.selected, expected, precision, recall)


def next_feature(
    model: AskingModel,
    cases: ArrayLike,
    benefits: ArrayLike | None = None,
    *,
    prices: Prices | Sequence[float] | None = None,
    budget: float | None = None,
) -> Questions:
    """The feature that each case should acquire next, by a fitted model that acquires features.

    Such a model is a `ForestChain`. `cases` (n, m), NaN where a feature is not known yet. `prices`
    (m,) are by default those of training, or 1 each. With `benefits` (K, A), in the currency of the
    prices, a case stops where no further feature is expected to be worth its price; a case never
    spends more than `budget`. Raises Invalid at the argument.
    """
    if not model.acquires:
        raise Invalid.at("/model", f"{type(model).__name__} does not acquire features")
    X = np.ascontiguousarray(cases, dtype=np.float64)
    paid = prices_of(
        getattr(model, "prices_", None) if prices is None else prices, X.shape[-1]
    )
    model = model.asker
    states = model.model_.step(X, np.where(np.isnan(X), 0, 1), paid, budget)
    experience: Experience | None = getattr(model, "experience_", None)
    known = (~np.isnan(X[:, model.model_.columns])).sum(axis=1)
    finished = states.resolved == states.trees
    P = state_probabilities(
        states.probabilities, known, finished, model.calibrator_, experience
    )
    features = states.following.copy()
    if benefits is not None and experience is not None:
        B = _as_benefits(benefits, *P.shape)
        open_cases = np.flatnonzero(features >= 0)
        following = features[open_cases]
        stake = at_stake(P[open_cases], B)
        worth = experience.worth(B, paid, budget)
        stops = worth.stops(following, states.price[open_cases, following], stake)
        features[open_cases[stops]] = -1
    price = np.where(features >= 0, states.price[np.arange(len(X)), features], 0.0)
    return Questions(features, price, P)


def _as_probabilities(probabilities: ArrayLike) -> np.ndarray:
    P = clipped(np.asarray(probabilities, dtype=np.float64))
    if P.ndim != 2 or not ((P >= 0) & (P <= 1)).all():
        raise Invalid.at(
            "/probabilities", "probabilities are rows of numbers from 0 to 1"
        )
    rows = np.flatnonzero(~are_shares(P))
    if len(rows):
        raise Invalid.at(
            pointer("probabilities", rows[0]), "the probabilities of a row sum to 1"
        )
    return P


def _as_benefits(benefits: ArrayLike, n_rows: int, n_classes: int) -> np.ndarray:
    B = np.asarray(benefits, dtype=np.float64)
    if B.ndim not in (2, 3) or B.shape[-2] != n_classes or not B.shape[-1]:
        raise Invalid.at(
            "/benefits",
            f"benefits are {n_classes} lists, one for each class, of a number per action",
        )
    if B.ndim == 3 and len(B) != n_rows:
        raise Invalid.at("/benefits", f"{len(B)} matrices for {n_rows} rows")
    if not (np.abs(B) <= benefit.LARGEST).all():
        raise Invalid.at(
            "/benefits",
            f"a benefit is a finite number of magnitude at most {benefit.LARGEST:g}",
        )
    return B
