"""Small models that a service in this process trains without a process for each job."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import FastAPI

from app.usecases import train as training
from tests.servers.direct import Sent, ask, content_of

_ROWS = 48
_FEATURES = ["age", "pulse", "chol", "thal"]


def order(name: str, classes: Sequence[int | str]) -> dict[str, Any]:
    """The body of `POST /train`: four numbers, classes that overlap, nothing held out."""
    chance = np.random.default_rng(0)
    code = np.arange(_ROWS) % len(classes)
    X = (chance.normal([50, 70, 5, 0], [10, 8, 1, 2], (_ROWS, 4)) + 4 * code[:, None]).round(1)
    data = {"features": _FEATURES, "rows": X.tolist(), "labels": [classes[c] for c in code]}
    return {"model": name, "learner": {"kind": "logistic", "calibration": "none"}, "data": data, "holdout": 0}


UNHELD = order("unheld", ["healthy", "ill"])
NUMBERED = order("numbered", [0, 1, 7])


async def train(app: FastAPI, orders: Sequence[dict[str, Any]]) -> None:
    """Run the orders in this process: one of its own for each job takes seconds."""
    for each in orders:
        sent = Sent("POST", "/train", each)
        answer = await ask(app, sent, content_of(sent))
        assert answer.status == 202, answer
    ports = app.state.ports
    while job := ports.queue.claim("zoo"):
        await asyncio.to_thread(training.run, ports, job)
    ports.registry.refresh()
