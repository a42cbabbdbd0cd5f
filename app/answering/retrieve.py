"""Which items to retrieve, from probabilities or from a model, and what to expect of them."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from app.answering.decide import BY_REWARDS, LARGEST_ANSWER, check_finite
from app.answering.set_losses import holdout_losses
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

MAX_SECONDS = 10  # of a core, for all sets of a call
_SAMPLED_LEARNER = "multilabel_forest"
_MAX_SAMPLED_LABELS = 20_000  # of all instances of one call
# training rows in the leaves of all instances of one call: seconds
_MAX_LEAF_ROWS = 20_000_000
# The share of the weight of an instance's label vectors that may be left out: with more, the best
# set may be another one.
_MAX_OMITTED = 0.1


@dataclass(frozen=True)
class Retrieved:
    """A choice. `labels` name the positions where a model's classes are the items; `positive` is
    the class that counts as relevant; `marginals` are the probabilities used, if asked for;
    `correction` is what the hold-out adds to the expected losses.
    """

    choice: Selections
    warnings: list[str]
    labels: tuple[int | str, ...] | None = None
    positive: int | str | None = None
    marginals: Sets | None = None
    correction: float | None = None


def retrieve(sets: Sets, question: RetrieveFields) -> Retrieved:
    """Choose from probabilities as sent.

    Raises Invalid with the place: below /probabilities, or at the name of the field that does not
    fit.
    """
    if question.positive is not None:
        raise Invalid.at(
            "/positive",
            "'positive' needs a model; probabilities in the request are those of being relevant",
        )
    if question.method == "sampled":
        raise Invalid.at(
            "/method",
            f"'sampled' needs a model of the learner {_SAMPLED_LEARNER!r}, not probabilities",
        )
    _check_fields(question, len(sets.p))
    if question.setting == "multiclass" and not len(sets.p) and sets.offsets is None:
        # An empty list has no rows.
        sets = Sets(sets.p, np.zeros(1, dtype=np.int64))
    sets = sets.checked()
    if question.setting == "multiclass":
        _check_rows(sets)
    if question.average:
        sets = _by_label(sets)
    choice = _choose(sets, question)
    return Retrieved(
        choice, list(choice.warnings), marginals=sets if question.marginals else None
    )


def retrieve_with(
    model: Loaded, X: np.ndarray, question: RetrieveFields, warnings: list[str]
) -> Retrieved:
    """Choose for rows X (n, m) as the model's schema encodes them: the n items of one set (binary)
    or, with `average`, of a set per label; else a set per row.

    Raises Invalid at the name of the field that does not fit.
    """
    warnings = [*model.card.warnings, *warnings]
    _check_setting(model, question)
    column = _positive(model, question)
    extent = (len(X), len(X) * len(model.classes)) if column is None else (1, len(X))
    check_extent(*extent)
    _check_fields(question, extent[1])
    if question.method == "sampled":
        return _retrieve_sampled(model, X, question, warnings)
    by_class = (
        bool(question.average) or column is not None
    )  # then the items are the instances
    if not by_class:
        question.terms.sizes(len(model.classes))  # even if there are no sets
        check_usable(question.terms.loss, len(model.classes))
    P = model.estimator.posterior(X)
    check_finite(P)
    if column is not None:
        P = P[:, [column]]
    sets = Sets.of_rows(P.T if by_class else P)
    choice = _choose(sets, question)
    warnings += choice.warnings
    correction = None
    if model.multilabel and not by_class:
        losses = model.once(holdout_losses)(replace(question.terms, curve=False))
        if losses is not None:
            correction = losses.correction
            warnings += [losses.warning] if losses.warning else []
    return Retrieved(
        choice,
        warnings,
        labels=None if by_class else model.classes,
        positive=None if column is None else model.classes[column],
        marginals=sets if question.marginals else None,
        correction=correction,
    )


def _check_setting(model: Loaded, question: RetrieveFields) -> None:
    if model.regression:
        raise Invalid.at(
            "/model",
            f"{model.name!r} predicts numbers; /retrieve needs a model of classes or labels",
        )
    if model.rewarded:
        raise Invalid.at("/model", f"{model.name!r} {BY_REWARDS}")
    setting = "multilabel" if model.multilabel else "multiclass"
    if question.setting not in ("binary", setting):
        labels = "several labels" if model.multilabel else "one label"
        raise Invalid.at(
            "/setting", f"{model.name!r} has {labels}; use 'binary' or {setting!r}"
        )


def _retrieve_sampled(
    model: Loaded, X: np.ndarray, question: RetrieveFields, warnings: list[str]
) -> Retrieved:
    if question.setting != "multilabel":
        raise Invalid.at(
            "/method",
            f"'sampled' is allowed in the setting 'multilabel' only, not in {question.setting!r}",
        )
    if question.curve or question.average:
        name = "curve" if question.curve else "average"
        raise Invalid.at(
            pointer(name), f"{name!r} is not allowed with the method 'sampled'"
        )
    choice, sets = sampled_sets(model, X, question.terms)
    marginals = sets if question.marginals else None
    return Retrieved(
        choice, [*warnings, *choice.warnings], model.classes, marginals=marginals
    )


def _check_fields(question: RetrieveFields, items: int) -> None:
    if question.average and question.setting == "binary":
        raise Invalid.at(
            "/average",
            "'average' is allowed in the settings 'multilabel' and 'multiclass' only",
        )
    if question.marginals and items > LARGEST_ANSWER:
        raise TooLarge(
            f"the answer would hold {items:,} marginal probabilities;"
            f" at most {LARGEST_ANSWER:,} are allowed"
        )


def _positive(model: Loaded, question: RetrieveFields) -> int | None:
    """The column of the class or label that counts as relevant; None where the classes are the
    items.
    """
    if question.setting != "binary":
        if question.positive is not None:
            raise Invalid.at(
                "/positive", "'positive' is allowed in the setting 'binary' only"
            )
        return None
    names = [str(name) for name in model.classes]
    if question.positive is None and len(names) == 2 and not model.multilabel:
        return 1
    kind, kinds = ("label", "labels") if model.multilabel else ("class", "classes")
    if question.positive is None:
        raise Invalid.at(
            "/positive",
            f"{model.name!r} has {len(names)} {kinds}; name the {kind} that counts",
        )
    if str(question.positive) not in names:
        raise Invalid.at("/positive", unknown(kind, question.positive, names))
    return names.index(str(question.positive))


def _choose(sets: Sets, question: RetrieveFields) -> Selections:
    is_one_class = question.setting == "multiclass" and not question.average
    needed = 0.0 if is_one_class else seconds(sets.sizes, sets.spread, question.terms)
    if needed > MAX_SECONDS:
        raise TooLarge(
            f"these sets would take some {needed:.0f} s of a core with the loss"
            f" {question.terms.loss.name!r}; at most {MAX_SECONDS} are allowed: send fewer items at"
            " once"
        )
    if is_one_class and len(sets.sizes):
        choice = select_class_set(sets.p.reshape(len(sets.sizes), -1), question.terms)
    elif sets.offsets is None:
        choice = select(sets.p, question.terms)
    else:
        choice = select_many(sets.p, sets.offsets, question.terms)
    if not np.isfinite(choice.figures).all():
        raise Invalid.at(
            "/loss",
            "the loss is outside the range of a 64-bit float;"
            " use coefficients of similar magnitude",
        )
    return choice


def _by_label(sets: Sets) -> Sets:
    """A set for each column of the sets of rows."""
    sizes = sets.sizes
    _check_lengths(sizes)
    return Sets.of_rows(sets.p.reshape(len(sizes), sizes[0] if len(sizes) else 0).T)


def _check_lengths(sizes: np.ndarray) -> None:
    if (sizes != sizes[:1]).any():
        row = int(np.argmax(sizes != sizes[0]))
        raise Invalid.at(
            pointer("probabilities", row),
            f"the row has {sizes[row]} probabilities and the first row {sizes[0]};"
            " send one for each class",
        )


def _check_rows(sets: Sets) -> None:
    """Invalid unless all rows have one length and a sum of 1, which an empty row does not have."""
    sizes = sets.sizes
    _check_lengths(sizes)
    P = sets.p.reshape(len(sizes), sizes[0] if len(sizes) else 0)
    wrong = np.flatnonzero(~are_shares(P))
    if wrong.size:
        place = () if sets.offsets is None else (wrong[0],)
        total = P[wrong[0]].sum()
        message = f"the probabilities of a row sum to {total:.8g}; they must sum to 1"
        raise Invalid.at(pointer("probabilities", *place), message)


def sampled_sets(
    model: Loaded, X: np.ndarray, terms: SetTerms
) -> tuple[Selections, Sets]:
    """A set for each row X (n, m) as the schema of a model of labels encodes them, and its label
    vectors' marginals.

    Raises Conflict at /method where the model has no label vectors, Invalid at the field of `terms`
    that does not fit, and TooLarge for too many labels or vectors. Costs as `select_sampled`.
    """
    _check_sampled(model, X)
    omitted: list[float] = []  # the weight of each row's label vectors that is left out

    def label_vectors() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for vectors, weights, omitted_weight in model.estimator.label_vectors(X):
            omitted.append(omitted_weight)
            yield vectors, weights

    selections, marginals = select_sampled(
        label_vectors(), model.estimator.posterior(X), terms
    )
    unproven = np.array(omitted) > _MAX_OMITTED
    selections.figures[SAMPLED.index("gap"), unproven] = np.nan
    warnings = _omission_warnings(max(omitted, default=0.0), int(unproven.sum()))
    return replace(selections, warnings=warnings), Sets.of_rows(marginals)


def _check_sampled(model: Loaded, X: np.ndarray) -> None:
    if not hasattr(model.estimator, "neighbours_"):
        raise Conflict.at(
            "/method",
            f"'sampled' needs a version of the learner {_SAMPLED_LEARNER!r} with its label vectors;"
            " train one",
        )
    labels = len(model.classes)
    if labels > MAX_LABELS or len(X) * labels > _MAX_SAMPLED_LABELS:
        raise TooLarge(
            f"the request has {len(X):,} instances of {labels:,} labels; 'sampled' takes at most"
            f" {MAX_LABELS} labels, and {_MAX_SAMPLED_LABELS:,} of all instances together"
        )
    leaf_rows = model.estimator.label_vector_work(X)
    if leaf_rows > _MAX_LEAF_ROWS:
        raise TooLarge(
            f"the {len(X):,} instances have {leaf_rows:,} training rows in their leaves; 'sampled'"
            f" takes at most {_MAX_LEAF_ROWS:,} of all instances together; send fewer instances at"
            " once, or train fewer trees"
        )


def _omission_warnings(largest: float, unproven: int) -> tuple[str, ...]:
    """A warning where up to `largest` of an instance's weight is left out, and too much of
    `unproven` instances.
    """
    if not largest:
        return ()
    warning = (
        f"of the weight of an instance's label vectors up to {largest:.1%} is left out:"
        " the lightest ones"
    )
    if unproven:
        instances = counted(unproven, "instance")
        warning += f"; 'gap' is null for {instances} with more than {_MAX_OMITTED:.0%} left out"
    return (warning,)
