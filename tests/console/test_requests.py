"""What the console sends: one version of a model, one record of a case, and each chunk of a file once."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import pytest

from tests.conftest import two_class_rows
from tests.console.demo import ACTIONS, BENEFITS
from tests.console.tab import file_of, judged

FIELD = "form input[inputmode=decimal] >> nth=0"
CELL = '[data-cell="0 1"]'
WORDS = {kind: dict(zip(ACTIONS, row, strict=True)) for kind, row in zip(("healthy", "ill"), BENEFITS, strict=True)}


@pytest.fixture
def recorded(demo) -> Callable[[], int]:
    """The number of decisions of `triage` that are recorded."""
    return lambda: demo.client.get("/models/triage/outcomes").json()["decisions"]


def two_chunks(folder: Any) -> str:
    rows = two_class_rows(400, seed=8)["rows"]
    return file_of(folder, [[*row, f"{i} {'x' * 900}"] for i, row in enumerate(rows)], "note")


def query_of(request: Any) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}


def test_requests_by_position_name_the_version_of_the_card(tab, tmp_path):
    """Where an alias moves, rows and columns of a matrix must not be taken for those of another version."""
    asked: list[Any] = []
    tab.page.on("request", lambda one: asked.append(one) if one.method == "POST" else None)
    path = file_of(tmp_path, two_class_rows(20, seed=3)["rows"])
    page = tab.open("lab/triage@champion")
    judged(page)
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector("text=0 of 20 cases")
    page = tab.open("cases/triage@champion")
    page.set_input_files("input[type=file]", path)
    page.click("text=Decide all")
    page.wait_for_selector("text=20 rows decided")
    page.click("button:text-is('Start')")
    page.wait_for_selector("text=trees with an answer")

    assert len(asked) == 6
    for request in asked:
        assert "@" not in unquote(request.url), request.url
        assert "@" not in (request.post_data or ""), request.url


def test_a_case_goes_to_the_alias_with_a_matrix_in_words(tab):
    """Challengers decide on requests to an alias; names are right for whichever version answers."""

    def moved(route: Any) -> None:
        answer = route.fetch().json()
        route.fulfill(json=answer | {"model": {"name": "triage", "version": 2}})

    page = tab.open("cases/triage@champion")
    page.fill(FIELD, "61")
    with page.expect_request("**/predict") as request:
        page.click("button:text-is('Decide')")
    page.wait_for_selector(".decision")
    sent = json.loads(request.value.post_data)
    assert (sent["model"], sent["benefits"], sent["actions"]) == ("triage@champion", WORDS, ACTIONS)
    assert page.locator("p[role=alert]").count() == 0
    page.route("**/predict", moved)
    page.click("button:text-is('Decide')")
    page.wait_for_selector("p[role=alert]:has-text('Version 2 decided')")


@pytest.mark.parametrize("status", [0, 503])
def test_a_retry_goes_on_at_the_chunk_that_failed(tab, tmp_path, status):
    chunks: list[str] = []

    def second_fails(route: Any) -> None:
        chunks.append(route.request.post_data)
        if len(chunks) != 2:
            route.continue_()
        elif status:
            route.fulfill(status=status, json={"title": "Busy"})
        else:
            route.abort()

    page = tab.open("cases/triage:1")
    page.set_input_files("input[type=file]", two_chunks(tmp_path))
    page.route("**/predict?*", second_fails)
    page.click("text=Decide all")
    page.wait_for_selector(".problem:has-text('rows are counted from row')")
    page.click("button:text-is('Retry')")
    page.wait_for_selector("text=400 rows decided")
    assert len(chunks) == 3
    assert chunks[0] != chunks[1] == chunks[2]
    with page.expect_download() as download:
        page.click("text=Download the results")
    with download.value.path().open(newline="") as file:
        head, *rows = csv.reader(file)
    assert [row[head.index("note")].split()[0] for row in rows] == [str(i) for i in range(400)]


def test_a_column_of_ids_names_the_decisions_of_a_file(tab, tmp_path, recorded):
    rows = [[*row, f"visit-{i}"] for i, row in enumerate(two_class_rows(20, seed=3)["rows"])]
    before = recorded()
    page = tab.open("cases/triage:1")
    page.check("text=Record decisions")
    page.set_input_files("input[type=file]", file_of(tmp_path, rows, "id"))
    for _ in range(2):
        with page.expect_request("**/predict?*") as request:
            page.click("text=Decide all")
        page.wait_for_selector("text=20 rows decided")
        assert (query_of(request.value)["id"], query_of(request.value)["keep"]) == ("id", "[]")
    assert recorded() == before + 20


def test_a_case_whose_answer_was_lost_is_recorded_once(tab, recorded):
    lost: list[Any] = []

    def lose(route: Any) -> None:
        if lost:
            route.continue_()
        else:
            lost.append(route.fetch())
            route.abort()

    before = recorded()
    page = tab.open("cases/triage:1")
    page.check("text=Record decisions")
    page.route("**/predict", lose)
    page.fill(FIELD, "61")
    page.click("button:text-is('Decide')")
    page.click("button:text-is('Retry')")
    page.wait_for_selector(".decision")
    assert recorded() == before + 1
    page.click("button:text-is('Decide')")
    page.wait_for_selector("main:not(:has([aria-busy=true])) .decision")
    assert recorded() == before + 2, "another decision"


def test_changing_what_a_case_is_asked_with_records_nothing(tab, recorded):
    """Start with nothing to spend decides at once, and is the one decision of the case; what follows are trials."""
    before = recorded()
    page = tab.open("cases/triage:1")
    page.check("text=Record decisions")
    sent: list[Any] = []
    page.on("request", lambda one: sent.append(json.loads(one.post_data)) if one.url.endswith("/acquire") else None)

    def after(change: Any) -> str:
        with page.expect_response("**/acquire"):
            change()
        return str(page.inner_text("main:not(:has([aria-busy=true])) section:has(button:text-is('Start'))"))

    page.fill("label:text-is('Budget') + input", "0")
    assert "trial" not in after(lambda: page.click("button:text-is('Start')"))
    page.click("summary:text-is('Benefit matrix')")
    for change in (
        lambda: page.fill(CELL, "-9"),
        lambda: page.uncheck("text=Stop when a question costs more than it gains"),
    ):
        assert "This is a trial, which is not recorded" in after(change)
    assert recorded() == before + 1
    budget = page.locator("label:text-is('Budget') + input")

    def unlimited() -> None:
        budget.fill("")
        budget.press("Tab")

    assert "trial" not in after(unlimited), "a question is no decision"
    assert len({one["ids"][0] for one in sent}) == 1
    assert UUID(sent[0]["ids"][0]).version == 7, "the service finds these by their day"
    assert [one.get("record") for one in sent] == [True, *[None] * (len(sent) - 1)]
    after(lambda: page.click("button:text-is('Start')"))
    assert sent[-1]["ids"] != sent[0]["ids"]
    assert sent[-1]["record"] is True


def changed_cases(demo: Any, rows: list[Any], benefits: Any) -> int:
    """How many rows get another action under `benefits` than under those of the card."""
    asked = {"model": "triage:1", "instances": rows, "actions": ACTIONS, "record": False}
    first, second = (
        demo.client.post("/predict", json=asked | {"benefits": one}).json()["decisions"] for one in (BENEFITS, benefits)
    )
    return sum(a != b for a, b in zip(first, second, strict=True))


def test_the_lab_compares_with_the_reference_whatever_was_edited_before_the_file(tab, demo, tmp_path):
    rows = two_class_rows(100, seed=5)["rows"]
    other = [[0, -30], [-4, 4]]
    expected = changed_cases(demo, rows, other)
    assert expected > 3
    page = tab.open("lab/triage:1")
    page.fill(CELL, "-30")
    page.set_input_files("input[type=file]", file_of(tmp_path, rows))
    page.wait_for_selector(f"text={expected} of 100 cases")
    page.click("text=Use as reference")
    page.wait_for_selector("text=0 of 100 cases")
    page.fill(CELL, "-4")
    page.wait_for_selector(f"text={expected} of 100 cases")
