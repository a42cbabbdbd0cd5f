"""The benefits that rules would have earned on rows a version did not see in training."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, StrictInt, WithJsonSchema

from app.answering.decide import check_classes, sorted_holdout
from app.answering.guarantees import OnDataset, certified
from app.answering.segment_benefits import by_segment
from app.answering.standings import lead_of, standings_of
from app.errors import Conflict
from app.registry.loaded import Loaded, Segment
from app.requests.fields import (
    COLUMNS,
    PROBABILITIES,
    ByClass,
    CaseColumns,
    ClassNames,
    Text,
)
from app.requests.guarantees import PRIORS, Guarantee, GuaranteeFields
from app.requests.labelled_rows import RowWeights, checked_weights, class_codes
from app.requests.matrices import (
    MatrixFields,
    NamedMatrixFields,
    columns_beside,
    needed_matrix,
)
from app.tables.features import NO_FEATURES
from payoff.decisions.benefit import Prepared, class_means, confusion, mu, row_benefits
from payoff.decisions.case_benefits import CaseBenefits, Columns
from payoff.decisions.folds import Blocks, stratified_folds
from payoff.decisions.priors import under_priors
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE, Ranking
from payoff.decisions.row_weights import effective_total
from payoff.decisions.rule_ranking import LabelledRows, contest, doubts
from payoff.decisions.rules import (
    HeldOutRows,
    Ruled,
    apply_rules,
    same_for_all,
)
from payoff.decisions.threshold import (
    HoldoutScores,
    decide_by_threshold,
    posterior_threshold,
)
from payoff.errors import Invalid, TooLarge, pointer, unknown
from payoff.evidence.calibration_curve import calibration_curve

FOLDS = 5  # of the hold-out, for the rule that is tuned on it
MAX_CELLS = 100_000  # of a matrix: the report has several counts for each cell
Source = Literal["hold-out", "cross-validation", "request", "data set"]
_ROW_NAMES: dict[Source, str] = {
    "hold-out": "hold-out row",
    "cross-validation": "cross-validated row",
    "request": "row",
    "data set": "row",
}


class BenefitRequest(NamedMatrixFields):
    """A benefit matrix, and the priors of the classes."""

    priors: ByClass | None = Field(
        default=None,
        description="class priors where the model is used; by default those of the hold-out",
    )
    points: int = Field(
        default=200, ge=2, le=10_000, strict=True, description="of the curve"
    )
    guarantee: GuaranteeFields | None = Field(
        default=None,
        description="certify from which score on an action keeps a limit; on a hold-out this asks"
        ' for a model that was trained with `"refit": false`',
        examples=[None],
    )


class ModelBenefitRequest(BenefitRequest, OnDataset):
    """A benefit matrix, and the rows on which the model is to be judged."""


class GivenBenefitRequest(BenefitRequest):
    """A benefit matrix, and the rows to evaluate it on."""

    classes: ClassNames
    labels: Annotated[
        list[StrictInt | Text],
        Field(fail_fast=True, description="the true class of each row"),
    ]
    probabilities: Annotated[list[Any], WithJsonSchema(PROBABILITIES)] = Field(
        description="a row per instance, a column for each of `classes`"
    )
    columns: CaseColumns = Field(default=None, description=COLUMNS, examples=[None])
    weights: RowWeights = None


@dataclass(frozen=True)
class Evidence:
    """Rows with a truth: probabilities (n, K) of classes, the codes y (n,) of the true ones, the
    class priors (K,) that the probabilities were made with, and where the rows come from; `groups`
    (n,) are codes of the groups that were held out whole, `weights` (n,) those of the rows, 1 each
    by default. `ordered` sorts the rows of two classes once.
    """

    classes: Sequence[int | str]
    P: np.ndarray
    y: np.ndarray
    priors: np.ndarray
    evaluation: Source
    ordered: Callable[[], HoldoutScores]
    columns: Callable[[], Columns] = dict
    groups: np.ndarray | None = None
    in_words: str | None = None
    weights: np.ndarray | None = None
    segments: Callable[[], Mapping[str, Segment]] = dict


def evidence_of(model: Loaded) -> Evidence:
    """The hold-out of a version; Invalid for a model without exclusive classes, Conflict without a
    hold-out.
    """
    check_classes(model)
    if model.holdout is None:
        name = f"version {model.version} of {model.name!r}"
        raise Conflict(
            f"{name} has no hold-out to judge on; train it with a larger 'holdout' or more rows"
        )
    holdout = model.holdout
    evaluation = model.card.data.evaluation
    return Evidence(
        model.classes,
        holdout.scores,
        holdout.y,
        model.priors,
        model.evaluation,
        partial(model.once, sorted_holdout),
        holdout.columns,
        holdout.groups,
        None if evaluation is None else evaluation.in_words,
        holdout.row_weights,
        holdout.segments,
    )


def evidence_of_request(question: GivenBenefitRequest, P: np.ndarray) -> Evidence:
    """Probabilities (n, K) and labels of the request; Invalid below /labels, /weights and
    /columns.
    """
    classes, labels = question.classes, question.labels
    y = class_codes(labels, classes, len(P))
    if not len(y):
        raise Invalid.at("/labels", "at least one row is required")
    weights = checked_weights(question.weights, len(y))
    shares = np.bincount(y, weights, len(classes)) / weights.sum()
    columns = columns_beside(question.columns or {}, len(y), question.case_columns, ())
    ordered = partial(HoldoutScores, P[:, 1], y, weights)
    return Evidence(
        classes, P, y, shares, "request", ordered, lambda: columns, weights=weights
    )


def report(
    rows: Evidence,
    fields: MatrixFields,
    priors: Mapping[str, float] | None,
    points: int,
    guarantee: GuaranteeFields | None = None,
    by: str | None = None,
) -> dict[str, Any]:
    """Evaluate the rules on rows with a truth under the matrix of a request: a document ready for
    JSON.

    Its own benefit is that of the best cut for two actions and two classes, both with rows, else
    that of the expected-benefit rule. With `priors` the classes are reweighed to them, and
    posteriors corrected for them; the scores on which the best cut is sought stay as they are, and
    resamples keep each class's number of rows. Where cells of the matrix depend on the case each
    row has its own matrix. Raises Invalid with the place for a matrix or priors that do not fit.
    O(n log n + n K A), and the bootstrap.
    """
    B, actions, like_costs, cases = needed_matrix(fields, rows.classes)
    if guarantee is not None and priors is not None:
        raise Invalid.at("/priors", PRIORS)
    segments = {} if by is None else rows.segments()
    if by is not None and by not in segments:
        raise Invalid.at("/by", unknown("column of few words", by, [*segments]))
    numbered = [f"action {a}" for a in range(B.shape[-1])]
    names = actions or (
        rows.classes if len(numbered) == len(rows.classes) else numbered
    )
    in_words = Prepared(B, names, classes=rows.classes, cases=cases).in_words
    if cases is not None:
        B = _matrices_of_rows(cases, rows)
    y = rows.y
    of_rows = np.ones(len(y)) if rows.weights is None else rows.weights
    shares = np.bincount(y, of_rows, len(rows.classes)) / of_rows.sum()
    weights, P, warnings = _under_priors(rows, shares, priors)
    is_corrected = priors is not None
    labelled = LabelledRows(
        y,
        B,
        weights if is_corrected else np.maximum(shares, rows.priors),
        known=is_corrected,
        row_weights=of_rows,
        groups=rows.groups,
        cross_validated=rows.evaluation == "cross-validation",
    )
    bound = labelled.bound
    blocks = None if rows.groups is None else Blocks.of(rows.groups)
    folds = stratified_folds(y, FOLDS, 0, blocks)
    held_out = HeldOutRows(
        P, rows.P, y, folds, weights if is_corrected else None, of_rows
    )
    ruled = [
        *apply_rules(held_out, B),
        same_for_all(len(y), class_means(y, B, of_rows), weights),
    ]
    choices = np.column_stack([rule.choice for rule in ruled])
    ranking = contest(choices, labelled, fixed=[len(ruled) - 1])
    groups = None if rows.groups is None else len(np.unique(rows.groups))
    size = (
        (round(effective_total(of_rows)), "row")
        if groups is None
        else (groups, "group")
    )
    expected, cost_blind = (_earned(rule.choice, labelled, bound) for rule in ruled[:2])
    earned = expected
    if B.shape[-2:] == (2, 2) and shares.all():
        earned = _earned_by_cut(rows, labelled, weights, bound, points)
    return {
        **earned,
        "classes": list(rows.classes),
        "actions": actions,
        "matrix_in_words": in_words,
        "rows": len(y),
        "evaluation": rows.evaluation,
        "rows_in_words": rows.in_words,
        "groups": groups,
        "priors": dict(zip(map(str, rows.classes), weights.tolist(), strict=True)),
        "upper_bound": bound,
        "expected_benefit": expected,
        "cost_blind": cost_blind,
        "calibration_curve": [*calibration_curve(rows.P, y, of_rows, rows.groups)],
        "rules": _rule_documents(ruled, ranking, bound, rows.evaluation),
        "best": {
            "rule": ruled[ranking.best].rule,
            **lead_of(ranking, lambda j: ruled[j].rule),
        },
        "segments": None
        if by is None
        else by_segment(segments[by], labelled, P, ruled[0].choice, names),
        "guarantee": guarantee and certified_on(rows, fields, guarantee)[1],
        "warnings": [
            *warnings,
            *_order_warnings(rows),
            *like_costs,
            *doubts(
                labelled, rows.classes, bound, _ROW_NAMES[rows.evaluation], actions
            ),
            *_ranking_warnings(ranking, *size),
        ],
    }


def certified_on(
    rows: Evidence, fields: MatrixFields, guarantee: GuaranteeFields
) -> tuple[Guarantee, dict[str, Any]]:
    """The guarantee with its cut, and a document ready for JSON; see `certified`.

    Invalid with the place for a matrix or a guarantee that does not fit. O(n log n + n K A).
    """
    if rows.groups is not None:
        raise Invalid.at(
            "/guarantee",
            "rows that were held out by group are no independent draws, which a guarantee is"
            " about; hold rows out at random or by time",
        )
    if rows.weights is not None and np.ptp(rows.weights) > 0:
        raise Invalid.at(
            "/guarantee",
            "a guarantee counts rows alike, and these have weights; leave out guarantee",
        )
    B, names, _, cases = needed_matrix(fields, rows.classes)
    classes = list(map(str, rows.classes))
    if names is None and B.shape[-1] != len(classes):
        raise Invalid.at("/actions", "a guarantee names actions; name the columns")
    actions = list(map(str, names or classes))
    if cases is not None:
        B = _matrices_of_rows(cases, rows)
    read = Guarantee.read(guarantee, classes, actions, B)
    return certified(rows.P, rows.y, B, read, actions)


def _matrices_of_rows(cases: CaseBenefits, rows: Evidence) -> np.ndarray:
    """The matrix (n, K, A) of each row. Errors name the row's cell for rows of the request alone:
    a caller is not told the values of a hold-out.
    """

    def place(i: int, name: str) -> str:
        return pointer("columns", name, i)

    values = cases.values(NO_FEATURES, np.empty((len(rows.y), 0)), rows.columns())
    is_of_request = rows.evaluation == "request"
    return np.ascontiguousarray(cases.at(values, place if is_of_request else None))


def _under_priors(
    rows: Evidence, shares: np.ndarray, priors: Mapping[str, float] | None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The weight (K,) of each class, the probabilities (n, K) corrected for it, and warnings;
    without `priors` the weights are the `shares` (K,) of the rows. Invalid at /priors.
    """
    if priors is None:
        return shares, rows.P, []
    weights, P, warnings = under_priors(rows.P, rows.classes, rows.priors, priors)
    absent = np.flatnonzero((shares == 0) & (weights > 0))
    if absent.size:
        row = f"{_ROW_NAMES[rows.evaluation]} of class {rows.classes[absent[0]]!r}"
        raise Invalid.at("/priors", f"there is no {row} to reweigh")
    return weights, P, warnings


def _rule_documents(
    ruled: Sequence[Ruled], ranking: Ranking, bound: float, source: Source
) -> list[dict[str, Any]]:
    standings = standings_of(ruled, ranking, bound)
    return [
        {**standing, "figures": rule.figures, "request": _request(rule, source)}
        for rule, standing in zip(ruled, standings, strict=True)
    ]


def extent(n: int, n_classes: int, fields: MatrixFields) -> int:
    """About how many numbers a report on n rows takes; TooLarge where the matrix has more than
    `MAX_CELLS`.
    """
    n_actions = fields.width
    cells = n_classes * n_actions
    if cells > MAX_CELLS:
        raise TooLarge(
            f"the benefit matrix has {cells:,} cells; here it may have {MAX_CELLS:,}"
        )
    return n * (n_classes + n_actions + cells * bool(fields.case_columns))


def _request(rule: Ruled, source: Source) -> dict[str, Any] | None:
    """The fields that ask `/predict` for the rule; without a model that keeps the rows, a threshold
    is a number.
    """
    is_kept = source in ("hold-out", "cross-validation")
    if not is_kept and rule.rule == "threshold_holdout":
        return {"rule": "threshold", "threshold": rule.figures["threshold"]}
    fields: dict[str, Any] | None = rule.request
    return fields


def _order_warnings(rows: Evidence) -> list[str]:
    """A warning where every class is less probable in its own rows than in the other rows: the
    columns may be mixed up.
    """
    is_label = np.arange(len(rows.classes)) == rows.y[:, None]
    if (
        rows.evaluation != "request"
        or not is_label.any(axis=0).all()
        or is_label.all(axis=0).any()
    ):
        return []
    inside, outside = (
        (rows.P * mask).sum(axis=0) / mask.sum(axis=0) for mask in (is_label, ~is_label)
    )
    if (inside >= outside).any():
        return []
    warning = (
        "every class is less probable where it is the label:"
        " are the probabilities in the order of 'classes'?"
    )
    return [warning]


def _ranking_warnings(ranking: Ranking, n: int, unit: str) -> list[str]:
    """Warnings about few rows or groups (`n` of the `unit`), and about a model that does not pay:
    the last contender is one action for all.
    """
    warnings = []
    if n < MIN_ROWS_TO_COMPARE:
        warnings.append(
            f"the evaluation has {n} {unit}s: intervals from so few are wide and rough"
        )
    if ranking.standings[-1].behind <= 0:
        warnings.append(
            "no rule earns more than one action for all: the model does not pay with these benefits"
        )
    return warnings


def _earned(choice: np.ndarray, labelled: LabelledRows, bound: float) -> dict[str, Any]:
    """The benefit of decisions (n,), each class weighted by its prior, and the counts of each class
    and action.
    """
    benefit = float(
        np.average(
            row_benefits(labelled.y, choice, labelled.B), weights=labelled.weights
        )
    )
    counts = confusion(labelled.y, choice, *labelled.B.shape[-2:])
    return {"benefit": benefit, "mu": mu(benefit, bound), "confusion": counts.tolist()}


def _earned_by_cut(
    rows: Evidence,
    labelled: LabelledRows,
    priors: np.ndarray,
    bound: float,
    points: int,
) -> dict[str, Any]:
    """The benefit of the best cut on the scores, the cut on posteriors, and B(t) from 0 to 1."""
    B = labelled.B
    scores = rows.ordered()
    cut, _ = scores.best(B, priors)
    thresholds, values = scores.curve(B, points, priors)
    curve = zip(thresholds.tolist(), values.tolist(), strict=True)
    return {
        **_earned(decide_by_threshold(rows.P[:, 1], cut), labelled, bound),
        "threshold": cut.value,
        "posterior_threshold": posterior_threshold(B).value if B.ndim == 2 else None,
        "curve": [
            {"threshold": threshold, "benefit": benefit} for threshold, benefit in curve
        ],
    }
