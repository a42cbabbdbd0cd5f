"""The end of the tour: simulated days on held-out rows, with a fault put in, and the report that finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import numpy as np

from app.demo.service import answered, post
from app.outcomes.identity import DAY

_DAYS = 24
_BEFORE = 12  # days on which nothing is wrong
_CASES = 40  # of a day
_FACTOR = 0.6  # by which one instrument reads too low afterwards


def tell(
    client: httpx.Client,
    question: Mapping[str, Any],
    names: Sequence[str],
    X: np.ndarray,
    truth: Sequence[str],
    now: float,
) -> None:
    """Record decisions on `_DAYS` simulated days that end today, send their outcomes, and print what the report finds.

    Each day draws cases (n, m) from the held-out rows `X`; from the middle on the features that are called `worst` are
    read too low.
    """
    began = (now // DAY - _DAYS) * DAY
    half = began + _BEFORE * DAY
    broken = np.char.startswith(np.array(names, dtype=str), "worst")
    rng = np.random.default_rng(0)
    for day in range(_DAYS):
        rows = rng.integers(len(X), size=_CASES)
        seen = X[rows] * np.where(broken & (day >= _BEFORE), _FACTOR, 1.0)
        record = {"at": began + day * DAY + DAY / 2, "instances": True}
        answer = post(client, "/predict", json={**question, "instances": seen.tolist(), "record": record})
        outcomes = [{"id": id_, "truth": truth[row]} for id_, row in zip(answer["ids"], rows, strict=True)]
        post(client, "/outcomes", json={"outcomes": outcomes})
    print(f"POST /outcomes   {_DAYS} simulated days of {_CASES} decisions, with the truth; after {_BEFORE} days")
    print(f"                 one instrument reads {1 - _FACTOR:.0%} too low:")
    for words, since, until in (("before", began, half), ("after", half, now)):
        _show(client, question["model"], words, since, until)
    _show_drift(client, question["model"], began, now)


def _show(client: httpx.Client, model: str, words: str, since: float, until: float) -> None:
    report = _report(client, model, since, until)
    realised, expected = report["realised"], report["expected"]["mean_of_known"]
    interval = f"{realised['low']:.1f} to {realised['high']:.1f}" if realised["low"] is not None else "too few cases"
    verdict = report["verdict"].replace("_", " ")
    print(f"      {words:<7} expected {expected:6.1f}, realised {realised['mean']:6.1f} ({interval}): {verdict}")


def _show_drift(client: httpx.Client, model: str, since: float, until: float) -> None:
    features = _report(client, model, since, until)["drift"]["features"]
    drifted = [line["feature"] for line in features if line["drifted"]]
    print(f"      {len(drifted)} of {len(features)} measurements have drifted: {', '.join(drifted[:3])}, …")


def _report(client: httpx.Client, model: str, since: float, until: float) -> dict[str, Any]:
    return answered(client.get(f"/models/{model}/outcomes", params={"since": since, "until": until}))
