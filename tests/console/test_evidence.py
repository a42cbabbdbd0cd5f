"""What the console says about evidence: figures fit their intervals, changes go by names, exploring records nothing."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from tests.conftest import two_class_rows
from tests.console.tab import alike, file_of, judged


@pytest.fixture
def file_of_cases(tmp_path):
    return file_of(tmp_path, two_class_rows(200, seed=5)["rows"])


def changed(page: Any, change: Any) -> str:
    """What the lab says about the cases of its file once `change` is done, which makes it decide them again."""
    page.evaluate(
        "document.querySelectorAll('p').forEach((one) => one.textContent.includes('get another') && one.remove())"
    )
    with page.expect_response(lambda answer: answer.url.endswith("/predict")):
        change()
    said = page.wait_for_selector("p:has-text('get another action')").inner_text()
    judged(page)
    return str(said)


def saved(client: Any, name: str, columns: dict[str, list[float]]) -> None:
    """A matrix of `triage` from its columns: the benefits where the case is healthy, and ill."""
    rows = {
        kind: {action: column[k] for action, column in columns.items()} for k, kind in enumerate(("healthy", "ill"))
    }
    matrix = {"benefits": rows, "actions": list(columns)}
    client.put(f"/models/triage/matrices/{name}", json=matrix).raise_for_status()


@pytest.mark.thorough
def test_the_lab_compares_by_the_names_of_actions(tab, demo, file_of_cases):
    client = demo.client
    columns = {"never": [-100, -100], "wait": [0, -4], "treat": [-4, 4]}
    saved(client, "never-first", columns)
    saved(client, "turned", dict(reversed(columns.items())))
    try:
        page = tab.open("lab/triage:1")
        names = page.get_by_label("Saved matrix", exact=True)
        names.select_option("never-first")
        page.wait_for_selector("th:text-is('never')")
        page.click("text=Use as reference")
        assert changed(page, lambda: page.set_input_files("input[type=file]", file_of_cases)).startswith("0 of 200")
        assert changed(page, lambda: names.select_option("turned")).startswith("0 of 200")
        assert "(" not in confusion(page), "the same matrix, with its actions in another order"
        assert changed(page, lambda: page.click("[aria-label='Remove action never']")).startswith("0 of 200")
        assert "(" not in confusion(page)
        rename = "[aria-label='Name of action 1']"
        assert page.input_value(rename) == "treat"

        def renamed() -> None:
            page.fill(rename, "cure")
            page.press(rename, "Tab")

        assert changed(page, renamed).startswith("0 of 200"), "another name is not another action"
        assert "(" not in confusion(page)
        assert not changed(page, lambda: page.fill('[data-cell="0 0"]', "-90")).startswith("0 of 200")
        assert "(" in confusion(page)
    finally:
        for name in ("never-first", "turned"):
            client.delete(f"/models/triage/matrices/{name}")


def confusion(page: Any) -> str:
    return "".join(page.locator("table:has(caption:has-text('by action')) tbody").all_inner_texts())


INTERVALS = ([0.4, 0.9], [10036.9, 10037.9], [-3e-7, 2e-7], [-4e8, 9e8], [99999, 1234567], [5, 5], [-0.0004, 0.3],
             [1e-14, 3e-14], [-2e12, 5e15], [-1e308, 1e308], [0, 0], [1e5, 1e5 + 1e-9])  # fmt: skip


def test_no_figure_is_outside_its_interval(tab):
    page = tab.open("models")
    script = """([ends, values]) => import('/console/dom.js').then(({figures}) => values.map(figures([ends])))"""
    for low, high in INTERVALS:
        inside = [low, *(low / 7 * (7 - i) + high / 7 * i for i in range(1, 7)), high]
        found = page.evaluate(script, [[low, high], inside])
        numbers = [float(text.replace(",", "").replace("\N{MINUS SIGN}", "-")) for text in found]
        assert all(numbers[0] <= number <= numbers[-1] for number in numbers), found
        rounding = 1e-3 * abs(high)  # of numbers that are one but for rounding
        step = high / 100 - low / 100 if high - low > 1e-12 * abs(high) else rounding
        assert numbers == pytest.approx(inside, abs=step), found
        if math.isfinite(high - low) and 1e-6 < high - low < 1e9:
            assert found == [alike(value, [low, high]) for value in inside]


def test_the_curve_is_in_order_where_scores_are_close_to_the_ends(tab):
    report = {
        "curve": [{"threshold": t, "benefit": b} for t, b in ((0, -2), (0.5, -0.5), (1, -0.5))],
        "threshold": -5e-324, "benefit": 0.267, "posterior_threshold": 0.0002,
        "rules": [{"rule": "threshold_posterior", "benefit": 0.1}],
    }  # fmt: skip
    page = tab.open("models")
    found = page.evaluate("(report) => import('/console/compare.js').then(({steps}) => steps(report))", report)
    assert found == [[0, 0.267], [0, -2], [0.0002, 0.1], [0.5, -0.5], [1, -0.5]]


@pytest.mark.parametrize("change", [{"known": 0}, {"usable": False}])
@pytest.mark.thorough
def test_estimates_from_no_data_are_not_shown(tab, change):
    def answered(route: Any) -> None:
        if "svg" in route.request.headers["accept"]:
            return route.continue_()
        report = route.fetch().json()
        exploration = report["exploration"]
        exploration |= {"known": change.get("known", exploration["known"])}
        for way in exploration["ways"].values():
            way["usable"] = change.get("usable", way["usable"])
            way["dr"] |= {"mean": -0.9872, "low": -0.9872, "high": -0.9872}
        return route.fulfill(body=json.dumps(report), content_type="application/json")

    tab.page.route(re.compile(r"/outcomes(\?|$)"), answered)
    page = tab.open("outcomes/triage@champion")
    page.wait_for_selector("caption:text-is('Estimates for all decisions')")
    rows = page.locator("caption:text-is('Estimates for all decisions') ~ tbody tr").all_inner_texts()
    assert [row.split("\t")[2] for row in rows] == ["\N{EN DASH}"] * 4


def test_what_the_service_warns_of_in_a_file_of_cases_is_shown(tab, tmp_path):
    rows = two_class_rows(60, seed=6)["rows"]
    rows[7][2] = "unheard of"
    page = tab.open("cases/triage:1")
    page.set_input_files("input[type=file]", file_of(tmp_path, rows))
    page.click("text=Decide all")
    page.wait_for_selector("text=60 rows decided")
    assert "never seen in training" in page.inner_text("[aria-label=Warnings]")


def test_another_key_finds_nothing_of_the_one_before(tab):
    page = tab.open("lab/triage:1")
    page.fill('[data-cell="0 0"]', "-77")
    page.wait_for_function("Object.keys(sessionStorage).some((name) => name.startsWith('payoff-matrix'))")
    page.evaluate("import('/console/api.js').then((api) => api.setKey('another'))")
    page.wait_for_function("Object.keys(sessionStorage).length === 1")


def test_no_rounded_benefit_is_shown_as_a_fact(tab):
    page = tab.open("models")
    script = """(benefits) => import('/console/matrix.js').then(({inWords}) =>
        benefits.map((one) => inWords({benefits: [[one]], actions: ["act"]}, ["ill"])))"""
    found = page.evaluate(script, [12344, 12341, 0.123456789, -1234567.25])
    assert found == [
        "ill: act 12,344",
        "ill: act 12,341",
        "ill: act 0.123456789",
        "ill: act \N{MINUS SIGN}1,234,567.25",
    ]
