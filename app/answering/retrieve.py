"""Which items to retrieve, from probabilities or from a model, and what to expect of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app.answering.predict import LARGEST_ANSWER, check_finite
from app.answering.set_losses import promiser
from app.errors import Conflict
from app.registry.loaded import Loaded
from app.requests.losses import SAMPLED, RetrieveFields, Sets, check_extent
from payoff.errors import Invalid, TooLarge, counted, pointer, unknown
from payoff.probabilities import are_shares
from payoff.retrieval.losses import SetTerms
from payoff.retrieval.sampled import MAX_LABELS, select_sampled
from payoff.retrieval.selection import (
    Selections,
    check_usable,
    seconds,
    select,
    select_class_set,
    select_many,
)

MOST_SECONDS = 10  # of a core, for all sets of a call
_SAMPLED_LEARNER = "multilabel_forest"
_MAX_ITEMS = 20_000  # labels of all instances of one call
_MAX_LEAF_ROWS = 20_000_000  # training rows in the leaves of all instances of one call: seconds
_MAX_CUT = (
    0.1  # of the weight of an instance's label vectors: with more, the best set may be another one
)


@dataclass(frozen=True)
class Retrieved:
    """A choice. `labels` name the positions where a model's classes are the items; `positive` is the class that counts
    as relevant; `marginals` are the probabilities used, if asked for; `correction` is what the hold-out adds to the
    expected losses.
    """

    choice: Selections
    warnings: list[str]
    labels: tuple[int | str, ...] | None = None
    positive: int | str | None = None
    marginals: Sets | None = None
    correction: float | None = None


def retrieve(sets: Sets, asked: RetrieveFields) -> Retrieved:
    """Choose from probabilities as sent.

    Raises Invalid with the place: below /probabilities, or at the name of the field that does not fit.
    """
    if asked.positive is not None:
        raise Invalid.at(
            "/positive",
            "'positive' needs a model; probabilities in the request are those of being relevant",
        )
    if asked.method == "sampled":
        raise Invalid.at(
            "/method",
            f"'sampled' needs a model of the learner {_SAMPLED_LEARNER!r}, not probabilities",
        )
    _check_fields(asked, len(sets.p))
    if asked.setting == "multiclass" and not len(sets.p) and sets.offsets is None:
        sets = Sets(sets.p, np.zeros(1, dtype=np.int64))  # an empty list has no rows
    sets = sets.checked()
    if asked.setting == "multiclass":
        _check_rows(sets)
    if asked.average:
        sets = _by_label(sets)
    choice = _choose(sets, asked)
    return Retrieved(choice, list(choice.warnings), marginals=sets if asked.marginals else None)


def retrieve_with(
    model: Loaded, X: np.ndarray, asked: RetrieveFields, warnings: list[str]
) -> Retrieved:
    """Choose for rows X (n, m) as the model's schema encodes them: the n items of one set (binary) or, with `average`,
    of a set per label; else a set per row.

    Raises Invalid at the name of the field that does not fit.
    """
    warnings = [*model.card.warnings, *warnings]
    if model.regression:
        raise Invalid.at(
            "/model",
            f"{model.name!r} predicts numbers; /retrieve needs a model of classes or labels",
        )
    fitting = "multilabel" if model.multilabel else "multiclass"
    if asked.setting not in ("binary", fitting):
        has = "several labels" if model.multilabel else "one label"
        raise Invalid.at("/setting", f"{model.name!r} has {has}; use 'binary' or {fitting!r}")
    column = _positive(model, asked)
    extent = (len(X), len(X) * len(model.classes)) if column is None else (1, len(X))
    check_extent(*extent)
    _check_fields(asked, extent[1])
    if asked.method == "sampled":
        if asked.setting != "multilabel":
            allowed = "'sampled' is allowed in the setting 'multilabel' only"
            raise Invalid.at("/method", f"{allowed}, not in {asked.setting!r}")
        if asked.curve or asked.average:
            name = "curve" if asked.curve else "average"
            raise Invalid.at(pointer(name), f"{name!r} is not allowed with the method 'sampled'")
        choice, sets = sampled_sets(model, X, asked.terms)
        shown = sets if asked.marginals else None
        return Retrieved(choice, [*warnings, *choice.warnings], model.classes, marginals=shown)
    by_class = bool(asked.average) or column is not None  # then the items are the instances
    if not by_class:
        asked.terms.sizes(len(model.classes))  # even if there are no sets
        check_usable(asked.terms.loss, len(model.classes))
    P = model.estimator.posterior(X)
    check_finite(P)
    P = P if column is None else P[:, [column]]
    sets = Sets.of_rows(P.T if by_class else P)
    choice = _choose(sets, asked)
    promise = (
        model.once(promiser)(replace(asked.terms, curve=False))
        if model.multilabel and not by_class
        else None
    )
    return Retrieved(
        choice,
        [
            *warnings,
            *choice.warnings,
            *([] if promise is None or promise.warning is None else [promise.warning]),
        ],
        labels=None if by_class else model.classes,
        positive=None if column is None else model.classes[column],
        marginals=sets if asked.marginals else None,
        correction=None if promise is None else promise.correction,
    )


def _check_fields(asked: RetrieveFields, items: int) -> None:
    if asked.average and asked.setting == "binary":
        raise Invalid.at(
            "/average", "'average' is allowed in the settings 'multilabel' and 'multiclass' only"
        )
    if asked.marginals and items > LARGEST_ANSWER:
        raise TooLarge(
            f"the answer would hold {items:,} marginal probabilities; at most {LARGEST_ANSWER:,} are allowed"
        )


def _positive(model: Loaded, asked: RetrieveFields) -> int | None:
    """The column of the class or label that counts as relevant; None where the classes are the items."""
    if asked.setting != "binary":
        if asked.positive is not None:
            raise Invalid.at("/positive", "'positive' is allowed in the setting 'binary' only")
        return None
    names = [str(name) for name in model.classes]
    if asked.positive is None and len(names) == 2 and not model.multilabel:
        return 1
    what = "label" if model.multilabel else "class"
    if asked.positive is None:
        several = "classes" if what == "class" else "labels"
        raise Invalid.at(
            "/positive", f"{model.name!r} has {len(names)} {several}; name the {what} that counts"
        )
    if str(asked.positive) not in names:
        raise Invalid.at("/positive", unknown(what, asked.positive, names))
    return names.index(str(asked.positive))


def _choose(sets: Sets, asked: RetrieveFields) -> Selections:
    one_true = asked.setting == "multiclass" and not asked.average
    needed = 0.0 if one_true else seconds(sets.sizes, sets.spread, asked.terms)
    if needed > MOST_SECONDS:
        raise TooLarge(
            f"these sets would take some {needed:.0f} s of a core with the loss {asked.terms.loss.name!r}; at most"
            f" {MOST_SECONDS} are allowed: send fewer items at once"
        )
    if one_true and len(sets.sizes):
        choice = select_class_set(sets.p.reshape(len(sets.sizes), -1), asked.terms)
    elif sets.offsets is None:
        choice = select(sets.p, asked.terms)
    else:
        choice = select_many(sets.p, sets.offsets, asked.terms)
    if not np.isfinite(choice.figures).all():
        raise Invalid.at(
            "/loss",
            "the loss is outside the range of a 64-bit float; use coefficients of similar magnitude",
        )
    return choice


def _by_label(sets: Sets) -> Sets:
    """The sets of rows turned: one for each column."""
    sizes = sets.sizes
    _check_lengths(sizes)
    return Sets.of_rows(sets.p.reshape(len(sizes), sizes[0] if len(sizes) else 0).T)


def _check_lengths(sizes: np.ndarray) -> None:
    if (sizes != sizes[:1]).any():
        row = int(np.argmax(sizes != sizes[0]))
        message = f"the row has {sizes[row]} probabilities and the first row {sizes[0]}; send one for each class"
        raise Invalid.at(pointer("probabilities", row), message)


def _check_rows(sets: Sets) -> None:
    """One length, and a sum of 1, which a row without classes does not have."""
    sizes = sets.sizes
    _check_lengths(sizes)
    P = sets.p.reshape(len(sizes), sizes[0] if len(sizes) else 0)
    wrong = np.flatnonzero(~are_shares(P))
    if wrong.size:
        place = () if sets.offsets is None else (wrong[0],)
        total = P[wrong[0]].sum()
        message = f"the probabilities of a row sum to {total:.8g}; they must sum to 1"
        raise Invalid.at(pointer("probabilities", *place), message)


def sampled_sets(model: Loaded, X: np.ndarray, terms: SetTerms) -> tuple[Selections, Sets]:
    """A set for each row X (n, m) as the schema of a model of labels encodes them, and its label vectors' marginals.

    Raises Conflict at /method where the model has no label vectors, Invalid at the field of `terms` that
    does not fit, and TooLarge for too many labels or vectors. Costs as `select_sampled`.
    """
    _check_sampled(model, X)
    cut: list[float] = []

    def vectors() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for found, weights, lost in model.estimator.label_vectors(X):
            cut.append(lost)
            yield found, weights

    found, marginals = select_sampled(vectors(), model.estimator.posterior(X), terms)
    unproven = np.array(cut) > _MAX_CUT
    found.figures[SAMPLED.index("gap"), unproven] = np.nan
    warnings = _about_cut(max(cut, default=0.0), int(unproven.sum()))
    return replace(found, warnings=warnings), Sets.of_rows(marginals)


def _check_sampled(model: Loaded, X: np.ndarray) -> None:
    if not hasattr(model.estimator, "neighbours_"):
        raise Conflict.at(
            "/method",
            f"'sampled' needs a version of the learner {_SAMPLED_LEARNER!r} with its label vectors; train one",
        )
    labels = len(model.classes)
    if labels > MAX_LABELS or len(X) * labels > _MAX_ITEMS:
        raise TooLarge(
            f"the request has {len(X):,} instances of {labels:,} labels; 'sampled' takes at most {MAX_LABELS} labels,"
            f" and {_MAX_ITEMS:,} of all instances together"
        )
    work = model.estimator.label_vector_work(X)
    if work > _MAX_LEAF_ROWS:
        raise TooLarge(
            f"the {len(X):,} instances have {work:,} training rows in their leaves; 'sampled' takes at most"
            f" {_MAX_LEAF_ROWS:,} of all instances together; send fewer instances at once, or train fewer trees"
        )


def _about_cut(largest: float, unproven: int) -> tuple[str, ...]:
    """What to warn of where up to `largest` of an instance's weight is left out, of `unproven` instances too much."""
    if not largest:
        return ()
    warning = f"of the weight of an instance's label vectors up to {largest:.1%} is left out: the lightest ones"
    many = counted(unproven, "instance")
    return (
        warning
        + (
            f"; 'gap' is null for {many} with more than {_MAX_CUT:.0%} left out" if unproven else ""
        ),
    )
