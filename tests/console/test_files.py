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


@pytest.mark.parametrize(
    ("ages", "decimal", "said"),
    [
        (["61,5", "1,234"], ",", "guessed from “61,5”"),
        (["61.5", "1.234"], ".", ""),
        (["61", "62"], ".", ""),
        (["61", "1,234"], ",", "“1,234” can be read in two ways"),
        (["61", "1.234"], ".", "“1.234” can be read in two ways"),
        (["61,5", "62.5"], ",", "“61,5” and “62.5” can be read in two ways"),
    ],
)
@pytest.mark.thorough
def test_decimals_are_read_as_the_numbers_of_the_file_show_or_asked_for(tab, tmp_path, ages, decimal, said):
    page = tab.open("cases/triage:1")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.set_input_files("input[type=file]", file_of(tmp_path, ages))
    if "two ways" in said:
        page.click("text=Decide all")
        page.wait_for_selector(".problem:has-text('“Decimals as” is not chosen')")
        assert asked == []
    page.wait_for_function("(said) => document.body.innerText.includes(said)", arg=said)
    if "two ways" in said:
        page.get_by_label("Decimals as").select_option(decimal)
    with page.expect_request("**/predict?*") as request:
        page.click("text=Decide all")
    assert parse_qs(urlsplit(request.value.url).query)["decimal"] == [decimal]


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


@pytest.mark.parametrize(
    "head", ["age, pulse ,\tpain", '\r\n\r\nage," pulse",pain', ",age,pulse,pain", "id, age,pulse,pain"]
)
def test_names_of_columns_are_read_as_the_service_reads_them(tab, tmp_path, head):
    index = "7," if head.count(",") == 3 else ""
    (tmp_path / "cases.csv").write_text(f"{head}\n{index}61,70,mild\n{index}62,70,mild\n")
    page = tab.open("lab/triage:1")
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    page.wait_for_selector("text=0 of 2 cases get another action")


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1", "utf-16", "utf-16be"])
def test_a_file_of_cases_is_read_in_each_encoding(tab, tmp_path, encoding):
    """Names and text whose bytes contain those of a line end; the service gets UTF-8."""
    note = "Köln €" if encoding == "latin-1" else "Köln Ċਊ€"
    codec = {"latin-1": "cp1252", "utf-16be": "utf-16-be"}.get(encoding, encoding)
    start = "\ufeff" if encoding == "utf-16be" else ""
    lines = [f"age;pulse;{note};pain", f"61,5;70;{note};mild", f"48,25;70;{note};mild", ""]
    (tmp_path / "cases.csv").write_bytes((start + "\r\n".join(lines)).encode(codec))
    page = tab.open("cases/triage:1")
    page.get_by_label("Encoding").select_option(encoding[:6] if "16" in encoding else encoding)
    page.set_input_files("input[type=file]", tmp_path / "cases.csv")
    page.click("text=Decide all")
    page.wait_for_selector("text=2 rows decided")
    with page.expect_download() as download:
        page.click("text=Download the results")
    with download.value.path().open(newline="", encoding="utf-8") as file:
        assert [row[0] for row in csv.reader(file)] == [note] * 3
