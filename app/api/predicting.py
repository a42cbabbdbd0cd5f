"""Answers to `POST /predict` and to its forms in other words: decided by a model, or by probabilities as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.bodies.recording import carrying, with_ids_of
from app.api.budget import share
from app.api.codecs import answers
from app.api.codecs.carried import Carried, without
from app.api.codecs.json import INLINE_BYTES, INLINE_NUMBERS
from app.api.codecs.media_types import JSON, NPY, media_type_of_answer
from app.api.codecs.rows import Rows
from app.api.deps import loaded, naming, ports, who
from app.api.limiters import limiters
from app.api.routing import run_sized
from app.errors import Invalid
from app.features import Schema
from app.outcomes.decided import Batch
from app.registry.loaded import Loaded
from app.registry.saved_matrices import Saved
from app.usecases import predict as usecase
from app.usecases import record as recording
from app.usecases.explore import explored
from app.usecases.predict_values import predict_values
from app.usecases.probabilities import Probabilities
from app.usecases.ranges import strange_values
from app.usecases.saved_matrices import as_named, meant

_LONG_NUMBERS = 500_000  # of an answer; one with more takes tenths of a second
_EXPLAINED_NUMBERS = 1000  # of an answer with explanations by a model, whose trees take up to a second
_BYTES_PER_CONTRIBUTION = 200  # of memory, for each feature of each instance
_BYTES_PER_NUMBER = 70  # of memory, from the rows to the answer
_BYTES_FOR_LIMITS = 60  # more, for each of these numbers, where there are limits
_BYTES_PER_RECORD = 1500  # of memory, until it is stored
_BYTES_PER_TOLD = 120  # of a value of an instance that is recorded with its name: as an object, and as text
_FEW_RECORDS = 200  # which take less than a millisecond
_Answered = tuple[Response, Batch | None]


async def answered(request: Request, size: int, read: Callable[[], Asked]) -> Response:
    """The answer to what `read` finds in a body of `size` bytes, once its decisions are recorded if they are to be."""
    response, batch = await _computed(request, size, read)
    if batch is not None:
        await ports(request).recorder.record(batch)
    return response


async def _computed(request: Request, size: int, read: Callable[[], Asked]) -> _Answered:
    """The same before it is recorded, computed in a thread where it takes long."""
    asked = await run_sized(request, size, read)
    model = None if asked.given is not None else await loaded(request, asked.model)
    if size > INLINE_BYTES:
        return await run_sized(request, size, partial(_answer, request, asked, model))
    if model is not None and not model.inline:
        return await run_in_threadpool(_answer, request, asked, model)
    ready = _ready(request, asked, model)
    limited, explained = asked.question.constraints, asked.question.explain
    decided = partial(_decide, request, asked, ready)
    slow = limited and (limited.resources or ready.numbers > INLINE_NUMBERS)
    if ready.numbers > _LONG_NUMBERS or slow or (explained and ready.numbers > _EXPLAINED_NUMBERS):
        return await limiters(request).long.run(decided)
    estimated = asked.question.priors == "estimate"  # which takes some time
    in_thread = limited or explained or estimated or ready.numbers > INLINE_NUMBERS
    return await run_in_threadpool(decided) if in_thread else decided()


class Writers(NamedTuple):
    """What writes decisions, and what writes numbers, in each media type."""

    decisions: Mapping[str, Callable[[usecase.Answer, Loaded | None, Carried], Response]]
    values: Mapping[str, Callable[[np.ndarray, Loaded, list[str], Carried], Response]]


_WRITERS = Writers(answers.WRITERS, answers.VALUES)


@dataclass(frozen=True)
class Asked:
    """A request, read as far as possible without the model: its name and rows, or the probabilities `given`.

    Both with what comes back.
    """

    question: usecase.Question
    model: str = ""
    rows: Callable[[Schema], tuple[Rows, Carried]] | None = None
    given: tuple[Probabilities, Carried] | None = None
    writers: Writers = _WRITERS
    record: recording.Wish | None = None
    instances: Sequence[Any] | None = None  # as JSON had them


class _Ready(NamedTuple):
    """How many numbers the answer will hold, and what decides and writes it in a media type."""

    numbers: int
    answer: Callable[[str], _Answered]


def _answer(request: Request, asked: Asked, model: Loaded | None) -> _Answered:
    """In a thread: the rows may be many."""
    return _decide(request, asked, _ready(request, asked, model))


def _ready(request: Request, asked: Asked, model: Loaded | None) -> _Ready:
    question = asked.question
    if model is None:
        assert asked.given is not None
        given, carried = asked.given
        numbers = usecase.extent(given.classes, question, len(given.P))
        return _Ready(numbers, partial(_by_given, asked, given, carried))
    saved = None
    if isinstance(question.benefits, str) and not model.multilabel:
        question, saved = meant(ports(request), question, model.name, model.classes)
        asked = replace(asked, question=question)
    assert asked.rows is not None
    rows, carried = asked.rows(model.schema)
    numbers = usecase.extent(model.classes, question, len(rows[0]))
    answer = partial(_by_model, request, asked, model, rows, carried)
    return _Ready(numbers, answer if saved is None else partial(_by_saved, saved, answer))


def _decide(request: Request, asked: Asked, ready: _Ready) -> _Answered:
    question = asked.question
    form = media_type_of_answer(request, asked.writers.decisions)
    if question.explain and form != JSON:
        raise Invalid.at("/explain", "explanations come in JSON answers alone")
    if ready.numbers > INLINE_NUMBERS:
        share(request).reserve(ready.numbers * _BYTES_PER_NUMBER)
    if question.constraints is not None:
        share(request).reserve(ready.numbers * _BYTES_FOR_LIMITS)
    return ready.answer(form)


def _by_saved(saved: Saved, answer: Callable[[str], _Answered], form: str) -> _Answered:
    """The answer by a saved matrix, which it names."""
    with as_named(saved):
        response, batch = answer(form)
    return naming(response, saved), batch


def _by_given(asked: Asked, given: Probabilities, carried: Carried, form: str) -> _Answered:
    if asked.question.explore is not None or (asked.record is not None and asked.record.wanted):
        place = "/record" if asked.record is not None else "/explore"
        raise Invalid.at(place, "decisions are recorded by model, and this request has none")
    return asked.writers.decisions[form](usecase.decide_given(given, asked.question), None, carried), None


def _by_model(request: Request, asked: Asked, model: Loaded, rows: Rows, carried: Carried, form: str) -> _Answered:
    X, warnings = rows
    batch = None
    if asked.question.explain:
        share(request).reserve(X.size * _BYTES_PER_CONTRIBUTION)
    if form == JSON:  # the other forms are for many rows, fast
        warnings += strange_values(model, X)
    if model.regression:
        _refuse_for_numbers(asked, model)
        response = asked.writers.values[form](predict_values(model, X, asked.question), model, warnings, carried)
    else:
        answer = usecase.predict(model, X, asked.question, warnings)
        if (wish := _wish(request, asked, model)) is not None:
            if form == NPY and carried.id is None:
                raise Invalid.at("/record", "an array of numbers has no place for the ids; ask for JSON or a table")
            answer, batch, carried = _recorded(request, wish, asked, model, X, answer, carried)
        elif asked.question.explore is not None:
            raise Invalid.at("/explore", 'exploration is for recorded decisions: send "record": true')
        response = asked.writers.decisions[form](answer, model, carried)
    request.app.state.metrics.requests.decided(model.name, model.version, len(X))
    return response, batch


def _wish(request: Request, asked: Asked, model: Loaded) -> recording.Wish | None:
    """What is to be recorded: by the request, else by the model's default; None for nothing."""
    wish = asked.record or recording.usual(ports(request).recorder.defaults.of(model.name))
    return wish if wish.wanted else None


def _recorded(
    request: Request, wish: recording.Wish, asked: Asked, model: Loaded, X: np.ndarray, answer: usecase.Answer,
    carried: Carried,
) -> tuple[usecase.Answer, Batch, Carried]:  # fmt: skip
    """The answer, with drawn actions where it is to explore; what is to be recorded of it, and what comes back."""
    wish = with_ids_of(wish, carried)
    if len(X) > _FEW_RECORDS:
        share(request).reserve(len(X) * _BYTES_PER_RECORD)
    recording.check_moment(ports(request), who(request), wish)
    ids = recording.ids_of(wish, len(X))
    if (share_ := asked.question.explore) is not None:
        answer = explored(answer, model.name, ids.ids, share_)
    if wish.instances and len(X) > _FEW_RECORDS:
        share(request).reserve(X.size * _BYTES_PER_TOLD)
    texts = partial(_texts, asked, model, X, carried) if wish.instances else None
    batch = recording.batch_of(model, asked.question, answer, ids, who(request), texts)
    batch = request.app.state.shadow.watched(batch, asked.model, model, asked.question, X)
    return answer, batch, carrying(carried, ids.ids)


def _texts(asked: Asked, model: Loaded, X: np.ndarray, carried: Carried) -> list[str]:
    """The instances as JSON."""
    if asked.instances is None:
        return recording.texts_of_rows(X, model.schema)
    return recording.texts_of_json(without(asked.instances, carried, model.schema.names), model.schema)


def _refuse_for_numbers(asked: Asked, model: Loaded) -> None:
    if asked.record is not None and asked.record.wanted:
        raise Invalid.at("/record", f"{model.name!r} predicts numbers; decisions are recorded, with actions or classes")
