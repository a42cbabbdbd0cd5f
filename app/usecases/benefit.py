"""What a benefit matrix would have earned on the rows a version did not see in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.decisions.benefit import (
    as_benefits,
    confusion,
    irrelevance,
    mu,
    realised_benefit,
    row_benefits,
    upper_bound,
)
from app.decisions.bootstrap import Ranking, rank
from app.decisions.folds import stratified_folds
from app.decisions.priors import as_priors, shift_priors
from app.decisions.rules import Rows, Ruled, apply_rules
from app.decisions.threshold import decide_by_threshold, posterior_threshold
from app.errors import Conflict, Invalid
from app.registry.loaded import Holdout, Loaded
from app.usecases.predict import check_one_label, sorted_holdout

FOLDS = 5  # of the hold-out, for the rule that is tuned on it
_FEW = 30


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
    ruled: list[Ruled]
    ranking: Ranking
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
    the best cut is sought on stay as they are, and resamples keep each class's number of rows. Raises Conflict without
    a hold-out or classes, Invalid with the place for a matrix or priors that do not fit. O(n log n + n K A), and the
    bootstrap.
    """
    check_one_label(model)
    holdout = _holdout(model)
    B = _benefits(benefits, model)
    shares = np.bincount(holdout.y, minlength=len(B)) / len(holdout.y)
    used, P, warnings = shares, holdout.scores, irrelevance(B, model.classes if B.shape[1] == len(B) else None)
    if priors is not None:
        used, P, more = _with_priors(model, priors, holdout, shares)
        warnings += more
    bound = upper_bound(used, B)
    if bound <= 0:
        warnings.append("the upper bound is not positive: mu, the share of it that is earned, has no meaning here")
    if len(P) < _FEW:
        warnings.append(f"the hold-out has {len(P)} rows: intervals from so few are rough, and rather too narrow")
    ratio = np.divide(used, shares, out=np.zeros(len(B)), where=shares > 0)
    judge = _Judge(holdout, B, bound, ratio[holdout.y])
    rows = Rows(P, holdout.scores, holdout.y, stratified_folds(holdout.y, FOLDS, 0), None if priors is None else used)
    ruled = apply_rules(rows, B, model.classes)
    earned = {rule.rule: judge.earning(rule.choice) for rule in ruled[:2]}
    return Report(
        len(P),
        used,
        bound,
        earned["expected_benefit"],
        earned["most_probable"],
        _cutting(model, judge, used, points) if B.shape == (2, 2) else None,
        ruled,
        _ranking(ruled, judge, known_priors=priors is not None),
        warnings,
    )


def _holdout(model: Loaded) -> Holdout:
    name = f"version {model.version} of {model.name!r}"
    if not model.classes:
        raise Conflict(f"{name} predicts numbers: no benefit matrix fits it")
    if model.holdout is None:
        raise Conflict(f"{name} was trained without a hold-out: there is nothing to judge on")
    return model.holdout


def _ranking(ruled: list[Ruled], judge: _Judge, *, known_priors: bool) -> Ranking:
    y = judge.holdout.y
    values = np.column_stack([row_benefits(y, rule.choice, judge.B) for rule in ruled])
    return rank(values, judge.weights, y if known_priors else None)


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
