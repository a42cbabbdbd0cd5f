"""The first page: from sample data to training, and addresses of models as requests write them."""

from __future__ import annotations

import csv

from tests.console.conftest import ADMIN_KEY
from tests.console.tab import Tab


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
