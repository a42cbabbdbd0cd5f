"""Offers, whose rewards alone are known: a model that learned from them, and what its decisions earned."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from tests.conftest import trained

ACTIONS = ["call", "mail", "none"]


def earned(
    random: np.random.Generator, rows: list[list[Any]], actions: list[str]
) -> list[float]:
    """Calls pay for the old, mails in the north; some buy anyway."""
    rewards = []
    for (age, region), action in zip(rows, actions, strict=True):
        effect = {
            "call": (age - 45) / 5,
            "mail": 2 if region == "north" else -1,
            "none": 0,
        }
        rewards.append(round(5 + effect[action] + random.normal(0, 3), 2))
    return rewards


def customers(random: np.random.Generator, n: int) -> list[list[Any]]:
    """Ages and regions."""
    regions = random.choice(["north", "south"], n).tolist()
    return [
        [age, region]
        for age, region in zip(
            random.integers(20, 80, n).tolist(), regions, strict=True
        )
    ]


def prepare(client: httpx.Client, n: int = 1200) -> None:
    """The data set `campaign` and the model `offers`, version 1, trained on it."""
    random = np.random.default_rng(0)
    rows = customers(random, n)
    actions = random.choice(ACTIONS, n).tolist()
    rewards = earned(random, rows, actions)
    lines = [
        f"{age},{region},{action},.3333333,{reward}"
        for (age, region), action, reward in zip(rows, actions, rewards, strict=True)
    ]
    text = "\n".join(["age,region,offer,chance,margin", *lines])
    form = {"label": "margin", "name": "campaign"}
    files = {"file": ("campaign.csv", text)}
    client.post("/datasets", data=form, files=files).raise_for_status()
    columns = {"action": "offer", "propensity": "chance", "baseline": "none"}
    order = {
        "model": "offers",
        "learner": {"kind": "rewards", **columns},
        "data": {"dataset": "campaign"},
        "holdout": 0.5,
        "unit": "EUR",
    }
    trained(client, order)
