"""How good a fitted model is, and the card that says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from app.acquisition.outline import listed
from app.acquisition.prices import Prices, parse_prices
from app.data.table import Table
from app.decisions.metrics import holdout_metrics, regression_metrics
from app.decisions.multilabel_metrics import multilabel_metrics
from app.jobs.job import Job
from app.learners import catalogue
from app.registry.card import Card, DataCard, LearnerCard
from app.registry.loaded import Holdout
from app.usecases.ranges import feature_cards
from app.usecases.splitting import Split


def judged(estimator: Any, job: Job, version: int, table: Table, rows: Split) -> tuple[Card, Holdout | None]:
    """The card of a fitted estimator, and what it says about the rows held out, if there are any.

    A table without classes has numbers for labels, which the estimator predicts.
    """
    spec, X = job.spec, table.X[rows.holdout]
    holdout, metrics = None, {}
    if rows.holdout.size:
        scores = estimator.posterior(X) if table.classes else estimator.values(X)[:, None]
        holdout = Holdout(scores, table.y[rows.holdout])
        metrics = _metrics(holdout, table, spec) | _acquisition(estimator, spec, table, rows.holdout)
    return _card(job, version, table, rows, metrics, _findings(estimator, table.schema.names)), holdout


def prices_of(listed: list[dict[str, Any]] | None, names: Sequence[str]) -> Prices | None:
    """The prices that a card or an order lists; None where there are none."""
    return None if listed is None else parse_prices(listed, names)


def _acquisition(estimator: Any, spec: Mapping[str, Any], table: Table, rows: np.ndarray) -> dict[str, Any]:
    """What asking feature by feature costs and earns on the hold-out, of a learner that can be asked so."""
    if not catalogue.KINDS[spec["learner"]["kind"]].stepwise:
        return {}
    from app.usecases import acquisition_model, simulate  # noqa: PLC0415 - their compiler takes 60 MB that many can spare

    rows = rows[simulate.evenly(len(rows))]
    names = table.schema.names
    prices = prices_of(spec["feature_costs"], names) or Prices.unit(len(names))
    ready = acquisition_model.AcquisitionModel.of(estimator, names, table.classes or (), prices)
    stakes = None
    if spec["benefits"] is not None and table.classes is not None:
        stakes = acquisition_model.ActionBenefits(np.array(spec["benefits"], dtype=float), table.classes)
    return {"acquisition": simulate.report(ready, table.X[rows], table.y[rows], prices, stakes)}


def _findings(estimator: Any, features: Sequence[str]) -> dict[str, Any]:
    """What a fit tells about itself, as far as this kind of learner does."""
    names = ("calibration", "converged", "n_iter")
    found = {name: getattr(estimator, f"{name}_") for name in names if hasattr(estimator, f"{name}_")}
    found |= estimator.findings() if hasattr(estimator, "findings") else {}
    return found | ({"tree": listed(estimator.outline(), features)} if hasattr(estimator, "outline") else {})


def _card(job: Job, version: int, table: Table, rows: Split, metrics: dict[str, Any], fitted: dict[str, Any]) -> Card:
    spec = job.spec
    return Card(
        name=spec["model"],
        version=version,
        job=job.id,
        learner=LearnerCard(**spec["learner"]),
        features=feature_cards(table, rows.train),
        labels=list(table.labels),
        classes=None if table.classes is None else list(table.classes),
        class_priors=_priors(table, rows),
        metrics=metrics,
        data=DataCard(
            dataset=job.dataset or spec["dataset"],
            digest=table.digest,
            rows=len(rows.train),
            holdout_rows=len(rows.holdout),
        ),
        benefits=spec["benefits"],
        feature_costs=spec["feature_costs"],
        seed=spec["seed"],
        fitted=fitted,
    )


def _priors(table: Table, rows: Split) -> dict[str, float]:
    """How often each class occurs among the training rows, or each of several labels applies."""
    if table.classes is None:
        return {}
    y = table.y[rows.train]
    shares = y.mean(axis=0) if y.ndim == 2 else np.bincount(y, minlength=len(table.classes)) / len(y)
    return dict(zip(map(str, table.classes), shares.tolist(), strict=True))


def _metrics(holdout: Holdout, table: Table, spec: Mapping[str, Any]) -> dict[str, Any]:
    if table.classes is None:
        return regression_metrics(holdout.scores[:, 0], holdout.y)
    if holdout.y.ndim == 2:
        return multilabel_metrics(holdout.scores, holdout.y, table.classes)
    benefits = None if spec["benefits"] is None else np.array(spec["benefits"])
    return holdout_metrics(holdout.scores, holdout.y, table.classes, benefits)
