"""Comparing learners and rules: orders, which are checked and accepted as jobs, and the work
itself.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from time import perf_counter
from typing import Annotated, Any

import numpy as np
from joblib import Parallel, delayed
from pydantic import Field

from app.access.caller import Caller
from app.answering.benefit import lead_of, standings_of
from app.jobs.job import Job
from app.requests.datasets import EXAMPLE_ID, find_named
from app.requests.fields import Text
from app.requests.matrices import MatrixFields, needed_matrix, own_matrices
from app.requests.quantities import UnitCosts
from app.requests.specifications import FOLDS, SEED, LearnerSpec, StakesSpec
from app.stores import Stores
from app.tables.dataset import Dataset, Table
from app.training import jobs
from app.training.train import (
    Learner,
    built,
    built_for,
    check_columns,
    check_labels,
    checked_posterior,
    finite,
    placed,
    with_task,
)
from app.training.warnings import separating_features
from payoff import progress
from payoff.decisions.benefit import class_means
from payoff.decisions.folds import stratified_folds
from payoff.decisions.ranking import (
    MIN_ROWS_TO_COMPARE,
    LabelledRows,
    Ranking,
    contest,
    doubts,
    rank,
)
from payoff.decisions.rules import HeldOutRows, Ruled, RuleName, apply_rules, same_for_all
from payoff.errors import Flaw, Invalid, pointer, reject
from payoff.learners import catalogue
from payoff.learners.parameters import LearnerRequest

KIND = "compare"
_OF_NUMBERS: tuple[RuleName, ...] = ("unit_costs", "value")
_INCOMPARABLE = "the learners cannot be compared"


class CompareRequest(MatrixFields):
    """What to compare, on what, and what is at stake."""

    dataset: Text = Field(examples=[EXAMPLE_ID])
    learners: Annotated[list[Learner], Field(min_length=1, max_length=20)]
    unit_costs: UnitCosts | None = Field(
        default=None,
        description="of quantities, for learners of numbers; by default both are 1, for absolute errors",
    )
    folds: int = Field(
        default=FOLDS,
        ge=2,
        le=20,
        strict=True,
        description="each is evaluated by models fitted on the others",
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)


class CompareSpec(StakesSpec):
    """What to compare: the benefits decide on every learner, or on numbers the costs (over, under)
    of a unit.
    """

    dataset: str
    learners: list[LearnerSpec]
    unit_costs: tuple[float, float] | None = None
    folds: int = FOLDS
    seed: int = SEED


def submit(stores: Stores, asked: CompareRequest, *, key: str | None, caller: Caller) -> Job:
    """Accept an order to compare, checked as far as possible beforehand; the same `key` answers
    with the first job.

    Raises Invalid with the place of what cannot work, NotFound for an unknown data set.
    """
    dataset = find_named(stores, asked.dataset, "/dataset", caller)
    resolved = _resolved(asked.learners, dataset)
    numbers = resolved[0].regresses
    if numbers and asked.stated:
        raise Invalid.at(
            asked.place,
            "a matrix is for classes, and these learners predict numbers; send 'unit_costs'",
        )
    if asked.unit_costs is not None and not numbers:
        raise Invalid.at(
            "/unit_costs",
            "this is for quantities, and these learners predict classes; send a matrix",
        )
    units = asked.unit_costs or UnitCosts(over=1.0, under=1.0)
    stakes: dict[str, Any] = {"unit_costs": (units.over, units.under)}
    B, classes = None, dataset.classes or ()
    if not numbers:
        square = any(learner.needs_square for learner in resolved)
        B, actions, _, cases = needed_matrix(asked, classes, square=square)
        stakes = {"benefits": B.tolist(), "actions": actions}
        if cases is not None:
            check_columns(cases, dataset)
            stakes["case_benefits"] = cases.cells()
    learners = _buildable(resolved, B, classes)
    spec = CompareSpec(
        dataset=dataset.id, learners=learners, folds=asked.folds, seed=asked.seed, **stakes
    )
    return jobs.submit(stores, caller, KIND, spec, dataset=dataset.id, key=key)


def _resolved(sent: Sequence[Mapping[str, Any]], dataset: Dataset) -> list[LearnerRequest]:
    learners: list[LearnerRequest] = []

    def flaws() -> Iterator[Flaw]:
        """What is wrong, until there is enough of it: finding names that are like others takes a
        while.
        """
        for i, one in enumerate(sent):
            try:
                learner = with_task(catalogue.resolve(one), dataset)
                check_labels(learner, dataset)
            except Invalid as error:
                yield from error.under(pointer("learners", i)).flaws
                continue
            if learner.estimator.labels == "several":
                what = f"{learner.kind} predicts several labels; rules decide about one"
                yield Flaw(pointer("learners", i, "kind"), what)
            if learners and learner.regresses != learners[0].regresses:
                yield Flaw(
                    pointer("learners", i),
                    "some learners predict numbers, others classes: compare them apart",
                )
            learners.append(learner)

    reject(flaws(), _INCOMPARABLE)
    return learners


def _buildable(
    resolved: Sequence[LearnerRequest], B: np.ndarray | None, classes: Sequence[int | str]
) -> list[LearnerSpec]:
    """The learners as the job will build them, each once: labels are written as the data set's
    classes are.
    """
    learners: list[LearnerSpec] = []
    flaws: list[Flaw] = []
    for i, one in enumerate(resolved):
        try:
            with placed(pointer("learners", i)):
                named = built(one, B, classes)
        except Invalid as error:
            flaws.extend(error.flaws)
            continue
        learner = LearnerSpec(kind=named.kind, parameters=named.parameters)
        if learner in learners:
            flaws.append(
                Flaw(
                    pointer("learners", i),
                    "the same learner with the same parameters is there already",
                )
            )
        learners.append(learner)
    reject(flaws, _INCOMPARABLE)
    return learners


def _name(kind: str, parameters: Mapping[str, Any]) -> str:
    """What a learner is called in the table: its kind, and the parameters that are not the kind's
    defaults.
    """
    defaults = catalogue.resolve({"kind": kind}).parameters
    # which all have in common
    others = {name: value for name, value in parameters.items() if name != "task"}
    changed = [
        f"{name}={_worded(value)}" for name, value in others.items() if value != defaults[name]
    ]
    return f"{kind}({', '.join(changed)})" if changed else kind


def _worded(value: Any) -> str:
    if isinstance(value, Mapping):
        return _name(value["kind"], {name: part for name, part in value.items() if name != "kind"})
    return value if isinstance(value, str) else json.dumps(value)


def run(stores: Stores, job: Job) -> None:
    """Compare, and finish `job` with the table as its result."""
    spec = CompareSpec.model_validate(job.spec)
    with progress.part(0.0, 0.02, "reading data"):
        spec = spec.model_copy(update={"dataset": job.dataset or spec.dataset})
        table = stores.datasets.table(spec.dataset)
        table = table if spec.unit_costs is None else table.as_numbers()
        own = own_matrices(spec.case_benefits, len(table.y), table.numbers)
        if own is not None:
            spec = spec.model_copy(update={"benefits": own.mean(axis=0).tolist()})
    groups = table.y if table.classes else np.zeros(len(table.y), dtype=np.intp)
    # a data set has two rows of each class at least
    fold = stratified_folds(groups, spec.folds, spec.seed)
    with progress.part(0.02, 0.95):
        trials = trials_of(table, fold, spec, own)
    failures = [(trial.name, trial.failure) for trial in trials if trial.failure is not None]
    if len(failures) == len(trials):
        flaws = [flaw for _, failure in failures for flaw in failure.flaws]
        raise Invalid("; ".join(f"{name}: {failure.detail}" for name, failure in failures), flaws)
    with progress.part(0.95, 1.0, "comparing"):
        result = _result(table, fold, trials, spec, own)
    with stores.database.writing() as connection:
        stores.queue.succeed(connection, job, result)


@dataclass
class _Trial:
    """A learner's probabilities (n, K) for rows that it was not fitted on, or quantities and
    numbers (n, 2), how long each fit took, and whether it converged, where that is a question; or
    why there are none.
    """

    name: str
    scores: np.ndarray
    seconds: list[float] = field(default_factory=list)
    converged: list[bool] = field(default_factory=list)
    failure: Invalid | None = None


def trials_of(
    table: Table, fold: np.ndarray, spec: CompareSpec, own: np.ndarray | None = None
) -> list[_Trial]:
    """What became of each learner: one that cannot be fitted here does not spoil the others. `own`
    as in `built_for`.

    Every fit is a piece of work of its own; joblib's parallel_config decides where it runs.
    """
    width = len(table.classes or _OF_NUMBERS)
    trials = [
        _Trial(_name(one.kind, one.parameters), np.zeros((len(fold), width)))
        for one in spec.learners
    ]
    every = list(
        product(range(len(trials)), (part for part in range(spec.folds) if (fold == part).any()))
    )
    building = {
        "categorical_features": list(table.schema.categorical),
        "benefits": spec.benefit_matrix,
        "classes": table.classes,
        "random_state": spec.seed,
    }

    def pieces() -> Iterator[Any]:
        for place, (number, part) in enumerate(every):
            if trials[number].failure is None:
                where = (
                    place / len(every),
                    (place + 1) / len(every),
                    f"{trials[number].name}, fold {part + 1}",
                )
                at = pointer("learners", number), table.schema.names
                yield delayed(_tried)(
                    spec, number, part, building, table.X, table.y, own, fold, where, at
                )

    for done, (number, part, tried) in enumerate(
        Parallel(prefer="threads", return_as="generator")(pieces()), 1
    ):
        trial = trials[number]
        progress.report(done / len(every), f"{trial.name}, fold {part + 1}")
        if isinstance(tried, Invalid):
            trial.failure = trial.failure or tried
            continue
        trial.scores[fold == part], seconds, converged = tried
        trial.seconds.append(seconds)
        trial.converged += converged
    return trials


def _tried(
    spec: CompareSpec,
    number: int,
    part: int,
    building: Mapping[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    own: np.ndarray | None,
    fold: np.ndarray,
    where: tuple[float, float, str],
    place: tuple[str, Sequence[str]],
) -> tuple[int, int, tuple[np.ndarray, float, list[bool]] | Invalid]:
    """Of which learner and fold, and the probabilities of its rows, or quantities and numbers, by a
    fit on the others, its seconds, and whether it converged, where that is a question; or the
    reason why there are none.
    """
    learner, held = spec.learners[number], fold == part
    try:
        with progress.part(*where), placed(*place):
            estimator = built_for(
                ~held, own, catalogue.stored(learner.kind, learner.parameters), **building
            )
            began = perf_counter()
            estimator.fit(X[~held], y[~held])
            seconds = perf_counter() - began
            if spec.unit_costs is None:
                scores = checked_posterior(estimator, X[held])
            else:
                scores = _quantities(estimator, X[held], *spec.unit_costs)
    except Invalid as error:
        return number, part, error
    return (
        number,
        part,
        (scores, seconds, [bool(estimator.converged_)] if hasattr(estimator, "converged_") else []),
    )


def _quantities(estimator: Any, X: np.ndarray, over: float, under: float) -> np.ndarray:
    """The quantities that cost least for rows X (n, m), NaN where no distribution is known, and the
    numbers.
    """
    distribution = estimator.distribution(X)
    if distribution is None:
        return np.column_stack((np.full(len(X), np.nan), finite(estimator.values(X), "numbers")))
    values = finite(distribution.expected, "numbers")
    return np.column_stack((distribution.quantiles(np.array([under / (over + under)])), values))


_Contenders = list[tuple[str | None, Ruled]]


def _by_unit_costs(
    y: np.ndarray, fold: np.ndarray, trials: Sequence[_Trial], over: float, under: float
) -> tuple[_Contenders, Ranking]:
    """Of numbers y (n,): every learner with its quantities and its numbers, and one quantity for
    all, of each fold that of the others; and their ranking by costs, as benefits below 0. A lead is
    significant where `MIN_ROWS_TO_COMPARE` numbers lie on either side of the quantities: of fewer, the errors
    that cost most are too rare.
    """
    contenders: _Contenders = [
        (trial.name, Ruled(rule, column, None))
        for trial in trials
        for rule, column in zip(_OF_NUMBERS, trial.scores.T, strict=True)
        if not np.isnan(column).any()
    ]
    level, alike = under / (over + under), np.empty(len(y))
    for part in np.unique(fold):
        alike[fold == part] = np.quantile(y[fold != part], level, method="inverted_cdf")
    action = float(np.quantile(y, level, method="inverted_cdf"))
    contenders.append(
        (None, Ruled("same_for_all", alike, None, {"action": action}, cross_validated=True))
    )
    beyond = np.column_stack([ruled.choice for _, ruled in contenders]) - y[:, None]
    benefits = np.where(beyond > 0, -over * beyond, under * beyond)
    ranking = rank(benefits, np.ones(len(y)), np.zeros(len(y), dtype=np.intp))
    if ranking.runner_up is not None:
        leading = beyond[:, [ranking.best, ranking.runner_up]]
        enough = (
            min((leading > 0).any(axis=1).sum(), (leading < 0).any(axis=1).sum())
            >= MIN_ROWS_TO_COMPARE
        )
        ranking = replace(ranking, significant=ranking.significant and bool(enough))
    return contenders, ranking


def _result(
    table: Table,
    fold: np.ndarray,
    trials: Sequence[_Trial],
    spec: CompareSpec,
    own: np.ndarray | None,
) -> dict[str, Any]:
    B, y = spec.benefit_matrix if own is None else own, table.y
    fitted = [trial for trial in trials if trial.failure is None]
    if B is None or table.classes is None:
        contenders, ranking = _by_unit_costs(y, fold, fitted, *(spec.unit_costs or (1.0, 1.0)))
        bound, warnings = 0.0, list[str]()
    else:
        priors = np.bincount(y, minlength=len(table.classes)) / len(y)
        contenders = [
            (trial.name, ruled)
            for trial in fitted
            for ruled in apply_rules(HeldOutRows(trial.scores, trial.scores, y, fold), B)
        ]
        contenders.append((None, same_for_all(len(y), class_means(y, B), priors)))
        judged = LabelledRows(y, B, priors)
        bound = judged.bound
        choices = np.column_stack([ruled.choice for _, ruled in contenders])
        ranking = contest(choices, judged, fixed=[len(contenders) - 1])
        warnings = doubts(judged, table.classes, bound, actions=spec.actions)
    rows = standings_of((ruled for _, ruled in contenders), ranking, bound)

    def name(j: int) -> dict[str, str | None]:
        learner, ruled = contenders[j]
        return {"learner": learner, "rule": ruled.rule}

    return {
        "dataset": spec.dataset,
        "classes": list(table.classes or ()),
        "rows": len(y),
        "upper_bound": bound,
        "table": [
            {"learner": learner, **row} for (learner, _), row in zip(contenders, rows, strict=True)
        ],
        "best": {**name(ranking.best), **lead_of(ranking, name)},
        "same_for_all": {**contenders[-1][1].figures, "benefit": ranking.standings[-1].mean},
        "learners": [
            {
                "name": trial.name,
                **learner.model_dump(),
                "fit_seconds": round(float(np.mean(trial.seconds)), 4)
                if trial.failure is None
                else None,
                "converged": (trial.failure is None and trial.converged) or None,
                "error": None if trial.failure is None else trial.failure.detail,
            }
            for trial, learner in zip(trials, spec.learners, strict=True)
        ],
        "warnings": [*separating_features(table), *warnings, *_about(trials, ranking)],
    }


def _about(trials: Sequence[_Trial], ranking: Ranking) -> list[str]:
    """What became of the learners, and who is best; the last contender is one action for all."""
    warnings = [
        f"{trial.name} is left out: {trial.failure.detail}"
        for trial in trials
        if trial.failure is not None
    ]
    for trial in trials:
        fits = trial.converged
        if trial.failure is None and not all(fits):
            warnings.append(
                f"{trial.name}: {fits.count(False)} of {len(fits)} fits did not converge"
            )
    if ranking.standings[-1].behind <= 0:
        warnings.append(
            "no learner earns more with any rule than one action for all: no model is worth using"
        )
    return warnings
