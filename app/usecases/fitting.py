"""Training itself, in the job's own process: fit, judge, publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from app import progress
from app.acquisition.prices import Prices, parse_prices
from app.data.table import Table
from app.decisions.metrics import holdout_metrics
from app.decisions.multilabel_metrics import multilabel_metrics
from app.errors import Invalid
from app.jobs.job import Job
from app.learners import catalogue
from app.registry.card import Card, DataCard, FeatureCard, LearnerCard
from app.registry.loaded import Holdout
from app.usecases.ports import Ports

_EXTREME = "its parameters are too extreme for these data"


def run(ports: Ports, job: Job) -> None:
    """Train, publish and finish `job`: the version and the job's success appear in one transaction.

    The version number is the job's own from its first attempt on; what an earlier attempt that died before that
    transaction left under this number was never visible, and goes.
    """
    name = job.spec["model"]
    version = job.notes.get("version")
    if version is None:
        version = ports.registry.reserve(name)
        ports.queue.remember(job, {"version": version})
    clean_up(ports, job)
    card = _train(ports, job, version)
    with progress.part(0.97, 1.0, "publishing"):
        result = {"model": {"name": name, "version": version}, "metrics": card.metrics}
        with ports.database.writing() as connection:
            ports.registry.add(connection, card)
            ports.queue.succeed(connection, job, result)
            ports.audit.published(connection, job.id, f"{name}:{version}")


def clean_up(ports: Ports, job: Job) -> None:
    """Remove what an attempt that did not succeed may have left in the registry's folder."""
    version = job.notes.get("version")
    if version is not None:
        ports.registry.discard(job.spec["model"], version)


@dataclass(frozen=True)
class Split:
    """Rows to learn from and rows to judge by."""

    train: np.ndarray
    holdout: np.ndarray


def split_rows(y: np.ndarray, part: float, seed: int) -> Split:
    """Hold out `part` of the rows, class by class so that every class stays in the training rows.

    `y` (n,) class codes: a class of m rows gives round(part m) of them, at most m - 1. Or (n, L) labels: rows are held
    out evenly over those that share their rarest label, and a label that applies to some rows, and not to others, does
    so among the training rows too. Deterministic in `seed`. O(n log n + n L).
    """
    rng = np.random.default_rng(seed)
    if y.ndim == 2:
        held = _held_of_labels(y, part, rng)
    else:
        held = np.zeros(len(y), dtype=bool)
        for code in np.unique(y):
            rows = np.flatnonzero(y == code)
            held[rng.permutation(rows)[: min(round(part * len(rows)), len(rows) - 1)]] = True
    return Split(np.flatnonzero(~held), np.flatnonzero(held))


def _held_of_labels(y: np.ndarray, part: float, rng: np.random.Generator) -> np.ndarray:
    """The rows (n,) of labels (n, L) to hold out, as a mask."""
    n, held = len(y), np.zeros(len(y), dtype=bool)
    counts = y.sum(axis=0, dtype=np.int64)
    by_rarity = np.argsort(counts, kind="stable")
    rarest = np.where(y.any(axis=1), y[:, by_rarity].argmax(axis=1), y.shape[1])
    shuffled = rng.permutation(n)
    ordered = shuffled[np.argsort(rarest[shuffled], kind="stable")]
    count = min(round(part * n), n - 1)
    held[ordered[((np.arange(count) + 0.5) * n / max(count, 1)).astype(np.int64)]] = True
    for applies in (1, 0):
        for label in np.flatnonzero((y[~held] != applies).all(axis=0)):
            rows = np.flatnonzero(held & (y[:, label] == applies))
            held[rows[:1]] = False  # the last that shows it
    return held


def placed(error: Invalid, learner: str = "/learner") -> Invalid:
    """An estimator's complaint, seen from the order: about its benefits, or about one of its own parameters."""
    return error if error.flaws[0].loc.startswith("/benefits") else error.under(learner)


def built(
    kind: catalogue.Kind, parameters: Mapping[str, Any], benefits: np.ndarray | None, classes: Sequence[int | str]
) -> dict[str, Any]:
    """The parameters, their labels as the classes are written, of a learner that can be built with them.

    What the estimator's making already shows to be wrong is said now, not by a job that fails: Invalid where the
    learner is the argument, or at /benefits.
    """
    named = kind.naming(parameters, classes)
    kind.build(named, benefits=benefits, classes=classes)
    return named


def fit(estimator: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Fit on rows (n, m) and labels (n,); arithmetic that breaks down is Invalid, as parameters were too extreme."""
    with _breaking_down():
        estimator.fit(X, y)


def checked_posterior(estimator: Any, X: np.ndarray) -> np.ndarray:
    """Probabilities (n, K) of rows (n, m); Invalid where the fit gave none."""
    P: np.ndarray = estimator.posterior(X)
    if not np.isfinite(P).all():
        raise Invalid.at("", f"the fit gave no usable probabilities; {_EXTREME}")
    return P


@contextmanager
def _breaking_down() -> Iterator[None]:
    try:
        yield
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise Invalid.at("", f"the fit broke down ({error}); {_EXTREME}") from error


def prices_of(listed: list[dict[str, Any]] | None, names: Sequence[str]) -> Prices | None:
    """The prices that a card or an order lists; None where there are none."""
    return None if listed is None else parse_prices(listed, names)


def _train(ports: Ports, job: Job, version: int) -> Card:
    """Fit on the training rows, judge on the hold-out, and write the version's folder."""
    spec = job.spec
    with progress.part(0.0, 0.05, "reading data"):
        table = ports.datasets.table(spec["dataset"])
        rows = split_rows(table.y, spec["holdout"], spec["seed"])
    estimator = _build(spec, table)
    began = perf_counter()
    with progress.part(0.05, 0.9, "fitting"):
        try:
            _fit(estimator, spec, table, rows.train)
            checked_posterior(estimator, table.X[rows.train[:1000]])  # no model without them is published
        except Invalid as error:
            raise placed(error) from error
    fit_seconds = perf_counter() - began
    with progress.part(0.9, 0.95, "judging"):
        scores = estimator.posterior(table.X[rows.holdout]) if rows.holdout.size else None
        card = _card(job, version, table, rows, scores)
        card = card.model_copy(
            update={
                "metrics": card.metrics | _acquisition(estimator, spec, table, rows.holdout),
                "fitted": _findings(estimator),
                "fit_seconds": round(fit_seconds, 3),
            }
        )
    with progress.part(0.95, 0.97, "writing"):
        holdout = None if scores is None else Holdout(scores, table.y[rows.holdout])
        return ports.registry.stage(card, estimator, holdout)


def _build(spec: Mapping[str, Any], table: Table) -> Any:
    benefits = None if spec["benefits"] is None else np.array(spec["benefits"], dtype=np.float64)
    kind = catalogue.KINDS[spec["learner"]["kind"]]
    return kind.build(
        spec["learner"]["parameters"],
        categorical_features=list(table.schema.categorical),
        benefits=benefits,
        feature_costs=prices_of(spec["feature_costs"], table.schema.names),
        classes=None if table.y.ndim > 1 else table.classes,
        random_state=spec["seed"],
    )


def _fit(estimator: Any, spec: Mapping[str, Any], table: Table, rows: np.ndarray) -> None:
    """Fit; and where the learner can be asked feature by feature, learn when that does not pay any more."""
    X, y = table.X[rows], table.y[rows]
    if not catalogue.KINDS[spec["learner"]["kind"]].stepwise:
        fit(estimator, X, y)
        return
    with progress.part(0.0, 0.6):
        fit(estimator, X, y)
    with progress.part(0.6, 1.0), _breaking_down():
        prices = prices_of(spec["feature_costs"], table.schema.names)
        estimator.learn_stops(X, y, prices or Prices.unit(X.shape[1]))


def _acquisition(estimator: Any, spec: Mapping[str, Any], table: Table, rows: np.ndarray) -> dict[str, Any]:
    """What asking feature by feature costs and earns on the hold-out, of a learner that can be asked so."""
    if not rows.size or not catalogue.KINDS[spec["learner"]["kind"]].stepwise:
        return {}
    from app.usecases import asking, simulate  # noqa: PLC0415 - with its compiler it takes 60 MB that many can spare

    assert table.classes is not None
    rows = rows[simulate.evenly(len(rows))]
    names = table.schema.names
    prices = prices_of(spec["feature_costs"], names) or Prices.unit(len(names))
    ready = asking.Asker.of(estimator, names, table.classes, prices)
    stakes = None if spec["benefits"] is None else asking.Stakes(np.array(spec["benefits"], dtype=float), table.classes)
    return {"acquisition": simulate.report(ready, table.X[rows], table.y[rows], prices, stakes)}


def _findings(estimator: Any) -> dict[str, Any]:
    """What a fit tells about itself, as far as this kind of learner does."""
    names = ("calibration", "converged", "n_iter")
    found = {name: getattr(estimator, f"{name}_") for name in names if hasattr(estimator, f"{name}_")}
    return found | (estimator.findings() if hasattr(estimator, "findings") else {})


def _card(job: Job, version: int, table: Table, rows: Split, scores: np.ndarray | None) -> Card:
    spec = job.spec
    assert table.classes is not None
    shares = _shares(table.y[rows.train], len(table.classes))
    metrics = {} if scores is None else _metrics(scores, table, rows, spec)
    return Card(
        name=spec["model"],
        version=version,
        job=job.id,
        learner=LearnerCard(**spec["learner"]),
        features=[
            FeatureCard(name=feature.name, type=feature.type, categories=list(feature.categories))
            for feature in table.schema.features
        ],
        labels=list(table.labels),
        classes=list(table.classes),
        class_priors=dict(zip(map(str, table.classes), shares.tolist(), strict=True)),
        metrics=metrics,
        data=DataCard(
            dataset=spec["dataset"],
            digest=table.digest,
            rows=len(rows.train),
            holdout_rows=len(rows.holdout),
        ),
        benefits=spec["benefits"],
        feature_costs=spec["feature_costs"],
        seed=spec["seed"],
    )


def _shares(y: np.ndarray, n_classes: int) -> np.ndarray:
    """How often each class occurs, or each of several labels applies."""
    return np.asarray(y.mean(axis=0) if y.ndim == 2 else np.bincount(y, minlength=n_classes) / len(y))


def _metrics(scores: np.ndarray, table: Table, rows: Split, spec: Mapping[str, Any]) -> dict[str, Any]:
    assert table.classes is not None
    truth = table.y[rows.holdout]
    if truth.ndim == 2:
        return multilabel_metrics(scores, truth, table.classes)
    benefits = None if spec["benefits"] is None else np.array(spec["benefits"])
    return holdout_metrics(scores, truth, table.classes, benefits)
