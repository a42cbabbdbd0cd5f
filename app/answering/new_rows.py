"""A data set as rows with a truth, on which a version is judged that has not learned from them."""

from collections.abc import Callable
from functools import partial

import numpy as np

from app.access.caller import Caller, Scope
from app.answering.benefit import Evidence, evidence_of
from app.answering.decide import check_classes, check_finite
from app.answering.guarantees import check_evaluated
from app.answering.simulated_rows import SimulatedRows, rows_of_dataset
from app.errors import NotFound
from app.registry.loaded import Loaded
from app.requests.datasets import find_named
from app.requests.guarantees import GuaranteeFields
from app.stores import Stores
from payoff.decisions.threshold import HoldoutScores
from payoff.errors import Invalid, counted

_PLACE = "/dataset"
_DEVIATIONS = 3.0  # standard ones, above which repeated rows are no chance


def evidence_for(
    stores: Stores,
    model: Loaded,
    reference: str | None,
    guarantee: GuaranteeFields | None,
    *,
    caller: Caller,
    charge: Callable[[int], object],
) -> Evidence:
    """The rows of the data set that a request names, or without one the hold-out.

    Forbidden without the scope `train`: such reports reveal the labels. NotFound for an unknown
    data set, Invalid at /dataset where the model was fitted on it or on more of its rows than
    chance explains, or it does not fit the model, and as `check_evaluated` for a guarantee on the
    hold-out. `charge` is told how many numbers in memory the rows take.
    """
    if reference is None:
        if guarantee is not None:
            check_evaluated(model)
        return evidence_of(model)
    check_classes(model)
    caller.need(frozenset({Scope.TRAIN}))
    dataset = find_named(stores, reference, _PLACE, caller)
    if dataset.digest == model.card.data.digest:
        message = (
            f"{model.name!r} learned from these rows; name a data set with new ones"
        )
        raise Invalid.at(_PLACE, message)
    numbers = 3 * len(dataset.features) + len(model.classes)
    charge(dataset.rows * numbers)
    table = stores.datasets.table(dataset.id)
    rows, _, _ = rows_of_dataset(table, model)
    again = _learned_again(stores, model, rows, charge)
    if again:
        message = (
            f"{counted(again, 'row')} of it are among those that {model.name!r} learned from, more"
            " than chance explains; leave them out"
        )
        raise Invalid.at(_PLACE, message)
    P = model.estimator.posterior(rows.X)
    check_finite(P)
    return Evidence(
        model.classes,
        P,
        rows.y,
        model.priors,
        "data set",
        partial(HoldoutScores, P[:, 1], rows.y, table.weights),
        lambda: table.numbers,
        in_words=f"the {dataset.rows:,} rows of the data set {dataset.id}",
        weights=table.weights,
    )


def _learned_again(
    stores: Stores, model: Loaded, rows: SimulatedRows, charge: Callable[[int], object]
) -> int:
    """How many rows equal one that occurs once in training; 0 where chance explains as many.

    New rows do so with about the probability 2 N2 / n, by the N2 rows that occur twice among n
    (Good 1953, "The population frequencies of species", section 2). 0 where the data set of the
    training is deleted. O(n m log n).
    """
    try:
        dataset = stores.datasets.find(model.card.data.dataset or "")
    except NotFound:
        return 0
    charge(3 * dataset.rows * len(model.schema.names))
    learned, _, _ = rows_of_dataset(stores.datasets.table(dataset.id), model)
    kinds, counts = np.unique(_kinds(learned), return_counts=True)
    again = int(np.isin(_kinds(rows), kinds[counts == 1]).sum())
    ratio = 2 * len(rows.y) / len(learned.y)
    chance = ratio * (np.count_nonzero(counts == 2) + 1)
    error = (chance * (1 + ratio)) ** 0.5  # of it, and of the estimate
    return again if again > chance + _DEVIATIONS * error else 0


def _kinds(rows: SimulatedRows) -> np.ndarray:
    """The bytes (n,) of each row and its label; equal ones are of equal rows."""
    table = np.column_stack((rows.X, rows.y)) + 0.0  # no -0
    table[np.isnan(table)] = np.nan
    return table.view(f"V{table.itemsize * table.shape[1]}").ravel()
