"""The job that `/train` or `/calibrate` ordered: the fit without the hold-out, its evaluation, the
fit on all rows, and the publication.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from app.jobs.job import Job
from app.registry import loaded
from app.registry.card import Card, EvaluationCard
from app.requests.specifications import SplitSpec, TrainSpec
from app.stores import Stores
from app.tables.dataset import MOST_SEGMENTS, Dataset, Table
from app.training import rewards
from app.training.evaluation import (
    FitReport,
    card_to_publish,
    cross_validated,
    metrics_of,
    metrics_of_predictions,
    number_of_folds,
    of_a_fold,
    predicted_holdout,
)
from app.training.failures import checked_posterior, finite, placed
from app.training.publishing import publish
from app.training.splits import Split, evaluation_card, split_by, split_of
from app.training.train import KIND
from app.training.warnings import (
    compared,
    doubt_of,
    likely_splits,
    moving_shares,
    no_ranking,
    notes,
    rare_classes,
    repeated_rows,
    separating_features,
)
from payoff import progress
from payoff.acquisition.prices import Prices
from payoff.decisions.folds import Blocks
from payoff.errors import Invalid
from payoff.learners import catalogue
from payoff.learners.parameters import LearnerRequest
from payoff.learners.rewards.estimator import Rewards

# seconds of the evaluation, up to which a doubtful split is compared with a better one
_CHEAP_SECONDS = 5.0


def run(stores: Stores, job: Job) -> None:
    """Train, publish and finish `job`; the version appears in the transaction that ends the job."""
    publish(stores, job, *trained(stores, job))


def trained(
    stores: Stores, job: Job
) -> tuple[Card, Any, loaded.Holdout | None, list[str]]:
    """Fit without the hold-out, evaluate on it, fit on all rows: the card, the estimator, the
    hold-out and the warnings of the job beside those of the card.

    The card has no version number yet (1 stands for it). The metrics and the scores are those of
    the first fit, or of small tables those of the folds' fits, whichever fit is published.
    """
    spec = TrainSpec.model_validate(job.spec)
    if spec.learner.kind == Rewards.name:
        return rewards.trained(stores, job, spec)
    with progress.part(0.0, 0.05, "reading data"):
        dataset = stores.datasets.find(job.dataset or spec.dataset)
        is_random = job.kind == KIND and spec.split is None and spec.holdout > 0
        splits = likely_splits(dataset) if is_random else []
        table = _table(stores, dataset, spec, splits)
        rows = split_of(table, spec.holdout, spec.split, spec.seed)
        spec, case_matrices = spec.over_cases(table.numbers, table.weights)
    refit = spec.refit and rows.holdout.size > 0
    end = 0.6 if refit else 0.9  # the progress at which the evaluation begins
    clock = _Clock()
    with progress.part(0.05, end):
        estimator, holdout, evaluation = _evaluated(
            spec, table, case_matrices, rows, clock
        )
    with progress.part(end, end + 0.05, "evaluating"):
        metrics = (
            {}
            if holdout is None
            else metrics_of(estimator, holdout, spec, table, rows.holdout)
        )
        is_cheap = is_random and clock.seconds <= _CHEAP_SECONDS
        better = partial(
            _better_split, spec, table, case_matrices, metrics if is_cheap else {}
        )
        warnings_of_job = notes(estimator, spec)
        warnings_of_job += [
            text + better(blocks) for text, blocks in map(doubt_of, splits)
        ]
        copies = [text + better(blocks) for text, blocks in repeated_rows(table)]
    if refit:
        stage = progress.part(0.65, 0.95, "fitting on all rows")
        with stage, clock.running(), placed(features=table.schema.names):
            estimator.refit(table.X, table.y, table.weights, blocks=rows.blocks)
            _check_answers(estimator, table, table.X)
    warnings = [
        *rare_classes(table, rows),
        *(getattr(estimator, "doubts_", ()) or no_ranking(estimator, holdout)),
        # The scores of a calibration are expected to separate the classes.
        *(separating_features(table) if job.kind == KIND else ()),
        *(moving_shares(table) if is_random else ()),
        *copies,
    ]
    report = FitReport(metrics, evaluation, warnings, round(clock.seconds, 3))
    card = card_to_publish(estimator, job, spec, table, rows, report, refit=refit)
    return card, estimator, holdout, warnings_of_job


def _evaluated(
    spec: TrainSpec,
    table: Table,
    case_matrices: np.ndarray | None,
    rows: Split,
    clock: "_Clock",
) -> tuple[Any, loaded.Holdout | None, EvaluationCard | None]:
    """A model fitted without the hold-out, and predictions by models that did not see their rows,
    of the hold-out or of all folds, with the rows that these are; None without a hold-out.

    The seconds of the fits go to the `clock`.
    """
    folds = number_of_folds(spec, table, rows)
    predicted = rows.holdout
    share_of_first = 0.27 if folds else 1.0
    with progress.part(0.0, share_of_first, "fitting"), clock.running():
        estimator = _fitted(spec, table, case_matrices, rows, rows.train)
    holdout = predicted_holdout(estimator, table, rows)
    if holdout is None:
        return estimator, None, None
    if folds:
        with progress.part(share_of_first, 1.0, "cross-validation"), clock.running():
            spec_of_fold = of_a_fold(spec, folds)
            fit = partial(_fitted, spec_of_fold, table, case_matrices, rows)
            holdout, predicted = cross_validated(holdout, spec, table, rows, folds, fit)
    card = evaluation_card(table, rows, spec.split, predicted, folds)
    return estimator, holdout, card


class _Clock:
    """Adds up the seconds of the fits."""

    seconds = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        began = perf_counter()
        yield
        self.seconds += perf_counter() - began


def _better_split(
    spec: TrainSpec,
    table: Table,
    case_matrices: np.ndarray | None,
    metrics: Mapping[str, Any],
    blocks: Callable[[Table], Blocks],
) -> str:
    """A clause on the metrics by a split that keeps these blocks whole, beside those by a random
    one, if there are any; empty where such a split is not possible.
    """
    if not metrics:
        return ""
    with suppress(Invalid):
        split = split_by(table, spec.holdout, blocks(table), spec.seed)
        _, holdout, _ = _evaluated(spec, table, case_matrices, split, _Clock())
        assert holdout is not None
        return compared(metrics, metrics_of_predictions(holdout, table, spec))
    return ""


def _table(
    stores: Stores, dataset: Dataset, spec: TrainSpec, splits: Sequence[SplitSpec]
) -> Table:
    """The table, with the columns of the splits and of the spec's, and those of segments."""
    columns = {split.column for split in (*splits, spec.split) if split is not None}
    columns |= {
        name
        for name, column in dataset.kept.items()
        if 0 < len(column.words) <= MOST_SEGMENTS
    }
    table = stores.datasets.table(dataset.id, columns)
    # The probabilities of a calibration keep the order of the request.
    if "classes" in spec.learner.parameters:
        return table.with_classes(spec.learner.parameters["classes"])
    learner = catalogue.stored(spec.learner.kind, spec.learner.parameters)
    return table.as_numbers() if learner.regresses else table


def built_for(
    rows: np.ndarray,
    case_matrices: np.ndarray | None,
    learner: LearnerRequest,
    *,
    benefits: np.ndarray | None,
    **building: Any,
) -> Any:
    """The estimator for these rows: with their `case_matrices` (n, K, A) where it can use them,
    else with `benefits`.
    """
    if case_matrices is not None and learner.estimator.by_case:
        benefits = case_matrices[rows]
    return learner.build(benefits=benefits, **building)


def _fitted(
    spec: TrainSpec,
    table: Table,
    case_matrices: np.ndarray | None,
    split: Split,
    rows: np.ndarray,
) -> Any:
    """An estimator fitted to the `rows`, split as the hold-out is; if its kind can, it has learned
    when more features are not worth their prices.
    """
    estimator = built_for(
        rows,
        case_matrices,
        catalogue.stored(spec.learner.kind, spec.learner.parameters),
        features=table.schema.names,
        categorical_features=list(table.schema.categorical),
        benefits=spec.benefit_matrix,
        feature_costs=spec.prices(table.schema.names),
        classes=None if table.y.ndim > 1 else table.classes,
        random_state=spec.seed,
    )
    X = table.X[rows]
    y = table.y[rows]
    weights = table.weights[rows]
    blocks = split.blocks_of(rows)
    stops = hasattr(estimator, "learn_stops") and not estimator.regresses
    with placed(features=table.schema.names):
        with progress.part(0.0, 0.6 if stops else 1.0):
            estimator.fit(X, y, weights, blocks)
        if case_matrices is not None and estimator.by_case:
            estimator.benefits = (
                spec.benefit_matrix
            )  # the model does not keep matrices of rows
        if stops:
            with progress.part(0.6, 1.0):
                prices = spec.prices(table.schema.names) or Prices.unit(X.shape[1])
                estimator.learn_stops(X, y, prices, weights, blocks=blocks)
        _check_answers(estimator, table, X)
    return estimator


def _check_answers(estimator: Any, table: Table, X: np.ndarray) -> None:
    """Invalid where the model gives no usable answers: such a model is not published."""
    sample = X[:1000]
    if table.classes:
        checked_posterior(estimator, sample)
    else:
        finite(estimator.values(sample), "numbers")
