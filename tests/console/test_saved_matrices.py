"""Saved matrices in the console: opening, saving, history, deleting, and where the name stands for the matrix."""

from __future__ import annotations

import json
from typing import Any

from tests.console.conftest import ACTIONS, CLASSES
from tests.console.tab import alike, intervals_of, shown


def codes(page):
    """The request as curl and as Python, without white space, and with fields as JSON has them."""
    found = page.locator("pre").all_text_contents()
    return ["".join(code.split()).replace("benefits=", '"benefits":') for code in found]


def open_saved(page):
    page.get_by_label("Saved matrix").select_option("autumn-2026")
    page.wait_for_selector("text=autumn-2026, version 2, the newest")


def test_the_python_to_copy_decides(tab, demo, monkeypatch, capsys):
    monkeypatch.setenv("PAYOFF_KEY", demo.predict_key)
    page = tab.open("lab/triage:1")
    for edit in (lambda: open_saved(page), lambda: page.fill('[data-cell="0 1"]', "-3")):
        edit()
        names: dict[str, Any] = {}
        exec(page.locator("pre").nth(1).text_content(), names)
        names["client"].close()
        assert "'decision': " in capsys.readouterr().out


def test_a_matrix_is_saved_as_a_version_and_deleted_after_a_question(tab, demo):
    page = tab.open("lab/triage:1")
    path = "/models/triage/matrices/winter"
    for value, answer in (("-7", "Saved as version "), ("-7", "has this matrix already"), ("-8", "Saved as version ")):
        page.fill('[data-cell="0 1"]', value)
        page.get_by_label("Name", exact=True).fill("winter")
        page.click("button:text-is('Save')")
        page.wait_for_selector(f"text={answer}")
    saved = demo.client.get(path).json()
    assert (len(saved["versions"]), saved["actions"]) == (2, ["wait", "treat"])
    assert saved["benefits"] == {"healthy": {"wait": 0, "treat": -8}, "ill": {"wait": -4, "treat": 4}}

    for answer in ("Cancel", "Delete"):
        assert demo.client.get(path).status_code == 200
        page.get_by_role("button", name="Delete the saved matrix winter").click()
        page.click(f"dialog >> button:text-is('{answer}')")
    page.wait_for_selector("text=winter is deleted")
    assert demo.client.get(path).status_code == 404
    assert page.input_value('[data-cell="0 1"]') == "-8"


def test_an_older_version_is_opened_and_cases_are_decided_with_it(tab):
    page = tab.open("lab/triage:1")
    open_saved(page)
    page.click("summary:text-is('Versions of autumn-2026')")
    page.click("button:has-text('Open') >> nth=1")
    page.wait_for_selector("text=autumn-2026, version 1 of 2")
    assert page.input_value('[data-cell="0 1"]') == "-4"
    assert all('"benefits":"autumn-2026:1"' in code for code in codes(page))

    page.goto(page.url.replace("lab", "cases"))
    page.wait_for_selector("h1:has-text('Cases')")
    page.fill("form input[inputmode=decimal] >> nth=0", "61")
    with page.expect_response("**/predict") as answer:
        page.click("button:text-is('Decide')")
    page.wait_for_selector("text=Decided with autumn-2026:1, which has healthy: wait 0, treat \N{MINUS SIGN}4;")
    assert answer.value.header_value("Payoff-Matrix") == "autumn-2026:1"
    page.click("summary:text-is('Benefit matrix')")
    open_saved(page)
    assert page.locator(".decision").count() == 0, "a decision does not stay beside another matrix"


def test_two_versions_are_compared_on_a_saved_matrix(tab, demo):
    page = tab.open("models/triage")
    page.get_by_label("Benefit matrix").select_option("autumn-2026")
    page.click("button:text-is('Compare')")
    page.wait_for_selector("text=With the saved matrix autumn-2026")
    rows = page.locator("caption:has-text('of each rule') ~ tbody tr").all_inner_texts()
    asked = {"benefits": "autumn-2026"}
    reports = [demo.client.post(f"/models/triage:{version}/benefit", json=asked).json() for version in (1, 2)]
    widths = [interval for report in reports for interval in intervals_of(report)]
    for version, report in enumerate(reports, 1):
        for rule in report["rules"]:
            expected = rule["rule"].replace("_", " "), f"version {version}", alike(rule["benefit"], *widths)
            assert any(row.split("\t")[:3] == list(expected) for row in rows), expected


def test_names_with_markup_stay_text_and_other_classes_are_refused(tab, demo):
    page = tab.open("lab/woods:1")
    page.get_by_label("Name", exact=True).fill("autumn")
    page.click("button:text-is('Save')")
    page.wait_for_selector("text=Saved as version 1 of autumn")
    page.click("summary:text-is('Versions of autumn')")
    row = page.locator("tr:has(button:text-is('Open'))").inner_text()
    assert all(name in row for name in (*ACTIONS, *CLASSES))
    page.wait_for_selector("payoff-chart path")
    page.get_by_label("Compare with").select_option("triage:1")
    page.wait_for_selector(".problem:has-text('healthy')")
    assert page.locator("payoff-chart path").count() > 0, "the model's own figures stay"

    tab.open("models/woods")
    page.click("button:text-is('Compare')")
    page.wait_for_selector("payoff-chart path")
    assert all(name in page.inner_text("main") for name in (*ACTIONS, *CLASSES))
    demo.client.delete("/models/woods/matrices/autumn").raise_for_status()


def test_a_matrix_in_words_is_read_by_names(tab):
    page = tab.open("models")
    words = {
        "benefits": {"b": {"__proto__": 1, "10": 2}, "a": {"10": 4, "__proto__": 3}},
        "actions": ["__proto__", "10"],
    }
    script = """([text, classes]) => import('/console/matrix.js').then(({fromWords, worded}) => {
        const found = fromWords(JSON.parse(text), classes);
        return JSON.stringify([found, found && worded(found, classes)]);
    })"""
    found, again = json.loads(page.evaluate(script, [json.dumps(words), ["a", "b"]]))
    assert found == {"benefits": [[3, 4], [1, 2]], "actions": ["__proto__", "10"]}
    assert again == words
    assert json.loads(page.evaluate(script, [json.dumps(words), ["a", "c"]])) == [None, None]


def test_what_challengers_and_other_ways_would_earn_is_reported(tab, demo):
    """Decisions of an alias with a challenger, a share of them drawn at random."""
    page = tab.open("outcomes/triage@champion")
    page.wait_for_selector("h2:text-is('Challengers')")
    report = demo.client.get("/models/triage@champion/outcomes").json()
    (challenger,) = report["shadow"]
    line = page.locator("tr:has(th:text-is('triage:2'))").inner_text()
    assert challenger["cases"] == report["known"]
    for part in (*map(shown, (challenger["cases"], challenger["differing"])), *bounds(challenger["gain"])):
        assert part in line
    assert challenger["gain"]["basis"] in line
    lines = page.locator("caption:text-is('Estimates for all decisions') ~ tbody tr").all_inner_texts()
    expected = [way[kind] for way in report["exploration"]["ways"].values() for kind in ("ips", "dr")]
    assert len(lines) == len(expected) == 4
    for text, estimate in zip(lines, expected, strict=True):
        assert all(part in text for part in bounds(estimate)), text
        assert estimate["basis"] in text


def bounds(amount):
    """The mean and the ends of its interval, as the console writes them."""
    ends = [amount["low"], amount["high"]]
    return [alike(part, ends) for part in (amount["mean"], *ends)]
