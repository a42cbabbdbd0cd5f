"""The report on outcomes: every amount with its interval and its basis, challengers, and estimates for other ways."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.console.conftest import ACTIONS, CLASSES, FEATURES
from tests.console.tab import alike, press, shown

VERDICTS = {
    "within_10_percent": "As promised, within 10 %",
    "over_promises": "The model promises too much",
    "under_promises": "The model promises too little",
    "undecided": "Undecided",
}
ESTIMATES = "caption:text-is('Estimates for all decisions') ~ tbody tr"


def test_the_report_is_readable_and_every_amount_has_its_basis(tab, site):
    page = tab.open("outcomes")
    press(page, "main a:text-is('woods')", ".decision")
    page.select_option("form select >> nth=0", "woods:1")
    assert page.locator(".decision").count() == 0, (
        "a report does not stay beside another choice"
    )
    page.select_option("form select >> nth=1", "action")
    page.fill("form input >> nth=0", "2026-03-01")
    page.fill("form input >> nth=1", "2026-03-02")
    press(page, "text=Show the report", ".decision")
    query = {"since": "2026-03-01", "until": "2026-03-03T00:00:00Z", "by": "action"}
    report = site.client.get("/models/woods:1/outcomes", params=query).json()
    text = page.inner_text(".report")

    assert report["selective"]["is"]
    assert page.locator(".warnings li").all_inner_texts() == report["warnings"]
    assert page.inner_text(".decision") == VERDICTS[report["verdict"]]
    assert report["decisions"] == 400
    for part in (report["realised"], report["difference"]):
        assert f"{alike(part['mean'], [part['low'], part['high']])} (" in text
    assert all(name in text for name in (*ACTIONS, *CLASSES, FEATURES[0]))
    difference, progress = (
        page.locator("payoff-chart svg[role=img]").nth(i).get_attribute("aria-label")
        for i in (0, 1)
    )
    ends = [report["difference"]["low"], report["difference"]["high"]]
    assert f"difference {alike(report['difference']['mean'], ends)}, " in difference
    assert f"promised {shown(report['promised']['total'])}, " in progress
    assert f"realised {shown(report['realised']['total'])}" in progress
    about = [
        part["basis"]
        for part in (report["realised"], report["expected"], report["bounds"])
    ]
    tables = [
        one.inner_text()
        for one in page.locator(
            "table:has(th:text-matches('realised|per decision'))"
        ).all()
    ]
    assert len(tables) >= 5
    assert all(any(basis in one for basis in about) for one in tables)
    drifted = [
        line
        for line in (*report["drift"]["scores"], *report["drift"]["features"])
        if line["drifted"]
    ]
    assert (
        page.locator("caption:text-is('Drifted') ~ tbody tr").count()
        == len(drifted)
        > 0
    )


def parts(amount):
    """The mean and the ends of its interval, as the console writes them, and the basis."""
    ends = [amount["low"], amount["high"]]
    return [*(alike(part, ends) for part in (amount["mean"], *ends)), amount["basis"]]


def test_what_challengers_and_other_ways_would_earn_is_reported(tab, demo):
    """Decisions of an alias with a challenger, a share of them drawn at random."""
    page = tab.open("outcomes/triage@champion")
    page.wait_for_selector("h2:text-is('Challengers')")
    report = demo.client.get("/models/triage@champion/outcomes").json()
    (challenger,) = report["shadow"]
    assert challenger["cases"] == report["known"]
    estimates = [
        way[kind]
        for way in report["exploration"]["ways"].values()
        for kind in ("ips", "dr")
    ]
    counts = [*map(shown, (challenger["cases"], challenger["differing"]))]
    expected = [counts + parts(challenger["gain"]), *map(parts, estimates)]
    lines = [
        page.locator("tr:has(th:text-is('triage:2'))").inner_text(),
        *page.locator(ESTIMATES).all_inner_texts(),
    ]
    assert len(lines) == len(expected) == 5
    for line, each in zip(lines, expected, strict=True):
        assert all(part in line for part in each), line


def test_without_outcomes_an_example_shows_what_there_will_be(tab):
    page = tab.open("outcomes/woods:2")
    page.wait_for_selector(".example payoff-chart path")
    assert "0" in page.inner_text("dt:text-is('truth known') + dd")
    page.route("**/models?*", lambda route: route.fulfill(json={"models": []}))
    for view in ("models", "outcomes", "lab"):
        tab.open(view)
        assert "An example" in page.inner_text("figure")


@pytest.mark.parametrize("change", [{"known": 0}, {"usable": False}])
@pytest.mark.thorough
def test_estimates_from_no_data_are_not_shown(tab, change):
    def answered(route: Any) -> None:
        if "svg" in route.request.headers["accept"]:
            return route.continue_()
        report = route.fetch().json()
        exploration = report["exploration"]
        exploration |= {
            name: value for name, value in change.items() if name in exploration
        }
        for way in exploration["ways"].values():
            way |= {name: value for name, value in change.items() if name in way}
            way["dr"] |= dict.fromkeys(("mean", "low", "high"), -0.9872)
        return route.fulfill(body=json.dumps(report), content_type="application/json")

    tab.page.route(re.compile(r"/outcomes(\?|$)"), answered)
    page = tab.open("outcomes/triage@champion")
    page.wait_for_selector("caption:text-is('Estimates for all decisions')")
    assert [
        row.split("\t")[2] for row in page.locator(ESTIMATES).all_inner_texts()
    ] == ["\N{EN DASH}"] * 4


def test_outcomes_are_reported_from_a_file(tab, tmp_path):
    (tmp_path / "truths.csv").write_text("id;truth\nmarch-1-0;ill\nof-nobody;ill\n")
    page = tab.open("outcomes/triage")
    page.click("summary:text-is('Report what became of decisions')")
    page.set_input_files("input[type=file]", tmp_path / "truths.csv")
    page.click("button:text-is('Send')")
    assert page.inner_text("dt:text-is('of unknown decisions') + dd") == "1"
