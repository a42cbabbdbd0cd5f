"""`POST /retrieve`: the set with the smallest expected loss."""

from collections.abc import Callable
from typing import NamedTuple

from fastapi import Request, Response

from app.answering.predict import check_one_source
from app.api.bodies import (
    checked,
    media_type_of_answer,
    media_type_of_body,
    read_query,
    refuse_query,
)
from app.api.charts import SVG_CONTENT
from app.api.codecs.json import parsed
from app.api.codecs.media_types import NPY, SVG
from app.api.codecs.npy import rows_of_npy
from app.api.codecs.sets import WRITERS, common, sets_of_list, sets_of_npy
from app.api.errors import problems
from app.api.exchange import charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import limiters, loaded
from app.api.memory import NUMBER
from app.api.routing import DirectRoute
from app.registry.loaded import Loaded
from app.requests.losses import RetrieveAnswer, RetrieveFields, RetrieveRequest, Sets
from app.requests.rows import Rows, encode_instances
from app.requests.strange_values import strange_values

_TEXT_FIELDS = ("model", "setting", "method")

# Numbers in memory, from the request to the answer
_PER_SET = 50
_PER_ITEM = 6
_PER_MARGINAL = 3
_OF_LABEL_VECTORS = 2**20  # of one instance at a time, with the maximum number of trees
_OF_MCC = 2**23  # of the loss `mcc` for four of the largest sets at a time


@needs(PREDICT)
async def retrieve(request: Request) -> Response:
    """Choose the set whose expected loss is smallest, exactly, whatever its size.

    For a metric such as F1 the best cut on probabilities is not 1/2: it depends on all the
    probabilities together. The answer holds the items to retrieve, best first, with the expected
    loss, precision and recall of the set, and a bound on the error of the computation.

    Long lists of probabilities go faster as a NumPy array (`application/x-npy`: one dimension is a
    set, two are a set per row); then the other fields are query parameters, each as JSON. With
    `model` among them such a body holds instances, as in `/predict`. With `Accept: image/svg+xml`
    the answer is a chart of the curves.
    """
    kind = media_type_of_body(request, (NPY,))
    body = await request.body()
    threads = limiters(request).retrieve
    question = await threads.run(request, _read, request, kind, body)
    reference = question.fields.model
    model = None if reference is None else await loaded(request, reference)
    return await threads.run(request, _answer, request, question, model)


class _Question(NamedTuple):
    """A request, read as far as possible without the model: `sets`, or the function that makes the
    `rows` for a model.
    """

    fields: RetrieveFields
    sets: Sets | None
    rows: Callable[[Loaded], Rows]


def _read(request: Request, kind: str, body: bytes) -> _Question:
    charge = charge_of(request)
    if kind == NPY:
        query = read_query(request, RetrieveFields, _TEXT_FIELDS)
        sets = None if query.model else sets_of_npy(body, charge)
        return _Question(
            query, sets, lambda model: rows_of_npy(body, model.schema, charge)
        )
    refuse_query(request)
    fields = checked(RetrieveRequest, parsed(body, charge))
    instances = fields.instances
    sets = None if fields.probabilities is None else sets_of_list(fields.probabilities)
    check_one_source(
        fields.model, probabilities=sets is not None, instances=instances is not None
    )
    return _Question(
        fields,
        sets,
        lambda model: encode_instances(model, instances, (), has_booleans=True),
    )


def _answer(request: Request, question: _Question, model: Loaded | None) -> Response:
    """The response, computed in a thread; kernels hold no lock."""
    # This import loads the compiler, which takes 60 MB of memory.
    from app.answering import retrieve as usecase  # noqa: PLC0415

    fields, sets, rows = question
    media_type = media_type_of_answer(request, WRITERS)
    fields.curve |= media_type == SVG  # the chart shows the curve
    if model is not None:
        X, warnings, *_ = rows(model)
        _charge(request, fields, len(X), len(X) * len(model.classes))
        warnings = [*warnings, *strange_values(model, X)]
        answer = usecase.retrieve_with(model, X, fields, warnings)
    else:
        assert sets is not None
        _charge(request, fields, len(sets.sizes), len(sets.p))
        answer = usecase.retrieve(sets, fields)
    return WRITERS[media_type](answer, common(answer, fields, model))


def _charge(request: Request, fields: RetrieveFields, sets: int, items: int) -> None:
    """Hold the memory for the work on so many sets with so many items in all."""
    numbers = _PER_SET * sets + (_PER_ITEM + _PER_MARGINAL * fields.marginals) * items
    if fields.method == "sampled":
        numbers += _OF_LABEL_VECTORS
    if fields.loss.name == "mcc":
        numbers += _OF_MCC
    charge_of(request)(numbers, NUMBER)


_PATIENTS = {
    "model": "triage",
    "instances": [
        {"age": 58, "pressure": 141, "pain": "mild"},
        {"age": 36, "pressure": 118, "pain": "none"},
        {"age": 51, "pressure": 133, "pain": "mild"},
    ],
    "setting": "binary",
    "loss": {"name": "f_beta", "beta": 1},
}
_RAGGED = {
    "probabilities": [[0.9, 0.4, 0.35], [0.6, 0.45, 0.4, 0.1]],
    "setting": "multilabel",
    "loss": {"name": "jaccard"},
    "k_max": 2,
    "curve": True,
    "marginals": True,
}
_CLASSES = {
    "probabilities": [[0.5, 0.3, 0.2], [0.9, 0.06, 0.04]],
    "setting": "multiclass",
    "loss": {"name": "f_beta", "beta": 2},
    "k_min": 1,
}
route = DirectRoute(
    "/retrieve",
    retrieve,
    body_type=RetrieveRequest,
    examples={
        "instances of the model above": _PATIENTS,
        "labels of two articles, with curves": _RAGGED,
        "sets of classes that hold the true one": _CLASSES,
    },
    media_types=(NPY,),
    query_type=RetrieveFields,
    tags=["retrieve"],
    summary="Which set of items has the smallest expected loss?",
    response_model=RetrieveAnswer,
    response_model_exclude_none=True,
    responses={
        200: {"content": SVG_CONTENT},
        **problems(404, 409, 413, 415, 422, 503),
    },
)
