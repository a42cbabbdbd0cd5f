"""Comparing learners and rules: requests are checked and accepted as jobs; a job fits and ranks."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from app.access.caller import Caller
from app.answering.standings import lead_of, standings_of
from app.jobs.job import Job
from app.requests.datasets import EXAMPLE_ID, find_named
from app.requests.fields import Text
from app.requests.holdouts import HoldoutBy, read_holdout
from app.requests.matrices import MatrixFields, needed_matrix
from app.requests.quantities import UnitCosts
from app.requests.specifications import FOLDS, SEED, CompareSpec, LearnerSpec
from app.stores import Stores
from app.tables.dataset import Dataset, Table
from app.training import jobs
from app.training.failures import placed
from app.training.splits import Split, folds_of, in_words, split_of
from app.training.train import (
    Learner,
    built,
    check_columns,
    check_labels,
    with_task,
)
from app.training.trials import OF_NUMBERS, Trial, trials_of
from app.training.warnings import doubt_of, likely_splits, separating_features
from payoff import progress
from payoff.decisions.benefit import class_means
from payoff.decisions.folds import UNJUDGED, stratified_folds
from payoff.decisions.ranking import MIN_ROWS_TO_COMPARE, Ranking, rank
from payoff.decisions.row_weights import effective_total
from payoff.decisions.rule_ranking import LabelledRows, contest, doubts
from payoff.decisions.rules import HeldOutRows, Ruled, apply_rules, same_for_all
from payoff.errors import Flaw, Invalid, pointer, reject
from payoff.learners import catalogue
from payoff.learners.parameters import LearnerRequest

KIND = "compare"
_INCOMPARABLE = "the learners cannot be compared"


class CompareRequest(MatrixFields):
    """The learners to compare, the data set, and the benefits or unit costs."""

    dataset: Text = Field(examples=[EXAMPLE_ID])
    learners: Annotated[list[Learner], Field(min_length=1, max_length=20)]
    unit_costs: UnitCosts | None = Field(
        default=None,
        description="of quantities, for learners of numbers;"
        " by default both are 1, for absolute errors",
    )
    folds: int = Field(
        default=FOLDS,
        ge=2,
        le=20,
        strict=True,
        description="each is evaluated by models fitted on the others",
    )
    holdout: HoldoutBy | None = Field(
        default=None,
        description="in place of `folds`: by group, folds of this part of the groups; by time,"
        " the last part is evaluated by models fitted on the rows before it",
    )
    seed: int = Field(default=SEED, ge=0, lt=2**32, strict=True)


def submit(
    stores: Stores, request: CompareRequest, *, key: str | None, caller: Caller
) -> Job:
    """Accept a request to compare, checked as far as possible beforehand; the same `key` answers
    with the first job.

    Raises Invalid at the fields that cannot work, NotFound for an unknown data set.
    """
    dataset = find_named(stores, request.dataset, "/dataset", caller)
    resolved = _resolved(request.learners, dataset)
    numbers = resolved[0].regresses
    if numbers and request.stated:
        raise Invalid.at(
            request.place,
            "a matrix is for classes, and these learners predict numbers; send 'unit_costs'",
        )
    if request.unit_costs is not None and not numbers:
        raise Invalid.at(
            "/unit_costs",
            "this is for quantities, and these learners predict classes; send a matrix",
        )
    units = request.unit_costs or UnitCosts(over=1.0, under=1.0)
    stakes: dict[str, Any] = {"unit_costs": (units.over, units.under)}
    B = None
    classes = dataset.classes or ()
    if not numbers:
        square = any(learner.needs_square for learner in resolved)
        B, actions, _, cases = needed_matrix(request, classes, square=square)
        stakes = {"benefits": B.tolist(), "actions": actions}
        if cases is not None:
            check_columns(cases, dataset)
            stakes["case_benefits"] = cases.cells()
    learners = _buildable(resolved, B, dataset)
    if request.holdout is not None:
        part, split = read_holdout(request.holdout, dataset)
        if "folds" in request.model_fields_set:
            raise Invalid.at("/folds", "send either 'folds' or 'holdout'")
        folds = max(2, round(1 / part))
        stakes |= {"holdout": part, "split": split, "folds": folds}
    else:
        stakes["folds"] = request.folds
    spec = CompareSpec(
        dataset=dataset.id,
        learners=learners,
        seed=request.seed,
        **stakes,
    )
    return jobs.submit(stores, caller, KIND, spec, dataset=dataset.id, key=key)


def _resolved(
    documents: Sequence[Mapping[str, Any]], dataset: Dataset
) -> list[LearnerRequest]:
    learners: list[LearnerRequest] = []

    def flaws() -> Iterator[Flaw]:
        """The flaws of the learners, one by one, as finding similar names takes time and `reject`
        stops early.
        """
        for i, document in enumerate(documents):
            try:
                learner = with_task(catalogue.resolve(document), dataset)
                check_labels(learner, dataset)
            except Invalid as error:
                yield from error.under(pointer("learners", i)).flaws
                continue
            if learner.estimator.labels == "reward":
                reason = f"{learner.kind} is judged where it is trained, not compared"
                yield Flaw(pointer("learners", i, "kind"), reason)
            if learner.estimator.labels == "several":
                several = (
                    f"{learner.kind} predicts several labels; rules decide about one"
                )
                yield Flaw(pointer("learners", i, "kind"), several)
            if learners and learner.regresses != learners[0].regresses:
                yield Flaw(
                    pointer("learners", i),
                    "some learners predict numbers, others classes: compare them apart",
                )
            learners.append(learner)

    reject(flaws(), _INCOMPARABLE)
    return learners


def _buildable(
    resolved: Sequence[LearnerRequest],
    B: np.ndarray | None,
    dataset: Dataset,
) -> list[LearnerSpec]:
    """The learners as the job will build them, each once: labels are written as the data set's
    classes are.
    """
    learners: list[LearnerSpec] = []
    flaws: list[Flaw] = []
    for i, request in enumerate(resolved):
        try:
            with placed(pointer("learners", i)):
                classes = () if request.regresses else dataset.classes or ()
                complete = built(request, B, classes, dataset.features)
        except Invalid as error:
            flaws.extend(error.flaws)
            continue
        learner = LearnerSpec(kind=complete.kind, parameters=complete.parameters)
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


def run(stores: Stores, job: Job) -> None:
    """Compare, and finish `job` with the table as its result."""
    spec = CompareSpec.model_validate(job.spec)
    with progress.part(0.0, 0.02, "reading data"):
        spec = spec.model_copy(update={"dataset": job.dataset or spec.dataset})
        kept = () if spec.split is None else (spec.split.column,)
        table = stores.datasets.table(spec.dataset, kept)
        table = table if spec.unit_costs is None else table.as_numbers()
        spec, case_matrices = spec.over_cases(table.numbers, table.weights)
    with progress.part(0.02, 0.03, "splitting"):
        split, fold = _folds_of(table, spec)
    with progress.part(0.03, 0.95):
        trials = trials_of(table, fold, spec, case_matrices, split.blocks)
    failures = [
        (trial.name, trial.failure) for trial in trials if trial.failure is not None
    ]
    if len(failures) == len(trials):
        flaws = [flaw for _, failure in failures for flaw in failure.flaws]
        raise Invalid(
            "; ".join(f"{name}: {failure.detail}" for name, failure in failures), flaws
        )
    rows = np.flatnonzero(fold != UNJUDGED)
    folds = 0 if (fold <= 0).all() else spec.folds
    words = in_words(table, split, spec.split, rows, folds)
    if len(rows) < len(fold):
        table = table.take(rows)
        trials = [replace(trial, scores=trial.scores[rows]) for trial in trials]
        case_matrices = None if case_matrices is None else case_matrices[rows]
        fold = fold[rows]
    if not folds:  # rules that are tuned are tuned on other rows than those they decide
        fold = stratified_folds(_strata(table), FOLDS, spec.seed)
    with progress.part(0.95, 1.0, "comparing"):
        result = _result(
            table, fold, trials, spec, case_matrices, split.groups_of(rows)
        )
        result["rows_in_words"] = words
        if spec.split is None:
            splits = likely_splits(stores.datasets.find(spec.dataset))
            result["warnings"] += [sentence for sentence, _ in map(doubt_of, splits)]
    with stores.database.writing() as connection:
        stores.queue.succeed(connection, job, result)


def _strata(table: Table) -> np.ndarray:
    """The classes (n,) that folds have in equal parts, of numbers one for all."""
    return table.y if table.classes else np.zeros(len(table.y), dtype=np.intp)


def _folds_of(table: Table, spec: CompareSpec) -> tuple[Split, np.ndarray]:
    """The first split, and the fold (n,) of each row: by time the last part is the only one."""
    strata = _strata(table)
    if spec.split is None:
        # A data set has at least two rows of each class.
        fold = stratified_folds(strata, spec.folds, spec.seed)
        return Split(np.flatnonzero(fold), np.flatnonzero(fold == 0)), fold
    split = split_of(table, spec.holdout, spec.split, spec.seed)
    if spec.split.by == "group":
        return split, folds_of(strata, split, spec.folds, spec.seed)
    fold = np.full(len(strata), UNJUDGED)
    fold[split.holdout] = 0
    return split, fold


_Contenders = list[tuple[str | None, Ruled]]


def _by_unit_costs(
    y: np.ndarray,
    weights: np.ndarray,
    groups: np.ndarray | None,
    fold: np.ndarray,
    trials: Sequence[Trial],
    units: tuple[float, float],
    *,
    in_folds: bool,
) -> tuple[_Contenders, Ranking]:
    """Contenders for numbers y (n,), and their ranking by costs, which are benefits below 0.

    They are every learner with its quantities and with its numbers, and one quantity for all rows:
    for each fold that of the other folds. A lead is significant where at least
    `MIN_ROWS_TO_COMPARE` effective rows have numbers on either side of the quantities: with fewer,
    the errors that cost most are too rare. With `groups` (n,) so many groups are needed.
    """
    over, under = units
    contenders: _Contenders = [
        (trial.name, Ruled(rule, column, None))
        for trial in trials
        for rule, column in zip(OF_NUMBERS, trial.scores.T, strict=True)
        if not np.isnan(column).any()
    ]
    level = under / (over + under)

    def quantile(rows: Any) -> float:
        unequal = weights[rows] if np.ptp(weights) > 0 else None
        numbers = y[rows]
        return float(
            np.quantile(numbers, level, method="inverted_cdf", weights=unequal)
        )

    quantity_of_others = np.empty(len(y))
    for part in np.unique(fold):
        quantity_of_others[fold == part] = quantile(fold != part)
    action = quantile(slice(None))
    one_quantity = Ruled(
        "same_for_all",
        quantity_of_others,
        None,
        {"action": action},
        cross_validated=True,
    )
    contenders.append((None, one_quantity))
    errors = np.column_stack([ruled.choice for _, ruled in contenders]) - y[:, None]
    benefits = np.where(errors > 0, -over * errors, under * errors)
    strata = np.zeros(len(y), dtype=np.intp)
    ranking = rank(benefits, weights, strata, groups=groups, cross_validated=in_folds)
    if ranking.runner_up is not None:
        leading = errors[:, [ranking.best, ranking.runner_up]]
        counts = [
            effective_total(weights[side])
            if groups is None
            else len(np.unique(groups[side]))
            for side in ((leading > 0).any(axis=1), (leading < 0).any(axis=1))
        ]
        enough = min(counts) >= MIN_ROWS_TO_COMPARE
        ranking = replace(ranking, significant=ranking.significant and enough)
    return contenders, ranking


def _result(
    table: Table,
    fold: np.ndarray,
    trials: Sequence[Trial],
    spec: CompareSpec,
    case_matrices: np.ndarray | None,
    groups: np.ndarray | None,
) -> dict[str, Any]:
    """The result, as JSON has it; `groups` (n,) are those of the rows, where folds keep them
    whole.
    """
    B = spec.benefit_matrix if case_matrices is None else case_matrices
    y = table.y
    weights = table.weights
    fitted = [trial for trial in trials if trial.failure is None]
    in_folds = spec.split is None or spec.split.by == "group"
    if B is None or table.classes is None:
        contenders, ranking = _by_unit_costs(
            y,
            weights,
            groups,
            fold,
            fitted,
            spec.unit_costs or (1.0, 1.0),
            in_folds=in_folds,
        )
        bound = 0.0
        warnings: list[str] = []
    else:
        priors = np.bincount(y, weights, len(table.classes)) / weights.sum()
        contenders = [
            (trial.name, ruled)
            for trial in fitted
            for ruled in apply_rules(
                HeldOutRows(trial.scores, trial.scores, y, fold, weights=weights), B
            )
        ]
        means = class_means(y, B, weights)
        contenders.append((None, same_for_all(len(y), means, priors)))
        labelled_rows = LabelledRows(
            y,
            B,
            priors,
            row_weights=weights,
            groups=groups,
            cross_validated=in_folds,
        )
        bound = labelled_rows.bound
        choices = np.column_stack([ruled.choice for _, ruled in contenders])
        ranking = contest(choices, labelled_rows, fixed=[len(contenders) - 1])
        warnings = doubts(labelled_rows, table.classes, bound, actions=spec.actions)
    rows = standings_of((ruled for _, ruled in contenders), ranking, bound)

    def name(j: int) -> dict[str, str | None]:
        learner, ruled = contenders[j]
        return {"learner": learner, "rule": ruled.rule}

    return {
        "dataset": spec.dataset,
        "classes": list(table.classes or ()),
        "rows": len(y),
        "groups": None if groups is None else len(np.unique(groups)),
        "upper_bound": bound,
        "table": [
            {"learner": learner, **row}
            for (learner, _), row in zip(contenders, rows, strict=True)
        ],
        "best": {**name(ranking.best), **lead_of(ranking, name)},
        "same_for_all": {
            **contenders[-1][1].figures,
            "benefit": ranking.standings[-1].mean,
        },
        "learners": [
            {"name": trial.name, **learner.model_dump(), **_line_of(trial)}
            for trial, learner in zip(trials, spec.learners, strict=True)
        ],
        "warnings": [
            *separating_features(table),
            *warnings,
            *_warnings_of(trials, ranking),
        ],
    }


def _line_of(trial: Trial) -> dict[str, Any]:
    """The fields of a learner in the result that its fits decide."""
    if trial.failure is not None:
        return {"fit_seconds": None, "converged": None, "error": trial.failure.detail}
    return {
        "fit_seconds": round(float(np.mean(trial.seconds)), 4),
        "converged": trial.converged or None,
        "error": None,
    }


def _warnings_of(trials: Sequence[Trial], ranking: Ranking) -> list[str]:
    """Warnings about learners that failed or did not converge, or are not better than one action
    for all, which is the last contender.
    """
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
