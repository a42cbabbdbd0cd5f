"""A model with plain names for the documentation's pictures: saved matrices, an alias with a challenger, outcomes."""

from __future__ import annotations

import time
from typing import Any

import httpx
import numpy as np

from tests.conftest import trained, two_class_rows

BENEFITS = [[0, -4], [-4, 4]]
ACTIONS = ["wait", "treat"]
PRICES = {"age": 0.05, "pulse": 0.2, "pain": 0.1}
DAYS = 12
A_DAY = 50
CLAIMS = {
    "valid": {"pay": 10, "reject": -60, "refer": -5},
    "fake": {"pay": -40, "reject": 0, "refer": -5},
}
REASONS = {
    "amount": {"high": "The amount is high", "low": "The amount is low"},
    "days": {"low": "The contract is new", "high": "The contract is old"},
    "police report": {"any": "The report by the police"},
}
REFERRED = 12
_KNOWN_S = 1.2  # until every thread knows of the challenger


def prepare(client: httpx.Client) -> None:
    """`triage`, versions 1 (a forest) and 2 (a tree), in the service of `client`."""
    rows = two_class_rows(500, seed=2)
    for learner in (
        {"kind": "random_forest", "n_estimators": 10},
        {"kind": "cost_tree", "depth": 2},
    ):
        order = {
            "learner": learner,
            "data": rows,
            "feature_costs": PRICES,
            "benefits": BENEFITS,
            "actions": ACTIONS,
        }
        trained(client, {"model": "triage", **order})
    for benefits in (BENEFITS, [[0, -5], [-4, 4]]):
        saved = {"benefits": benefits, "actions": ACTIONS}
        client.put("/models/triage/matrices/autumn-2026", json=saved).raise_for_status()
    shadowed = {"version": 1, "shadow": ["triage:2"]}
    client.put("/models/triage/aliases/champion", json=shadowed).raise_for_status()
    text = "\n".join(
        [
            ",".join([*rows["features"], "diagnosis"]),
            *map(_line, rows["rows"], rows["labels"]),
        ]
    )
    form = {"label": "diagnosis", "name": "patients"}
    client.post(
        "/datasets", data=form, files={"file": ("patients.csv", text)}
    ).raise_for_status()
    time.sleep(_KNOWN_S)
    for day in range(1, DAYS + 1):
        _day(client, day)
    prepare_claims(client)


def prepare_claims(client: httpx.Client) -> None:
    """`claims`, of which a batch of 60 refers twelve to people."""
    order = {"model": "claims", "learner": {"kind": "logistic"}}
    trained(client, order | {"data": claim_rows(400, seed=3), "unit": "EUR"})
    client.put("/models/claims/reasons", json=REASONS).raise_for_status()
    rows = claim_rows(60, seed=4)
    instances = [dict(zip(rows["features"], row, strict=True)) for row in rows["rows"]]
    body = {
        "model": "claims",
        "instances": instances,
        "benefits": CLAIMS,
        "limits": {"refer": REFERRED},
        "record": {"ids": [f"claim-{i:02}" for i in range(60)], "instances": True},
    }
    client.post("/predict", json=body).raise_for_status()


def claim_rows(n: int, seed: int) -> dict[str, Any]:
    """Amounts, days since the contract began, whether there is a report, and which claims are fake."""
    rng = np.random.default_rng(seed)
    amount = np.exp(rng.normal(7, 0.8, n)).round()
    days = rng.integers(1, 900, n)
    report = rng.choice(["yes", "no"], n)
    odds = 0.9 * np.log(amount / 1000) - 0.003 * days + 1.1 * (report == "no") - 0.4
    fake = rng.random(n) < 1 / (1 + np.exp(-odds))
    return {
        "features": ["amount", "days", "police report"],
        "rows": [
            list(row)
            for row in zip(amount.tolist(), days.tolist(), report.tolist(), strict=True)
        ],
        "labels": ["fake" if is_fake else "valid" for is_fake in fake],
    }


def _line(row: list[Any], label: str) -> str:
    return ",".join(map(str, [*row, label]))


def _day(client: httpx.Client, day: int) -> None:
    """The decisions of a day, a fifth of them drawn at random, and what turned out to be true of two thirds."""
    rows = two_class_rows(A_DAY, seed=100 + day)
    ids = [f"march-{day}-{i}" for i in range(A_DAY)]
    record = {"ids": ids, "instances": True, "at": f"2026-03-{day:02}T12:00:00Z"}
    body = {
        "model": "triage@champion",
        "instances": rows["rows"],
        "benefits": "autumn-2026:1",
        "explore": 0.2,
    }
    client.post("/predict", json=body | {"record": record}).raise_for_status()
    outcomes = [
        {"id": id_, "truth": truth}
        for id_, truth in zip(ids, rows["labels"], strict=True)
    ]
    client.post(
        "/outcomes", json={"outcomes": outcomes[: A_DAY * 2 // 3]}
    ).raise_for_status()
