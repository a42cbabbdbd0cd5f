"""Comparing itself, in the job's own process: which learner and which rule earn most on a data set."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from app import progress
from app.data.table import Table
from app.decisions.benefit import upper_bound
from app.decisions.bootstrap import Ranking
from app.decisions.folds import stratified_folds
from app.decisions.ranking import Judged, contest, doubts
from app.decisions.rules import Rows, Ruled, apply_rules, same_for_all
from app.errors import Invalid, pointer
from app.jobs.job import Job
from app.learners import catalogue
from app.usecases.compare import names
from app.usecases.ports import Ports
from app.usecases.rankings import lead_of, standings_of
from app.usecases.specs import CompareSpec, LearnerSpec
from app.usecases.train_job import checked_posterior, fit, placed


def run(ports: Ports, job: Job) -> None:
    """Compare, and finish `job` with the table as its result."""
    spec = CompareSpec.from_json(job.spec)
    with progress.part(0.0, 0.02, "reading data"):
        spec = spec.model_copy(update={"dataset": job.dataset or spec.dataset})
        table = ports.datasets.table(spec.dataset)
        if "classes" in spec.learners[0].parameters:  # probabilities, whose columns the request put in order
            table = table.with_classes(spec.learners[0].parameters["classes"])
    fold = stratified_folds(table.y, spec.folds, spec.seed)  # a data set has two rows of each class at least
    with progress.part(0.02, 0.95):
        trials = _trials(table, fold, spec)
    _check_any_left(trials)
    with progress.part(0.95, 1.0, "comparing"):
        result = _result(table, fold, trials, spec)
    with ports.database.writing() as connection:
        ports.queue.succeed(connection, job, result)


@dataclass(frozen=True)
class _Trial:
    """A learner's probabilities (n, K) for rows that it was not fitted on, how long a fit took on average, and whether
    each one converged (None where that is no question); or why there are none.
    """

    name: str
    scores: np.ndarray | None = None
    fit_seconds: float | None = None
    converged: list[bool] | None = None
    failure: Invalid | None = None


@dataclass(frozen=True)
class _Contender:
    learner: str | None
    ruled: Ruled


def _check_any_left(trials: Sequence[_Trial]) -> None:
    failures = [(trial.name, trial.failure) for trial in trials if trial.failure is not None]
    if len(failures) == len(trials):
        flaws = [flaw for _, failure in failures for flaw in failure.flaws]
        raise Invalid("; ".join(f"{name}: {failure.detail}" for name, failure in failures), flaws)


@dataclass(frozen=True)
class _Fit:
    """Probabilities of the rows of one fold, from a fit on the others; how long that took and whether it converged."""

    scores: np.ndarray
    seconds: float
    converged: bool | None


def _trials(table: Table, fold: np.ndarray, spec: CompareSpec) -> list[_Trial]:
    """What became of each learner: one that cannot be fitted here does not spoil the others.

    Every fit is a piece of work of its own; joblib's parallel_config decides where it runs.
    """
    called = names(spec.learners)
    fits: list[dict[int, _Fit]] = [{} for _ in called]
    failures: dict[int, Invalid] = {}
    parts = [part for part in range(spec.folds) if (fold == part).any()]
    order: deque[tuple[int, int, float]] = deque()

    def pieces() -> Iterator[Any]:
        for place, (number, part) in enumerate(product(range(len(called)), parts)):
            if number not in failures:
                begin, end = place / (len(called) * len(parts)), (place + 1) / (len(called) * len(parts))
                order.append((number, part, end))
                where = (begin, end, f"{called[number]}, fold {part + 1}")
                yield delayed(_tried)(_recipe(spec, number, table), table.X, table.y, fold, part, where)

    for tried in Parallel(prefer="threads", return_as="generator")(pieces()):
        number, part, done = order.popleft()
        progress.report(done, f"{called[number]}, fold {part + 1}")
        if isinstance(tried, Invalid):
            failures.setdefault(number, placed(tried, pointer("learners", number), table.schema.names))
        else:
            fits[number][part] = tried
    return [_trial(name, fits[number], failures.get(number), fold) for number, name in enumerate(called)]


def _trial(name: str, fits: Mapping[int, _Fit], failure: Invalid | None, fold: np.ndarray) -> _Trial:
    if failure is not None:
        return _Trial(name, failure=failure)
    scores = np.zeros((len(fold), next(iter(fits.values())).scores.shape[1]))
    for part, one in fits.items():
        scores[fold == part] = one.scores
    converged = [one.converged for one in fits.values() if one.converged is not None]
    return _Trial(name, scores, float(np.mean([one.seconds for one in fits.values()])), converged or None)


def _recipe(spec: CompareSpec, number: int, table: Table) -> dict[str, Any]:
    """What it takes to build a learner, wherever that is to be."""
    return {
        **spec.learners[number].to_json(),
        "categorical_features": list(table.schema.categorical),
        "benefits": spec.benefit_matrix,
        "classes": table.classes,
        "random_state": spec.seed,
    }


def _tried(
    recipe: Mapping[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    fold: np.ndarray,
    part: int,
    where: tuple[float, float, str],
) -> _Fit | Invalid:
    """Fit on the rows outside a fold, and evaluate on those inside; or the reason why that is impossible."""
    building = {name: value for name, value in recipe.items() if name not in {"kind", "parameters"}}
    outside = fold == part
    try:
        estimator = catalogue.kind_of(recipe["kind"]).build(recipe["parameters"], **building)
        with progress.part(*where):
            began = perf_counter()
            fit(estimator, X[~outside], y[~outside])
            seconds = perf_counter() - began
        scores = checked_posterior(estimator, X[outside])
    except Invalid as error:
        return error
    return _Fit(scores, seconds, bool(estimator.converged_) if hasattr(estimator, "converged_") else None)


def _result(table: Table, fold: np.ndarray, trials: Sequence[_Trial], spec: CompareSpec) -> dict[str, Any]:
    assert table.classes is not None
    B, y = spec.benefit_matrix, table.y
    priors = np.bincount(y, minlength=len(B)) / len(y)
    constant = same_for_all(len(y), B, priors)
    contenders = [
        _Contender(trial.name, ruled)
        for trial in trials
        if trial.scores is not None
        for ruled in apply_rules(Rows(trial.scores, trial.scores, y, fold), B, table.classes)
    ]
    contenders.append(_Contender(None, constant))
    judged = Judged(y, B, priors)
    bound = upper_bound(priors, B)
    ranking = contest(np.column_stack([one.ruled.choice for one in contenders]), judged, fixed=[len(contenders) - 1])
    rows = standings_of((one.ruled for one in contenders), ranking, bound)

    def name(j: int) -> dict[str, str | None]:
        return {"learner": contenders[j].learner, "rule": contenders[j].ruled.rule}

    return {
        "dataset": spec.dataset,
        "classes": list(table.classes),
        "rows": len(y),
        "upper_bound": bound,
        "table": [{"learner": one.learner, **row} for one, row in zip(contenders, rows, strict=True)],
        "best": {**name(ranking.best), **lead_of(ranking, name)},
        "same_for_all": {"action": int(constant.choice[0]), "benefit": ranking.standings[-1].mean},
        "learners": [_outcome(trial, learner) for trial, learner in zip(trials, spec.learners, strict=True)],
        "warnings": [*doubts(judged, table.classes, bound, actions=spec.actions), *_about(trials, ranking)],
    }


def _outcome(trial: _Trial, learner: LearnerSpec) -> dict[str, Any]:
    return {
        "name": trial.name,
        **learner.to_json(),
        "fit_seconds": None if trial.fit_seconds is None else round(trial.fit_seconds, 4),
        "converged": trial.converged,
        "error": None if trial.failure is None else trial.failure.detail,
    }


def _about(trials: Sequence[_Trial], ranking: Ranking) -> list[str]:
    """What became of the learners, and who is best; the last contender is one action for all."""
    warnings = [f"{trial.name} is left out: {trial.failure.detail}" for trial in trials if trial.failure is not None]
    for trial in trials:
        fits = trial.converged or []
        if not all(fits):
            warnings.append(f"{trial.name}: {fits.count(False)} of {len(fits)} fits did not converge")
    if ranking.standings[-1].behind <= 0:
        warnings.append("no learner earns more with any rule than one action for all: models do not pay here")
    return warnings
