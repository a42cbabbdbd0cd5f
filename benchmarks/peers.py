"""The servers that `serving.py` compares with: `bare`, the limit, and `usual`, a route as people write one."""

import os
from typing import Annotated

import joblib
import numpy as np
import orjson
from fastapi import FastAPI
from pydantic import BaseModel, Field
from scipy.special import expit
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


def bare() -> Starlette:
    """One route that does the arithmetic of Payoff's `/predict` for the arrays in the file MODEL, and nothing else.

    It reads the same body and writes the same answer, with orjson. It checks nothing: no names, no types, no keys, no
    limits, no metrics, no log.
    """
    arrays = np.load(os.environ["MODEL"])
    columns, uppers, knots, coef, intercept = (
        arrays[name] for name in ("columns", "uppers", "knots", "coef", "intercept")
    )

    async def predict(request: Request) -> Response:
        asked = orjson.loads(await request.body())
        H = np.array(asked["instances"]).take(columns, axis=1)
        np.minimum(H, uppers, out=H)
        H -= knots
        np.maximum(H, 0.0, out=H)
        z = H.dot(coef)
        z += intercept
        P = expit(np.concatenate((-z, z), axis=1))
        E = P.dot(np.array(asked["benefits"], dtype=np.float64))
        answer = {
            "model": {"name": "bench", "version": 1},
            "rule": "expected_benefit",
            "classes": [0, 1],
            "actions": [0, 1],
            "decisions": E.argmax(axis=1),
            "probabilities": P,
            "expected_benefits": E,
            "warnings": [],
        }
        return Response(orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")

    return Starlette(routes=[Route("/predict", predict, methods=["POST"])])


class Instances(BaseModel):
    instances: Annotated[list[list[float]], Field(min_length=1)]


class Predicted(BaseModel):
    predictions: list[int]
    probabilities: list[list[float]]


def usual() -> FastAPI:
    """FastAPI and the scikit-learn pipeline in the file PIPELINE."""
    pipeline = joblib.load(os.environ["PIPELINE"])
    app = FastAPI()

    @app.post("/predict")
    def predict(request: Instances) -> Predicted:
        P = pipeline.predict_proba(np.array(request.instances))
        return Predicted(predictions=P.argmax(axis=1).tolist(), probabilities=P.tolist())

    return app
