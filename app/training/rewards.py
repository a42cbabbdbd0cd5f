"""Training on rewards: the log in a data set, what a policy would have earned, and the card."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple, Self

import numpy as np

from app.jobs.job import Job
from app.registry.card import Card
from app.requests.holdouts import PLACE
from app.requests.specifications import SplitSpec, TrainSpec
from app.stores import Stores
from app.tables.dataset import Dataset, Table
from app.tables.features import Schema
from app.training.evaluation import FitReport, card_to_publish
from app.training.failures import finite, placed
from app.training.policy_figures import policy_figures
from app.training.splits import Split, blocks_of, evaluation_card, split_of
from payoff import progress
from payoff.decisions.folds import UNJUDGED, Blocks, stratified_folds
from payoff.errors import (
    Flaw,
    Invalid,
    counted,
    pointer,
    reject,
    unknown,
    unknown_at,
)
from payoff.evidence.policies import LoggedRewards
from payoff.learners import catalogue
from payoff.learners.rewards.estimator import (
    LEAST_CHANCE,
    Rewards,
    check_chances,
    check_rewards,
)
from payoff.learners.rewards.log import MIN_ROWS_OF_ACTION, EligibleLog, complete

_MAX_ACTIONS = 100
# With fewer rows folds evaluate the policy: of a hold-out too few rows took the chosen action.
_FEWEST_TO_HOLD_OUT = 2_000
_MAX_FOLDS = 10
_ESTIMATED = (
    "the chances of the actions were estimated: figures and decisions are right only if everything"
    " that decided the action is among the features"
)
_NOT_BETTER = "no gain over one action for all is shown"
_SAMPLE = 1_000  # rows whose answers are looked at before a model is published


class RewardTable(NamedTuple):
    """A table without the columns of the log; the rewards and the names of the actions, (n,).

    `propensities` are the chances of these actions (n,), of all of them (n, A) in the order of
    their sorted names, or None.
    """

    table: Table
    rewards: np.ndarray
    actions: np.ndarray
    propensities: np.ndarray | None

    def take(self, rows: np.ndarray) -> Self:
        """These rows (k,), and of chances those of the actions that occur in them."""
        propensities = self.propensities
        if propensities is not None:
            propensities = propensities[rows]
            if propensities.ndim == 2:
                present = np.isin(np.unique(self.actions), self.actions[rows])
                propensities = propensities[:, present]
                propensities = propensities / propensities.sum(axis=1, keepdims=True)
        return type(self)(
            self.table.take(rows),
            self.rewards[rows],
            self.actions[rows],
            propensities,
        )

    def fitted(self, spec: TrainSpec, blocks: Blocks | None) -> Rewards:
        """The learner fitted on all rows, whose blocks its folds do not divide."""
        learner = catalogue.stored(spec.learner.kind, spec.learner.parameters)
        estimator: Rewards = learner.build(
            categorical_features=list(self.table.schema.categorical),
            random_state=spec.seed,
        )
        with placed(features=self.table.schema.names), _in_columns(""):
            estimator.fit(
                self.table.X,
                self.rewards,
                self.table.weights,
                blocks,
                actions=self.actions.tolist(),
                propensities=self.propensities,
            )
            finite(estimator.posterior(self.table.X[:_SAMPLE]), "rewards")
        return estimator


def check_log(parameters: dict[str, Any], dataset: Dataset) -> None:
    """Invalid at /action and /propensity where the data set does not have them as they must be."""
    action, propensity = parameters["action"], parameters["propensity"]
    types = _types(dataset)
    names = {feature.name for feature in dataset.features}
    features = {name for name in names if not _is_of_action(name, propensity)}
    if any(_is_of_action(name, propensity) for name in types):
        types.setdefault(propensity, "numeric")
    flaws = [
        unknown_at(pointer(place), "column", name, types)
        for place, name in (("action", action), ("propensity", propensity))
        if name is not None and name not in types
    ]
    kept = dataset.kept.get(action)
    if kept is not None and kept.type == "categorical" and not kept.words:
        flaws.append(Flaw("/action", f"{action!r} has too many different words"))
    if propensity is not None and types.get(propensity, "numeric") != "numeric":
        flaws.append(
            Flaw("/propensity", f"{propensity!r} is text; chances are numbers")
        )
    prefix = (propensity or "propensity").partition(":")[0]
    if propensity != prefix and sum(_is_of_action(name, prefix) for name in names) > 1:
        message = f"there are chances of all actions: send {prefix!r}, for '{prefix}:…'"
        flaws.append(Flaw("/propensity", message))
    if action == propensity:
        flaws.append(Flaw("/propensity", "action and propensity are the same column"))
    if not features - {action, propensity}:
        flaws.append(Flaw("/action", "beside the log's columns there is no feature"))
    reject(flaws)


def _types(dataset: Dataset) -> dict[str, str]:
    """The type, numeric or categorical, of each column that a log can name."""
    types: dict[str, str] = {feature.name: feature.type for feature in dataset.features}
    types |= dict.fromkeys(dataset.values, "numeric")
    return types | {name: column.type for name, column in dataset.kept.items()}


def check_split(split: SplitSpec, parameters: dict[str, Any]) -> None:
    """Invalid where rows are held out by what was done, or by its chance."""
    name, propensity = split.column, parameters["propensity"]
    if name in (parameters["action"], propensity) or _is_of_action(name, propensity):
        message = f"{name!r} is what was done, or its chance; choose another column"
        raise Invalid.at(PLACE, message)


def _is_of_action(name: str, propensity: str | None) -> bool:
    """Whether a column has the chances of one action: `p:call`, for example."""
    return propensity is not None and name.startswith(f"{propensity}:")


def read_log(stores: Stores, dataset_id: str, spec: TrainSpec) -> RewardTable:
    """The table of a log; Invalid at a row without an action, a reward or a chance."""
    parameters = spec.learner.parameters
    action, propensity = parameters["action"], parameters["propensity"]
    names = _types(stores.datasets.find(dataset_id))
    of_actions = [name for name in names if _is_of_action(name, propensity)]
    beside = [action, *of_actions] if propensity not in names else [action, propensity]
    columns_of_split = [] if spec.split is None else [spec.split.column]
    kept = {*beside, *columns_of_split}
    table = stores.datasets.table(dataset_id, kept).as_numbers()
    words = {feature.name: feature.categories for feature in table.schema.features}
    words |= table.kept_words
    actions = _names(table.column(action), words.get(action, ()))
    propensities = None
    if propensity in names:
        propensities = table.column(propensity)
    elif propensity is not None:
        propensities = _of_all(table, actions, propensity, of_actions)
    with _in_columns("/data"):
        check_rewards(table.y)
    with _in_columns("/learner/propensity"):
        if propensities is not None:
            check_chances(propensities)
    columns = [j for j, name in enumerate(table.schema.names) if name not in beside]
    schema = Schema(
        [table.schema.features[j] for j in columns],
        {*table.schema.ignored, *beside},
        table.schema.values,
    )
    X = np.ascontiguousarray(table.X[:, columns])
    table = replace(table, schema=schema, X=X)
    return RewardTable(table, table.y, actions, propensities)


@contextmanager
def _in_columns(place: str) -> Iterator[None]:
    """Errors about lists of a log as errors at `place`, with the row: they are columns here."""
    try:
        yield
    except Invalid as error:
        _, *steps = error.flaws[0].loc.split("/")
        if "columns" in steps:
            raise
        row = "".join(f"row {int(position) + 1}: " for position in steps[1:])
        raise Invalid.at(place, row + error.detail) from error


def _of_all(
    table: Table, actions: np.ndarray, propensity: str, columns: Sequence[str]
) -> np.ndarray:
    """The chances (n, A) of the actions that occur, by columns of all actions.

    Invalid where one has no column, or in a row the action that was taken has no chance.
    """
    codes = {name: j for j, name in enumerate(columns)}
    chances = np.column_stack([table.column(name) for name in columns])
    with _in_columns("/learner/propensity"):
        check_chances(chances)
    names, taken_codes = np.unique(actions, return_inverse=True)
    absent = [name for name in names if f"{propensity}:{name}" not in codes]
    if absent:
        message = f"there is no column '{propensity}:{absent[0]}' of the chances of {absent[0]!r}"
        raise Invalid.at("/learner/propensity", message)
    chances = chances[:, [codes[f"{propensity}:{name}"] for name in names]]
    action_chances = chances[np.arange(len(chances)), taken_codes]
    wrong = np.flatnonzero(action_chances < LEAST_CHANCE)
    if len(wrong):
        message = f"row {wrong[0] + 1} has no chance of the action that was taken"
        raise Invalid.at("/learner/propensity", message)
    return np.asarray(chances / chances.sum(axis=1, keepdims=True))


def _names(column: np.ndarray, words: Sequence[str]) -> np.ndarray:
    """The names (n,) of actions: words, or whole numbers."""
    missing = np.flatnonzero(np.isnan(column))
    if len(missing):
        raise Invalid.at("/learner/action", f"row {missing[0] + 1} has no action")
    codes = column.astype(np.int64)
    if not words and (codes != column).any():
        row = np.flatnonzero(codes != column)[0]
        message = (
            f"an action is a word or a whole number; row {row + 1} has {column[row]}"
        )
        raise Invalid.at("/learner/action", message)
    count = len(np.unique(codes))
    if count > _MAX_ACTIONS:
        message = f"there are {count:,} actions; at most {_MAX_ACTIONS} are supported"
        raise Invalid.at("/learner/action", message)
    return np.array(words)[codes] if words else codes


def trained(
    stores: Stores, job: Job, spec: TrainSpec
) -> tuple[Card, Rewards, None, list[str]]:
    """Judge the policy on rows that it was not fitted on, and fit on all: as `fitting.trained`.

    There is no hold-out to keep: its rewards say nothing about other matrices.
    """
    began = perf_counter()
    with progress.part(0.0, 0.05, "reading data"):
        log = read_log(stores, job.dataset or spec.dataset, spec)
    table = log.table
    blocks = None if spec.split is None else blocks_of(table, spec.split)
    with _in_columns("/data"), progress.part(0.05, 0.1, "chances of the actions"):
        eligible = complete(
            table.X,
            log.actions,
            log.propensities,
            table.weights,
            table.schema.categorical,
            spec.seed,
            blocks,
        )
    log = log.take(np.flatnonzero(eligible.rows))
    names = tuple(eligible.names.tolist())
    baseline = spec.learner.parameters["baseline"]
    if baseline is not None and baseline not in map(str, names):
        message = unknown("action", baseline, [str(name) for name in names])
        raise Invalid.at("/learner/baseline", message)
    decided = replace(log.table, y=eligible.actions, classes=names)
    split = split_of(decided, spec.holdout, spec.split, spec.seed)
    fold = _folds(spec, eligible.actions, split)
    metrics: dict[str, Any] = {}
    warnings = _left_out(table, eligible)
    if log.propensities is None:
        warnings.append(_ESTIMATED)
    estimator = None
    evaluation = None
    is_held = fold != UNJUDGED
    if is_held.any():
        with progress.part(0.1, 0.7):
            expected, estimator = _unseen(log, eligible, spec, split, fold)
        logged = LoggedRewards(
            eligible.actions[is_held],
            log.rewards[is_held],
            eligible.chances[is_held],
            expected[is_held],
            split.groups_of(is_held),
            None if table.weight is None else log.table.weights[is_held],
        )
        metrics = policy_figures(logged, fold[is_held], names, baseline)
        warnings += _doubts(metrics)
        folds = int(fold.max()) + 1
        predicted = np.flatnonzero(is_held)
        evaluation = evaluation_card(decided, split, spec.split, predicted, folds)
    refit = estimator is None or spec.refit
    if refit:
        with progress.part(0.7, 0.95, "fitting on all rows"):
            estimator = log.fitted(spec, split.blocks)
    assert estimator is not None
    report = FitReport(metrics, evaluation, warnings, round(perf_counter() - began, 3))
    card = card_to_publish(estimator, job, spec, log.table, split, report, refit=refit)
    classes = estimator.classes_.tolist()  # without the hold-out there may be fewer
    return card.model_copy(update={"classes": classes}), estimator, None, []


def _folds(spec: TrainSpec, actions: np.ndarray, split: Split) -> np.ndarray:
    """The fold (n,) of each row that judges the policy: 0 alone is the hold-out."""
    folds = min(round(1 / spec.holdout), _MAX_FOLDS) if spec.holdout else 0
    by_time = split.blocks is not None and split.blocks.ordered
    is_small = len(actions) < _FEWEST_TO_HOLD_OUT
    if spec.refit and folds > 1 and is_small and not by_time:
        return stratified_folds(actions, folds, spec.seed, split.blocks)
    fold = np.full(len(actions), UNJUDGED)
    fold[split.holdout] = 0
    return fold


def _unseen(
    log: RewardTable,
    eligible: EligibleLog,
    spec: TrainSpec,
    split: Split,
    fold: np.ndarray,
) -> tuple[np.ndarray, Rewards]:
    """Expected rewards (n, A) by models without the row's fold, and the last of these.

    An action that such a model does not know counts as its mean action.
    """
    expected = np.zeros(eligible.chances.shape)
    names = eligible.names.tolist()
    folds = int(fold.max()) + 1
    for number in range(folds):
        rows = fold == number
        stage = f"fold {number + 1} of {folds}" if folds > 1 else "fitting"
        with progress.part(number / folds, (number + 1) / folds, stage):
            outside = np.flatnonzero(~rows)
            estimator = log.take(outside).fitted(spec, split.blocks_of(outside))
        values = estimator.posterior(np.ascontiguousarray(log.table.X[rows]))
        expected[rows] = values.mean(axis=1, keepdims=True)
        places = [names.index(name) for name in estimator.classes_.tolist()]
        expected[np.ix_(rows, places)] = values
    return expected, estimator


def _doubts(metrics: dict[str, Any]) -> list[str]:
    """What the figures do not show."""
    warnings = []
    if metrics["reason"] is not None:
        warnings.append(metrics["reason"])
    elif metrics["verdict"] != "better":
        warnings.append(
            f"the policy is not shown to be better than the log: {metrics['verdict']}"
        )
    low = metrics["best_single"]["gain"]["low"]
    if low is None or low <= 0:
        warnings.append(f"{_NOT_BETTER}: {metrics['best_single']['action']}")
    return warnings


def _left_out(table: Table, eligible: EligibleLog) -> list[str]:
    count = len(table.X) - int(eligible.rows.sum())
    if not count:
        return []
    left_out = (
        f"{counted(count, 'row')} of actions with fewer than {MIN_ROWS_OF_ACTION} rows"
    )
    return [f"{left_out} are left out: these actions are not chosen"]
