"""Numbers as people type them: what is shown is what is sent, and what cannot be read is not sent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.console.conftest import ADMIN_KEY
from tests.console.tab import Site, Tab

CELL = '[data-cell="0 1"]'


@pytest.fixture
def tab(browser: Any, site: Site) -> Iterator[Tab]:
    tab = Tab(browser, site, ADMIN_KEY, locale="de-DE")
    yield tab
    tab.close()


def sent(page: Any, path: str, action: Any) -> Any:
    """The JSON of the next request to `path`, which `action` causes."""
    with page.expect_request(f"**/{path}") as request:
        action()
    return json.loads(request.value.post_data)


@pytest.mark.parametrize(
    ("typed", "number"), [("120", 120), ("120,5", 120.5), ("-,5", -0.5), ("\N{MINUS SIGN}1e3", -1000), ("0,125", 0.125)]
)
def test_a_number_replaces_the_one_that_is_clicked_and_is_sent_as_it_is_shown(tab, typed, number):
    page = tab.open("lab/woods:1")
    page.wait_for_selector("payoff-chart path")
    page.click(CELL)
    page.keyboard.type(typed[:-1])

    def has_the_number(request: Any) -> bool:
        return request.url.endswith("/benefit") and json.loads(request.post_data)["benefits"][0][1] == number

    with page.expect_request(has_the_number):
        page.keyboard.type(typed[-1])
    assert page.input_value(CELL) == typed


@pytest.mark.parametrize("typed", ["", "12x", "1,000", "1.000,5", "1e999"])
def test_a_cell_that_cannot_be_read_clears_what_was_computed_and_blocks_sending(tab, typed):
    page = tab.open("lab/woods:1")
    page.wait_for_selector("payoff-chart path")
    page.get_by_label("Name", exact=True).fill("autumn")
    page.fill(CELL, typed)
    page.wait_for_selector(".problem:has-text('Benefit of ')")
    assert page.locator("payoff-chart:visible, dd").count() == 0
    assert page.locator("main [aria-busy]").count() == 0
    page.click("summary:text-is('curl')")
    assert page.inner_text("pre >> nth=0") == "The matrix cannot be read."
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.click("button:text-is('Save')")
    page.wait_for_selector(".saved .problem:has-text('Benefit of ')")
    page.fill(CELL, "-1")
    page.wait_for_selector("payoff-chart path")
    assert not any("matrices/" in url for url in asked)


def test_no_decision_stays_or_is_made_beside_a_matrix_that_cannot_be_read(tab):
    page = tab.open("cases/woods:1")
    page.click("summary:text-is('Benefit matrix')")
    page.fill("form input[inputmode=decimal] >> nth=0", "61,5")
    assert sent(page, "predict", lambda: page.click("button:text-is('Decide')"))["instances"][0].popitem()
    page.wait_for_selector(".decision")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.fill(CELL, "")
    assert page.locator(".decision").count() == 0
    for action in ("Decide", "Start"):
        page.click(f"button:text-is('{action}')")
        page.wait_for_selector(f"section:has(button:text-is('{action}')) .problem:has-text('Benefit of ')")
    assert asked == []


def test_an_answer_under_way_is_not_shown_beside_other_values(tab):
    page = tab.open("cases/woods:1")
    waiting: list[Any] = []
    page.route("**/predict", lambda route: waiting.append(route))  # noqa: PLW0108 - it takes functions only
    page.fill("form input[inputmode=decimal] >> nth=0", "61")
    with page.expect_request("**/predict"):
        page.click("button:text-is('Decide')")
    page.fill("form input[inputmode=decimal] >> nth=0", "62")
    with page.expect_response("**/predict"):
        waiting[0].continue_()
    page.wait_for_timeout(200)

    assert page.locator(".decision").count() == 0


@pytest.mark.parametrize(
    ("view", "label", "typed", "button"),
    [
        ("cases/woods:1", None, "6l", "Decide"),
        ("cases/woods:1", "Budget", "2,000", "Start"),
        ("sets", "beta (of f_beta)", "", "Choose the set"),
        ("sets", "Recall at least", "1,5", "Choose the set"),
        ("sets", "Probability of each item", "0,1\n0,0", "Choose the set"),
        ("sets", "Probability of each item", "0,1, 0,0", "Choose the set"),
        ("jobs/new", "Share held out", "", "Train"),
        ("jobs/new", "Seed", "1,5", "Train"),
        ("jobs/new", "Folds", "five", "Compare"),
        ("jobs/new", "PRICE", "-1", "Train"),
    ],
)
@pytest.mark.sampled
def test_every_field_for_numbers_that_cannot_be_read_is_named(tab, site, view, label, typed, button):
    table = "radius,label\n" + "".join(f"{i}.5,{'ab'[i % 2]}\n" for i in range(20))
    if view == "jobs/new" and not site.client.get("/datasets").json()["datasets"]:
        site.client.post("/datasets", data={"label": "label"}, files={"file": table}).raise_for_status()
    page = tab.open(view)
    if label == "PRICE":
        page.click("summary:has-text('ask question by question')")
        field = page.locator("section:has(h2:text-is('Prices of features')) input").first
    else:
        field = page.get_by_label(label, exact=True) if label else page.locator("form input[inputmode=decimal]").first
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    name = field.evaluate("one => one.labels[0].textContent")
    field.fill(typed)
    page.click(f"button:text-is('{button}')")
    page.wait_for_selector(".problem")

    assert f"“{name}”" in page.inner_text(".problem")
    assert field.get_attribute("aria-invalid") == "true"
    assert asked == []


def test_decimal_commas_between_semicolons_are_read(tab):
    page = tab.open("sets")
    page.get_by_label("Probability of each item", exact=True).fill("0,9; 0,25")

    assert sent(page, "retrieve", lambda: page.click("text=Choose the set"))["probabilities"] == [0.9, 0.25]
