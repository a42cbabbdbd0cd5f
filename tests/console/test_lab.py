"""The lab: a matrix as it is typed, saved, opened and compared, and what its cases and its code become."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import trained, two_class_rows
from tests.console.conftest import ACTIONS, ADMIN_KEY, CLASSES, hostile_rows
from tests.console.demo import ACTIONS as PLAIN_ACTIONS
from tests.console.demo import BENEFITS
from tests.console.loans import ACTIONS as LOAN_ACTIONS
from tests.console.loans import BENEFITS as LOAN_BENEFITS
from tests.console.loans import COLUMNS, loan_rows
from tests.console.tab import (
    CELL,
    FIELD,
    alike,
    asked_of,
    file_of,
    intervals_of,
    judged,
    press,
)


def open_saved(page, name="autumn-2026", said="autumn-2026, version 2, the newest"):
    page.get_by_label("Saved matrix", exact=True).select_option(name)
    page.wait_for_selector(f"text={said}")


def test_the_lab_follows_the_matrix(tab, site, tmp_path):
    """Figures, curve, changed cases, limits and the code to copy, of the matrix as it was edited last."""
    page = tab.open("lab/woods:1")
    page.wait_for_selector("payoff-chart path")
    before = page.get_attribute("payoff-chart path", "d")
    for value in ("-1", "-2", "-3"):  # of which the last one counts
        page.fill(CELL, value)
    asked = {"benefits": [[0, -3], [-10, 5]], "actions": ACTIONS}
    report = site.client.post("/models/woods:1/benefit", json=asked).json()
    widths = intervals_of(report)
    judged(page)
    now, *others = page.locator("dd").all_inner_texts()
    assert now.startswith(f"{alike(report['expected_benefit']['benefit'], *widths)} (")
    assert alike(report["upper_bound"], *widths) in others
    assert page.get_attribute("payoff-chart path", "d") != before
    codes = page.locator("pre").all_text_contents()
    row = json.dumps(
        {CLASSES[0]: dict(zip(ACTIONS, (0, -3), strict=True))}, separators=(",", ":")
    )[1:-1]
    assert [
        row in code.replace("'\\''", "'") and ADMIN_KEY not in code for code in codes
    ] == [
        True,
        True,
    ], codes

    page.click("text=Use as reference")
    page.set_input_files(
        "input[type=file]",
        file_of(tmp_path, hostile_rows()["rows"], names=hostile_rows()["features"]),
    )
    page.wait_for_selector("text=0 of 200 cases get another action")
    page.fill(CELL, "-30")
    page.wait_for_selector("text=The first")
    page.click("summary:text-is('Limits')")
    page.fill("[data-action]  >> nth=1", "3")
    page.wait_for_selector("text=shadow price is what")
    page.focus("input[type=range]")
    page.keyboard.press("ArrowRight")
    press(page, "text=Add an action", "th:text-is('action 3')")
    page.keyboard.type(
        "refer"
    )  # its name has the focus, and keeps its place when it has changed
    page.keyboard.press("Tab")
    page.wait_for_selector("th:text-is('refer')")
    assert page.evaluate("document.activeElement.closest('payoff-matrix') !== null")
    page.click("th button >> nth=2")
    assert page.evaluate("document.activeElement.closest('payoff-matrix') !== null")


def test_a_number_replaces_the_one_that_is_clicked_and_is_sent_as_it_is_shown(tab):
    page = tab.open("lab/woods:1")
    page.wait_for_selector("payoff-chart path")
    numbers = {
        "120": 120,
        "120,5": 120.5,
        "-,5": -0.5,
        "\N{MINUS SIGN}1e3": -1000,
        "0,125": 0.125,
    }
    for typed, number in numbers.items():

        def has_the_number(request: Any, number: float = number) -> bool:
            return (
                request.url.endswith("/benefit")
                and json.loads(request.post_data)["benefits"][0][1] == number
            )

        page.click(CELL)
        page.keyboard.type(typed[:-1])
        with page.expect_request(has_the_number):
            page.keyboard.type(typed[-1])
        assert page.input_value(CELL) == typed
        page.click("h1")


def test_a_cell_that_cannot_be_read_clears_what_was_computed_and_blocks_sending(tab):
    page = tab.open("lab/woods:1")
    page.get_by_label("Name", exact=True).fill("autumn")
    page.click("summary:text-is('curl')")
    for typed in ("", "12x", "1,000", "1.000,5", "1e999"):
        page.wait_for_selector("payoff-chart path")
        page.fill(CELL, typed)
        page.wait_for_selector(".problem:has-text('Benefit of ')")
        assert (
            page.locator("payoff-chart:visible, dd, main [aria-busy]").count() == 0
        ), typed
        assert page.inner_text("pre >> nth=0") == "The matrix cannot be read."
        asked = asked_of(page)
        press(page, "button:text-is('Save')", ".saved .problem:has-text('Benefit of ')")
        page.fill(CELL, "-1")
        page.wait_for_selector("payoff-chart path")
        assert not any("matrices/" in one.url for one in asked)


def changed(page: Any, change: Any) -> int:
    """The cases of the lab's file that get another action once `change` is done, which makes it decide them again."""
    page.evaluate(
        "document.querySelectorAll('p').forEach((one) => one.textContent.includes('get another') && one.remove())"
    )
    with page.expect_response(lambda answer: "/predict?" in answer.url):
        change()
    said = page.wait_for_selector("p:has-text('get another action')").inner_text()
    judged(page)
    return int(said.split()[0])


def confusion(page: Any) -> str:
    return "".join(
        page.locator("table:has(caption:has-text('by action')) tbody").all_inner_texts()
    )


def test_the_lab_compares_with_the_reference_whatever_was_edited_before_the_file(
    tab, demo, tmp_path
):
    rows = two_class_rows(100, seed=5)["rows"]
    asked = {
        "model": "triage:1",
        "instances": rows,
        "actions": PLAIN_ACTIONS,
        "record": False,
    }
    decided = [
        demo.client.post("/predict", json=asked | {"benefits": benefits}).json()[
            "decisions"
        ]
        for benefits in (BENEFITS, [[0, -30], [-4, 4]])
    ]
    expected = sum(a != b for a, b in zip(*decided, strict=True))
    assert expected > 3
    page = tab.open("lab/triage:1")
    page.fill(CELL, "-30")
    assert (
        changed(
            page,
            lambda: page.set_input_files("input[type=file]", file_of(tmp_path, rows)),
        )
        == expected
    )
    press(page, "text=Use as reference", "text=/^0 of 100 cases/")
    assert changed(page, lambda: page.fill(CELL, "-4")) == expected


@pytest.mark.thorough
def test_the_lab_compares_by_the_names_of_actions(tab, demo, tmp_path):
    """The same matrix with its actions in another order, without one that nobody gets, or under another name."""
    columns = {"never": [-100, -100], "wait": [0, -4], "treat": [-4, 4]}
    for name, actions in (("never-first", [*columns]), ("turned", [*columns][::-1])):
        rows = {
            kind: {one: columns[one][k] for one in actions}
            for k, kind in enumerate(("healthy", "ill"))
        }
        matrix = {"benefits": rows, "actions": actions}
        demo.client.put(
            f"/models/triage/matrices/{name}", json=matrix
        ).raise_for_status()
    page = tab.open("lab/triage:1")
    open_saved(page, "never-first", "never")
    page.click("text=Use as reference")
    path, name = (
        file_of(tmp_path, two_class_rows(200, seed=5)["rows"]),
        "[aria-label='Name of action 1']",
    )

    def renamed() -> None:
        assert page.input_value(name) == "treat"
        page.fill(name, "cure")
        page.press(name, "Tab")

    for change in (
        lambda: page.set_input_files("input[type=file]", path),
        lambda: page.get_by_label("Saved matrix", exact=True).select_option("turned"),
        lambda: page.click("[aria-label='Remove action never']"),
        renamed,
    ):
        assert changed(page, change) == 0
        assert "(" not in confusion(page)
    assert changed(page, lambda: page.fill('[data-cell="0 0"]', "-90")) > 0
    assert "(" in confusion(page)
    for name in ("never-first", "turned"):
        demo.client.delete(f"/models/triage/matrices/{name}").raise_for_status()


def test_the_python_to_copy_decides(tab, demo, monkeypatch, capsys):
    monkeypatch.setenv("PAYOFF_KEY", demo.predict_key)
    page = tab.open("lab/triage:1")
    for edit in (lambda: open_saved(page), lambda: page.fill(CELL, "-3")):
        edit()
        names: dict[str, Any] = {}
        exec(page.locator("pre").nth(1).text_content(), names)
        names["client"].close()
        assert "'decision': " in capsys.readouterr().out


def test_a_matrix_is_saved_as_a_version_and_deleted_after_a_question(tab, demo):
    page = tab.open("lab/triage:1")
    path = "/models/triage/matrices/winter"
    for value, answer in (
        ("-7", "Saved as version "),
        ("-7", "has this matrix already"),
        ("-8", "Saved as version "),
    ):
        page.fill(CELL, value)
        page.get_by_label("Name", exact=True).fill("winter")
        press(page, "button:text-is('Save')", f"text={answer}")
    saved = demo.client.get(path).json()
    assert (len(saved["versions"]), saved["actions"]) == (2, ["wait", "treat"])
    assert saved["benefits"] == {
        "healthy": {"wait": 0, "treat": -8},
        "ill": {"wait": -4, "treat": 4},
    }

    for answer in ("Cancel", "Delete"):
        assert demo.client.get(path).status_code == 200
        page.get_by_role("button", name="Delete the saved matrix winter").click()
        page.click(f"dialog >> button:text-is('{answer}')")
    page.wait_for_selector("text=winter is deleted")
    assert demo.client.get(path).status_code == 404
    assert page.input_value(CELL) == "-8"


def test_a_guarantee_is_certified_and_saved(tab, demo):
    page = tab.open("lab/triage:1")
    page.wait_for_selector("text=train one without that")
    matrix = {
        "healthy": {"wait": 0, "treat": -1},
        "ill": {"wait": -4, "treat": 5},
    }
    order = {
        "model": "guarded",
        "learner": {"kind": "logistic"},
        "data": two_class_rows(1_600),
        "benefits": matrix,
        "refit": False,
        "holdout": 0.5,
    }
    trained(demo.client, order)
    page = tab.open("lab/guarded:1")
    page.get_by_label("at most (%)").fill("0.1")
    press(page, "button:text-is('Certify')", "text=Nothing is certified")
    page.get_by_label("at most (%)").fill("30")
    press(page, "button:text-is('Certify')", "text=wrong among them")
    press(page, "button:text-is('Save the guarantee')", "text=careful:1")
    saved = demo.client.get("/models/guarded/guarantees/careful").json()
    assert saved["guarantee"]["wrong"] == ["healthy"]
    assert (saved["action"], saved["otherwise"]) == ("treat", "wait")
    assert f"{100 * saved['bound']:.3g} %" in page.inner_text("main")


def test_an_older_version_is_opened_and_cases_are_decided_with_it(tab):
    page = tab.open("lab/triage:1")
    open_saved(page)
    page.click("summary:text-is('Versions of autumn-2026')")
    press(page, "button:has-text('Open') >> nth=1", "text=autumn-2026, version 1 of 2")
    assert page.input_value(CELL) == "-4"
    assert all(
        "autumn-2026:1" in code for code in page.locator("pre").all_text_contents()
    )

    page.goto(page.url.replace("lab", "cases"))
    page.wait_for_selector("h1:has-text('Cases')")
    page.fill(FIELD, "61")
    with page.expect_response("**/predict") as answer:
        page.click("button:text-is('Decide')")
    page.wait_for_selector(
        "text=Decided with autumn-2026:1, which has healthy: wait brings 0, treat costs 4;"
    )
    assert answer.value.header_value("Payoff-Matrix") == "autumn-2026:1"
    page.click("summary:text-is('Benefit matrix')")
    open_saved(page)
    assert page.locator(".decision").count() == 0, (
        "a decision does not stay beside another matrix"
    )


def test_versions_with_the_same_classes_are_compared_on_one_matrix(tab, site):
    page = tab.open("lab/woods:1")
    page.wait_for_selector("payoff-chart path")
    page.click("summary:text-is('Another version on this matrix')")
    choice = page.get_by_label("Compare with")
    choice.wait_for()
    assert choice.locator("option").all_inner_texts() == ["none", "woods:2"]
    choice.select_option("woods:2")
    page.wait_for_selector("payoff-chart path.other")
    own, other = (
        site.client.post(
            f"/models/woods:{version}/benefit", json={"benefits": [[0, -1], [-10, 5]]}
        ).json()
        for version in (1, 2)
    )
    same = alike(other["expected_benefit"]["benefit"], *intervals_of(own))
    assert same in page.inner_text("dt:text-is('the same by woods:2') + dd")


def test_the_lab_judges_and_decides_by_each_case_s_own_benefits(tab, loans, tmp_path):
    """The matrix that the model was trained with, its code, and one that names another feature and a column."""
    page = tab.open("lab/loans:1")
    page.wait_for_selector("payoff-chart path")
    report = loans.client.post(
        "/models/loans:1/benefit",
        json={"benefits": LOAN_BENEFITS, "actions": LOAN_ACTIONS},
    ).json()
    expected = alike(report["expected_benefit"]["benefit"], *intervals_of(report))
    assert page.locator("dd").first.inner_text() == expected
    sentences = page.locator("[aria-label='The matrix in words'] li").all_inner_texts()
    assert sentences == report["matrix_in_words"]
    assert sentences[0] == "default: grant costs 0.5 times loan_amount, refuse brings 0"
    cell = '{"column":"loan_amount","times":-0.5,"plus":0}'
    assert [cell in code for code in page.locator("pre").all_text_contents()] == [
        True,
        True,
    ]

    rows, _ = loan_rows(300, seed=4)
    path = file_of(
        tmp_path, [[*row, 100 + i] for i, row in enumerate(rows)], "fee", names=COLUMNS
    )
    page.set_input_files("input[type=file] >> nth=0", path)
    page.wait_for_selector("text=0 of 300 cases")
    page.get_by_label("Ids of cases").select_option("applicant")
    typed = {"0 0": "-0.01*income", "1 0": "3*fee"}
    for place, formula in typed.items():
        page.fill(f"[data-cell='{place}']", formula)
    decided = [
        loans.client.post(
            "/predict",
            content=Path(path).read_bytes(),
            params={"model": "loans:1", "keep": "fee,applicant", **stakes},
            headers={"Content-Type": "text/csv"},
        ).json()["decisions"]
        for stakes in (
            {
                "benefits": json.dumps(LOAN_BENEFITS),
                "actions": json.dumps(LOAN_ACTIONS),
            },
            {
                "benefits": json.dumps(
                    [
                        [{"column": "income", "times": -0.01}, 0],
                        [{"column": "fee", "times": 3}, 0],
                    ]
                ),
                "actions": json.dumps(LOAN_ACTIONS),
            },
        )
    ]
    changed_rows = [i for i, (a, b) in enumerate(zip(*decided, strict=True)) if a != b]
    assert len(changed_rows) > 3
    page.wait_for_selector(f"text={len(changed_rows)} of 300 cases get another action")
    first = page.locator("table:has(caption:has-text('of them')) tbody tr").first
    assert first.inner_text().startswith(f"applicant-{changed_rows[0]}")
    assert page.locator("input[type=range]").is_disabled(), "a formula is typed"


def test_the_lab_speaks_of_classes_and_actions_by_their_names(tab, demo):
    page = tab.open("lab/triage:1")
    page.wait_for_selector("payoff-chart path")
    text = page.inner_text("main")
    assert "probability of “ill” at which the action changes" in text
    assert "ill: wait costs 4, treat brings 4" in page.inner_text(
        "[aria-label='The matrix in words']"
    )
    for technical in ("B(t)", "second class", "threshold posterior", "%d"):
        assert technical not in text, technical
