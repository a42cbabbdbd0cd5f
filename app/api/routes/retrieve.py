"""`POST /retrieve`: the set with the smallest expected loss."""

from collections.abc import Callable

from fastapi import Request, Response

from app.answering.predict import Rows, check_one_source, strange_values
from app.api.bodies import (
    checked,
    media_type_of_answer,
    media_type_of_body,
    read_query,
    refuse_query,
)
from app.api.charts import SVG_CONTENT
from app.api.codecs.answers import NOTHING
from app.api.codecs.json import parsed
from app.api.codecs.media_types import NPY, SVG
from app.api.codecs.npy import rows_of_npy
from app.api.codecs.sets import WRITERS, common, sets_of_list, sets_of_npy
from app.api.dependencies import loaded
from app.api.errors import problems
from app.api.exchange import charge_of
from app.api.gate import PREDICT, needs
from app.api.limiters import limiters
from app.api.memory import NUMBER
from app.api.routes.predict import encoded
from app.api.routing import DirectRoute
from app.registry.loaded import Loaded
from app.requests.losses import RetrieveAnswer, RetrieveFields, RetrieveRequest, Sets

_TEXT_FIELDS = ("model", "setting", "method")

_PER_SET, _PER_ITEM, _PER_MARGINAL = 50, 6, 3  # numbers in memory, from the request to the answer
_VECTORS = 2**20  # numbers, of one instance at a time, with the most trees
_LAWS = 2**23  # numbers, of the loss `mcc` for four of the largest sets at a time


@needs(PREDICT)
async def retrieve(request: Request) -> Response:
    """Choose the set whose expected loss is smallest, exactly, whatever its size.

    For a metric such as F1 the best cut on probabilities is not 1/2: it depends on all the probabilities together. The
    answer holds the items to retrieve, best first, with the expected loss, precision and recall of the set, and a bound
    on the error of the computation.

    Long lists of probabilities go faster as a NumPy array (`application/x-npy`: one dimension is a set, two are a set
    per row); then the other fields are query parameters, each as JSON. With `model` among them such a body holds
    instances, as in `/predict`. With `Accept: image/svg+xml` the answer is a chart of the curves.
    """
    kind = media_type_of_body(request, (NPY,))
    body = await request.body()
    asked, sets, rows = await limiters(request).retrieve.run(request, _read, kind, body, request)
    model = None if asked.model is None else await loaded(request, asked.model)
    return await limiters(request).retrieve.run(request, _answer, request, asked, sets, rows, model)


_RowsOf = Callable[[Loaded], Rows]


def _read(kind: str, body: bytes, request: Request) -> tuple[RetrieveFields, Sets | None, _RowsOf]:
    """The request, read as far as possible without the model: it has either sets, or a model for its rows."""
    charge = charge_of(request)
    if kind == NPY:
        asked = read_query(request, RetrieveFields, _TEXT_FIELDS)
        sets = None if asked.model else sets_of_npy(body, charge)
        return asked, sets, lambda model: rows_of_npy(body, model.schema, charge)
    refuse_query(request)
    wire = checked(RetrieveRequest, parsed(body, charge))
    sets = None if wire.probabilities is None else sets_of_list(wire.probabilities)
    check_one_source(
        wire.model, probabilities=sets is not None, instances=wire.instances is not None
    )
    return wire, sets, lambda model: encoded(wire.instances, True, NOTHING, model, ())[0]


def _answer(
    request: Request, asked: RetrieveFields, sets: Sets | None, rows: _RowsOf, model: Loaded | None
) -> Response:
    """The response, computed in a thread; kernels hold no lock."""
    from app.answering import retrieve as usecase  # noqa: PLC0415 - it loads the compiler, which takes 60 MB of memory

    form = media_type_of_answer(request, WRITERS)
    asked.curve |= form == SVG  # it is what the chart shows
    if model is not None:
        X, warnings, *_ = rows(model)
        _charge(request, asked, len(X), len(X) * len(model.classes))
        warnings = [*warnings, *strange_values(model, X)]
        answer = usecase.retrieve_with(model, X, asked, warnings)
    else:
        assert sets is not None
        _charge(request, asked, len(sets.sizes), len(sets.p))
        answer = usecase.retrieve(sets, asked)
    return WRITERS[form](answer, common(answer, asked, model))


def _charge(request: Request, asked: RetrieveFields, sets: int, items: int) -> None:
    """Hold the memory for the work on so many sets with so many items in all."""
    numbers = _PER_SET * sets + (_PER_ITEM + _PER_MARGINAL * asked.marginals) * items
    numbers += _VECTORS * (asked.method == "sampled") + _LAWS * (asked.loss.name == "mcc")
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
