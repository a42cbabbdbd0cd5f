"""What a benefit matrix would have earned on the rows a version did not see in training."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from app.decisions.threshold import HoldoutScores, decide_by_threshold, posterior_threshold
from app.errors import Conflict, Invalid, TooLarge
from app.registry.loaded import Loaded
from app.usecases.labelled_rows import class_codes
from app.usecases.matrices import NEEDED, Stakes, Stated, read_matrix
from app.usecases.predict import check_classes, sorted_holdout
from app.usecases.priors import shifted
from app.usecases.probabilities import Probabilities

FOLDS = 5  # of the hold-out, for the rule that is tuned on it
MAX_CELLS = 100_000  # of a matrix: the report has several counts for each
Source = Literal["hold-out", "cross-validation", "request"]
_ROW: dict[Source, str] = {"hold-out": "hold-out row", "cross-validation": "cross-validated row", "request": "row"}
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
    evaluation: Source


@dataclass(frozen=True)
class _Judge:
    """Adds up what decisions earned, each class weighted by its prior."""

    rows: Judged
    bound: float

    def earning(self, choice: np.ndarray) -> Earning:
        y, B = self.rows.y, self.rows.B
        earned = realised_benefit(y, choice, B, self.rows.weights)
        return Earning(earned, mu(earned, self.bound), confusion(y, choice, *B.shape))


@dataclass(frozen=True)
class Evidence:
    """Rows with a truth: probabilities (n, K) of classes, the codes y (n,) of the true ones, the class priors (K,) that
    the probabilities were made with, and where the rows come from. `ordered` sorts two classes' rows once.
    """

    classes: Sequence[int | str]
    P: np.ndarray
    y: np.ndarray
    priors: np.ndarray
    evaluation: Source
    ordered: Callable[[], HoldoutScores]


def evidence_of(model: Loaded) -> Evidence:
    """The hold-out of a version; Invalid for a model without exclusive classes, Conflict without a hold-out."""
    check_classes(model)
    if model.holdout is None:
        name = f"version {model.version} of {model.name!r}"
        raise Conflict(f"{name} has no hold-out to judge on; train it with a larger 'holdout' or more rows")
    scores, y = model.holdout.scores, model.holdout.y
    return Evidence(model.classes, scores, y, model.priors, model.evaluation, lambda: model.once(sorted_holdout))


def evidence_given(given: Probabilities, labels: Sequence[int | str]) -> Evidence:
    """Probabilities and labels that came with the request; Invalid below /labels."""
    if len(labels) != len(given.P):
        raise Invalid.at("/labels", f"{len(labels)} labels for {len(given.P)} rows of probabilities")
    if not len(labels):
        raise Invalid.at("/labels", "at least one row is required")
    y = class_codes(labels, given.classes)
    shares = np.bincount(y, minlength=len(given.classes)) / len(y)
    return Evidence(given.classes, given.P, y, shares, "request", lambda: HoldoutScores(given.P[:, 1], y))


def report(rows: Evidence, sent: Stated, priors: Mapping[str, float] | None, points: int) -> Report:
    """Evaluate the rules on rows with a truth under the matrix of a request.

    With `priors` the classes are reweighed to them, and posteriors corrected for them; the scores that the best cut is
    sought on stay as they are, and resamples keep each class's number of rows. Raises Invalid with the place for a
    matrix or priors that do not fit. O(n log n + n K A), and the bootstrap.
    """
    B, actions = _stakes(sent, rows.classes)
    y, corrected = rows.y, priors is not None
    shares = np.bincount(y, minlength=len(B)) / len(y)
    used, P = shares, rows.P
    warnings: list[str] = []
    if priors is not None:
        used, P, warnings = _with_priors(rows, priors, shares)
    bound, row = upper_bound(used, B), _ROW[rows.evaluation]
    judged = Judged(y, B, used if corrected else np.maximum(shares, rows.priors), known=corrected)
    judge = _Judge(judged, bound)
    ruled_on = Rows(P, rows.P, y, stratified_folds(y, FOLDS, 0), used if corrected else None)
    ruled = [*apply_rules(ruled_on, B, rows.classes), same_for_all(len(y), B, used)]
    ranking = contest(np.column_stack([rule.choice for rule in ruled]), judged, fixed=[len(ruled) - 1])
    earned = {rule.rule: judge.earning(rule.choice) for rule in ruled[:2]}
    return Report(
        len(P),
        used,
        bound,
        earned["expected_benefit"],
        earned["most_probable"],
        _cutting(rows, judge, used, points) if B.shape == (2, 2) and shares.all() else None,
        ruled,
        ranking,
        actions,
        [*warnings, *doubts(judged, rows.classes, bound, row, actions), *_about(ranking, len(y))],
        rows.evaluation,
    )


def extent_bytes(n: int, n_classes: int, n_actions: int) -> int:
    """About how much memory a report on n rows takes; TooLarge where the matrix has more cells than it may."""
    cells = n_classes * n_actions
    if cells > MAX_CELLS:
        raise TooLarge(f"the benefit matrix has {cells:,} cells; here it may have {MAX_CELLS:,}")
    return n * (n_classes + n_actions) * _BYTES_PER_NUMBER


def _about(ranking: Ranking, n: int) -> list[str]:
    """What the number of rows leaves to be warned about, and who is best; the last contender is one action for all."""
    warnings = []
    if n < FEWEST:
        warnings.append(f"the evaluation has {n} rows: intervals from so few are wide and rough")
    if ranking.standings[-1].behind <= 0:
        warnings.append("no rule earns more than one action for all: the model does not pay with these benefits")
    return warnings


def _cutting(rows: Evidence, judge: _Judge, priors: np.ndarray, points: int) -> Cutting:
    scores = rows.ordered()
    B = judge.rows.B
    cut, _ = scores.best(B, priors)
    thresholds, values = scores.curve(B, points, priors)
    return Cutting(
        cut.value,
        posterior_threshold(B).value,
        judge.earning(decide_by_threshold(rows.P[:, 1], cut)),
        list(zip(thresholds.tolist(), values.tolist(), strict=True)),
    )


def _stakes(sent: Stated, classes: Sequence[object]) -> Stakes:
    stakes = read_matrix(sent, classes)
    if stakes is None:
        raise Invalid.at("/benefits", NEEDED)
    return stakes


def _with_priors(
    rows: Evidence, priors: Mapping[str, float], shares: np.ndarray
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    used, P, warnings = shifted(rows.P, rows.classes, rows.priors, priors)
    absent = np.flatnonzero((shares == 0) & (used > 0))
    if absent.size:
        name = rows.classes[absent[0]]
        raise Invalid.at("/priors", f"there is no {_ROW[rows.evaluation]} of class {name!r} to reweigh")
    return used, P, warnings
