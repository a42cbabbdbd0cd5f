"""The best sets on the label vectors of the training rows nearest to each row: the method `sampled` of /retrieve."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from app.errors import Conflict, TooLarge
from app.registry.loaded import Loaded
from app.retrieval.sampled import MAX_LABELS, select_sampled
from app.retrieval.terms import Terms
from app.text import counted
from app.usecases.item_sets import SAMPLED, Choice, Sets

LEARNER = "multilabel_forest"
_MAX_ITEMS = 20_000  # labels of all instances of one call
_MAX_VECTORS = 20_000_000  # label vectors in the leaves of all instances of one call: seconds
_MAX_CUT = 0.1  # of the weight of an instance's label vectors: with more, the best set may be another one


def sampled_sets(model: Loaded, X: np.ndarray, terms: Terms) -> tuple[Choice, Sets]:
    """A set for each row X (n, m) as the schema of a model of labels encodes them, and its label vectors' marginals.

    Raises Conflict at /method where the model has no label vectors, Invalid at the field of `terms` that
    does not fit, and TooLarge for too many labels or vectors. Costs as `select_sampled`.
    """
    _check(model, X)
    cut: list[float] = []

    def vectors() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for found, weights, lost in model.estimator.label_vectors(X):
            cut.append(lost)
            yield found, weights

    found = select_sampled(vectors(), model.estimator.posterior(X), terms)
    unproven = np.array(cut) > _MAX_CUT
    found.figures[SAMPLED.index("gap"), unproven] = np.nan
    warnings = _about_cut(max(cut, default=0.0), int(unproven.sum()))
    choice = Choice(found.order, found.k, found.figures, np.zeros(len(X), dtype=np.int64), None, warnings)
    return choice, Sets(found.marginals.ravel(), np.arange(len(X) + 1) * len(model.classes))


def _check(model: Loaded, X: np.ndarray) -> None:
    if not hasattr(model.estimator, "neighbours_"):
        raise Conflict.at(
            "/method", f"'sampled' needs a version of the learner {LEARNER!r} with its label vectors; train one"
        )
    labels = len(model.classes)
    if labels > MAX_LABELS or len(X) * labels > _MAX_ITEMS:
        raise TooLarge(
            f"the request has {len(X):,} instances of {labels:,} labels; 'sampled' takes at most {MAX_LABELS} labels,"
            f" and {_MAX_ITEMS:,} of all instances together"
        )
    work = model.estimator.label_vector_work(X)
    if work > _MAX_VECTORS:
        raise TooLarge(
            f"the {len(X):,} instances have {work:,} label vectors in their leaves; 'sampled' takes at most"
            f" {_MAX_VECTORS:,} of all instances together; send fewer instances at once, or train fewer trees"
        )


def _about_cut(largest: float, unproven: int) -> tuple[str, ...]:
    """What to warn of where up to `largest` of an instance's weight is left out, of `unproven` instances too much."""
    if not largest:
        return ()
    warning = f"of the weight of an instance's label vectors up to {largest:.1%} is left out: the lightest ones"
    many = counted(unproven, "instance")
    return (warning + (f"; 'gap' is null for {many} with more than {_MAX_CUT:.0%} left out" if unproven else ""),)
