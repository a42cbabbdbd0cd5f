"""Answers to `POST /predict` and to its forms in other words: decided by a model, or by probabilities as they come."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
from fastapi import Request, Response
from starlette.concurrency import run_in_threadpool

from app.api.bodies import instances, predicted_values
from app.api.bodies.carried import Carried
from app.api.bodies.documents import media_type_of_answer, run_sized
from app.api.bodies.json_bodies import INLINE_BYTES, INLINE_NUMBERS
from app.api.bodies.media_types import JSON
from app.api.deps import cached, loaded
from app.api.middleware.limiters import limiters
from app.api.middleware.memory import share
from app.errors import Invalid
from app.features import Schema
from app.registry.loaded import Loaded
from app.usecases import predict as usecase
from app.usecases.predict_values import predict_values
from app.usecases.probabilities import Probabilities
from app.usecases.ranges import strange_values

_LONG_NUMBERS = 500_000  # of an answer; one with more takes tenths of a second
_EXPLAINED_NUMBERS = 1000  # of an answer with explanations by a model, whose trees take up to a second
_BYTES_PER_CONTRIBUTION = 200  # of memory, for each feature of each instance
_BYTES_PER_NUMBER = 70  # of memory, from the rows to the answer
_BYTES_FOR_LIMITS = 60  # more, for each of these numbers, where there are limits


async def answered(request: Request, size: int, read: Callable[[], Asked]) -> Response:
    """The answer to what `read` finds in a body of `size` bytes, computed in a thread where it takes long."""
    if size > INLINE_BYTES:
        return await run_sized(request, size, lambda: _answer(request, read()))
    asked = read()
    model = None if asked.given is not None else cached(request, asked.model)
    if asked.given is None and (model is None or not model.inline):
        return await run_in_threadpool(_answer, request, asked)
    ready = _ready(request, asked, model)
    limited, explained = asked.question.constraints, asked.question.explain and model is not None
    decided = partial(_decide, request, asked, ready)
    slow = limited and (limited.resources or ready.numbers > INLINE_NUMBERS)
    if ready.numbers > _LONG_NUMBERS or slow or (explained and ready.numbers > _EXPLAINED_NUMBERS):
        return await limiters(request).long.run(decided)
    in_thread = limited or explained or ready.numbers > INLINE_NUMBERS
    return await run_in_threadpool(decided) if in_thread else decided()


class Writers(NamedTuple):
    """What writes decisions, and what writes numbers, in each media type."""

    decisions: Mapping[str, Callable[[usecase.Answer, Loaded | None, Carried], Response]]
    values: Mapping[str, Callable[[np.ndarray, Loaded, list[str], Carried], Response]]


_WRITERS = Writers(instances.WRITERS, predicted_values.WRITERS)


@dataclass(frozen=True)
class Asked:
    """A request, read as far as possible without the model: its name and rows, or the probabilities `given`.

    Both with what comes back.
    """

    question: usecase.Question
    model: str = ""
    rows: Callable[[Schema], tuple[instances.Rows, Carried]] | None = None
    given: tuple[Probabilities, Carried] | None = None
    writers: Writers = _WRITERS


class _Ready(NamedTuple):
    """How many numbers the answer will hold, and what decides and writes it in a media type."""

    numbers: int
    answer: Callable[[str], Response]


def _answer(request: Request, asked: Asked) -> Response:
    """In a thread: the model may have to be loaded, and the rows may be many."""
    model = None if asked.given is not None else loaded(request, asked.model)
    return _decide(request, asked, _ready(request, asked, model))


def _ready(request: Request, asked: Asked, model: Loaded | None) -> _Ready:
    question = asked.question
    if model is None:
        assert asked.given is not None
        given, carried = asked.given
        numbers = usecase.extent(given.classes, question, len(given.P))
        return _Ready(numbers, partial(_by_given, asked, given, carried))
    assert asked.rows is not None
    rows, carried = asked.rows(model.schema)
    numbers = usecase.extent(model.classes, question, len(rows[0]))
    return _Ready(numbers, partial(_by_model, request, asked, model, rows, carried))


def _decide(request: Request, asked: Asked, ready: _Ready) -> Response:
    question = asked.question
    form = media_type_of_answer(request, asked.writers.decisions)
    if question.explain and form != JSON:
        raise Invalid.at("/explain", "explanations come in JSON answers alone")
    if ready.numbers > INLINE_NUMBERS:
        share(request).reserve(ready.numbers * _BYTES_PER_NUMBER)
    if question.constraints is not None:
        share(request).reserve(ready.numbers * _BYTES_FOR_LIMITS)
        request.app.state.kernels.wait("decisions")
    return ready.answer(form)


def _by_given(asked: Asked, given: Probabilities, carried: Carried, form: str) -> Response:
    return asked.writers.decisions[form](usecase.decide_given(given, asked.question), None, carried)


def _by_model(
    request: Request, asked: Asked, model: Loaded, rows: instances.Rows, carried: Carried, form: str
) -> Response:
    X, warnings = rows
    if asked.question.explain:
        share(request).reserve(X.size * _BYTES_PER_CONTRIBUTION)
        request.app.state.kernels.wait("decisions")
    if form == JSON:  # the other forms are for many rows, fast
        warnings += strange_values(model, X)
    if model.regression:
        answer = asked.writers.values[form](predict_values(model, X, asked.question), model, warnings, carried)
    else:
        answer = asked.writers.decisions[form](usecase.predict(model, X, asked.question, warnings), model, carried)
    request.app.state.metrics.requests.decided(model.name, model.version, len(X))
    return answer
