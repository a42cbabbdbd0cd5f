"""Importing models that were trained elsewhere: orders, which are checked and accepted as jobs, and
the work itself.
"""

import contextlib
import secrets
from collections.abc import Sequence
from hashlib import sha256
from typing import Any, BinaryIO, Literal

import numpy as np
from pydantic import Field

from app.access.caller import Caller
from app.errors import Forbidden, NotFound
from app.jobs.job import Job
from app.jobs.queue import id_of_key
from app.registry.card import Card, EvaluationCard
from app.registry.loaded import Holdout
from app.requests.costs import FeatureCosts
from app.requests.datasets import find_named
from app.requests.fields import Names, Text
from app.requests.matrices import MatrixFields, read_matrix, refuse_actions
from app.requests.specifications import LearnerSpec, TrainSpec
from app.stores import Stores
from app.tables.dataset import Table
from app.tables.text import some_of
from app.training import jobs
from app.training.evaluation import (
    FitReport,
    card_to_publish,
    held_out_rows,
    metrics_of,
)
from app.training.publishing import has_ended, publish
from app.training.splits import Split
from app.training.train import listed_costs
from app.training.warnings import no_ranking, rare_classes, separating_features
from payoff import progress
from payoff.decisions.row_weights import effective_rows
from payoff.errors import Invalid, PayoffError, counted
from payoff.learners.imported import (
    CHANGE,
    FOLDS,
    Imported,
    check_alone,
    checked_rows,
    load_joblib,
    load_onnx,
    rounded_columns,
)
from payoff.learners.unseen import best_calibration

KIND = "import"

# rows outside of the most common class, from which `auto` calibrates
_FEWEST_TO_CALIBRATE = 20
_CLEAR = 4.0  # standard errors
_ROUNDING = 1e-9
_TRIED_ROWS = 100  # rows that a model answers first
# rows, or up to twice as many, on which the effect of rounding is measured
_COMPARED_ROWS = 1_000
# of rows whose probabilities rounding changes, from which a warning is due
_DECISIVE_SHARE = 0.01
_MOST_NAMED = 5  # columns that a warning names
# rows, from which hardly any model is right on all of them
_FEWEST_NEVER_ALL_RIGHT = 50
_DUTY = (
    "the metrics are of all rows of the data set; they are right only if the model was not trained"
    " on these rows, which this service cannot check"
)

_Published = tuple[Card, Imported, Holdout, list[str]]


Format = Literal["onnx", "joblib"]
Calibration = Literal["none", "auto", "sigmoid", "isotonic"]


class ImportRequest(MatrixFields):
    """The fields of the form besides the file; matrix, actions and prices are JSON."""

    format: Format = Field(
        description="`onnx`: any library; `joblib`: a fitted classifier, called as it is,"
        " with PAYOFF_ALLOW_PICKLES"
    )
    dataset: Text = Field(
        description="labelled rows that the model is evaluated on, and was not trained on"
    )
    calibration: Calibration = Field(
        default="none", description="of the model's probabilities, on the same rows"
    )
    classes: Names | None = Field(
        default=None,
        description="names of the columns of the model's probabilities, where it has none;"
        " repeat the part",
    )
    feature_costs: FeatureCosts = None


class ImportSpec(TrainSpec):
    """An import: `file` is the SHA-256 of the model's file, which is kept for the job.

    `classes` name the columns of the model's probabilities, where the model does not.
    """

    learner: LearnerSpec = LearnerSpec(kind="imported")
    holdout: float = 0.0
    refit: bool = False
    format: Format
    file: str
    calibration: Calibration = "none"
    classes: list[str] | None = None


def submit(
    stores: Stores,
    model: str,
    request: ImportRequest,
    content: BinaryIO,
    *,
    key: str | None,
    caller: Caller,
) -> Job:
    """Accept a request with a file, checked as far as possible beforehand; the same `key` answers
    with the first job.

    Raises Invalid at the fields that cannot work, NotFound for an unknown data set, Forbidden for
    joblib files, unless the service takes them.
    """
    if request.format == "joblib" and not stores.imports.pickles:
        raise Forbidden(
            "a joblib file runs code when it is loaded: send onnx, or set PAYOFF_ALLOW_PICKLES=1"
        )
    dataset = find_named(stores, request.dataset, "/dataset", caller)
    if dataset.multilabel or dataset.classes is None:
        labels = (
            f"{len(dataset.labels)} labels"
            if dataset.multilabel
            else "numbers as labels"
        )
        raise Invalid.at(
            "/dataset",
            f"an imported model predicts one label of classes, and this data set has {labels}",
        )
    stakes = read_matrix(request, dataset.classes, cases=False)
    if stakes is None:
        refuse_actions(request)
    content.seek(0)
    file = content.read()
    if not file:
        raise Invalid.at("/file", "the file is empty")
    spec = ImportSpec(
        model=model,
        format=request.format,
        file=sha256(file).hexdigest(),
        dataset=dataset.id,
        calibration=request.calibration,
        classes=request.classes,
        benefits=None if stakes is None else stakes.benefits.tolist(),
        actions=None if stakes is None else stakes.actions,
        feature_costs=listed_costs(request.feature_costs, dataset),
    )
    key = key or secrets.token_hex(16)
    # The file is kept first: no job begins without its file.
    stores.imports.keep(id_of_key(key, caller.client), file)
    return jobs.submit(
        stores, caller, KIND, spec, model=spec.model, dataset=spec.dataset, key=key
    )


def run(stores: Stores, job: Job) -> None:
    """Import, publish and finish `job`; upkeep removes its file."""
    publish(stores, job, *_imported(stores, job, ImportSpec.model_validate(job.spec)))


def _imported(stores: Stores, job: Job, spec: ImportSpec) -> _Published:
    with progress.part(0.0, 0.1, "reading data"):
        table = stores.datasets.table(spec.dataset)
        content = stores.imports.read(job.id)
    try:
        with progress.part(0.1, 0.3, "loading the model"):
            model = _loaded(stores, spec, content, table)
        with progress.part(0.3, 0.95, "evaluating"):
            P = checked_rows(model.scorer.posterior(table.X), len(table.classes or ()))
            return _evaluated(job, spec, model, table, P)
    except PayoffError:
        raise
    except Exception as error:  # a forged file can raise any error
        cause = f"{type(error).__name__}: {str(error)[:300]}"
        raise Invalid.at("/file", f"the model cannot be used: {cause}") from error


def clean_up_files(stores: Stores) -> None:
    """Remove the files older than an hour, of jobs that have ended or were never submitted."""
    for job_id in stores.imports.jobs():
        with contextlib.suppress(NotFound):  # another worker was faster
            if stores.imports.is_old(job_id) and has_ended(stores, job_id):
                stores.imports.remove(job_id)


def _loaded(stores: Stores, spec: ImportSpec, content: bytes, table: Table) -> Imported:
    """The model as an estimator; Invalid with the reason where it does not fit the data set."""
    classes = table.classes or ()
    # A converted model that never saw a missing value answers with a meaningless number; a joblib
    # model raises an error.
    takes_missing = np.isnan(table.X).any(axis=0)
    if spec.format == "onnx":
        scorer: Any = load_onnx(content, table.schema, classes, spec.classes)
    elif spec.classes is not None:
        raise Invalid.at(
            "/classes", "a joblib file names its classes; leave out 'classes'"
        )
    elif not stores.imports.pickles:
        raise Invalid.at(
            "/format",
            "this worker does not load joblib files: set PAYOFF_ALLOW_PICKLES for it, too",
        )
    else:
        scorer = load_joblib(
            content, table.schema, classes, version_skew=stores.imports.version_skew
        )
        takes_missing |= True
    sample = table.X[:_TRIED_ROWS]
    check_alone(scorer, sample, checked_rows(scorer.answers(sample), len(classes)))
    return Imported(scorer=scorer, n_classes=len(classes), takes_missing=takes_missing)


def _evaluated(
    job: Job, spec: ImportSpec, model: Imported, table: Table, P: np.ndarray
) -> _Published:
    """Evaluate on all rows, by probabilities P (n, K); where calibration is ordered, each row by a
    calibration of the other rows.
    """
    rows = np.arange(len(table.y))
    check_order(P, table.y, table.classes or ())
    method = _method(spec.calibration, P, table)
    in_words = f"all {counted(len(rows), 'row')} of the data set"
    evaluation = EvaluationCard(method="hold-out", rows=len(rows), in_words=in_words)
    if method != "none":
        with progress.part(0.5, 0.6, "calibrating"):
            P = model.calibrate(method, P, table.y, table.weights, spec.seed)
        evaluation = EvaluationCard(
            method="cross-validation", folds=FOLDS, rows=len(rows), in_words=in_words
        )
    split = Split(rows, rows)
    holdout = held_out_rows(P, table, split, rows)
    made = {"format": spec.format, "calibration": method}
    spec = spec.model_copy(
        update={"learner": LearnerSpec(kind=spec.learner.kind, parameters=made)}
    )
    with progress.part(0.6, 1.0, "computing metrics"):
        metrics = metrics_of(model, holdout, spec, table, rows)
    warnings = [
        *(rare_classes(table, split) if method != "none" else ()),
        *no_ranking(model, holdout),
        *separating_features(table),
        *_rounded_numbers(model, table),
    ]
    report = FitReport(metrics, evaluation, warnings, seconds=0.0)
    card = card_to_publish(model, job, spec, table, split, report, refit=False)
    fitted = len(rows) if method != "none" else 0
    data = card.data.model_copy(update={"rows": fitted})
    warnings_of_job = [_DUTY]
    card = card.model_copy(
        update={"data": data, "fitted": card.fitted | {"evaluation": _DUTY}}
    )
    if len(rows) >= _FEWEST_NEVER_ALL_RIGHT and (P.argmax(axis=1) == table.y).all():
        warnings_of_job.append(
            "the model is right on every row of the data set: it was probably trained on these rows"
        )
    return card, model, holdout, warnings_of_job


def _rounded_numbers(model: Imported, table: Table) -> list[str]:
    """A sentence where the model reads numbers in single precision, and the rounding changes its
    probabilities.
    """
    sample = table.X[:: max(1, len(table.X) // _COMPARED_ROWS)]
    columns, share = rounded_columns(model.scorer, sample)
    if share < _DECISIVE_SHARE:
        return []
    named = some_of([repr(table.schema.names[j]) for j in columns], _MOST_NAMED)
    message = (
        f"the model computes in single precision, which has too few digits for {named}: the next"
        f" number that it can tell from theirs changes the probabilities of {share:.0%} of the rows"
        f" by more than {CHANGE}; export it with float64 inputs, or subtract an offset before"
        " training"
    )
    return [message]


def check_order(P: np.ndarray, y: np.ndarray, classes: Sequence[int | str]) -> None:
    """Invalid at /classes where rows of a class clearly have lower probabilities of it than all
    rows have on average.

    P (n, K) and codes y (n,) are in the order of `classes`. Names in another order than the model's
    turn decisions into their opposite. O(n K).
    """
    members = np.eye(len(classes))[y]
    sizes = np.maximum(members.sum(axis=0), 1)
    lifts = members.T.dot(P) / sizes[:, None] - P.mean(axis=0)
    wrong = np.flatnonzero(
        np.diagonal(lifts) < -_CLEAR * P.std(axis=0) / np.sqrt(sizes) - _ROUNDING
    )
    if len(wrong):
        first = repr(classes[wrong[0]])
        reversed_order = (
            f"the model gives {first} lower probabilities "
            f"where {first} is true than elsewhere"
        )
        raise Invalid.at(
            "/classes", f"{reversed_order}: its classes have another order"
        )


def _method(calibration: str, P: np.ndarray, table: Table) -> str:
    """The calibration of probabilities P (n, K) of the rows of a table."""
    if calibration != "auto":
        return calibration
    counts = effective_rows(table.weights, table.y, P.shape[1])
    few = counts.min() < 2 or counts.sum() - counts.max() < _FEWEST_TO_CALIBRATE
    return "none" if few else best_calibration(P, table.y, table.weights)
