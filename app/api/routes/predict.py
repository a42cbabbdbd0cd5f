"""`POST /predict`. It is called most, so it reads and writes its bodies itself."""

from collections.abc import Callable, Collection
from functools import partial

from fastapi import Request, Response

from app.access.caller import Caller
from app.answering import predict as usecase
from app.answering.decide import SHORT_NUMBERS, extent, is_short
from app.answering.predict import (
    PredictAnswer,
    PredictQuestion,
    PredictRequest,
    classes_of,
    extent_in_memory,
)
from app.api.bodies import media_type_of_answer, media_type_of_body, with_matrix
from app.api.codecs.answers import WRITTEN, Answered, encode
from app.api.codecs.media_types import JSON, NPY, TABULAR
from app.api.codecs.predict_bodies import (
    PredictBody,
    PredictTable,
    body_of_columns,
    predict_body,
    question_of,
)
from app.api.codecs.tables import unpacked
from app.api.errors import problems
from app.api.exchange import caller_of, charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import Pace, loaded, pace_of, run
from app.api.routing import DirectRoute
from app.api.service import Service
from app.outcomes.decision import Batch
from app.registry.loaded import Loaded
from app.stores import Stores
from payoff.errors import Invalid
from payoff.learners.background import DRAWS

_READERS = (NPY, *TABULAR)
_LONG_NUMBERS = 500_000  # of an answer; more take tenths of a second
# with explanations, whose trees take up to a second for so many
_LONG_EXPLAINED_NUMBERS = 1_000
# rows of a model of numbers; their distributions take up to a second
_LONG_DISTRIBUTIONS = 500


def pace_of_answer(question: PredictQuestion, model: Loaded | None, size: int) -> Pace:
    """Where a question with a body of so many bytes is answered. TooLarge as `extent`."""
    fields = question.fields
    n = len(question.rows.X)
    numbers = extent(fields, classes_of(model, fields), n)
    if question.rows.warnings:  # perhaps of gaps, which are filled in several ways
        numbers *= DRAWS
    if model is not None and model.regression and fields.of_numbers:
        is_long = n > _LONG_DISTRIBUTIONS
        is_quick = False
    else:
        is_long = (
            numbers > _LONG_NUMBERS
            or bool(fields.resources)
            or (bool(fields.limits) and numbers > SHORT_NUMBERS)
            or (bool(fields.explain) and numbers > _LONG_EXPLAINED_NUMBERS)
        )
        is_quick = is_short(fields, numbers)
    pace = pace_of(size)
    if is_long or pace == "long":
        return "long"
    is_inline = is_quick and (model is None or model.inline)
    return pace if is_inline else "in a thread"


def answer_to(
    stores: Stores,
    caller: Caller,
    model: Loaded | None,
    question: PredictQuestion,
    form: str,
) -> tuple[Answered, Batch | None]:
    """The answer, for a media type, and the decisions to be recorded before it is sent."""
    if question.fields.explain and form != JSON:
        raise Invalid.at("/explain", "explanations come in JSON answers alone")
    answer, batch = usecase.predict(stores, caller, model, question)
    carried = question.rows.carried
    if batch is not None:
        if form == NPY and carried.id is None:
            raise Invalid.at(
                "/record",
                "an array of numbers has no place for the ids; ask for JSON or a table",
            )
        carried = carried.with_ids([row.id for row in batch.rows])
    return Answered(answer, model, carried), batch


async def answered(
    request: Request,
    size: int,
    read: Callable[[], PredictBody],
    forms: Collection[str] = WRITTEN,
    write: Callable[[str, Answered], Response] = encode,
) -> Response:
    """The answer to the body of `size` bytes that `read` decodes, once its decisions are recorded.

    `write` makes the response in one of the media types `forms`.
    """
    body = await run(request, pace_of(size), read)
    reference = body.fields.model
    model = None if reference is None else await loaded(request, reference)
    form = media_type_of_answer(request, forms)
    service: Service = request.app.state.service
    question = await run(
        request, pace_of(size), partial(question_of, body, model, service.stores)
    )
    fields, rows, _ = question

    def work() -> tuple[Response, Batch | None]:
        charge_of(request)(extent_in_memory(model, fields, rows))
        answer, batch = answer_to(
            service.stores, caller_of(request), model, question, form
        )
        return with_matrix(write(form, answer), fields), batch

    response, batch = await run(request, pace_of_answer(question, model, size), work)
    if batch is not None:
        await service.stores.recorder.record(batch)
        # Challengers decide on no quantities.
        if model is not None and not model.regression:
            service.shadow.offer_recorded(batch, model, fields, rows)
    if model is not None:
        metrics = service.metrics.requests
        metrics.decisions_of(model.name, model.version).inc(len(rows.X))
    return response


# The route


@needs(PREDICT)
async def predict(request: Request) -> Response:
    """Decide for every instance which action pays most; or, with a model of numbers, predict them.

    A model of numbers takes `model` and `instances` alone: rules, benefits, costs and priors are
    for classes. `probabilities` and `classes` take the place of `model` and `instances` where
    another system has the model. The instances come as JSON, a NumPy array (`application/x-npy`,
    rows in feature order), or a table with columns by feature name: `text/csv`,
    `application/vnd.apache.parquet` or `application/vnd.apache.arrow.stream`. Beside these the
    other fields are query parameters, each as JSON. `Accept` chooses the format of the answer in
    the same way; where it names none of them the answer is JSON.
    """
    kind = media_type_of_body(request, _READERS)
    body = await request.body()
    if kind == JSON:
        return await answered(request, len(body), partial(predict_body, request, body))
    kind, body = await unpacked(request, kind, body)
    return await answered(
        request, len(body), partial(body_of_columns, request, kind, body)
    )


_EXAMPLE = {
    "model": "triage",
    "instances": [
        {"age": 58, "pressure": 141, "pain": "mild"},
        {"age": 36, "pressure": 118, "pain": "none"},
    ],
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
}
_RECORDED = _EXAMPLE | {
    "instances": [
        [58, 141, "mild"],
        [36, 118, "none"],
        [61, 150, "typical"],
        [40, 122, "none"],
    ],
    "record": {"ids": ["visit-1", "visit-2", "visit-3", "visit-4"], "instances": True},
}
_GIVEN = {
    "probabilities": [[0.9, 0.1], [0.4, 0.6]],
    "classes": ["healthy", "ill"],
    "benefits": {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}},
}
_COSTS = {
    "probabilities": [[0.9, 0.1], [0.4, 0.6]],
    "classes": ["healthy", "ill"],
    "cost_matrix": {
        "healthy": {"wait": 0, "treat": 1},
        "ill": {"wait": 10, "treat": -5},
    },
    "explain": True,
}
_BY_CASE = _GIVEN | {
    "benefits": {
        "healthy": {"wait": 0, "treat": {"column": "fee", "times": -1}},
        "ill": {"wait": -10, "treat": 5},
    },
    "columns": {"fee": [1, 4.5]},
}
_LIMITED = _GIVEN | {
    "probabilities": [[0.9, 0.1], [0.4, 0.6], [0.2, 0.8]],
    "limits": {"treat": 1},
}
route = DirectRoute(
    "/predict",
    predict,
    body_type=PredictRequest,
    examples={
        "the model above": _EXAMPLE,
        "probabilities of another system": _GIVEN,
        "costs, and what would change the decisions": _COSTS,
        "at most one treatment": _LIMITED,
        "a benefit that depends on the case": _BY_CASE,
        "recorded, for outcomes that come later": _RECORDED,
    },
    media_types=_READERS,
    query_type=PredictTable,
    tags=["predict"],
    summary="Which action pays most, or which number is to be expected, for each instance?",
    response_model=PredictAnswer,
    responses=problems(404, 409, 413, 415, 422),
)
