"""A data set as rows with a truth, on which a version is judged that has not learned from them."""

from collections.abc import Callable
from functools import partial

from app.access.caller import Caller, Scope
from app.answering.benefit import Evidence, evidence_of
from app.answering.decide import check_classes, check_finite
from app.answering.guarantees import check_evaluated
from app.answering.simulated_rows import rows_of_dataset
from app.registry.loaded import Loaded
from app.requests.datasets import find_named
from app.requests.guarantees import GuaranteeFields
from app.stores import Stores
from payoff.decisions.threshold import HoldoutScores
from payoff.errors import Invalid

_PLACE = "/dataset"


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
    data set, Invalid at /dataset where the model was fitted on it, or it does not fit the model,
    and as `check_evaluated` for a guarantee on the hold-out. `charge` is told how many numbers in
    memory the rows take.
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
