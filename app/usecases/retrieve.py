"""Which items to retrieve, from probabilities or from a model, and what to expect of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from app.errors import Conflict, Flaw, Invalid, TooLarge, pointer, reject, unknown
from app.registry.loaded import Loaded
from app.retrieval.batches import seconds, select_many
from app.retrieval.expected_loss import check_usable
from app.retrieval.losses import Loss, parse_loss
from app.retrieval.multiclass import select_class_set
from app.retrieval.selection import select
from app.retrieval.terms import Terms
from app.usecases.item_sets import Choice, Method, Sets, Setting, check_extent
from app.usecases.predict import LARGEST_ANSWER
from app.usecases.promises import promiser
from app.usecases.sampled_sets import LEARNER, sampled_sets
from app.usecases.tuned_cut import tuned_cut

MOST_SECONDS = 10  # of a core, for all sets of a call
_BOUNDS = ("k_min", "k_max", "min_recall", "min_precision")  # fields of Terms that a cut ignores


@dataclass(frozen=True)
class Question:
    """What is asked of every set."""

    setting: Setting
    terms: Terms
    method: Method = "expected_loss"
    positive: int | str | None = None
    marginals: bool = False

    @classmethod
    def parse(
        cls,
        setting: Setting,
        loss: Any,
        method: Method = "expected_loss",
        positive: int | str | None = None,
        marginals: bool = False,
        **terms: Any,
    ) -> Question:
        """A question whose fields are checked in form only; Invalid at /loss or at the name of a field of Terms."""
        try:
            parsed = parse_loss(loss)
        except Invalid as error:
            raise error.under("/loss") from error
        return cls(setting, Terms(parsed, **terms), method, positive, marginals)


@dataclass(frozen=True)
class Answer:
    """A choice. `labels` name the positions where a model's classes are the items; `positive` is the class that counts
    as relevant; `threshold` is that of a method with one; `marginals` are the probabilities used, if asked for;
    `correction` is what the hold-out adds to the expected losses.
    """

    choice: Choice
    loss: Loss
    threshold: float | None
    warnings: list[str]
    labels: tuple[int | str, ...] | None = None
    positive: int | str | None = None
    marginals: Sets | None = None
    correction: float | None = None


def retrieve(sets: Sets, question: Question) -> Answer:
    """Choose from probabilities as sent.

    Raises Invalid with the place: below /probabilities, or at the name of the field that does not fit.
    """
    if question.positive is not None:
        raise Invalid.at(
            "/positive", "'positive' needs a model; probabilities in the request are those of being relevant"
        )
    if question.method == "sampled":
        raise Invalid.at("/method", f"'sampled' needs a model of the learner {LEARNER!r}, not probabilities")
    if question.method == "tuned_threshold":
        raise Invalid.at("/method", "'tuned_threshold' needs a model; its threshold is tuned on a version's hold-out")
    threshold = 0.5 if question.method == "half" else None
    _check_marginals(question, len(sets.p))
    choice = _choose(sets, question, threshold)
    marginals = sets if question.marginals else None
    return Answer(choice, question.terms.loss, threshold, list(choice.warnings), marginals=marginals)


def retrieve_with(model: Loaded, X: np.ndarray, question: Question, warnings: list[str]) -> Answer:
    """Choose for rows X (n, m) as the model's schema encodes them: the n items of one set (binary), else a set per row.

    Raises Invalid at the name of the field that does not fit.
    """
    warnings = [*model.card.warnings, *warnings]
    if model.regression:
        raise Invalid.at("/model", f"{model.name!r} predicts numbers; /retrieve needs a model of classes or labels")
    if (question.setting == "multilabel") != model.multilabel:
        has = "several labels; use 'multilabel'" if model.multilabel else "one label; use 'binary' or 'multiclass'"
        raise Invalid.at("/setting", f"{model.name!r} has {has}")
    column = _positive(model, question)
    extent = (len(X), len(X) * len(model.classes)) if column is None else (1, len(X))
    check_extent(*extent)
    _check_marginals(question, extent[1])
    if question.method == "sampled":
        if not model.multilabel:
            allowed = "'sampled' is allowed in the setting 'multilabel' only"
            raise Invalid.at("/method", f"{allowed}, not in {question.setting!r}")
        _check_unbound(question, ("min_recall", "min_precision", "curve"))
        choice, marginals = sampled_sets(model, X, question.terms)
        notes, shown = [*warnings, *choice.warnings], marginals if question.marginals else None
        return Answer(choice, question.terms.loss, None, notes, model.classes, marginals=shown)
    threshold = {"half": 0.5, "expected_loss": None}.get(question.method)
    if question.method == "tuned_threshold":
        threshold = model.once(_tuner)(question.terms.loss, question.terms.empty, column)
    if column is None:
        question.terms.sizes(len(model.classes))  # even if there are no sets
        check_usable(question.terms.loss, len(model.classes))
    P = model.estimator.posterior(X)
    if column is None:
        sets = Sets(P.ravel(), np.arange(len(P) + 1) * P.shape[1])
    else:
        sets = Sets(np.ascontiguousarray(P[:, column]))
    choice = _choose(sets, question, threshold)
    notes = [*warnings, *choice.warnings]
    answer = Answer(choice, question.terms.loss, threshold, notes, marginals=sets if question.marginals else None)
    if column is not None:
        return replace(answer, positive=model.classes[column])
    answer = replace(answer, labels=model.classes)
    return _corrected(answer, model, question) if question.method == "expected_loss" and model.multilabel else answer


def _corrected(answer: Answer, model: Loaded, question: Question) -> Answer:
    """The answer with what the hold-out adds to its expected losses; warns where that is more than noise or unknown."""
    promise = model.once(promiser)(replace(question.terms, curve=False))
    if promise is None:
        return answer
    warnings = answer.warnings if promise.warning is None else [*answer.warnings, promise.warning]
    return replace(answer, warnings=warnings, correction=promise.correction)


def _check_marginals(question: Question, items: int) -> None:
    if question.marginals and items > LARGEST_ANSWER:
        raise TooLarge(
            f"the answer would hold {items:,} marginal probabilities; at most {LARGEST_ANSWER:,} are allowed"
        )


def _positive(model: Loaded, question: Question) -> int | None:
    """The column of the class that counts as relevant, the second by default; None where the classes are the items."""
    if question.setting != "binary":
        if question.positive is not None:
            raise Invalid.at("/positive", "'positive' is allowed in the setting 'binary' only")
        return None
    if len(model.classes) != 2:
        msg = f"{model.name!r} has {len(model.classes)} classes; 'binary' needs two, use 'multiclass'"
        raise Invalid.at("/setting", msg)
    if question.positive is None:
        return 1
    names = [str(name) for name in model.classes]
    if str(question.positive) not in names:
        raise Invalid.at("/positive", unknown("class", question.positive, names))
    return names.index(str(question.positive))


def _tuner(model: Loaded) -> Callable[[Loss, int, int | None], float]:
    """The cut that is best on the version's hold-out for a loss, `empty` and a column (see `_positive`)."""
    holdout = model.holdout
    if holdout is None:
        raise Conflict.at(
            "/method", "this version has no hold-out; use 'expected_loss' or 'half', or train it with a 'holdout'"
        )

    @lru_cache(maxsize=64)
    def tune(loss: Loss, empty: int, column: int | None) -> float:
        scores, y = holdout.scores, holdout.y
        if column is not None:
            scores, y = scores[:, column][None, :], (y == column)[None, :]
        elif y.ndim == 1:
            y = np.eye(scores.shape[1])[y]
        return tuned_cut(scores, y.astype(np.float64), loss, empty)

    return tune


def _choose(sets: Sets, question: Question, threshold: float | None) -> Choice:
    if question.setting == "multiclass" and not len(sets.p) and sets.offsets is None:
        sets = Sets(sets.p, np.zeros(1, dtype=np.int64))  # an empty list has no rows
    _check_sizes(sets, question)
    if question.setting != "multiclass":
        _check_work(sets.sizes, question.terms)
    if threshold is None:
        choice = _best(sets, question.setting, question.terms)
    else:
        _check_unbound(question)
        choice = _above(sets, question.setting, question.terms, threshold)
    if not np.isfinite(choice.figures).all():
        raise Invalid.at(
            "/loss", "the loss is outside the range of a 64-bit float; use coefficients of similar magnitude"
        )
    return choice


def _check_sizes(sets: Sets, question: Question) -> None:
    """Check that k_min fits the largest set (a k_max above it is no bound), and that rows have one length."""
    sizes = sets.sizes
    if not len(sizes):
        return
    largest = int(sizes.max())
    if question.terms.k_min > largest:
        msg = f"'k_min' is {question.terms.k_min}; it must be at most the size of the largest set, {largest}"
        raise Invalid.at("/k_min", msg)
    if question.setting == "multiclass" and (sizes != sizes[0]).any():
        row = int(np.argmax(sizes != sizes[0]))
        msg = f"the row has {sizes[row]} probabilities and the first row {sizes[0]}; send one for each class"
        raise Invalid.at(pointer("probabilities", row), msg)


def _check_work(sizes: np.ndarray, terms: Terms) -> None:
    if (found := seconds(sizes, terms)) > MOST_SECONDS:
        raise TooLarge(
            f"these sets would take some {found:.0f} s of a core with the loss {terms.loss.name!r}; at most"
            f" {MOST_SECONDS} are allowed: send fewer items at once"
        )


def _check_unbound(question: Question, names: Sequence[str] = _BOUNDS) -> None:
    given = (name for name in names if getattr(question.terms, name) != getattr(Terms, name))
    reject(Flaw(pointer(name), f"{name!r} is not allowed with the method {question.method!r}") for name in given)


def _best(sets: Sets, setting: Setting, terms: Terms) -> Choice:
    """The choice with the smallest expected loss for every set."""
    if not len(sets.sizes):
        return Choice.room(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64), curve=terms.curve)
    try:
        if setting == "multiclass":
            return Choice.of_many(select_class_set(sets.p.reshape(len(sets.sizes), -1), terms))
        if sets.offsets is None:
            return Choice.of_one(select(sets.p, terms))
        return Choice.of_many(select_many(sets.p, sets.offsets, terms))
    except Invalid as error:
        flat = sets.offsets is None and setting == "multiclass"
        raise Invalid(error.detail, [_placed(flaw, flat=flat) for flaw in error.flaws]) from error


def _above(sets: Sets, setting: Setting, terms: Terms, threshold: float) -> Choice:
    """The items above the threshold in every set; sets with equally many of them are computed together."""
    if sets.offsets is None:
        k = int(np.count_nonzero(sets.p > threshold))
        return replace(_best(sets, setting, replace(terms, k_min=k, k_max=k)), warnings=())
    counts = np.concatenate(([0], np.cumsum(sets.p > threshold)))
    k = np.diff(counts[sets.offsets])
    whole = Choice.room(k, sets.sizes, curve=terms.curve)
    for size in np.unique(k).tolist():
        rows = np.flatnonzero(k == size)
        try:
            part = _best(sets.some(rows), setting, replace(terms, k_min=size, k_max=size))
        except Invalid as error:
            raise Invalid(error.detail, [_of_row(flaw, rows) for flaw in error.flaws]) from error
        whole.put(rows, part)
    return whole


def _placed(flaw: Flaw, *, flat: bool) -> Flaw:
    """The place of a flaw in the request: positions are below /probabilities, names are fields."""
    loc = flaw.loc.removeprefix("/0") if flat else flaw.loc
    return Flaw("/probabilities" + loc, flaw.msg) if loc[1:2].isdigit() or not loc else Flaw(loc, flaw.msg)


def _of_row(flaw: Flaw, rows: np.ndarray) -> Flaw:
    """The same flaw, its set counted among all sets instead of among `rows`."""
    head, *rest = flaw.loc.removeprefix("/probabilities/").split("/")
    if not head.isdigit():
        return flaw
    return Flaw("/".join(["/probabilities", str(rows[int(head)]), *rest]), flaw.msg)
