"""Models, sets and data: aliases, comparisons, uploads, training, imports, and who may do it."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import skl2onnx
from pyarrow import parquet
from sklearn.linear_model import LogisticRegression

from tests.conftest import two_class_rows
from tests.console.conftest import ADMIN_KEY, CLASSES, FEATURES
from tests.console.loans import rent_rows
from tests.console.tab import CELL, Tab, asked_of, press
from tests.tables.messy import EXPORTS


def test_without_a_key_or_with_a_wrong_one_the_console_asks_for_it(browser, site):
    tab = Tab(browser, site, "")
    page = tab.open("models")
    assert "API key" in page.inner_text(".problem")
    page.click("text=Enter a key")
    page.fill("dialog input", "wrong")
    press(page, "text=Use this key", "text=does not accept this key")
    page.click("#key")
    page.fill("dialog input", ADMIN_KEY)
    press(page, "text=Use this key", "td >> text=champion → 1")
    assert page.evaluate("localStorage.length + document.cookie.length") == 0
    tab.close()


def test_another_key_finds_nothing_of_the_one_before(tab):
    page = tab.open("lab/triage:1")
    page.fill('[data-cell="0 0"]', "-77")
    page.wait_for_function(
        "Object.keys(sessionStorage).some((name) => name.startsWith('payoff-matrix'))"
    )
    page.evaluate("import('/console/api.js').then((api) => api.setKey('another'))")
    page.wait_for_function("Object.keys(sessionStorage).length === 1")


@pytest.mark.thorough
def test_a_key_for_predictions_does_what_it_may(browser, demo):
    tab = Tab(browser, demo, demo.predict_key)
    page = tab.open("models/woods")
    assert "needs a key with the scope 'train'" in page.inner_text("main")
    for view in ("data", "jobs", "outcomes/woods"):
        tab.open(view)
        assert "train" in page.inner_text(".problem")
    tab.open("lab/triage")
    page.wait_for_selector("payoff-chart path")
    page.get_by_label("Saved matrix").select_option("autumn-2026")
    page.wait_for_selector(
        ".saved >> text=Saving and deleting them need a key with the scope 'train'"
    )
    assert (
        page.locator("button:text-is('Save'), button:text-is('Delete…')").count() == 0
    )
    tab.close()


def test_a_stopped_and_a_slow_service(tab):
    page = tab.page
    page.clock.install()
    page.route("**/models?*", lambda route: route.abort())
    tab.open("models")
    assert "does not answer" in page.inner_text(".problem")

    page.unroute("**/models?*")
    page.route("**/models?*", lambda _: None)
    with page.expect_request("**/models?*"):
        page.click("button:text-is('Retry')")
    page.clock.run_for(3500)
    press(page, "text=Stop waiting", "text=You stopped waiting")
    page.unroute("**/models?*")
    press(page, "button:text-is('Retry')", "text=woods")
    assert page.inner_text("#slow") == ""


def test_a_link_made_by_others_reaches_no_other_path(tab):
    """The part of the address after # names jobs and models; dots in it must not lead to other routes."""
    asked = asked_of(tab.page)
    for view in (
        "jobs/train/..%2Fmodels%2Fwoods",
        "jobs/train/..",
        "models/..%2Fdatasets",
        "lab/..%2Faudit",
        "__proto__",
    ):
        page = tab.open(view)
        assert page.locator("text=Cancel…").count() == 0, view
    urls = [one.url for one in asked]
    assert not [
        url
        for url in urls
        if "audit" in url.replace("%2Faudit", "") or "/models/woods" in url
    ]


def test_models_are_addressed_and_an_alias_is_moved(tab, site):
    for address in ("triage:1", "triage@champion"):
        page = tab.open(f"models/{address}")
        assert page.inner_text("h1") == "triage version 1"
    tab.open("models")
    page.click("main a:text-is('woods')")
    page.select_option("select", "2")
    page.click("text=Move…")
    press(page, "dialog >> text=Move the alias", "dd:text-is('version 2')")
    assert site.client.get("/models/woods").json()["aliases"] == {"champion": 2}

    tab.open("models/woods/2")
    assert all(name in page.inner_text("main") for name in (*FEATURES, *CLASSES))
    for name in ("Decision curve", "Calibration curve"):
        chart = page.locator(f"section:has(h2:text-is('{name}')) svg[role=img]")
        assert name in str(chart.get_attribute("aria-label"))


def test_long_lists_are_listed_to_the_end(tab):
    def answer(route: Any) -> None:
        page = int(re.findall(r"page_token=(\d+)|$", route.request.url)[0] or 0)
        lines = [
            {"name": f"m{page}-{i}", "latest": 1, "versions": [1], "aliases": {}}
            for i in range(100)
        ]
        route.fulfill(
            json={
                "models": lines,
                "next_page_token": str(page + 1) if page < 10 else None,
            }
        )

    tab.page.route("**/models?*", answer)
    assert tab.open("models").locator("tbody tr").count() == 1100


@pytest.mark.thorough
def test_a_model_is_imported(tab, site, tmp_path):
    data = two_class_rows()
    numbers = np.array([row[:2] for row in data["rows"]])
    fitted = LogisticRegression().fit(numbers, data["labels"])
    path = tmp_path / "model.onnx"
    path.write_bytes(
        skl2onnx.to_onnx(fitted, numbers[:1].astype(np.float32)).SerializeToString()
    )
    lines = [
        f"{age},{pulse},{label}"
        for (age, pulse), label in zip(numbers, data["labels"], strict=True)
    ]
    form = {"label": "label", "name": "numbers"}
    site.client.post(
        "/datasets", data=form, files={"file": "\n".join(["age,pulse,label", *lines])}
    ).raise_for_status()

    page = tab.open("models")
    page.click("summary:text-is('Import a model')")
    page.get_by_label("Data set").select_option(label="numbers")
    page.get_by_label("Name of the model").fill("imported")
    page.set_input_files("input[type=file]", path)
    page.click("button:text-is('Import')")
    page.wait_for_selector("h2:text-is('Published: imported:1')", timeout=60_000)
    assert site.client.get("/models/imported:1").json()["classes"] == ["healthy", "ill"]
    site.client.delete("/models/imported")


def test_sets_are_chosen_and_drawn(tab, site):
    page = tab.open("sets")
    items = {"<img src=x onerror=alert(12)>": 0.2, "b": 0.9, "c": 0.6}
    asked = {
        "probabilities": [*items.values()],
        "setting": "binary",
        "loss": {"name": "f_beta"},
    }
    page.fill("textarea", "\n".join(f"{name},{p}" for name, p in items.items()))
    page.click("text=Choose the set")
    answer = site.client.post("/retrieve", json=asked).json()["sets"][0]
    page.wait_for_selector("payoff-chart path")
    assert page.locator("tbody th").all_inner_texts() == [
        list(items)[place] for place in answer["selected"]
    ]
    page.fill("textarea", "0.2, 1.7")
    press(
        page, "text=Choose the set", ".problem b:text-is('probabilities > 1 (1.7): ')"
    )
    detail = site.client.post(
        "/retrieve", json=asked | {"probabilities": [0.2, 1.7]}
    ).json()["detail"]
    assert page.inner_text(".problem").count(detail) == 1
    page.fill("textarea", "0,9; 0,25")  # decimal commas
    with page.expect_request("**/retrieve") as request:
        page.click("text=Choose the set")
    assert json.loads(request.value.post_data)["probabilities"] == [0.9, 0.25]
    page.fill("textarea", "0.2, 0.7\n0.1, 0.9")
    page.select_option("select >> nth=0", "multilabel")
    press(page, "text=Choose the set", "h2:text-is('Set 2')")


def test_sample_data_leads_to_training(tab):
    page = tab.open("")
    assert page.inner_text("h1") == "Which action pays most?"
    press(page, "text=Try with sample data", "h2:text-is('Train a model')")
    assert "tumours (569 rows)" in page.inner_text("select >> nth=0")


@pytest.mark.parametrize(
    ("title", "learner"),
    [("Credit", "auto"), ("Triage", "forest_chain"), ("Inventory", "random_forest")],
)
def test_a_simulated_table_leads_to_training_with_its_matrix(tab, title, learner):
    page = tab.open("start")
    press(page, f"button:text-is('{title}')", "h2:text-is('Train a model')")
    assert page.get_by_label("Learner").input_value() == learner
    if title == "Credit":
        assert page.input_value('[data-cell="0 1"]') == "-0.45*amount"


@pytest.mark.parametrize(
    ("encoding", "end"),
    [("utf-16", "\n"), ("utf-16", "\r\n"), ("latin-1", "\n"), ("latin-1", "\r")],
)
def test_a_file_is_shown_and_what_the_service_refuses_is_changed_beside_it(
    tab, tmp_path, encoding, end
):
    """Columns and name with markup, in any encoding."""
    names = [
        "<img src=x onerror=alert(1)>",
        "städte",
        "</option><script>alert(11)</script>",
        "later",
    ]
    lines = [
        f"{40 + i};{i % 3 or ''};{'yes' if i % 4 else 'no'};{'well' * (i % 2)}"
        for i in range(40)
    ]
    path = tmp_path / "<svg onload=alert(10)>.csv"
    path.write_bytes(end.join([";".join(names), *lines, ""]).encode(encoding))
    page = tab.open("data")
    page.set_input_files("input[type=file]", path)
    page.get_by_label("Encoding").select_option(encoding)
    page.wait_for_selector("text=In the first 40 rows: (empty): 20, well: 20")
    for label in ("Column to predict", "More columns to predict"):
        found = page.locator(f"label:text-is('{label}') + select option")
        assert [one.strip() for one in found.all_text_contents()] == names, label
    rows = page.locator(
        "table:has(caption:text-is('Columns, by the first 40 rows')) tbody tr"
    )
    assert rows.all_inner_texts()[1].split()[:6] == [
        "städte",
        "1,",
        "2",
        "14",
        "2",
        "as",
    ]
    assert (
        page.locator("table:has(caption:text-is('The first 5 rows')) tbody tr").count()
        == 5
    )
    page.get_by_label("Read städte as").select_option("category")
    press(page, "button:text-is('Upload')", ".problem:has-text('the label is missing')")
    assert page.evaluate("document.activeElement.querySelector('.problem') !== null")
    read = page.locator(
        "table:has(caption:text-is('How each column was read')) tbody tr"
    )
    kinds = {
        name: kind
        for name, kind, *_ in (one.split("\t") for one in read.all_inner_texts())
    }
    assert list(kinds) == ["later", *names[:3]]
    assert list(kinds.values()) == [
        "categorical",
        "numeric",
        "categorical",
        "categorical",
    ]
    assert "the label is missing" in read.first.inner_text()
    page.get_by_label("Column to predict").select_option(names[2])
    page.get_by_label("Read later as").select_option("ignore")
    press(page, "button:text-is('Upload')", "h3:text-is('Uploaded')")
    assert page.inner_text("dt:text-is('target') + dd") == names[2]
    found = sorted(one.split("\t")[1] for one in read.all_inner_texts())
    assert found == ["categorical", "categorical", "left out", "numeric"]
    press(page, "text=Train a model on it", "h2:text-is('Train a model')")


def test_rows_of_a_class_are_left_out_with_a_tick(tab, tmp_path):
    """Also of a file whose first line names its delimiter."""
    lines = [f"{40 + i};{['ill', 'well', 'unknown'][i % 3]}" for i in range(60)]
    path = tmp_path / "visits.csv"
    path.write_text("\n".join(["sep=;", "age;state", *lines]))
    page = tab.open("data")
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector("text=In the first 60 rows: ill: 20, well: 20, unknown: 20")
    page.get_by_label("Classes to leave out").get_by_label("unknown").check()
    press(page, "button:text-is('Upload')", "h3:text-is('Uploaded')")
    assert page.inner_text("dt:text-is('classes') + dd") == "ill, well"
    assert page.inner_text("dt:text-is('rows') + dd") == "40"
    path = tmp_path / "visits.parquet"
    parquet.write_table(
        pa.table({"age": [*range(60)], "state": ["ill", "well", "unknown"] * 20}), path
    )
    page.set_input_files("input[type=file]", path)
    page.get_by_label("Class to leave out").fill("unknown")
    page.get_by_label("Column to predict", exact=True).fill("state")
    press(page, "button:text-is('Upload')", "h3:text-is('Uploaded')")
    assert page.inner_text("dt:text-is('classes') + dd") == "ill, well"


FONT_SIZES = """[...document.querySelectorAll("section *")]
    .filter((one) => one.textContent.trim() && one.checkVisibility())
    .map((one) => parseFloat(getComputedStyle(one).fontSize))"""


def test_the_best_of_a_comparison_is_trained_with_a_click(tab, site):
    """Of the learners that fit the table, with the matrix of the comparison."""
    lines = [f"{i},{'xy'[i > 30]}" for i in range(60)]
    made = site.client.post(
        "/datasets", data={"label": "y"}, files={"file": "\n".join(["a,y", *lines])}
    ).json()["id"]
    page = tab.open(f"jobs/new/{made}")
    assert page.locator("optgroup >> nth=0 >> option").all_inner_texts()[0] == "auto"
    assert page.locator("option:has-text('multilabel')").count() == 0
    page.fill(CELL, "-3")
    for kind in ("random_forest", "gradient_boosting"):
        page.uncheck(f"label:has-text('{kind}') input")
    page.click("button:text-is('Compare')")
    page.wait_for_selector("h2:text-is('Comparison')", timeout=60_000)
    page.set_viewport_size({"width": 390, "height": 800})
    sizes = page.evaluate(FONT_SIZES)
    assert min(sizes) >= 12, "it can be read on a phone"
    assert page.locator("section img").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    page.set_viewport_size({"width": 1280, "height": 800})
    press(
        page,
        "tr:has-text('logistic') >> text=Train this one >> nth=0",
        "h2:text-is('Train a model')",
    )
    assert page.input_value("label:text-is('Learner') + select") == "logistic"
    assert page.input_value(CELL) == "-3"
    assert page.is_checked("label:has-text('Train with this matrix') input")


def test_learners_of_numbers_are_compared_by_what_a_unit_costs(tab, site):
    rows, rents = rent_rows(60)
    lines = [
        "area,floor,rent",
        *(
            f"{area},{floor},{rent}"
            for (area, floor), rent in zip(rows, rents, strict=True)
        ),
    ]
    form = {"label": "rent", "label_type": "number"}
    made = site.client.post(
        "/datasets", data=form, files={"file": "\n".join(lines)}
    ).json()["id"]
    page = tab.open(f"jobs/new/{made}")
    page.get_by_label("A unit too few costs").fill("4")
    page.uncheck("label:has-text('gradient_boosting') input")
    with page.expect_request("**/compare") as request:
        page.click("button:text-is('Compare')")
    sent = json.loads(request.value.post_data)
    assert sent["unit_costs"] == {"over": 1, "under": 4}
    assert sent["learners"] == [{"kind": "random_forest", "task": "regression"}]
    page.wait_for_selector("text=quantity that costs least", timeout=60_000)


RUNNING = {
    "id": "job_x", "kind": "train", "status": "running", "progress": 0.1, "stage": "reading", "attempt": 1,
    "requested": {"model": "m", "learner": {"kind": "auto"}}, "created_at": "2026-01-01T00:00:00Z",
    **dict.fromkeys(("error", "model", "metrics", "warnings")),
}  # fmt: skip


@pytest.mark.thorough
def test_a_wrong_order_shows_the_place_and_cancelling_asks_first(tab, site):
    page = tab.open("jobs/new")
    page.select_option("form select >> nth=0", "logistic")
    page.click("summary:text-is('Parameters')")
    page.fill("form input >> nth=0", "slow")
    page.locator("form").first.evaluate("form => { form.noValidate = true; }")
    page.locator("label:text-is('C') + input").evaluate(
        "one => one.removeAttribute('min')"
    )
    page.fill("label:text-is('C') + input", "-4")
    press(page, "button:text-is('Train')", ".problem b:text-is('learner > C (-4): ')")
    assert "slow" not in [
        one["name"] for one in site.client.get("/models").json()["models"]
    ]

    event = f"data: {json.dumps(RUNNING | {'stage': 'half <b>way</b>', 'progress': 0.5})}\n\n"
    page.route("**/train/job_x", lambda route: route.fulfill(json=RUNNING))
    page.route("**/train/job_x/events", lambda route: route.fulfill(body=event))
    tab.open("jobs/train/job_x")
    page.wait_for_selector("p:text-is('half <b>way</b>')")
    asked = asked_of(page)
    page.click("text=Cancel…")
    with page.expect_request(
        "**/train/job_x/events"
    ):  # the next one, as the stream has ended
        page.click("dialog >> button:text-is('Cancel')")
    assert "DELETE" not in [one.method for one in asked]


@pytest.mark.parametrize(
    ("view", "label", "typed", "button"),
    [
        ("cases/woods:1", None, "6l", "Decide"),
        ("cases/woods:1", "Budget", "2,000", "Start"),
        ("sets", "beta (of f_beta)", "", "Choose the set"),
        ("sets", "Probability of each item", "0,1\n0,0", "Choose the set"),
        ("sets", "Probability of each item", "0,1, 0,0", "Choose the set"),
        ("jobs/new", "Share held out", "", "Train"),
        ("jobs/new", "Seed", "1,5", "Train"),
        ("jobs/new", "Folds", "five", "Compare"),
        ("jobs/new", "PRICE", "-1", "Train"),
    ],
)
@pytest.mark.sampled
def test_every_field_for_numbers_that_cannot_be_read_is_named(
    tab, view, label, typed, button
):
    page = tab.open(view)
    if label == "PRICE":
        page.click("summary:has-text('ask question by question')")
        field = page.locator(
            "section:has(h2:text-is('Prices of features')) input"
        ).first
    else:
        field = (
            page.get_by_label(label, exact=True)
            if label
            else page.locator("form input[inputmode=decimal]").first
        )
    asked = asked_of(page)
    name = field.evaluate("one => one.labels[0].textContent")
    field.fill(typed)
    press(page, f"button:text-is('{button}')", ".problem")

    assert f"“{name}”" in page.inner_text(".problem")
    assert field.get_attribute("aria-invalid") == "true"
    assert asked == []


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
    values.fill(
        {
            "crm": "2024-05-01",
            "two ways": "EUR 1.000,50",
            "log": "2026-05-01T10:00Z",
        }.get(name, "100")
    )
    page.click("button:text-is('Decide')")
    page.wait_for_selector(".decision")


def test_a_card_shows_what_its_model_has(tab, loans):
    """Numbers have no classes and no lab; without a matrix the curve is of shares, which have no unit."""
    page = tab.open("models/rents/1")
    assert page.locator("main a:text-is('Matrix lab')").count() == 0
    assert page.locator("dt:text-is('classes')").count() == 0
    page = tab.open("models/claims/1")
    curve = page.locator("section:has(h2:text-is('Decision curve'))")
    curve.locator("svg[role=img]").wait_for()
    assert "share of right decisions" in curve.inner_text()
    assert "EUR" not in curve.inner_text()
