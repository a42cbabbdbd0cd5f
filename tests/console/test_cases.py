"""Cases: one by one, question by question, and whole files; what is decided, recorded and sent."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import UUID

import pytest

from tests.conftest import trained, two_class_rows
from tests.console.conftest import ACTIONS, FEATURES, hostile_rows
from tests.console.demo import ACTIONS as PLAIN_ACTIONS
from tests.console.demo import BENEFITS
from tests.console.loans import ACTIONS as LOAN_ACTIONS
from tests.console.loans import BENEFITS as LOAN_BENEFITS
from tests.console.loans import COLUMNS as LOAN_COLUMNS
from tests.console.loans import NAMES as NAMES_OF_LOANS
from tests.console.loans import loan_rows, rent_rows
from tests.console.tab import (
    CELL,
    FIELD,
    asked_of,
    downloaded,
    file_of,
    judged,
    press,
    query_of,
    shown,
)

EPOCH = date(1970, 1, 1)
WORDS = {
    kind: dict(zip(PLAIN_ACTIONS, row, strict=True))
    for kind, row in zip(("healthy", "ill"), BENEFITS, strict=True)
}


@pytest.fixture
def recorded(demo) -> Callable[[], int]:
    """The number of decisions of `triage` that are recorded."""
    return lambda: demo.client.get("/models/triage/outcomes").json()["decisions"]


def decide_all(page, path, rows):
    page.set_input_files("input[type=file]", path)
    press(page, "text=Decide all", f"text={rows:,} rows decided")


def test_a_case_is_decided_and_acquired(tab):
    page = tab.open("cases/woods:1")
    press(page, "button:text-is('Decide')", "text=Enter at least one value")
    page.fill(FIELD, "61")
    page.select_option("form select >> nth=0", "=strong")
    press(page, "button:text-is('Decide')", "text=What each feature adds")
    assert page.inner_text(".decision") in ACTIONS
    page.wait_for_function("document.activeElement.querySelector('.decision') !== null")
    assert re.search(
        r" expected; .* would earn .* less", page.inner_text(".decision + p")
    )
    page.fill(FIELD, "62")
    assert page.locator(".decision").count() == 0, (
        "a decision does not stay beside other values"
    )
    page.uncheck("text=Stop when a question costs more than it gains")
    page.click("button:text-is('Start')")
    asked = []
    while True:
        page.wait_for_selector("text=trees with an answer")
        question = page.locator("form:has(button:text-is('Answer'))")
        if question.count() == 0:
            break
        asked.append(question.locator("label").inner_text())
        if len(asked) == 1:
            question.get_by_text("Cannot be obtained").click()
        else:
            field = question.locator("input, select").first
            if field.evaluate("one => one.tagName") == "SELECT":
                field.select_option("=mild")
            else:
                field.fill("70")
            question.get_by_text("Answer").click()
        page.wait_for_selector("td:text-is('cannot be obtained')")
        page.wait_for_selector("main:not(:has([aria-busy=true]))")
    assert asked
    assert set(asked) <= {f"{name}?" for name in FEATURES}
    assert "It stops here" in page.inner_text("main")


def test_no_decision_stays_or_is_made_beside_other_values_or_a_matrix_that_cannot_be_read(
    tab,
):
    page = tab.open("cases/woods:1")
    page.click("summary:text-is('Benefit matrix')")
    waiting: list[Any] = []
    page.route("**/predict", lambda route: waiting.append(route))  # noqa: PLW0108 - it takes functions only
    page.fill(FIELD, "61")
    with page.expect_request("**/predict"):
        page.click("button:text-is('Decide')")
    page.fill(FIELD, "62")
    with page.expect_response("**/predict"):
        waiting[0].continue_()
    page.wait_for_timeout(200)
    assert page.locator(".decision").count() == 0
    page.unroute("**/predict")
    press(page, "button:text-is('Decide')", ".decision")
    asked = asked_of(page)
    page.fill(CELL, "")
    assert page.locator(".decision").count() == 0
    for action in ("Decide", "Start"):
        page.click(f"button:text-is('{action}')")
        page.wait_for_selector(
            f"section:has(button:text-is('{action}')) .problem:has-text('Benefit of ')"
        )
    assert asked == []


def test_requests_by_position_name_the_version_of_the_card(tab, tmp_path):
    """Where an alias moves, rows and columns of a matrix must not be taken for those of another version."""
    asked = asked_of(tab.page)
    path = file_of(tmp_path, two_class_rows(20, seed=3)["rows"])
    page = tab.open("lab/triage@champion")
    judged(page)
    page.set_input_files("input[type=file]", path)
    page.wait_for_selector("text=0 of 20 cases")
    page = tab.open("cases/triage@champion")
    decide_all(page, path, 20)
    press(page, "button:text-is('Start')", "text=trees with an answer")

    posted = [request for request in asked if request.method == "POST"]
    assert len(posted) == 5
    for request in posted:
        assert "@" not in unquote(request.url) + (request.post_data or ""), request.url


def test_a_case_goes_to_the_alias_with_a_matrix_in_words(tab):
    """Challengers decide on requests to an alias; names are right for whichever version answers."""
    page = tab.open("cases/triage@champion")
    page.fill(FIELD, "61")
    with page.expect_request("**/predict") as request:
        page.click("button:text-is('Decide')")
    page.wait_for_selector(".decision")
    sent = json.loads(request.value.post_data)
    assert (sent["model"], sent["benefits"], sent["actions"]) == (
        "triage@champion",
        WORDS,
        PLAIN_ACTIONS,
    )
    assert page.locator("p[role=alert]").count() == 0
    page.click("summary:text-is('Benefit matrix')")
    page.fill(CELL, "-0.75 * amount+2")
    page.get_by_label("amount", exact=True).first.fill("200")
    with page.expect_request("**/predict") as request:
        press(
            page,
            "button:text-is('Decide')",
            "small:has-text('treat brings 2 less 0.75 times amount')",
        )
    sent = json.loads(request.value.post_data)
    assert sent["benefits"]["healthy"]["treat"] == {
        "column": "amount",
        "times": -0.75,
        "plus": 2,
    }
    assert (sent["instances"][0]["age"], sent["instances"][0]["amount"]) == (61, 200)
    moved = {"model": {"name": "triage", "version": 2}}
    page.route(
        "**/predict", lambda route: route.fulfill(json=route.fetch().json() | moved)
    )
    press(
        page, "button:text-is('Decide')", "p[role=alert]:has-text('Version 2 decided')"
    )


def test_the_matrix_of_another_model_is_used_and_amounts_have_the_unit_of_the_model(
    tab, site
):
    order = {
        "model": "nurses",
        "learner": {"kind": "logistic"},
        "data": two_class_rows(60),
    }
    trained(
        site.client,
        {
            **order,
            "unit": "EUR",
            "benefits": [[0, -7], [-4, 4]],
            "actions": ["go", "stay"],
        },
    )
    page = tab.open("cases/triage:1")
    page.click("summary:text-is('Benefit matrix')")
    page.click("summary:text-is('Matrices of other models')")
    page.click("text=Use that of nurses")
    assert page.input_value(CELL) == "-7"
    for ref, caption in (
        ("triage:1", "of each action"),
        ("nurses:1", "of each action in EUR"),
    ):
        if ref not in page.url:
            page = tab.open(f"cases/{ref}")
        page.fill(FIELD, "61")
        press(
            page,
            "button:text-is('Decide')",
            f"caption:text-is('Expected benefit {caption}')",
        )
        assert page.inner_text(".decision") in ("go", "stay")


def test_a_file_is_decided_in_chunks_as_the_service_decides_it_whole(
    tab, site, tmp_path
):
    """With a column that is no feature, whose values contain quotes, line ends and markup."""
    rows = [
        [f'"{i}",\n<script>alert(9)</script>', *row]
        for i, row in enumerate(hostile_rows(5000)["rows"])
    ]
    path = file_of(
        tmp_path,
        rows,
        names=["note", *FEATURES],
        name="<img src=x onerror=alert(8)>.csv",
    )
    page = tab.open("cases/woods:1")
    decide_all(page, path, 5000)
    query = {
        "model": "woods:1",
        "benefits": "[[0,-1],[-10,5]]",
        "actions": json.dumps(ACTIONS),
        "keep": '["note"]',
    }
    kinds = {"Content-Type": "text/csv", "Accept": "text/csv"}
    content = Path(path).read_bytes()

    assert len(content) > 2**18
    assert (
        downloaded(page)
        == site.client.post(
            "/predict", content=content, params=query, headers=kinds
        ).content
    )


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

    rows = [
        [*row, f"{i} {'x' * 900}"]
        for i, row in enumerate(two_class_rows(400, seed=8)["rows"])
    ]
    page = tab.open("cases/triage:1")
    page.set_input_files("input[type=file]", file_of(tmp_path, rows, "note"))
    page.route("**/predict?*", second_fails)
    press(page, "text=Decide all", ".problem:has-text('rows are counted from row')")
    press(page, "button:text-is('Retry')", "text=400 rows decided")
    assert len(chunks) == 3
    assert chunks[0] != chunks[1] == chunks[2]
    head, *found = csv.reader(downloaded(page).decode().splitlines())
    assert [row[head.index("note")].split()[0] for row in found] == [
        str(i) for i in range(400)
    ]


def test_a_column_of_ids_names_the_decisions_of_a_file(tab, tmp_path, recorded):
    rows = [
        [*row, f"visit-{i}"] for i, row in enumerate(two_class_rows(20, seed=3)["rows"])
    ]
    before, path = recorded(), file_of(tmp_path, rows, "id")
    page = tab.open("cases/triage:1")
    page.check("text=Record decisions")
    for _ in range(2):
        with page.expect_request("**/predict?*") as request:
            decide_all(page, path, 20)
        assert (query_of(request.value)["id"], query_of(request.value)["keep"]) == (
            "id",
            "[]",
        )
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
    press(page, "button:text-is('Retry')", ".decision")
    assert recorded() == before + 1
    press(
        page, "button:text-is('Decide')", "main:not(:has([aria-busy=true])) .decision"
    )
    assert recorded() == before + 2, "another decision"


def test_changing_what_a_case_is_asked_with_records_nothing(tab, recorded):
    """Start with nothing to spend decides at once, and is the one decision of the case; what follows are trials."""
    before = recorded()
    page = tab.open("cases/triage:1")
    page.check("text=Record decisions")
    asked = asked_of(page)
    budget = page.locator("label:text-is('Budget') + input")

    def after(change: Any) -> str:
        with page.expect_response("**/acquire"):
            change()
        return str(
            page.inner_text(
                "main:not(:has([aria-busy=true])) section:has(button:text-is('Start'))"
            )
        )

    budget.fill("0")
    assert "trial" not in after(lambda: page.click("button:text-is('Start')"))
    page.click("summary:text-is('Benefit matrix')")
    trials = (
        lambda: page.fill(CELL, "-9"),
        lambda: page.uncheck("text=Stop when a question costs more than it gains"),
    )
    assert all(
        "This is a trial, which is not recorded" in after(change) for change in trials
    )
    assert recorded() == before + 1
    budget.fill("")
    assert "trial" not in after(lambda: budget.press("Tab")), (
        "a question is no decision"
    )
    after(lambda: page.click("button:text-is('Start')"))
    first, *others, last = (
        json.loads(one.post_data) for one in asked if one.url.endswith("/acquire")
    )
    assert {one["ids"][0] for one in others} == set(first["ids"])
    assert last["ids"] != first["ids"]
    assert UUID(first["ids"][0]).version == 7, "the service finds these by their day"
    assert [one.get("record") for one in (first, *others, last)] == [
        True,
        *[None] * len(others),
        True,
    ]


def test_an_error_in_a_file_names_the_place(tab, tmp_path):
    page = tab.open("cases/woods:1")
    for content, named in (("age\n1\n", FEATURES[0]), ("", "empty")):
        (tmp_path / "wrong.csv").write_text(content)
        page.set_input_files("input[type=file]", tmp_path / "wrong.csv")
        press(page, "text=Decide all", f".problem:has-text('{named}')")


FORMULAS = ["=1+1", "+x", "-x", "@sum", "-", '=HYPERLINK("a";"b")', "=A1,\n=B1"]
HARMLESS = ["-3.5", "-3,5", "+7", "-1e3", "a=1", "it's", 'say "=1"', ""]


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-16be"])
def test_a_file_of_cases_comes_back_in_each_encoding_without_formulas(
    tab, tmp_path, encoding
):
    """Names and text whose bytes contain those of a line end; what a spreadsheet would compute is marked as text. What
    the service warns of is shown.
    """
    note = "Köln €" if encoding == "latin-1" else "Köln Ċਊ€"
    notes = [note, *FORMULAS, *HARMLESS]
    rows = [["61,5", "70", one, "mild"] for one in notes[:-1]] + [
        ["48,25", "70", notes[-1], "unheard of"]
    ]
    path = file_of(
        tmp_path, rows, names=["age", "pulse", f"={note}", "pain"], delimiter=";"
    )
    codec = {"latin-1": "cp1252", "utf-16be": "utf-16-be"}.get(encoding, encoding)
    start = "\ufeff" if encoding == "utf-16be" else ""
    Path(path).write_bytes((start + Path(path).read_bytes().decode()).encode(codec))
    page = tab.open("cases/triage:1")
    page.get_by_label("Encoding").select_option(
        encoding[:6] if "16" in encoding else encoding
    )
    page.set_input_files("input[type=file]", path)
    press(page, "text=Decide all", ".problem:has-text('change “Decimals as”')")
    page.get_by_label("Decimals as").select_option(",")
    press(page, "text=Decide all", f"text={len(notes)} rows decided")
    assert "never seen in training" in page.inner_text("[aria-label=Warnings]")
    found = list(csv.reader(downloaded(page).decode().splitlines(keepends=True)))
    assert [row[0] for row in found] == [
        f"'={note}",
        note,
        *(f"'{one}" for one in FORMULAS),
        *HARMLESS,
    ]


@pytest.mark.parametrize(
    "head",
    [
        "age, pulse ,\tpain",
        '\r\n\r\nage," pulse",pain',
        ",age,pulse,pain",
        "id, age,pulse,pain",
    ],
)
def test_names_of_columns_are_read_as_the_service_reads_them(tab, tmp_path, head):
    index = "7," if head.count(",") == 3 else ""
    (tmp_path / "cases.csv").write_text(
        f"{head}\n{index}61,70,mild\n{index}62,70,mild\n"
    )
    page = tab.open("lab/triage:1")
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    page.wait_for_selector("text=0 of 2 cases get another action")


def predicted(loans, path, **query):
    """The decisions of a file as the service makes them with the matrix in words."""
    stakes = {"benefits": LOAN_BENEFITS, "actions": LOAN_ACTIONS} | query
    answer = loans.client.post(
        "/predict",
        content=Path(path).read_bytes(),
        params={
            "model": "loans:1",
            "id": "applicant",
            **{name: json.dumps(value) for name, value in stakes.items()},
        },
        headers={"Content-Type": "text/csv"},
    )
    answer.raise_for_status()
    return answer.json()


def rows_of(content):
    return list(csv.DictReader(content.decode().splitlines()))


def test_each_case_is_decided_by_its_own_benefits(tab, loans, tmp_path):
    """What a model was trained with is a formula wherever it is shown, sent, recorded and exported."""
    rows, _ = loan_rows(200, seed=1)
    path = file_of(tmp_path, rows, names=LOAN_COLUMNS)
    expected = predicted(loans, path)
    card = loans.client.get("/models/loans:1").json()
    by_means = predicted(loans, path, benefits=card["benefits"])
    pairs = zip(expected["decisions"], by_means["decisions"], strict=True)
    assert sum(own != mean for own, mean in pairs) > 10

    page = tab.open("cases/loans:1")
    assert page.input_value("[data-cell='0 0']") == "-0.5*loan_amount"
    assert page.input_value("[data-cell='1 0']") == "0.12*loan_amount-300"
    page.set_input_files("input[type=file]", path)
    page.get_by_label("Ids of cases").select_option("applicant")
    page.check("text=Record decisions")
    press(page, "text=Decide all", "text=200 rows decided")
    assert (
        "default: grant costs 0.5 times loan_amount, refuse brings 0"
        in page.inner_text("main")
    )
    lines = rows_of(downloaded(page))
    assert [line["decision"] for line in lines] == expected["decisions"]
    assert [line["applicant"] for line in lines] == [row[0] for row in rows]
    benefits = [float(line["benefit:grant"]) for line in lines]
    assert benefits == pytest.approx(
        [pair[0] for pair in expected["expected_benefits"]]
    )
    report = loans.client.get("/models/loans/outcomes").json()
    assert report["decisions"] == 200
    promised = sum(map(max, expected["expected_benefits"]))
    assert report["expected"]["total"] == pytest.approx(promised)

    for label, value in zip(NAMES_OF_LOANS, rows[0][1:], strict=True):
        page.get_by_label(label, exact=True).first.fill(str(value))
    with page.expect_response("**/predict") as answer:
        page.click("button:text-is('Decide')")
    assert answer.value.json()["expected_benefits"][0] == pytest.approx(
        expected["expected_benefits"][0]
    )


def test_questions_know_what_a_benefit_depends_on(tab, loans):
    page = tab.open("cases/loans:1")
    section = page.locator("section:has(button:text-is('Start'))")
    section.get_by_label("loan_amount").fill("9000")
    with page.expect_request("**/acquire") as request:
        section.get_by_text("Start").click()
    page.wait_for_selector("text=trees with an answer")
    assert json.loads(request.value.post_data)["instances"] == [{"loan_amount": 9000}]
    page.click("summary:text-is('Benefit matrix')")
    page.fill("[data-cell='0 0']", "-1*fee")
    page.wait_for_selector(".problem:has-text('fee')")
    with page.expect_request(lambda one: "columns" in (one.post_data or "")) as request:
        section.get_by_label("fee").fill("3")
        section.get_by_label("fee").press("Tab")
    sent = json.loads(request.value.post_data)
    assert (sent["columns"], sent["instances"]) == (
        {"fee": [3]},
        [{"loan_amount": 9000}],
    )


def test_limits_hold_for_a_file_as_a_whole(tab, loans, tmp_path):
    """At most 50 refusals among more rows than one part of a file has."""
    rows, _ = loan_rows(7000, seed=2)
    path = file_of(tmp_path, rows, names=LOAN_COLUMNS)
    assert Path(path).stat().st_size > 2**18
    page = tab.open("cases/loans:1")
    page.set_input_files("input[type=file]", path)
    page.get_by_label("Ids of cases").select_option("applicant")
    page.click("summary:text-is('Limits')")
    page.get_by_label("refuse", exact=True).fill("50")
    press(page, "text=Decide all", "text=7,000 rows decided")
    expected = predicted(loans, path, limits={"refuse": 50})
    found = [line["decision"] for line in rows_of(downloaded(page))]
    assert found.count("refuse") == 50
    assert found == expected["decisions"]
    assert shown(expected["limits"][0]["shadow_price"]) in page.inner_text(
        "tr:has(th:text-is('refuse')) >> nth=0"
    )
    page.get_by_label("refuse", exact=True).fill("60")
    assert page.locator("text=rows decided").count() == 0, (
        "nothing stays beside other limits"
    )


def test_a_column_of_the_file_is_chosen_for_the_ids(tab, loans, tmp_path):
    rows, _ = loan_rows(20, seed=3)
    page = tab.open("cases/loans:1")
    choice = page.get_by_label("Ids of cases")
    for names, chosen in ((["id", *LOAN_COLUMNS[1:]], "id"), (LOAN_COLUMNS, "")):
        page.set_input_files(
            "input[type=file]",
            file_of(tmp_path, rows, names=names, name=f"{names[0]}.csv"),
        )
        page.wait_for_selector(f"option[value='{names[0]}']", state="attached")
        assert choice.input_value() == chosen
        assert choice.locator("option").all_inner_texts() == ["no column", names[0]]
    choice.select_option("applicant")
    with page.expect_request("**/predict?*") as request:
        press(page, "text=Decide all", "text=20 rows decided")
    assert (query_of(request.value)["id"], query_of(request.value)["keep"]) == (
        "applicant",
        "[]",
    )


def test_a_number_has_costs_an_interval_and_bands(tab, loans, tmp_path):
    rows, _ = rent_rows(50, seed=1)
    path = file_of(tmp_path, rows, names=["area", "floor"])
    page = tab.open("cases/rents:1")
    page.get_by_label("A unit too much costs").fill("1")
    page.get_by_label("area").fill("60")
    press(page, "button:text-is('Decide')", ".problem:has-text('A unit too few costs')")
    page.get_by_label("A unit too few costs").fill("4")
    page.get_by_label("Share within the interval").fill("0.9")
    page.check("text=Record decisions")
    asked = {"unit_costs": {"over": 1, "under": 4}, "coverage": 0.9}
    instances = [{"area": 60, "floor": None}]
    json_ = {"model": "rents:1", "instances": instances}
    answer = loans.client.post("/predict", json=json_ | asked).json()
    press(page, "button:text-is('Decide')", ".decision")
    text = page.inner_text("section:has(.decision)")
    assert page.inner_text(".decision") == shown(answer["decisions"][0])
    low, high = map(shown, answer["intervals"][0])
    assert f"{low} to {high}" in text
    assert shown(answer["expected_costs"][0]) in text

    page.set_input_files("input[type=file]", path)
    page.click("summary:text-is('Limits')")
    page.get_by_label("Sum of all quantities").fill("36000")
    press(page, "text=Decide all", "text=50 rows decided")
    lines = rows_of(downloaded(page))
    assert {"decision", "expected_cost", "low", "high", "value"} <= lines[0].keys()
    assert sum(float(line["decision"]) for line in lines) == pytest.approx(36000)
    assert (
        page.locator("caption:has-text('what one unit more would save')").count() == 1
    )

    page.get_by_label("Bands begin at").fill("500; 900")
    assert page.locator("table.matrix tbody th").all_inner_texts() == [
        "below 500",
        "from 500 to below 900",
        "from 900",
    ]
    page.fill("[data-cell='2 0']", "-5")
    stakes = {"bands": [500, 900], "benefits": [[1, 0, 0], [0, 1, 0], [-5, 0, 1]]}
    answer = loans.client.post("/predict", json=json_ | stakes).json()
    press(page, "button:text-is('Decide')", "text=Expected benefit of each action")
    assert page.inner_text(".decision") == answer["decisions"][0]
    page.get_by_label("from 900", exact=True).last.fill("3")
    press(page, "text=Decide all", "text=50 rows decided")
    assert [line["decision"] for line in rows_of(downloaded(page))].count(
        "from 900"
    ) <= 3


def test_dates_are_asked_for_and_shown_as_the_file_has_them(tab, loans):
    page = tab.open("cases/loans:1")
    hint = page.inner_text("label:text-is('opened') + input + small")
    card = loans.client.get("/models/loans:1").json()
    (opened,) = [one for one in card["features"] if one["name"] == "opened"]
    low, high = (
        f"{EPOCH + timedelta(opened[end]):%d/%m/%Y}" for end in ("low", "high")
    )
    assert hint == f"day/month/year: {low} to {high}"
    tab.open("models/loans/1")
    assert f"{low} to {high}" in page.inner_text("tr:has(th:text-is('opened'))")
    assert "%" not in page.inner_text("section:has(h2:text-is('Features'))")
