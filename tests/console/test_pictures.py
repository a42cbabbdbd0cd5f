"""The pictures of the documentation: a view each, drawn by the console itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.console.conftest import ADMIN_KEY
from tests.console.tab import Tab, judged

DOCS = Path(__file__).parents[2] / "docs"
MOST_BYTES = 60_000


def lab(page: Any) -> None:
    page.get_by_label("Saved matrix").select_option("autumn-2026")
    page.wait_for_selector("text=version 2, the newest")
    page.fill('[data-cell="0 1"]', "-5.5")
    judged(page)


def case(page: Any) -> None:
    for label, value in {"age": "61", "pulse": "84"}.items():
        page.get_by_label(label, exact=True).fill(value)
    page.get_by_label("pain", exact=True).select_option("=strong")
    page.click("button:text-is('Decide')")
    page.wait_for_selector(".decision")
    page.click("button:text-is('Start')")
    page.wait_for_selector("text=trees with an answer")
    page.evaluate("document.activeElement.blur()")


def chosen(page: Any) -> None:
    page.click("text=Choose the set")
    page.wait_for_selector("payoff-chart path")
    page.locator("payoff-chart").scroll_into_view_if_needed()


def compared(page: Any) -> None:
    page.get_by_label("Benefit matrix").select_option("autumn-2026")
    page.click("button:text-is('Compare')")
    page.wait_for_selector("payoff-chart path")
    page.locator("h2:text-is('Two versions on one matrix')").evaluate("one => one.scrollIntoView()")


def reported(page: Any) -> None:
    page.wait_for_selector(".decision")
    page.locator("h2:text-is('The verdict')").evaluate("one => one.scrollIntoView()")


PICTURES = {
    "models": ("models/triage", compared),
    "lab": ("lab/triage:1", lab),
    "cases": ("cases/triage:1", case),
    "sets": ("sets", chosen),
    "data": ("data", lambda page: page.wait_for_selector("td >> text=Train")),
    "jobs": ("jobs/new", lambda _: None),
    "outcomes": ("outcomes/triage@champion", reported),
}


@pytest.mark.parametrize("name", PICTURES)
def test_the_pictures_of_the_documentation(browser, demo, name):
    """PAYOFF_PICTURES=1 draws the pictures in docs/images anew."""
    path = DOCS / "images" / f"console-{name}.png"
    assert f"(../images/{path.name})" in (DOCS / "how-to" / "console.md").read_text()
    if os.environ.get("PAYOFF_PICTURES"):
        view, prepare = PICTURES[name]
        size = {"viewport": {"width": 920, "height": 640}, "device_scale_factor": 0.75}
        tab = Tab(browser, demo, ADMIN_KEY, color_scheme="light", **size)
        prepare(tab.open(view))
        path.write_bytes(tab.page.screenshot())
        tab.close()
    assert 5_000 < path.stat().st_size <= MOST_BYTES
