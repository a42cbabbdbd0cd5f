"""From a file as people export it to a decision, in the browser."""

from __future__ import annotations

import json

import pytest

from tests.console.tab import press
from tests.data.messy import EXPORTS


@pytest.mark.parametrize("name", EXPORTS)
def test_an_export_is_uploaded_trained_on_and_decided(tab, tmp_path, name):
    """What has to be ordered is chosen beside the file."""
    export, path = EXPORTS[name], tmp_path / f"{name}.csv"
    path.write_bytes(export.content)
    page = tab.open("data")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector("text=The first 5 rows")
    if "header" in export.asked:
        page.get_by_label("The first line has").select_option(export.asked["header"])
        page.wait_for_selector("th:text-is('column_1')")
    if "drop_unlabelled" in export.asked:
        page.get_by_label("Leave rows out").check()
    for column, order in json.loads(export.asked.get("types", "{}")).items():
        page.get_by_label(f"Read {column} as").select_option(order)
    page.get_by_label("Column to predict", exact=True).select_option(export.label)
    press(page, "button:text-is('Upload')", "text=Train a model on it")
    press(page, "text=Train a model on it", "h2:text-is('Train a model')")
    page.select_option("form select >> nth=0", "logistic")
    page.click("button:text-is('Train')")
    page.click("text=Decide cases", timeout=60_000)
    values = page.locator("form input[data-form], form input[inputmode=decimal]").first
    values.wait_for()
    values.fill({"crm": "2024-05-01", "two ways": "EUR 1.000,50", "log": "2026-05-01T10:00Z"}.get(name, "100"))
    page.click("button:text-is('Decide')")
    page.wait_for_selector(".decision")
