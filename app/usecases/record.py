"""Recording of decisions: what of a request and its answer is stored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from time import time
from typing import Any, NamedTuple

import numpy as np
import orjson

from app.access.caller import ANYBODY, Caller, Scope
from app.errors import Flaw, Forbidden, Invalid, TooLarge, pointer, reject, sent
from app.features import Schema
from app.outcomes.decided import Batch, Decided
from app.outcomes.identity import DAY, new_ids
from app.outcomes.tables import MAX_ID
from app.outcomes.terms import Terms
from app.registry.loaded import Loaded
from app.text import refused_character
from app.usecases.ports import Ports
from app.usecases.predict import Answer, Question

_SKEW_SECONDS = 60.0  # by which the clock of a client may be ahead
_MAX_SHARED = 16 << 20  # bytes
_FIGURES = ("threshold", "beta", "delta")  # of an answer, that do not depend on its other instances
Texts = Callable[[], Sequence[str | None]]


@dataclass(frozen=True)
class Wish:
    """What a request says about recording: whether, under which ids as sent (None: ours), with or without instances.

    `at`, in seconds since 1970, is when the decisions were made; None for now.
    """

    wanted: bool
    ids: Any = None
    instances: bool = False
    place: str = "/record/ids"
    at: float | None = None


def usual(default: bool | None) -> Wish:
    """The wish of a request that has none, by the model's default as `Defaults.of` has it."""
    return Wish(default is not None, instances=bool(default))


def set_default(ports: Ports, name: str, default: bool | None, *, by: Caller) -> None:
    """Change what is recorded of requests without a wish; NotFound for an unknown model, Invalid for one of numbers."""
    versions = ports.registry.model(name).versions
    card = ports.registry.card(name, versions[0].version) if versions else None
    if default is not None and card is not None and (card.classes is None or card.classes == card.labels):
        raise Invalid.at("/record", f"{name!r} has no decisions to record: it predicts numbers, or several labels")
    entry = ports.audit.entry(by, "recording.set", name, record=default is not None, instances=bool(default))
    ports.recorder.defaults.set(name, default, entry)


class Ids(NamedTuple):
    """The checked ids of the decisions, in the order of the instances, and their moment."""

    ids: Sequence[str]
    given: bool
    place: str
    at: float


def ids_of(wish: Wish, n: int) -> Ids:
    """One id for each of n decisions; Invalid where those that were sent are not, or the moment is still to come."""
    now = time()
    at = now if wish.at is None else wish.at
    if not 0 <= at <= now + _SKEW_SECONDS:
        raise Invalid.at("/record/at", "decisions are recorded as of now, or of a moment since 1970 that has passed")
    if wish.ids is None:
        return Ids(new_ids(n, at), given=False, place=wish.place, at=at)
    if not isinstance(wish.ids, list):
        raise Invalid.at(wish.place, "ids are a list of texts")
    if len(wish.ids) != n:
        raise Invalid.at(wish.place, f"there are {len(wish.ids):,} ids for {n:,} instances")
    flaws = ((i, _flaw(id_)) for i, id_ in enumerate(wish.ids))
    one_place = not wish.place.endswith("ids")  # a column of the request
    reject(Flaw(wish.place + ("" if one_place else pointer(i)), flaw) for i, flaw in flaws if flaw)
    if len(set(wish.ids)) < n:
        seen: set[str] = set()
        twice = next(id_ for id_ in wish.ids if id_ in seen or seen.add(id_))  # type: ignore[func-returns-value]
        raise Invalid.at(wish.place, f"the id {twice!r} is there twice; each decision has its own")
    return Ids(wish.ids, given=True, place=wish.place, at=at)


def check_moment(ports: Ports, caller: Caller, wish: Wish) -> None:
    """Forbidden where a key without the scope `train` dates decisions back: each day costs every report.

    Invalid at a moment that is to be deleted already.
    """
    now = time()
    if wish.at is None or wish.at > now - _SKEW_SECONDS:
        return
    try:
        caller.need(frozenset({Scope.TRAIN}))
    except Forbidden as error:
        raise Forbidden(f"to date decisions back {error.detail}", [Flaw("/record/at", error.detail)]) from None
    keep = ports.recorder.keep_seconds
    if keep is not None and wish.at < now - keep:
        days = keep / DAY
        raise Invalid.at("/record/at", f"decisions are kept for {days:g} days; this moment is before that")


def _flaw(id_: Any) -> str | None:
    if not isinstance(id_, str):
        return f"a decision's id is text, not {sent(id_)}"
    if not 1 <= len(id_) <= MAX_ID:
        return f"a decision's id has 1 to {MAX_ID} characters"
    return refused_character(id_)


def batch_of(model: Loaded, question: Question, answer: Answer, ids: Ids, caller: Caller, texts: Texts | None) -> Batch:
    """The decisions of an answer to `/predict`, ready to be stored; `texts` makes the instances as JSON."""
    terms, term = terms_of(model, question, answer)
    rows = np.arange(len(ids.ids))
    expected = None if answer.expected_benefits is None else answer.expected_benefits[rows, answer.choice]
    decided = Decided(
        terms,
        term,
        answer.choice,
        answer.probabilities,
        expected,
        answer.propensities,
        instances=None if texts is None else texts(),
    )
    return batch(decided, ids, caller)


def batch(decided: Decided, ids: Ids, caller: Caller) -> Batch:
    rows = decided.rows(ids.ids, ids.at, client_of(caller), given=ids.given)
    return Batch(rows, {terms.digest: terms for terms in decided.terms}, ids.place)


def client_of(caller: Caller) -> str | None:
    """The name of the key that asks; None without one."""
    return None if caller.client is None and caller.name == ANYBODY.name else caller.name


def terms_of(model: Loaded, question: Question, answer: Answer) -> tuple[list[Terms], np.ndarray]:
    """The terms of the decisions, and for each decision which of them: each distinct matrix has its own."""
    figures = _figures(question, answer)
    matrices, term = _distinct(answer)
    _check_shared(len(matrices), model.classes, answer.actions, figures)
    priors = answer.priors
    return [
        Terms(
            verb="predict",
            model=model.name,
            version=model.version,
            rule=answer.rule,
            classes=tuple(answer.classes),
            actions=tuple(answer.actions),
            benefits=None if matrix is None else tuple(map(tuple, matrix.tolist())),
            priors=None if priors is None else dict(zip(map(str, answer.classes), priors.tolist(), strict=True)),
            figures=figures or None,
        )
        for matrix in matrices
    ], term


def _figures(question: Question, answer: Answer) -> dict[str, Any]:
    """What else the rule used, see `Terms`."""
    figures = {name: answer.figures[name] for name in _FIGURES if name in answer.figures}
    if question.costs is not None:
        figures["costs"] = asdict(question.costs)
    if question.explore is not None:
        figures["explore"] = question.explore
    if question.constraints is not None:
        figures |= {name: asdict(question.constraints)[name] for name in question.constraints.fields}
    return figures


def _distinct(answer: Answer) -> tuple[list[Any], np.ndarray]:
    """The distinct benefit matrices, None for none, and which of them (n,) each decision has."""
    n, benefits = len(answer.choice), answer.benefits
    if benefits is None or benefits.ndim < 3:
        return [benefits], np.zeros(n, dtype=np.intp)
    flat = np.ascontiguousarray(benefits).reshape(n, -1) + 0.0
    _, first, term = np.unique(flat, axis=0, return_index=True, return_inverse=True)
    return list(benefits[first]), np.ravel(term)


def _check_shared(matrices: int, *shared: Any) -> None:
    """TooLarge where what all decisions share, which is stored with each matrix, takes many times what was sent."""
    each = len(orjson.dumps(shared, option=orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)) if matrices > 1 else 0
    if matrices * each > _MAX_SHARED:
        raise TooLarge(
            f"{matrices:,} benefit matrices to record, each with {each:,} bytes of classes, actions and limits;"
            f" a request records at most {_MAX_SHARED >> 20} MB of these: send fewer matrices at once, or leave out"
            " limits"
        )


def texts_of_json(instances: Sequence[Any], schema: Schema) -> list[str]:
    """Each instance as JSON by feature name, with the values that were sent."""
    return [_text(schema, schema.in_order(each) or ()) for each in instances]


def texts_of_rows(X: np.ndarray, schema: Schema) -> list[str]:
    """The same of encoded rows: categories never seen in training are missing here."""
    columns: list[list[Any]] = X.T.tolist()
    for j in schema.categorical:
        words = schema.features[j].categories
        columns[j] = [None if code != code else words[int(code)] for code in columns[j]]  # noqa: PLR0124 - NaN
    return [_text(schema, row) for row in zip(*columns, strict=True)]


def _text(schema: Schema, values: Sequence[Any]) -> str:
    return orjson.dumps(dict(zip(schema.names, values, strict=True))).decode()
