"""Jobs that find out which learner and which rule earn most on a data set."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from app import progress
from app.data.table import Table
from app.decisions.benefit import as_benefits, irrelevance, mu, row_benefits, upper_bound
from app.decisions.bootstrap import Ranking, rank
from app.decisions.folds import stratified_folds
from app.decisions.rules import Rows, Ruled, apply_rules
from app.errors import Flaw, Invalid
from app.jobs.job import Job
from app.learners import catalogue
from app.usecases.ports import Ports

KIND = "compare"


def submit(ports: Ports, order: Mapping[str, Any], *, key: str | None) -> Job:
    """Accept an order to compare, checked as far as possible beforehand; the same `key` answers with the first job.

    Raises Invalid with the place of what cannot work, NotFound for an unknown data set.
    """
    dataset = ports.datasets.find(order["dataset"])
    if dataset.classes is None or len(dataset.labels) > 1:
        raise Invalid.at("/dataset", "rules are compared on one label that is a class; this data set has another form")
    kinds, learners = _learners(order["learners"])
    trains_with = next((kind.name for kind in kinds if kind.benefits != "ignored"), None)
    n_classes = len(dataset.classes)
    try:
        B = as_benefits(order["benefits"], n_classes, n_actions=n_classes if trains_with else None)
    except Invalid as error:
        raise error.under("/benefits") from error
    spec = {
        "dataset": dataset.id,
        "learners": learners,
        "benefits": B.tolist(),
        "folds": order["folds"],
        "seed": order["seed"],
    }
    return ports.queue.submit(KIND, spec, dataset=dataset.id, key=key)


def run(ports: Ports, job: Job) -> None:
    """Compare, and finish `job` with the table as its result."""
    spec = job.spec
    with progress.part(0.0, 0.02, "reading data"):
        table = ports.datasets.table(spec["dataset"])
    fold = stratified_folds(table.y, spec["folds"], spec["seed"])  # a data set has two rows of each class at least
    share = 0.93 / len(spec["learners"])
    trials = []
    for number, name in enumerate(names(spec["learners"])):
        begin = 0.02 + share * number
        with progress.part(begin, begin + share, name):
            trials.append(_tried(name, spec["learners"][number], table, fold, spec))
    with progress.part(0.95, 1.0, "comparing"):
        result = _result(table, fold, trials, spec)
    with ports.database.writing() as connection:
        ports.queue.succeed(connection, job, result)


def clean_up(_ports: Ports, _job: Job) -> None:
    """An attempt that did not succeed leaves nothing."""


def names(learners: Sequence[Mapping[str, Any]]) -> list[str]:
    """What each learner is called in the table: its kind, and the parameters that are not the kind's defaults."""
    return [_name(learner["kind"], learner["parameters"]) for learner in learners]


@dataclass(frozen=True)
class _Trial:
    """A learner's probabilities (n, K) for rows that it was not fitted on, and how long a fit took on average."""

    name: str
    scores: np.ndarray
    fit_seconds: float


@dataclass(frozen=True)
class _Contender:
    learner: str
    ruled: Ruled


def _learners(sent: Sequence[Mapping[str, Any]]) -> tuple[list[catalogue.Kind], list[dict[str, Any]]]:
    kinds: list[catalogue.Kind] = []
    learners: list[dict[str, Any]] = []
    flaws: list[Flaw] = []
    for i, one in enumerate(sent):
        try:
            kind, parameters = catalogue.resolve(one)
        except Invalid as error:
            flaws.extend(error.under(f"/learners/{i}").flaws)
            continue
        learner = {"kind": kind.name, "parameters": parameters}
        if kind.labels == "several":
            flaws.append(Flaw(f"/learners/{i}/kind", f"{kind.name} predicts several labels; rules decide about one"))
        if learner in learners:
            flaws.append(Flaw(f"/learners/{i}", "the same learner with the same parameters is there already"))
        kinds.append(kind)
        learners.append(learner)
    if flaws:
        raise Invalid("the learners cannot be compared", flaws)
    return kinds, learners


def _name(kind: str, parameters: Mapping[str, Any]) -> str:
    _, defaults = catalogue.resolve({"kind": kind})
    changed = [f"{name}={_worded(value)}" for name, value in parameters.items() if value != defaults[name]]
    return f"{kind}({', '.join(changed)})" if changed else kind


def _worded(value: Any) -> str:
    if isinstance(value, Mapping):
        return _name(value["kind"], {name: part for name, part in value.items() if name != "kind"})
    return value if isinstance(value, str) else json.dumps(value)


def _tried(name: str, learner: Mapping[str, Any], table: Table, fold: np.ndarray, spec: Mapping[str, Any]) -> _Trial:
    assert table.classes is not None
    kind = catalogue.KINDS[learner["kind"]]
    scores = np.zeros((len(table.y), len(table.classes)))
    seconds = []
    present = [part for part in range(spec["folds"]) if (fold == part).any()]
    for number, part in enumerate(present):
        outside = fold == part
        estimator = kind.build(
            learner["parameters"],
            categorical_features=list(table.schema.categorical),
            benefits=np.array(spec["benefits"]),
            classes=table.classes,
            random_state=spec["seed"],
        )
        with progress.part(number / len(present), (number + 1) / len(present), f"{name}, fold {number + 1}"):
            began = perf_counter()
            try:
                estimator.fit(table.X[~outside], table.y[~outside])
            except Invalid as error:
                raise Invalid(f"{name}: {error.detail}", error.flaws) from error
            seconds.append(perf_counter() - began)
        scores[outside] = estimator.posterior(table.X[outside])
    return _Trial(name, scores, float(np.mean(seconds)))


def _result(table: Table, fold: np.ndarray, trials: Sequence[_Trial], spec: Mapping[str, Any]) -> dict[str, Any]:
    assert table.classes is not None
    B = np.array(spec["benefits"])
    y = table.y
    contenders = [
        _Contender(trial.name, ruled)
        for trial in trials
        for ruled in apply_rules(Rows(trial.scores, trial.scores, y, fold), B, table.classes)
    ]
    priors = np.bincount(y, minlength=len(B)) / len(y)
    bound = upper_bound(priors, B)
    ranking = rank(np.column_stack([row_benefits(y, one.ruled.choice, B) for one in contenders]))
    constant = int((priors @ B).argmax())
    return {
        "dataset": spec["dataset"],
        "classes": list(table.classes),
        "rows": len(y),
        "upper_bound": bound,
        "table": _table(contenders, ranking, bound),
        "best": _best(contenders, ranking),
        "same_for_all": {"action": constant, "benefit": float((priors @ B)[constant])},
        "learners": [
            {"name": trial.name, **learner, "fit_seconds": round(trial.fit_seconds, 4)}
            for trial, learner in zip(trials, spec["learners"], strict=True)
        ],
        "warnings": _warnings(table, B, bound),
    }


def _table(contenders: Sequence[_Contender], ranking: Ranking, bound: float) -> list[dict[str, Any]]:
    return [
        {
            "learner": one.learner,
            "rule": one.ruled.rule,
            "benefit": standing.mean,
            "mu": mu(standing.mean, bound),
            "interval": standing.interval,
            "behind": standing.behind,
            "behind_interval": standing.behind_interval,
            "cross_validated": one.ruled.cross_validated,
        }
        for one, standing in zip(contenders, ranking.standings, strict=True)
    ]


def _best(contenders: Sequence[_Contender], ranking: Ranking) -> dict[str, Any]:
    def named(j: int) -> dict[str, str]:
        return {"learner": contenders[j].learner, "rule": contenders[j].ruled.rule}

    second = ranking.runner_up
    return {
        **named(ranking.best),
        "same": [named(j) for j in ranking.same],
        "runner_up": None if second is None else named(second),
        "difference": None if second is None else ranking.standings[second].behind,
        "interval": None if second is None else ranking.standings[second].behind_interval,
        "differing_rows": ranking.differing,
        "significant": ranking.significant,
    }


def _warnings(table: Table, B: np.ndarray, bound: float) -> list[str]:
    assert table.classes is not None
    warnings = irrelevance(B, table.classes if B.shape[0] == B.shape[1] else None)
    if bound <= 0:
        warnings.append("the upper bound is not positive: mu, the share of it that is earned, has no meaning here")
    return warnings
