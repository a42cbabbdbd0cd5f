"""Loans whose benefit depends on their amount, and rents, which are numbers: models with dates, ids and a price."""

from __future__ import annotations

from typing import Any

import httpx
import numpy as np

from tests.conftest import trained

BENEFITS: dict[str, Any] = {
    "default": {"grant": {"column": "loan_amount", "times": -0.5}, "refuse": 0},
    "repaid": {
        "grant": {"column": "loan_amount", "times": 0.12, "plus": -300},
        "refuse": 0,
    },
}
ACTIONS = ["grant", "refuse"]
NAMES = ["income", "loan_amount", "opened"]
COLUMNS = ["applicant", *NAMES]


def loan_rows(n: int = 400, seed: int = 0) -> tuple[list[list[Any]], list[str]]:
    """A name, income, amount and the day of opening, in 2019 to 2023, of n applicants, and what became of each."""
    rng = np.random.default_rng(seed)
    income = rng.normal(50_000, 12_000, n).round()
    amount = np.exp(rng.normal(8.9, 0.8, n)).round()
    fails = rng.random(n) < 1 / (1 + np.exp(1.5 + (income - 50_000) / 12_000))
    days = (np.datetime64("2019-01-01") + rng.integers(0, 1800, n)).astype(object)
    rows = [
        [f"applicant-{i}", one, loan, f"{day:%d/%m/%Y}"]
        for i, (one, loan, day) in enumerate(
            zip(income.tolist(), amount.tolist(), days.tolist(), strict=True)
        )
    ]
    return rows, ["default" if bad else "repaid" for bad in fails.tolist()]


def rent_rows(n: int = 300, seed: int = 0) -> tuple[list[list[float]], list[float]]:
    """The area and floor of n flats, and their rents."""
    rng = np.random.default_rng(seed)
    area, floor = rng.uniform(25, 120, n).round(1), rng.integers(0, 6, n)
    rent = (10 * area + 15 * floor + rng.normal(0, 60, n)).round(1)
    rows = [list(row) for row in zip(area.tolist(), map(float, floor), strict=True)]
    return rows, rent.tolist()


def prepare(client: httpx.Client) -> None:
    """The models `loans`, by the file of an applicant's bank, and `rents`."""
    rows, labels = loan_rows()
    lines = [
        [*COLUMNS, "outcome"],
        *([*row, label] for row, label in zip(rows, labels, strict=True)),
    ]
    text = "\n".join(",".join(map(str, line)) for line in lines)
    form = {"label": "outcome", "name": "loans"}
    client.post(
        "/datasets", data=form, files={"file": ("loans.csv", text)}
    ).raise_for_status()
    learner = {"kind": "random_forest", "n_estimators": 20}
    stakes = {"benefits": BENEFITS, "actions": ACTIONS, "unit": "EUR"}
    order = {
        "model": "loans",
        "learner": learner,
        "data": {"dataset": "loans"},
        **stakes,
    }
    trained(
        client, {**order, "feature_costs": {"income": 2, "loan_amount": 0, "opened": 1}}
    )
    flats, rents = rent_rows()
    data = {"features": ["area", "floor"], "rows": flats, "labels": rents}
    trained(
        client,
        {"model": "rents", "learner": learner | {"task": "regression"}, "data": data},
    )
