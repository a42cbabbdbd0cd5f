"""Evaluate a fitted model on a hold-out or on folds of a small table, and write its card."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app.answering import simulate
from app.answering.acquisition_model import AcquisitionModel
from app.jobs.job import Job
from app.registry.card import Card, DataCard, EvaluationCard, FeatureCard, LearnerCard
from app.registry.loaded import Holdout
from app.requests.matrices import matrices_of_cases
from app.requests.specifications import TrainSpec
from app.tables.dataset import Table
from app.training.splits import Split, folds_of
from payoff import progress
from payoff.acquisition.prices import Prices
from payoff.decisions.benefit import Prepared
from payoff.decisions.folds import UNJUDGED
from payoff.decisions.metrics import (
    holdout_metrics,
    multilabel_metrics,
    regression_metrics,
)
from payoff.decisions.row_weights import effective_total, evenly
from payoff.learners.catalogue import ACQUIRES

# With fewer rows folds evaluate the model: a quarter of 500 rows gives an accuracy with a standard
# error of up to 0.045.
FEWEST_TO_HOLD_OUT = 500
_MAX_FOLDS = 10


def number_of_folds(spec: TrainSpec, table: Table, split: Split) -> int:
    """The number of folds that evaluate the model; 0 where its hold-out does.

    Cross-validation is for one label of classes and fewer effective rows than `FEWEST_TO_HOLD_OUT`,
    where the model is fitted again on all rows: the folds then have about the size of the hold-out.
    By time the hold-out does: models of the other folds would learn from later rows.
    """
    one_label = table.classes is not None and table.y.ndim == 1
    if not (
        one_label
        and spec.refit
        and split.holdout.size
        and not (split.blocks is not None and split.blocks.ordered)
        and effective_total(table.weights) < FEWEST_TO_HOLD_OUT
    ):
        return 0
    folds = min(round(1 / spec.holdout), _MAX_FOLDS)
    return folds if folds > 1 else 0


def of_a_fold(spec: TrainSpec, folds: int) -> TrainSpec:
    """The order of a fold's model: its learner has its share of `max_seconds`, where it has that
    parameter.
    """
    parameters = dict(spec.learner.parameters)
    if "max_seconds" not in parameters:
        return spec
    parameters["max_seconds"] /= folds
    return spec.model_copy(
        update={"learner": spec.learner.model_copy(update={"parameters": parameters})}
    )


def cross_validated(
    holdout: Holdout,
    spec: TrainSpec,
    table: Table,
    split: Split,
    folds: int,
    fit: Callable[[np.ndarray], Any],
) -> tuple[Holdout, np.ndarray]:
    """Each row's probabilities by a model that did not see it, and the rows that have them; `fit`
    returns a model fitted to rows.

    The first fold is the `holdout`, whose model is fitted already. The only training row of a class
    is left out.
    """
    fold = folds_of(table.y, split, folds, spec.seed)
    scores = np.zeros((len(table.y), holdout.scores.shape[1]))
    scores[split.holdout] = holdout.scores
    for part in range(1, folds):
        rows = np.flatnonzero(fold == part)
        with progress.part(
            (part - 1) / (folds - 1), part / (folds - 1), f"fold {part + 1} of {folds}"
        ):
            if rows.size:
                scores[rows] = fit(np.flatnonzero(fold != part)).posterior(
                    table.X[rows]
                )
    predicted = np.flatnonzero(fold != UNJUDGED)
    return held_out_rows(scores[predicted], table, split, predicted), predicted


def held_out_rows(
    scores: np.ndarray, table: Table, split: Split, rows: np.ndarray
) -> Holdout:
    """The scores (n, K) of `rows` (n,) with their labels and groups, and with their numbers where
    they have exclusive classes.
    """
    exclusive = table.classes is not None and table.y.ndim == 1
    numbers = table.numbers if exclusive else {}
    return Holdout(
        scores,
        table.y[rows],
        lambda: {name: values[rows] for name, values in numbers.items()},
        split.groups_of(rows),
        table.weights[rows],
        lambda: {
            name: (codes[rows], words)
            for name, (codes, words) in (table.segments if exclusive else {}).items()
        },
    )


def predicted_holdout(estimator: Any, table: Table, split: Split) -> Holdout | None:
    """A fitted estimator's predictions for the held-out rows, if there are any.

    A table without classes has numbers for labels, which the estimator predicts.
    """
    rows = split.holdout
    if not rows.size:
        return None
    X = table.X[rows]
    scores = estimator.posterior(X) if table.classes else estimator.values(X)[:, None]
    return held_out_rows(scores, table, split, rows)


def metrics_of(
    estimator: Any, holdout: Holdout, spec: TrainSpec, table: Table, rows: np.ndarray
) -> dict[str, Any]:
    """Metrics of the predictions `holdout` by models that did not see their rows, and of acquiring
    features on the held-out `rows`.
    """
    figures = metrics_of_predictions(holdout, table, spec)
    return figures | _acquisition(estimator, spec, table, rows)


def _acquisition(
    estimator: Any, spec: TrainSpec, table: Table, rows: np.ndarray
) -> dict[str, Any]:
    """The costs and benefits of acquiring feature by feature on the hold-out, of a learner that
    supports it.
    """
    if not estimator.acquires:
        return {}
    rows = rows[evenly(table.weights[rows], min(len(rows), simulate.MAX_ROWS))]
    names = table.schema.names
    prices = spec.prices(names) or Prices.unit(len(names))
    ready = AcquisitionModel.of(estimator, names, table.classes or (), prices)
    stakes = None
    if spec.benefit_matrix is not None and table.classes is not None:
        stakes = Prepared(spec.benefit_matrix, table.classes)
    return {
        "acquisition": simulate.report(
            ready, table.X[rows], table.y[rows], prices, stakes
        )
    }


def _findings(estimator: Any, features: Sequence[str]) -> dict[str, Any]:
    """The findings of the fit that this kind of learner reports, and whether it supports
    `/acquire`.
    """
    names = (
        "calibration",
        "converged",
        "n_iter",
        "numeric_transform",
        "min_samples_leaf",
    )
    findings = {
        name: getattr(estimator, f"{name}_")
        for name in names
        if hasattr(estimator, f"{name}_")
    }
    findings |= {"acquire": ACQUIRES} if estimator.acquires else {}
    findings |= estimator.findings(features)
    return findings


@dataclass(frozen=True)
class FitReport:
    """The metrics of a fitted model, how they were measured, and the seconds of all fits."""

    metrics: dict[str, Any]
    evaluation: EvaluationCard | None
    warnings: list[str]
    seconds: float


def card_to_publish(
    estimator: Any,
    job: Job,
    spec: TrainSpec,
    table: Table,
    rows: Split,
    report: FitReport,
    *,
    refit: bool,
) -> Card:
    """The card of the estimator to publish; with `refit` it was fitted on all rows, else without
    the hold-out.

    Its version is 1 until a number is reserved.
    """
    fitted = np.arange(len(table.y)) if refit else rows.train
    return Card(
        name=spec.model,
        version=1,
        job=job.id,
        learner=LearnerCard(**spec.learner.model_dump()),
        features=feature_cards(table, fitted),
        ignored=sorted(table.schema.ignored),
        values=dict(table.schema.values),
        labels=list(table.labels),
        classes=None if table.classes is None else list(table.classes),
        class_priors=_priors(table, fitted),
        metrics=report.metrics,
        data=DataCard(
            dataset=job.dataset or spec.dataset,
            digest=table.digest,
            rows=len(fitted),
            holdout_rows=len(rows.holdout),
            refit=refit,
            evaluation=report.evaluation,
        ),
        benefits=spec.benefits,
        case_benefits=spec.case_benefits,
        actions=spec.actions,
        feature_costs=spec.feature_costs,
        unit=spec.unit,
        seed=spec.seed,
        fit_seconds=report.seconds,
        warnings=report.warnings,
        fitted=_findings(estimator, table.schema.names),
    )


def feature_cards(table: Table, rows: np.ndarray) -> list[FeatureCard]:
    """The features as a card has them, with the range of numbers and the missing values among these
    rows.
    """
    cards = []
    for j, feature in enumerate(table.schema.features):
        column = table.X[rows, j]
        known = column[np.isfinite(column)] if feature.type == "numeric" else column[:0]
        low, high = (
            (float(known.min()), float(known.max())) if known.size else (None, None)
        )
        missing = int(np.isnan(column).sum())
        cards.append(FeatureCard(**vars(feature), low=low, high=high, missing=missing))
    return cards


def _priors(table: Table, rows: np.ndarray) -> dict[str, float]:
    """The share of each class among the rows, or of the rows to which each label applies."""
    if table.classes is None:
        return {}
    y = table.y[rows]
    weights = table.weights[rows]
    sums = weights @ y if y.ndim == 2 else np.bincount(y, weights, len(table.classes))
    shares = sums / weights.sum()
    return dict(zip(map(str, table.classes), shares.tolist(), strict=True))


def metrics_of_predictions(
    holdout: Holdout, table: Table, spec: TrainSpec
) -> dict[str, Any]:
    """Metrics of the predictions alone, as of `metrics_of`."""
    weights = holdout.row_weights
    if table.classes is None:
        return regression_metrics(holdout.scores[:, 0], holdout.y, weights)
    if holdout.y.ndim == 2:
        return multilabel_metrics(holdout.scores, holdout.y, table.classes, weights)
    case_matrices = matrices_of_cases(
        spec.case_benefits, len(holdout.y), holdout.columns()
    )
    return holdout_metrics(
        holdout.scores,
        holdout.y,
        table.classes,
        spec.benefit_matrix if case_matrices is None else case_matrices,
        weights,
    )
