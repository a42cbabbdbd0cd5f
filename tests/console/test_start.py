"""The first page: from sample data to training, and addresses of models as requests write them."""

from __future__ import annotations

import csv
import json
import re

from app.text import MISSING
from tests.conftest import trained, two_class_rows
from tests.console.conftest import ADMIN_KEY
from tests.console.tab import Tab
from tests.console.test_console import FOLDER


def test_sample_data_leads_to_training(browser, demo):
    tab = Tab(browser, demo, ADMIN_KEY)
    page = tab.open("")
    assert page.inner_text("h1") == "Which action pays most?"
    page.click("text=Try with sample data")
    page.wait_for_selector("h2:text-is('Train a model')")
    assert "tumours (569 rows)" in page.inner_text("select >> nth=0")
    tab.close()


def test_the_sample_is_the_table_of_the_demo(site):
    rows = list(csv.reader(site.client.get("/console/sample.csv", headers={"X-API-Key": ""}).text.splitlines()))
    assert (len(rows), len(rows[0])) == (570, 31)
    assert {row[-1] for row in rows[1:]} == {"malignant", "benign"}


def test_a_version_or_an_alias_is_an_address(tab):
    for address in ("triage:1", "triage@champion"):
        page = tab.open(f"models/{address}")
        assert page.inner_text("h1") == "triage version 1"


def test_a_file_is_shown_and_what_the_service_refuses_is_changed_beside_it(tab, tmp_path):
    lines = [f"{40 + i};{i % 3 or ''};{'yes' if i % 4 else 'no'};{'well' * (i % 2)}" for i in range(40)]
    (tmp_path / "cases.csv").write_text("\n".join(["age;zone;ill;later", *lines]))
    page = tab.open("data")
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    page.wait_for_selector("text=In the first 40 rows: (empty): 20, well: 20")
    page.wait_for_selector("caption:text-is('The first 5 rows')")
    rows = page.locator("table:has(caption:text-is('Columns, by the first 40 rows')) tbody tr")
    assert [one.split()[:6] for one in rows.all_inner_texts()][1] == ["zone", "1,", "2", "14", "2", "as"]
    assert page.locator("table:has(caption:text-is('The first 5 rows')) tbody tr").count() == 5
    page.get_by_label("Read zone as").select_option("category")
    page.click("button:text-is('Upload')")
    page.wait_for_selector("text=cannot be stored because of later")
    assert page.evaluate("document.activeElement.querySelector('.problem') !== null")
    read = page.locator("table:has(caption:text-is('How each column was read')) tbody tr")
    assert [one.split()[:2] for one in read.all_inner_texts()] == [
        ["later", "categorical"],
        ["age", "numeric"],
        ["zone", "categorical"],
        ["ill", "categorical"],
    ]
    assert "the label is missing" in read.first.inner_text()
    page.get_by_label("Column to predict").select_option("ill")
    page.get_by_label("Read later as").select_option("ignore")
    page.click("button:text-is('Upload')")
    page.wait_for_selector("h3:text-is('Uploaded')")
    assert sorted(one.split()[1] for one in read.all_inner_texts()) == ["categorical"] * 2 + ["ignored", "numeric"]


def test_missing_values_are_those_of_the_service():
    [listed] = re.findall(r"MISSING = new Set\((\[.*?\])\)", (FOLDER / "data.js").read_text())
    assert tuple(json.loads(listed)) == MISSING


def test_the_answer_has_the_focus_and_a_sentence(tab):
    page = tab.open("cases/triage:1")
    page.fill("form input[inputmode=decimal] >> nth=0", "61")
    page.click("button:text-is('Decide')")
    page.wait_for_selector(".decision")
    page.wait_for_function("document.activeElement.querySelector('.decision') !== null")
    assert re.search(r" expected; .* would earn .* less", page.inner_text(".decision + p"))


def test_the_best_of_a_comparison_is_trained_with_a_click(tab, site):
    """Of the learners that fit the table, with the matrix of the comparison."""
    lines = [f"{i},{'xy'[i > 30]}" for i in range(60)]
    made = site.client.post("/datasets", data={"label": "y"}, files={"file": "\n".join(["a,y", *lines])}).json()["id"]
    page = tab.open(f"jobs/new/{made}")
    assert page.locator("optgroup >> nth=0 >> option").all_inner_texts()[0] == "auto"
    assert page.locator("option:has-text('multilabel')").count() == 0
    page.fill('[data-cell="0 1"]', "-3")
    for kind in ("random_forest", "gradient_boosting"):
        page.uncheck(f"label:has-text('{kind}') input")
    page.click("button:text-is('Compare')")
    page.click("summary:text-is('As a table')", timeout=60_000)
    page.click("tr:has-text('logistic') >> text=Train this one >> nth=0")
    page.wait_for_selector("h2:text-is('Train a model')")
    assert page.input_value("label:text-is('Learner') + select") == "logistic"
    assert page.input_value('[data-cell="0 1"]') == "-3"
    assert page.is_checked("label:has-text('Train with this matrix') input")


def test_the_matrix_of_another_model_and_the_unit_of_amounts_are_used(tab, site):
    order = {"model": "nurses", "learner": {"kind": "logistic"}, "data": two_class_rows(60)}
    trained(site.client, {**order, "benefits": [[0, -7], [-4, 4]], "actions": ["go", "stay"]})
    page = tab.open("cases/triage:1")
    page.click("summary:text-is('Benefit matrix')")
    page.click("summary:text-is('Matrices of other models')")
    page.click("text=Use that of nurses")
    assert page.input_value('[data-cell="0 1"]') == "-7"
    page.fill("label:text-is('Unit of amounts') + input", "EUR")
    page.fill("form input[inputmode=decimal] >> nth=0", "61")
    page.click("button:text-is('Decide')")
    page.wait_for_selector("caption:text-is('Expected benefit of each action in EUR')")
    assert page.inner_text(".decision") in ("go", "stay")


def test_outcomes_are_reported_from_a_file(tab, tmp_path):
    (tmp_path / "truths.csv").write_text("id;truth\nmarch-1-0;ill\nof-nobody;ill\n")
    page = tab.open("outcomes/triage")
    page.click("summary:text-is('Report what became of decisions')")
    page.set_input_files("input[type=file]", tmp_path / "truths.csv")
    page.click("button:text-is('Send')")
    assert page.inner_text("dt:text-is('of unknown decisions') + dd") == "1"
