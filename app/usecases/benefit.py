"""What a benefit matrix would have earned on the rows a version did not see in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from app.decisions.benefit import (
    confusion,
    mu,
    realised_benefit,
    upper_bound,
)
from app.decisions.bootstrap import FEWEST, Ranking
from app.decisions.folds import stratified_folds
from app.decisions.ranking import Judged, contest, doubts
from app.decisions.rules import Rows, Ruled, apply_rules, same_for_all
from app.decisions.threshold import decide_by_threshold, posterior_threshold
from app.errors import Conflict, Invalid, TooLarge
from app.registry.loaded import Holdout, Loaded
from app.usecases.matrices import NEEDED, Stakes, Stated, read_matrix
from app.usecases.predict import check_classes, shifted, sorted_holdout

FOLDS = 5  # of the hold-out, for the rule that is tuned on it
MAX_CELLS = 100_000  # of a matrix: the report has several counts for each
_ROW = {"hold-out": "hold-out row", "cross-validation": "cross-validated row"}
_BYTES_PER_NUMBER = 40  # of memory, for each row and action or class


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
    """All rules on one hold-out, and the best action for all; `cutting` for two actions and two classes, both with
    rows.
    """

    rows: int
    priors: np.ndarray
    upper_bound: float
    expected_benefit: Earning
    cost_blind: Earning
    cutting: Cutting | None
    ruled: list[Ruled]
    ranking: Ranking
    actions: Sequence[str] | None
    warnings: list[str]
    evaluation: Literal["hold-out", "cross-validation"]


@dataclass(frozen=True)
class _Judge:
    """Adds up what decisions earned, each class weighted by its prior."""

    rows: Judged
    bound: float

    def earning(self, choice: np.ndarray) -> Earning:
        y, B = self.rows.y, self.rows.B
        earned = realised_benefit(y, choice, B, self.rows.weights)
        return Earning(earned, mu(earned, self.bound), confusion(y, choice, *B.shape))


def report(model: Loaded, sent: Stated, priors: Mapping[str, float] | None, points: int) -> Report:
    """Evaluate the rules on the version's hold-out under the matrix of a request.

    With `priors` the hold-out's classes are reweighed to them, and posteriors corrected for them; the scores that
    the best cut is sought on stay as they are, and resamples keep each class's number of rows. Raises Conflict without
    a hold-out, Invalid with the place for a model without exclusive classes, and for a matrix or priors that do not
    fit. O(n log n + n K A), and the bootstrap.
    """
    check_classes(model)
    holdout = _holdout(model)
    B, actions = _stakes(sent, model.classes)
    y, corrected = holdout.y, priors is not None
    shares = np.bincount(y, minlength=len(B)) / len(y)
    used, P = shares, holdout.scores
    warnings: list[str] = []
    if priors is not None:
        used, P, warnings = _with_priors(model, priors, holdout, shares)
    bound = upper_bound(used, B)
    judged = Judged(y, B, used if corrected else np.maximum(shares, model.priors), known=corrected)
    judge = _Judge(judged, bound)
    rows = Rows(P, holdout.scores, y, stratified_folds(y, FOLDS, 0), used if corrected else None)
    ruled = [*apply_rules(rows, B, model.classes), same_for_all(len(y), B, used)]
    ranking = contest(np.column_stack([rule.choice for rule in ruled]), judged, fixed=[len(ruled) - 1])
    earned = {rule.rule: judge.earning(rule.choice) for rule in ruled[:2]}
    return Report(
        len(P),
        used,
        bound,
        earned["expected_benefit"],
        earned["most_probable"],
        _cutting(model, judge, used, points) if B.shape == (2, 2) and shares.all() else None,
        ruled,
        ranking,
        actions,
        [*warnings, *doubts(judged, model.classes, bound, _ROW[model.evaluation], actions), *_about(ranking, len(y))],
        model.evaluation,
    )


def extent_bytes(model: Loaded, n_actions: int) -> int:
    """About how much memory a report takes; TooLarge where the matrix has more cells than it may."""
    cells = len(model.classes) * n_actions
    if cells > MAX_CELLS:
        raise TooLarge(f"the benefit matrix has {cells:,} cells; here it may have {MAX_CELLS:,}")
    rows = 0 if model.holdout is None else len(model.holdout.y)
    return rows * (len(model.classes) + n_actions) * _BYTES_PER_NUMBER


def _about(ranking: Ranking, n: int) -> list[str]:
    """What the number of rows leaves to be warned about, and who is best; the last contender is one action for all."""
    warnings = []
    if n < FEWEST:
        warnings.append(f"the evaluation has {n} rows: intervals from so few are wide and rough")
    if ranking.standings[-1].behind <= 0:
        warnings.append("no rule earns more than one action for all: this model does not pay with these benefits")
    return warnings


def _holdout(model: Loaded) -> Holdout:
    name = f"version {model.version} of {model.name!r}"
    if model.holdout is None:
        raise Conflict(f"{name} has no hold-out to judge on; train it with a larger 'holdout' or more rows")
    return model.holdout


def _cutting(model: Loaded, judge: _Judge, priors: np.ndarray, points: int) -> Cutting:
    scores = model.once(sorted_holdout)
    B = judge.rows.B
    cut, _ = scores.best(B, priors)
    thresholds, values = scores.curve(B, points, priors)
    return Cutting(
        cut.value,
        posterior_threshold(B).value,
        judge.earning(decide_by_threshold(_holdout(model).scores[:, 1], cut)),
        list(zip(thresholds.tolist(), values.tolist(), strict=True)),
    )


def _stakes(sent: Stated, classes: Sequence[object]) -> Stakes:
    stakes = read_matrix(sent, classes)
    if stakes is None:
        raise Invalid.at("/benefits", NEEDED)
    return stakes


def _with_priors(
    model: Loaded, priors: Mapping[str, float], holdout: Holdout, shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    used, P, warnings = shifted(holdout.scores, model, priors)
    absent = np.flatnonzero((shares == 0) & (used > 0))
    if absent.size:
        raise Invalid.at("/priors", f"the hold-out has no rows of class {model.classes[absent[0]]!r} to reweigh")
    return used, P, warnings
