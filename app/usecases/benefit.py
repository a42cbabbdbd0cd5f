"""What a benefit matrix would have earned on the rows a version did not see in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.decisions.benefit import as_benefits, confusion, decide, irrelevance, mu, realised_benefit, upper_bound
from app.decisions.priors import as_priors, shift_priors
from app.decisions.threshold import decide_by_threshold, posterior_threshold
from app.errors import Conflict, Invalid
from app.registry.loaded import Holdout, Loaded
from app.usecases.predict import check_one_label, sorted_holdout


@dataclass(frozen=True)
class Earning:
    """What one rule earned: mean benefit per row, its share of the bound, and counts (K, A) of class by action."""

    benefit: float
    mu: float | None
    confusion: np.ndarray


@dataclass(frozen=True)
class Cutting:
    """The best cut on hold-out scores, the cut on posteriors, and B(t) between 0 and 1."""

    threshold: float | None
    posterior_threshold: float | None
    earning: Earning
    curve: list[tuple[float, float]]


@dataclass(frozen=True)
class Report:
    """All rules on one hold-out; `cutting` for two classes and two actions only."""

    rows: int
    priors: np.ndarray
    upper_bound: float
    expected_benefit: Earning
    cost_blind: Earning
    cutting: Cutting | None
    warnings: list[str]


@dataclass(frozen=True)
class _Judge:
    """Adds up what decisions earned, each class weighing as much as its prior says."""

    holdout: Holdout
    B: np.ndarray
    bound: float
    weights: np.ndarray

    def earning(self, choice: np.ndarray) -> Earning:
        earned = realised_benefit(self.holdout.y, choice, self.B, self.weights)
        return Earning(earned, mu(earned, self.bound), confusion(self.holdout.y, choice, *self.B.shape))


def report(model: Loaded, benefits: Any, priors: Mapping[str, float] | None, points: int) -> Report:
    """Judge the rules on the version's hold-out under `benefits` (K, A).

    With `priors` the hold-out's classes are reweighed to them, and posteriors corrected for them; the scores that
    the best cut is sought on stay as they are. Raises Conflict without a hold-out, Invalid with the place for a matrix
    or priors that do not fit. O(n log n + n K A).
    """
    check_one_label(model)
    holdout = model.holdout
    if holdout is None:
        raise Conflict(
            f"version {model.version} of {model.name!r} was trained without a hold-out: there is nothing to judge on"
        )
    B = _benefits(benefits, model)
    shares = np.bincount(holdout.y, minlength=len(B)) / len(holdout.y)
    used, P, warnings = shares, holdout.scores, irrelevance(B, model.classes if B.shape[1] == len(B) else None)
    if priors is not None:
        used, P, more = _with_priors(model, priors, holdout, shares)
        warnings += more
    bound = upper_bound(used, B)
    if bound <= 0:
        warnings.append("the upper bound is not positive: mu, the share of it that is earned, has no meaning here")
    ratio = np.divide(used, shares, out=np.zeros(len(B)), where=shares > 0)
    judge = _Judge(holdout, B, bound, ratio[holdout.y])
    blind = P.argmax(axis=1)
    if B.shape[1] != B.shape[0]:
        blind = B.argmax(axis=1)[
            blind
        ]  # the columns are no classes: do what is best if the likeliest class were certain
    return Report(
        len(P),
        used,
        bound,
        judge.earning(decide(P, B).choice),
        judge.earning(blind),
        _cutting(model, judge, used, points) if B.shape == (2, 2) else None,
        warnings,
    )


def _cutting(model: Loaded, judge: _Judge, priors: np.ndarray, points: int) -> Cutting:
    scores = sorted_holdout(model)
    cut, _ = scores.best(judge.B, priors)
    thresholds, values = scores.curve(judge.B, points, priors)
    return Cutting(
        cut.value,
        posterior_threshold(judge.B).value,
        judge.earning(decide_by_threshold(judge.holdout.scores[:, 1], cut)),
        list(zip(thresholds.tolist(), values.tolist(), strict=True)),
    )


def _benefits(benefits: Any, model: Loaded) -> np.ndarray:
    try:
        return as_benefits(benefits, len(model.classes))
    except Invalid as error:
        raise error.under("/benefits") from error


def _with_priors(
    model: Loaded, priors: Mapping[str, float], holdout: Holdout, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    try:
        used = as_priors(priors, [str(name) for name in model.classes])
        P, warnings = shift_priors(holdout.scores, model.priors, used)
    except Invalid as error:
        raise error.under("/priors") from error
    absent = np.flatnonzero((shares == 0) & (used > 0))
    if absent.size:
        raise Invalid.at("/priors", f"the hold-out has no rows of class {model.classes[absent[0]]!r} to reweigh")
    return used, P, warnings
