"""One service with keys, one trained model whose names contain markup, and one browser for all tests of the console."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.access.caller import Scope
from app.opening import prepare_stores
from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.console.demo import prepare
from tests.console.loans import prepare as prepare_loans
from tests.console.offers import prepare as prepare_offers
from tests.console.tab import Site, Tab
from tests.servers.fixtures import absent

ADMIN_KEY = "console-admin-key"
FEATURES = [
    "<img src=x onerror=alert(1)>",
    "</td><script>alert(2)</script>",
    "\"><svg onload='alert(3)'>",
]
CLASSES = ["<b onmouseover=alert(4)>healthy", "javascript:alert(5)//ill"]
ACTIONS = ["<iframe srcdoc='<script>alert(6)</script>'>", "{{7*7}}${alert(7)}"]
PRICES = dict(zip(FEATURES, (1, 2, 3), strict=True))
_BROWSERS = (
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
)  # the first in 3/5 of the time


def hostile_rows(n: int = 200) -> dict[str, Any]:
    rows = two_class_rows(n)
    return {
        "features": FEATURES,
        "rows": rows["rows"],
        "labels": [CLASSES[label == "ill"] for label in rows["labels"]],
    }


def recorded(client: httpx.Client) -> None:
    """Decisions of two days: the second one has older patients, and too few values of one feature to compare it.

    Truth is known more often after one action.
    """
    rows = hostile_rows()
    truths = dict(
        zip(map(str, range(len(rows["labels"]))), rows["labels"], strict=True)
    )
    for day, older in (("01", 0), ("02", 40)):
        ids = [f"{day}<script>alert(13)</script>{i}" for i in truths]
        measured = len(truths) - 3 * older
        answer = client.post(
            "/predict",
            json={
                "model": "woods:1",
                "instances": [
                    [age + older, pulse if i < measured else None, pain]
                    for i, (age, pulse, pain) in enumerate(rows["rows"])
                ],
                "benefits": [[0, -5], [-5, 5]],
                "actions": ACTIONS,
                "record": {
                    "ids": ids,
                    "instances": True,
                    "at": f"2026-03-{day}T12:00:00Z",
                },
            },
        ).json()
        outcomes = [
            {"id": id_, "truth": truth} | ({"action": ACTIONS[0]} if i % 7 == 0 else {})
            for i, (id_, truth, action) in enumerate(
                zip(ids, truths.values(), answer["decisions"], strict=True)
            )
            if action == ACTIONS[1] or i % 4 == 0
        ]
        assert client.post("/outcomes", json={"outcomes": outcomes}).json()[
            "accepted"
        ] == len(outcomes)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    settings = settings_for(tmp_path_factory.mktemp("console"), admin_key=ADMIN_KEY)
    with serving(settings) as client:
        client.headers["X-API-Key"] = ADMIN_KEY
        order = {
            "data": hostile_rows(),
            "feature_costs": PRICES,
            "benefits": [[0, -1], [-10, 5]],
            "actions": ACTIONS,
        }
        trained(
            client,
            {
                "model": "woods",
                "learner": {"kind": "random_forest", "n_estimators": 5},
                **order,
            },
        )
        trained(
            client,
            {"model": "woods", "learner": {"kind": "cost_tree", "depth": 1}, **order},
        )
        client.put("/models/woods/aliases/champion", json={"version": 1})
        recorded(client)
        stores = prepare_stores(settings)
        _, key = stores.keys.create("ward", (Scope.PREDICT,))
        _, review_key = stores.keys.create("desk", (Scope.REVIEW,))
        stores.database.close()
        yield Site(str(client.base_url).rstrip("/"), client, key, review_key)


@pytest.fixture(scope="session")
def demo(site: Site) -> Site:
    """The service with the model `triage` of `tests.console.demo`, too."""
    prepare(site.client)
    return site


@pytest.fixture(scope="session")
def offers(site: Site) -> Site:
    """The service with the model of `tests.console.offers`, too."""
    prepare_offers(site.client)
    return site


@pytest.fixture(scope="session")
def loans(site: Site) -> Site:
    """The service with the models of `tests.console.loans`, too."""
    prepare_loans(site.client)
    return site


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Chromium, closed with the module: its driver keeps an event loop in this thread, which other tests need."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), "")
    if not found:
        absent(
            "a browser is not installed (Debian: apt-get install chromium-headless-shell)"
        )
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - starts a program

    arguments = [
        "--disable-dev-shm-usage",
        "--disable-lcd-text",
        *(["--no-sandbox"] if os.geteuid() == 0 else []),
    ]
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=str(Path(found)), args=arguments
        )
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser: Any, demo: Site) -> Iterator[Tab]:
    """A page for whoever may do everything, in a browser that writes decimal commas."""
    tab = Tab(browser, demo, ADMIN_KEY, locale="de-DE")
    yield tab
    tab.close()
