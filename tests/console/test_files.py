"""Files of others: how they write decimals, and what a spreadsheet would make of the results."""

from __future__ import annotations

import csv
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest


def file_of(folder: Any, ages: list[str]) -> Any:
    path = folder / "cases.csv"
    path.write_text("\n".join(["age;pulse;pain", *(f"{age};70;mild" for age in ages)]))
    return path


def decimal_of(request: Any) -> str:
    return parse_qs(urlsplit(request.url).query)["decimal"][0]


@pytest.mark.parametrize(
    ("ages", "decimal", "said"),
    [
        (["61,5", "1,234"], ",", "guessed from “61,5”"),
        (["61.5", "1.234"], ".", ""),
        (["61", "62"], ".", ""),
    ],
)
@pytest.mark.thorough
def test_decimals_are_read_as_the_numbers_of_the_file_show(tab, tmp_path, ages, decimal, said):
    page = tab.open("cases/triage:1")
    page.set_input_files("input[type=file]", file_of(tmp_path, ages))
    with page.expect_request("**/predict?*") as request:
        page.click("text=Decide all")
    assert decimal_of(request.value) == decimal
    page.wait_for_selector("text=2 rows decided")
    assert page.input_value("label:text-is('Decimals as') + select") == decimal
    assert page.inner_text("label:text-is('Decimals as') ~ small") == said


@pytest.mark.parametrize(
    ("ages", "shown", "decimal"),
    [
        (["61", "1,234"], "“1,234”", ","),
        (["61", "1.234"], "“1.234”", "."),
        (["61,5", "62.5"], "“61,5” and “62.5”", ","),
    ],
)
@pytest.mark.thorough
def test_decimals_that_are_not_clear_are_asked_for(tab, tmp_path, ages, shown, decimal):
    page = tab.open("cases/triage:1")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_input_files("input[type=file]", file_of(tmp_path, ages))
    page.click("text=Decide all")
    page.wait_for_selector(".problem:has-text('“Decimals as” is not chosen')")
    assert page.inner_text("label:text-is('Decimals as') ~ small") == f"{shown} can be read in two ways"
    assert asked == []
    page.get_by_label("Decimals as").select_option(decimal)
    with page.expect_request("**/predict?*") as request:
        page.click("text=Decide all")
    assert decimal_of(request.value) == decimal


def test_the_lab_reads_a_file_anew_with_other_decimals_and_names_its_own_fields(tab, tmp_path):
    page = tab.open("lab/triage:1")
    page.set_input_files("input[type=file]", file_of(tmp_path, ["61,5", "48,25"]))
    page.wait_for_selector("text=0 of 2 cases get another action")
    page.get_by_label("Decimals as").select_option(".")
    page.wait_for_selector(".problem:has-text('change “Decimals as”')")
    assert "?" not in page.inner_text(".problem")
    page.get_by_label("Decimals as").select_option(",")
    page.wait_for_selector("text=0 of 2 cases get another action")


FORMULAS = ["=1+1", "+x", "-x", "@sum", "-", '=HYPERLINK("a";"b")', "=A1,\n=B1"]
HARMLESS = ["-3.5", "-3,5", "+7", "-1e3", "a=1", "it's", 'say "=1"', ""]


def test_no_text_of_a_download_is_a_formula(tab, tmp_path):
    path = tmp_path / "cases.csv"
    notes = [*FORMULAS, *HARMLESS]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(
            [["age", "pulse", "pain", "=note"], *(["61.5", "70", "mild", note] for note in notes)]
        )
    page = tab.open("cases/triage:1")
    page.set_input_files("input[type=file]", path)
    page.click("text=Decide all")
    page.wait_for_selector(f"text={len(notes)} rows decided")
    with page.expect_download() as download:
        page.click("text=Download the results")
    with download.value.path().open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head[0] == "'=note"
    assert [row[0] for row in rows] == [*(f"'{one}" for one in FORMULAS), *HARMLESS]

    page = tab.open("sets")
    page.fill("textarea", "=1+1,0.9\nb,0.7")
    page.click("text=Choose the set")
    with page.expect_download() as download:
        page.click("text=Download the set")
    lines = download.value.path().read_text().splitlines()
    script = "(text) => import('/console/csv.js').then(({harmless}) => harmless(text))"
    assert page.evaluate(script, '"\tx","\ry","\nz",-1,"-1"') == '"\'\tx","\'\ry","\'\nz",-1,"-1"'
    assert lines[1] == '"\'=1+1",0.9'


VIEWS = pytest.mark.parametrize(
    ("view", "done"), [("cases", "text=2 rows decided"), ("lab", "text=0 of 2 cases get another action")]
)


def decided(page: Any, view: str, done: str) -> None:
    if view == "cases":
        page.click("text=Decide all")
    page.wait_for_selector(done)


@VIEWS
@pytest.mark.parametrize(
    "head", ["age, pulse ,\tpain", '\r\n\r\nage," pulse",pain', ",age,pulse,pain", "id, age,pulse,pain"]
)
def test_names_of_columns_are_read_as_the_service_reads_them(tab, tmp_path, view, done, head):
    index = "7," if head.count(",") == 3 else ""
    (tmp_path / "cases.csv").write_text(f"{head}\n{index}61,70,mild\n{index}62,70,mild\n")
    page = tab.open(f"{view}/triage:1")
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    decided(page, view, done)


@VIEWS
@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-16be"])
def test_a_file_of_cases_is_read_in_each_encoding(tab, tmp_path, view, done, encoding):
    """Names and text whose bytes contain those of a line end; the service gets UTF-8."""
    note = "Köln €" if encoding == "latin-1" else "Köln Ċਊ€"
    codec = {"latin-1": "cp1252", "utf-16be": "utf-16-be"}.get(encoding, encoding)
    start = "\ufeff" if encoding == "utf-16be" else ""
    lines = [f"age;pulse;{note};pain", f"61,5;70;{note};mild", f"48,25;70;{note};mild", ""]
    (tmp_path / "cases.csv").write_bytes((start + "\r\n".join(lines)).encode(codec))
    page = tab.open(f"{view}/triage:1")
    page.get_by_label("Encoding").select_option(encoding[:6] if "16" in encoding else encoding)
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    decided(page, view, done)
    assert page.inner_text("label:text-is('Decimals as') ~ small") == "guessed from “61,5”"
    if view == "cases":
        with page.expect_download() as download:
            page.click("text=Download the results")
        with download.value.path().open(newline="", encoding="utf-8") as file:
            found = list(csv.reader(file))
        assert [row[0] for row in found] == [note] * 3
        assert download.value.suggested_filename == "cases-decided.csv"


@VIEWS
@pytest.mark.parametrize(("codec", "chosen"), [("cp1252", "utf-8"), ("utf-16", "utf-8"), ("cp1252", "utf-16")])
def test_another_encoding_than_that_of_the_file_is_named_by_its_field(tab, tmp_path, view, done, codec, chosen):
    (tmp_path / "cases.csv").write_bytes("age,pulse,pain\n61,70,müde\n61,70,müde\n".encode(codec))
    page = tab.open(f"{view}/triage:1")
    page.get_by_label("Encoding").select_option(chosen)
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    decided(page, view, ".problem:has-text('“Encoding”')")
    page.get_by_label("Encoding").select_option({"cp1252": "latin-1", "utf-16": "utf-16"}[codec])
    decided(page, view, done)
