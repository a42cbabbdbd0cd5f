"""The page for the cases that wait, with a key for reviews alone."""

from __future__ import annotations

import re

import pytest

from tests.console.demo import REASONS, REFERRED
from tests.console.tab import Tab, shown

QUEUE = "review/claims/action=refer"


@pytest.fixture
def desk(browser, demo):
    tab = Tab(browser, demo, demo.review_key)
    yield tab
    tab.close()


def waiting(site, action="refer"):
    query = {"action": action, "open": True, "page_size": 100}
    answer = site.client.get("/models/claims/decisions", params=query)
    return [line["id"] for line in answer.json()["decisions"]]


def on(page, id_):
    """Wait for a case, whose heading has the focus then."""
    page.wait_for_selector(f"h2:focus:has-text('Case {id_}')")


def test_the_queue_is_worked_through_by_keyboard(desk, demo):
    ids = waiting(demo)
    page = desk.open("review")
    page.get_by_label("Name of the model").fill("claims")
    page.keyboard.press("Enter")
    page.wait_for_selector("h2:has-text('Case claim-')")
    page.click("summary:text-is('Which decisions')")
    page.get_by_label("Decided").select_option("refer")
    page.click("button:text-is('Show')")
    page.wait_for_selector(f"text=0 of {len(ids)} done")
    page.wait_for_selector(f"h2:has-text('Case {ids[0]}')")

    seen = demo.client.get(f"/decisions/{ids[0]}").json()
    text = page.inner_text(".case")
    assert shown(seen["stake"]) in text
    for value in seen["instance"].values():
        assert (value if isinstance(value, str) else f"{value:,.9g}") in text
    texts = [reason["text"] for reason in seen["explanation"]["reasons"]]
    assert page.locator(".case ol li").all_inner_texts() == texts
    assert {text for one in REASONS.values() for text in one.values()} >= set(texts)

    page.keyboard.press("j")
    on(page, ids[1])
    page.keyboard.press("ArrowLeft")
    on(page, ids[0])
    page.keyboard.press("s")
    on(page, ids[1])
    with page.expect_response("**/outcomes") as answer:
        page.keyboard.press("2")
    assert answer.value.json()["accepted"] == 1
    on(page, ids[2])
    assert (
        page.inner_text("[role=status]:has-text('Stored')")
        == f"Stored: {ids[1]} is valid."
    )
    assert f"1 of {len(ids)} done, {len(ids) - 1} wait" in page.inner_text("main")
    assert waiting(demo) == [ids[0], *ids[2:]]

    page.keyboard.press("k")
    on(page, ids[1])
    page.get_by_label("Action taken").select_option("reject")
    page.get_by_role("button", name="fake").click()
    on(page, ids[2])
    outcome = demo.client.get(f"/decisions/{ids[1]}").json()["outcome"]
    assert (outcome["truth"], outcome["action"]) == ("fake", "reject")
    page.uncheck("text=Keyboard shortcuts")
    page.keyboard.press("j")
    assert page.locator(".queue [aria-current]").inner_text().startswith(ids[2])


def test_what_another_person_found_stays(desk, demo):
    page = desk.open(QUEUE)
    first = waiting(demo)[0]
    page.wait_for_selector(f"h2:has-text('Case {first}')")
    demo.client.post("/outcomes", json={"outcomes": [{"id": first, "truth": "fake"}]})
    page.keyboard.press("2")
    page.wait_for_selector(f"text=Someone else stored that {first} is fake")
    assert demo.client.get(f"/decisions/{first}").json()["outcome"]["truth"] == "fake"


def test_an_empty_queue_shows_what_it_will_be(desk):
    page = desk.open("review/woods/until=2026-01-01T00:00:00.000Z")
    page.wait_for_selector("h2:text-is('No decision waits')")
    assert page.locator("[inert] button").count() > 3
    assert page.get_by_label("To").input_value() == "2025-12-31"


def test_figures_of_the_report_lead_to_their_cases(tab):
    page = tab.open("outcomes/claims")
    page.wait_for_selector(".decision")
    page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    page.click("tr:has(th:text-is('refer')) a")
    page.wait_for_selector("h2:has-text('Case claim-')")
    assert page.get_by_label("Decided").input_value() == "refer"
    count = re.search(r"of (\d+) done", page.inner_text("main"))
    assert 0 < int(count[1]) <= REFERRED

    page = tab.open("outcomes/claims")
    page.wait_for_selector(".decision")
    page.get_by_label("Also by").select_option("action")
    page.click("text=Show the report")
    page.click("section:has(h2:text-is('By action')) a:text-is('refer')")
    page.wait_for_selector(f"text=of {REFERRED} done")
    assert page.get_by_label("Truth").input_value() == "any"


def test_the_last_case_is_the_end(desk, demo):
    """And a truth that was not stored is sent again by a button."""
    page = desk.page
    page.route("**/outcomes", lambda route: route.abort(), times=1)
    ids = waiting(demo, "reject")
    desk.open("review/claims/action=reject")
    page.wait_for_selector(f"h2:has-text('Case {ids[0]}')")
    page.keyboard.press("1")
    page.click("button:text-is('Retry')")
    for id_ in ids[1:]:
        on(page, id_)
        page.keyboard.press("1")
    page.wait_for_selector("text=Nothing waits any more")
    assert waiting(demo, "reject") == []
