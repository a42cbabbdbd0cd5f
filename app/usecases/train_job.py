"""Training itself, in the job's own process: fit, evaluate, publish."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from time import perf_counter, time
from typing import Any

import numpy as np

from app import progress
from app.acquisition.session import Prices
from app.data.table import Table
from app.errors import Invalid, NotFound
from app.jobs.job import Job
from app.learners import catalogue
from app.registry.card import Card, EvaluationCard
from app.registry.loaded import Holdout
from app.usecases.evaluation import card_of, held_out, metrics_of
from app.usecases.matrices import oddities_of
from app.usecases.ports import Ports
from app.usecases.specs import TrainSpec
from app.usecases.splitting import cross_validated, number_of_folds, of_a_fold, split_rows
from app.usecases.training_warnings import notes, rare_classes, repeated_rows

_DAY = 86_400.0
_EXTREME = "its parameters are too extreme for these data"


def run(ports: Ports, job: Job) -> None:
    """Train, publish and finish `job`: the version and the job's success appear in one transaction."""
    publish(ports, job, *_train(ports, job))


def publish(ports: Ports, job: Job, card: Card, estimator: Any, holdout: Holdout | None, said: Sequence[str]) -> None:
    """Publish a version and finish `job`, which warns of what the card does, and of what was `said` besides.

    The attempt gets a version number when it has something to publish, and the folder of that number is its own: no
    other attempt writes it. So numbers have gaps only where an attempt dies while it publishes.
    """
    with progress.part(0.95, 1.0, "publishing"):
        alive = partial(ports.queue.held, job=job)
        card = ports.registry.stage(card, estimator, holdout, also=alive)
        warnings = [*card.warnings, *_odd_matrix(card), *said]
        model = {"name": card.name, "version": card.version}
        result = {"model": model, "metrics": card.metrics, "warnings": warnings}
        with ports.database.writing() as connection:
            ports.registry.add(connection, card)
            ports.queue.succeed(connection, job, result)
            ports.audit.published(connection, job.id, f"{card.name}:{card.version}")


def clean_up_leftovers(ports: Ports, seconds: float = _DAY) -> None:
    """Remove the folders of versions that were not published by jobs that ended so long ago, or were deleted since.

    Unavailable where the store or the database does not answer.
    """
    for one in ports.registry.unpublished():
        if _ended(ports, one.job, seconds):
            ports.registry.discard(one)


def _ended(ports: Ports, job: str | None, seconds: float) -> bool:
    """Whether a job has ended, so long ago; one that is not known any more has."""
    try:
        view = None if job is None else ports.queue.view(job)
    except NotFound:
        return True
    return view is None or (view.ended and (view.finished_at or 0.0) <= time() - seconds)


def _odd_matrix(card: Card) -> list[str]:
    """Warnings about the matrix of training; the card does not keep them, as decisions may take another matrix."""
    if card.benefits is None or card.classes is None:
        return []
    return oddities_of(np.array(card.benefits), card.actions, card.classes)


def placed(error: Invalid, learner: str = "/learner", features: Sequence[str] = ()) -> Invalid:
    """An estimator's complaint, seen from the order: about its benefits, a feature, or one of its own parameters."""
    loc, message = error.flaws[0].loc, error.flaws[0].msg
    if loc.startswith("/benefits"):
        return error
    if loc.startswith("/columns/"):
        return Invalid.at(learner, f"feature {features[int(loc.removeprefix('/columns/'))]!r}: {message}")
    return error.under(learner)


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
    return _finite(estimator.posterior(X), "probabilities")


def _finite(answers: np.ndarray, what: str) -> np.ndarray:
    if not np.isfinite(answers).all():
        raise Invalid.at("", f"the fit gave no usable {what}; {_EXTREME}")
    return answers


@contextmanager
def _breaking_down() -> Iterator[None]:
    try:
        yield
    except (np.linalg.LinAlgError, OverflowError) as error:
        raise Invalid.at("", f"the fit broke down ({error}); {_EXTREME}") from error


def _train(ports: Ports, job: Job) -> tuple[Card, Any, Holdout | None, list[str]]:
    """Fit without the hold-out, evaluate on it, fit on all rows; the card has no version number yet (1 stands for it).

    The metrics and the scores are those of the first fit, or of small tables those of the folds' fits, whichever is
    published. The last item is what the job warns of, besides the card.
    """
    spec = TrainSpec.from_json(job.spec)
    with progress.part(0.0, 0.05, "reading data"):
        table = _table(ports, job, spec)
        rows = split_rows(table.y, spec.holdout, spec.seed)
    refit, folds = spec.refit and rows.holdout.size > 0, number_of_folds(spec, table, rows)
    evaluation = 0.6 if refit else 0.9  # the progress at which it begins
    clock = _Clock()
    with progress.part(0.05, 0.2 if folds else evaluation, "fitting"), clock.running():
        estimator = _fitted(spec, table, rows.train)
    holdout = held_out(estimator, table, rows.holdout)
    if folds and holdout is not None:
        with progress.part(0.2, evaluation, "cross-validation"), clock.running():
            order = of_a_fold(spec, folds)
            fitted = partial(_fitted, order, table)
            holdout = cross_validated(holdout, spec, table, rows, folds, fitted)
    with progress.part(evaluation, evaluation + 0.05, "evaluating"):
        metrics = {} if holdout is None else metrics_of(estimator, holdout, spec, table, rows.holdout)
    said = notes(estimator, spec)
    if refit:
        with progress.part(0.65, 0.95, "fitting on all rows"), clock.running():
            _refit(estimator, table)
    rare = rare_classes(estimator, table, rows, holdout)
    warnings = [*rare, *getattr(estimator, "doubts_", ()), *repeated_rows(table)]
    seconds = round(clock.seconds, 3)
    evaluated = _evaluation(holdout, folds)
    card = card_of(estimator, job, spec, table, rows, metrics, evaluated, warnings, seconds, refit=refit)
    return card, estimator, holdout, said


def _evaluation(holdout: Holdout | None, folds: int) -> EvaluationCard | None:
    """What the card says about the rows that were evaluated, cross-validated where there are several `folds`."""
    if holdout is None:
        return None
    if folds > 1:
        return EvaluationCard(method="cross-validation", folds=folds, rows=len(holdout.y))
    return EvaluationCard(method="hold-out", rows=len(holdout.y))


class _Clock:
    """Adds up the seconds of the fits."""

    seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began = perf_counter()
        yield
        self.seconds += perf_counter() - began


def _table(ports: Ports, job: Job, spec: TrainSpec) -> Table:
    table = ports.datasets.table(job.dataset or spec.dataset)
    if "classes" in spec.learner.parameters:  # of a calibration, whose probabilities keep the order of the request
        return table.with_classes(spec.learner.parameters["classes"])
    return table.as_numbers() if catalogue.kind_of(spec.learner.kind).regresses(spec.learner.parameters) else table


def _build(spec: TrainSpec, table: Table) -> Any:
    return catalogue.kind_of(spec.learner.kind).build(
        spec.learner.parameters,
        categorical_features=list(table.schema.categorical),
        benefits=spec.benefit_matrix,
        feature_costs=spec.prices(table.schema.names),
        classes=None if table.y.ndim > 1 else table.classes,
        random_state=spec.seed,
    )


def _fitted(spec: TrainSpec, table: Table, rows: np.ndarray) -> Any:
    """A fitted estimator; where it can, it has learned when asking for more features does not pay any more."""
    estimator = _build(spec, table)
    X, y = table.X[rows], table.y[rows]
    try:
        if not hasattr(estimator, "learn_stops"):
            fit(estimator, X, y)
        else:
            with progress.part(0.0, 0.6):
                fit(estimator, X, y)
            with progress.part(0.6, 1.0), _breaking_down():
                prices = spec.prices(table.schema.names)
                estimator.learn_stops(X, y, prices or Prices.unit(X.shape[1]))
        _check_answers(estimator, table, X)
    except Invalid as error:
        raise placed(error, features=table.schema.names) from error
    return estimator


def _refit(estimator: Any, table: Table) -> None:
    try:
        with _breaking_down():
            estimator.refit(table.X, table.y)
        _check_answers(estimator, table, table.X)
    except Invalid as error:
        raise placed(error, features=table.schema.names) from error


def _check_answers(estimator: Any, table: Table, X: np.ndarray) -> None:
    """Invalid where the model gives no usable answers: such a model is not published."""
    some = X[:1000]
    checked_posterior(estimator, some) if table.classes else _finite(estimator.values(some), "numbers")
