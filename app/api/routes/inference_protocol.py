"""The Open Inference Protocol v2 (KServe, Triton, MLServer): `/predict` in the words of other
clients.

https://github.com/kserve/open-inference-protocol
"""

import math
import re
from functools import partial
from typing import Annotated

import orjson
from fastapi import APIRouter, Body, Request, Response
from fastapi.concurrency import run_in_threadpool

from app import __version__
from app.answering.decide import Answer
from app.api.codecs.answers import Answered
from app.api.codecs.inference import (
    BYTES,
    Datatype,
    InferAnswer,
    InferRequest,
    ModelMetadata,
    ModelReady,
    ServerMetadata,
    TensorMetadata,
    encode,
    instances_of,
)
from app.api.codecs.media_types import JSON
from app.api.codecs.predict_bodies import JsonInstances
from app.api.dependencies import StoresDep
from app.api.errors import problems
from app.api.exchange import charge_of
from app.api.gate import ANY_KEY, OPEN, PREDICT, PREDICT_OR_TRAIN, needs
from app.api.limiters import limiters, loaded_by_path
from app.api.memory import Charge
from app.api.routes.health import check_ready
from app.api.routes.models import ModelReference
from app.api.routes.predict import answered
from app.api.routing import StrictRoute
from app.registry.loaded import Loaded
from app.registry.snapshot import NUMBER
from app.tables.notations import BOOLEAN
from payoff.errors import Invalid

router = APIRouter(prefix="/v2", tags=["inference protocol"], route_class=StrictRoute)
_NUMBER_BYTES = 10  # about, of JSON
_DATATYPES: dict[str, Datatype] = {"categorical": BYTES, BOOLEAN: "BOOL"}
_NO_MATRIX = "no benefits were sent: the decisions are the most probable classes"


@router.get("/health/live", include_in_schema=False)
@needs(OPEN)
async def v2_live() -> dict[str, bool]:
    return {"live": True}


@router.get("/health/ready", include_in_schema=False)
@needs(OPEN)
async def v2_ready(request: Request, stores: StoresDep) -> dict[str, bool]:
    await limiters(request).health.run(request, check_ready, request, stores)
    return {"ready": True}


@router.get("", summary="The server and its extensions of the protocol")
@needs(ANY_KEY)
async def v2_server() -> ServerMetadata:
    return ServerMetadata(
        name="payoff", version=__version__, extensions=["binary_tensor_data"]
    )


@router.get(
    "/models/{ref}",
    summary="The inputs and outputs of a model",
    responses=problems(404, 409),
)
@router.get("/models/{ref}/versions/{version}", include_in_schema=False)
@needs(PREDICT_OR_TRAIN)
async def v2_model(
    ref: ModelReference, request: Request, stores: StoresDep
) -> ModelMetadata:
    model = await loaded_by_path(request, _reference(request, ref))
    described = await run_in_threadpool(stores.registry.index.model, model.name)
    inputs = [
        TensorMetadata(
            name=part.name,
            datatype=_DATATYPES.get(part.form or part.type, "FP64"),
            shape=[-1],
        )
        for part in model.card.features
    ]
    return ModelMetadata(
        name=model.name,
        versions=[str(line.version) for line in reversed(described.versions)],
        platform=f"payoff_{model.card.learner.kind}",
        inputs=inputs,
        outputs=_outputs(model),
        parameters={
            "version": str(model.version),
            "classes": orjson.dumps(model.classes).decode(),
        },
    )


@router.get(
    "/models/{ref}/ready", summary="Can a model answer?", responses=problems(404, 409)
)
@router.get("/models/{ref}/versions/{version}/ready", include_in_schema=False)
@needs(PREDICT_OR_TRAIN)
async def v2_model_ready(ref: ModelReference, request: Request) -> ModelReady:
    return ModelReady(
        name=(await loaded_by_path(request, _reference(request, ref))).name, ready=True
    )


def _reference(request: Request, ref: str) -> str:
    """The model reference of a path, of which the version may be a number or an alias."""
    version = request.path_params.get("version")
    if version is None:
        return ref
    separator = ":" if re.fullmatch(NUMBER, version) else "@"
    return f"{ref}{separator}{version}"


_EXAMPLE = {
    "id": "1",
    "inputs": [
        {"name": "age", "datatype": "FP64", "shape": [2], "data": [58, 36]},
        {"name": "pressure", "datatype": "FP64", "shape": [2], "data": [141, 118]},
        {"name": "pain", "datatype": "BYTES", "shape": [2], "data": ["mild", "none"]},
    ],
    "parameters": {"benefits": "[[0, -1], [-10, 5]]", "actions": '["wait", "treat"]'},
    "outputs": [{"name": "decisions"}, {"name": "expected_benefits"}],
}


@router.post(
    "/models/{ref}/infer",
    summary="Decide for each row (Open Inference Protocol)",
    response_model=InferAnswer,
    responses=problems(404, 409, 413, 415, 422, 503),
)
@router.post("/models/{ref}/versions/{version}/infer", include_in_schema=False)
@needs(PREDICT)
async def v2_infer(
    ref: ModelReference,
    body: Annotated[
        InferRequest, Body(openapi_examples={"the model above": {"value": _EXAMPLE}})
    ],
    request: Request,
) -> Response:
    """The question of `/predict` as tensors: `inputs` are one matrix [n, features], or one tensor
    per feature, named after it. `parameters` has the other fields, structures as JSON or as text
    that holds JSON.

    Without `benefits`, `cost_matrix` and `rule` the decisions are the most probable classes. The
    outputs are `decisions`, `probabilities` and, with a matrix, `expected_benefits`; a model of
    numbers has `values`.
    """
    size = _NUMBER_BYTES * sum(math.prod(tensor.shape) for tensor in body.inputs)
    read = partial(_predict_body, body, _reference(request, ref), charge_of(request))
    return await answered(request, size, read, (JSON,), partial(_encode, body))


def _predict_body(document: InferRequest, model: str, charge: Charge) -> JsonInstances:
    """The question to a model as a body of `/predict`."""
    fields = document.question()
    outputs = document.outputs or []
    if len({output.name for output in outputs}) < len(outputs):
        raise Invalid.at("/outputs", "two outputs have the same name")
    instances = instances_of(document.inputs, charge)
    return JsonInstances(fields.model_copy(update={"model": model}), instances)


def _encode(document: InferRequest, _form: str, answered: Answered) -> Response:
    answer = answered.answer
    has_rule = "rule" in (document.parameters or {})
    is_default = (
        isinstance(answer, Answer) and answer.rule == "most_probable" and not has_rule
    )
    notes = [_NO_MATRIX] if is_default else []
    return encode(answered, document, notes=notes)


def _outputs(model: Loaded) -> list[TensorMetadata]:
    """None of a model of several labels, which `/retrieve` answers for."""
    if model.regression:
        return [TensorMetadata(name="values", datatype="FP64", shape=[-1])]
    if model.multilabel:
        return []
    posterior = TensorMetadata(
        name="probabilities", datatype="FP64", shape=[-1, len(model.classes)]
    )
    return [
        TensorMetadata(name="decisions", datatype=BYTES, shape=[-1]),
        *([] if model.rewarded else [posterior]),
        TensorMetadata(name="expected_benefits", datatype="FP64", shape=[-1, -1]),
    ]
