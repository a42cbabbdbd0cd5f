"""The baseline of `serving.py`: a prediction route as people usually write one with FastAPI and scikit-learn."""

import os
from typing import Annotated

import joblib
import numpy as np
from fastapi import FastAPI
from pydantic import BaseModel, Field

pipeline = joblib.load(os.environ["PIPELINE"])
app = FastAPI()


class Request(BaseModel):
    instances: Annotated[list[list[float]], Field(min_length=1)]


class Answer(BaseModel):
    predictions: list[int]
    probabilities: list[list[float]]


@app.post("/predict")
def predict(request: Request) -> Answer:
    P = pipeline.predict_proba(np.array(request.instances))
    return Answer(predictions=P.argmax(axis=1).tolist(), probabilities=P.tolist())
