"""Evaluate a fitted model, and write its card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from app.acquisition.session import Prices
from app.data.table import Table
from app.decisions.metrics import holdout_metrics, multilabel_metrics, regression_metrics
from app.jobs.job import Job
from app.learners import catalogue
from app.learners.catalogue import ACQUIRES
from app.registry.card import Card, DataCard, EvaluationCard, FeatureCard, LearnerCard
from app.registry.loaded import Holdout
from app.usecases.matrices import Prepared
from app.usecases.specs import TrainSpec
from app.usecases.splitting import Split


def held_out(estimator: Any, table: Table, rows: np.ndarray) -> Holdout | None:
    """A fitted estimator's predictions for the held-out `rows`, if there are any.

    A table without classes has numbers for labels, which the estimator predicts.
    """
    if not rows.size:
        return None
    X = table.X[rows]
    return Holdout(estimator.posterior(X) if table.classes else estimator.values(X)[:, None], table.y[rows])


def metrics_of(estimator: Any, holdout: Holdout, spec: TrainSpec, table: Table, rows: np.ndarray) -> dict[str, Any]:
    """Metrics of the predictions `holdout` by models that did not see them, and of asking on the held-out `rows`."""
    return _metrics(holdout, table, spec) | _acquisition(estimator, spec, table, rows)


def _acquisition(estimator: Any, spec: TrainSpec, table: Table, rows: np.ndarray) -> dict[str, Any]:
    """What asking feature by feature costs and earns on the hold-out, of a learner that can be asked so."""
    kind = spec.learner.kind
    if not _is_stepwise(estimator, kind):
        return {}
    from app.usecases import acquisition_model, simulate  # noqa: PLC0415 - their compiler takes 60 MB that many can spare

    rows = rows[simulate.evenly(len(rows))]
    names = table.schema.names
    prices = spec.prices(names) or Prices.unit(len(names))
    ready = acquisition_model.AcquisitionModel.of(estimator, names, table.classes or (), prices)
    stakes = None
    if (benefits := spec.benefit_matrix) is not None and table.classes is not None:
        stakes = Prepared(benefits, table.classes)
    return {"acquisition": simulate.report(ready, table.X[rows], table.y[rows], prices, stakes)}


def _is_stepwise(estimator: Any, kind: str) -> bool:
    return bool(estimator.stepwise if hasattr(estimator, "stepwise") else catalogue.kind_of(kind).stepwise)


def _findings(estimator: Any, kind: str, features: Sequence[str], benefits: np.ndarray | None) -> dict[str, Any]:
    """What the fit found, as far as this kind of learner reports it, and whether it answers `/acquire`."""
    names = ("calibration", "converged", "n_iter", "numeric_transform", "min_samples_leaf")
    found = {name: getattr(estimator, f"{name}_") for name in names if hasattr(estimator, f"{name}_")}
    found |= estimator.findings() if hasattr(estimator, "findings") else {}
    found |= {"acquire": ACQUIRES} if _is_stepwise(estimator, kind) else {}
    estimator = getattr(estimator, "winner", estimator)
    if hasattr(estimator, "staircase"):
        steps = estimator.staircase(benefits)
        found["chain"] = [step | {"asks": None if step["asks"] is None else features[step["asks"]]} for step in steps]
    return found | ({"tree": estimator.outline(features)} if hasattr(estimator, "outline") else {})


def card_of(
    estimator: Any,
    job: Job,
    spec: TrainSpec,
    table: Table,
    rows: Split,
    metrics: dict[str, Any],
    evaluation: EvaluationCard | None,
    warnings: list[str],
    fit_seconds: float,
    *,
    refit: bool,
) -> Card:
    """The card of the estimator to publish; with `refit` it was fitted on all rows, else without the hold-out.

    Its version is 1 until a number is reserved.
    """
    fitted = np.arange(len(table.y)) if refit else rows.train
    return Card(
        name=spec.model,
        version=1,
        job=job.id,
        learner=LearnerCard(**spec.learner.to_json()),
        features=feature_cards(table, fitted),
        labels=list(table.labels),
        classes=None if table.classes is None else list(table.classes),
        class_priors=_priors(table, fitted),
        metrics=metrics,
        data=DataCard(
            dataset=job.dataset or spec.dataset,
            digest=table.digest,
            rows=len(fitted),
            holdout_rows=len(rows.holdout),
            refit=refit,
            evaluation=evaluation,
        ),
        benefits=spec.benefits,
        actions=spec.actions,
        feature_costs=spec.feature_costs,
        seed=spec.seed,
        fit_seconds=fit_seconds,
        warnings=warnings,
        fitted=_findings(estimator, spec.learner.kind, table.schema.names, spec.benefit_matrix),
    )


def feature_cards(table: Table, rows: np.ndarray) -> list[FeatureCard]:
    """The features as a card has them, numeric ones with the least and the greatest value among these rows."""
    cards = []
    for j, feature in enumerate(table.schema.features):
        column = table.X[rows, j]
        known = column[np.isfinite(column)] if feature.type == "numeric" else column[:0]
        low, high = (float(known.min()), float(known.max())) if known.size else (None, None)
        cards.append(
            FeatureCard(name=feature.name, type=feature.type, categories=list(feature.categories), low=low, high=high)
        )
    return cards


def _priors(table: Table, rows: np.ndarray) -> dict[str, float]:
    """How often each class occurs among the rows, or each of several labels applies."""
    if table.classes is None:
        return {}
    y = table.y[rows]
    shares = y.mean(axis=0) if y.ndim == 2 else np.bincount(y, minlength=len(table.classes)) / len(y)
    return dict(zip(map(str, table.classes), shares.tolist(), strict=True))


def _metrics(holdout: Holdout, table: Table, spec: TrainSpec) -> dict[str, Any]:
    if table.classes is None:
        return regression_metrics(holdout.scores[:, 0], holdout.y)
    if holdout.y.ndim == 2:
        from app.usecases.promises import promises_of_card  # noqa: PLC0415 - it loads the compiler

        promises = promises_of_card(holdout.scores, holdout.y)
        return multilabel_metrics(holdout.scores, holdout.y, table.classes) | {"retrieval": promises}
    return holdout_metrics(holdout.scores, holdout.y, table.classes, spec.benefit_matrix)
