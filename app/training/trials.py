"""The fits of a comparison: of each learner without each fold, and their scores for its rows."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from time import perf_counter
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from app.requests.specifications import CompareSpec, LearnerSpec
from app.tables.dataset import Table
from app.training.failures import checked_posterior, finite, placed
from app.training.fitting import built_for
from payoff import progress
from payoff.decisions.folds import Blocks
from payoff.decisions.rules import RuleName
from payoff.errors import Invalid, pointer
from payoff.learners import catalogue

OF_NUMBERS: tuple[RuleName, ...] = ("unit_costs", "value")


@dataclass
class Trial:
    """A learner's `scores` for rows that it was not fitted on: probabilities (n, K), or quantities
    and numbers (n, 2).

    With the seconds of each fit, and whether it converged, where the kind reports that; or the
    `failure` in place of scores.
    """

    name: str
    scores: np.ndarray
    seconds: list[float] = field(default_factory=list)
    converged: list[bool] = field(default_factory=list)
    failure: Invalid | None = None


def trials_of(
    table: Table,
    fold: np.ndarray,
    spec: CompareSpec,
    case_matrices: np.ndarray | None = None,
    blocks: Blocks | None = None,
) -> list[Trial]:
    """The trial of each learner: one that cannot be fitted does not spoil the others.
    `case_matrices` are as in `built_for`, `blocks` those of all rows.

    Every fit is a piece of work of its own; joblib's parallel_config decides where it runs.
    """
    width = len(table.classes or OF_NUMBERS)
    trials = [
        Trial(_name(learner.kind, learner.parameters), np.zeros((len(fold), width)))
        for learner in spec.learners
    ]
    parts = [part for part in range(spec.folds) if (fold == part).any()]
    fits = list(product(range(len(trials)), parts))
    building = {
        "features": table.schema.names,
        "categorical_features": list(table.schema.categorical),
        "benefits": spec.benefit_matrix,
        "classes": table.classes,
        "random_state": spec.seed,
    }

    def pieces() -> Iterator[Any]:
        for position, (number, part) in enumerate(fits):
            trial = trials[number]
            if trial.failure is None:
                fit = _Fit(
                    number=number,
                    learner=spec.learners[number],
                    unit_costs=spec.unit_costs,
                    part=part,
                    begin=position / len(fits),
                    end=(position + 1) / len(fits),
                    stage=f"{trial.name}, fold {part + 1}",
                    features=table.schema.names,
                )
                # Arrays are arguments of their own: a cluster sends each of them only once.
                yield delayed(_outcome)(
                    fit,
                    building,
                    table.X,
                    table.y,
                    table.weights,
                    case_matrices,
                    fold,
                    blocks,
                )

    outcomes = Parallel(prefer="threads", return_as="generator")(pieces())
    for done, (fit, outcome) in enumerate(outcomes, 1):
        trial = trials[fit.number]
        progress.report(done / len(fits), fit.stage)
        if isinstance(outcome, Invalid):
            trial.failure = trial.failure or outcome
            continue
        trial.scores[fold == fit.part], seconds, converged = outcome
        trial.seconds.append(seconds)
        trial.converged += converged
    return trials


def _name(kind: str, parameters: Mapping[str, Any]) -> str:
    """The name of a learner in the table: its kind, and the parameters that differ from the
    defaults, except the task, which all learners share.
    """
    defaults = catalogue.resolve({"kind": kind}).parameters
    changed = [
        f"{name}={_worded(value)}"
        for name, value in parameters.items()
        if name != "task" and value != defaults[name]
    ]
    return f"{kind}({', '.join(changed)})" if changed else kind


def _worded(value: Any) -> str:
    if isinstance(value, Mapping) and value.get("kind") in catalogue.KINDS:
        return _name(
            value["kind"],
            {name: part for name, part in value.items() if name != "kind"},
        )
    return value if isinstance(value, str) else json.dumps(value)


@dataclass(frozen=True)
class _Fit:
    """The fit of the learner `number` without the fold `part`, and its share of the progress."""

    number: int
    learner: LearnerSpec
    unit_costs: tuple[float, float] | None
    part: int
    begin: float
    end: float
    stage: str
    features: Sequence[str]


def _outcome(
    fit: _Fit,
    building: Mapping[str, Any],
    X: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    case_matrices: np.ndarray | None,
    fold: np.ndarray,
    blocks: Blocks | None,
) -> tuple[_Fit, tuple[np.ndarray, float, list[bool]] | Invalid]:
    """The scores of the fold's rows as in `Trial`, by a fit on the other rows, its seconds, and
    whether it converged, where the kind reports that; or why the fit failed.
    """
    learner = fit.learner
    is_held = fold == fit.part
    blocks = None if blocks is None else blocks.take(~is_held)
    place = pointer("learners", fit.number)
    try:
        with progress.part(fit.begin, fit.end, fit.stage), placed(place, fit.features):
            request = catalogue.stored(learner.kind, learner.parameters)
            estimator = built_for(~is_held, case_matrices, request, **building)
            began = perf_counter()
            estimator.fit(X[~is_held], y[~is_held], weights[~is_held], blocks)
            seconds = perf_counter() - began
            if fit.unit_costs is None:
                scores = checked_posterior(estimator, X[is_held])
            else:
                scores = _quantities(estimator, X[is_held], *fit.unit_costs)
    except Invalid as error:
        return fit, error
    converged = [bool(estimator.converged_)] if hasattr(estimator, "converged_") else []
    return fit, (scores, seconds, converged)


def _quantities(estimator: Any, X: np.ndarray, over: float, under: float) -> np.ndarray:
    """For rows X (n, m): the quantities of least cost, NaN without a distribution, and the numbers,
    as (n, 2).
    """
    distribution = estimator.distribution(X)
    if distribution is None:
        return np.column_stack(
            (np.full(len(X), np.nan), finite(estimator.values(X), "numbers"))
        )
    values = finite(distribution.expected, "numbers")
    return np.column_stack(
        (distribution.quantiles(np.array([under / (over + under)])), values)
    )
