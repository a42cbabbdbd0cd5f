"""The README and the documentation pages are true: their commands answer as printed, and the README is short."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from app.commands.demo import cases, show
from tests.conftest import serving, settings_for

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
COMMAND = re.compile(
    r"```sh\n((?:(?!```).)*)```\n\n```json\n((?:(?!```).)*)```", re.DOTALL
)
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
NUMBER, DECIMAL = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?"), re.compile(r"\d+\.\d+")
PAGES = [
    page
    for page in sorted((ROOT / "docs").rglob("*.md"))
    if COMMAND.search(page.read_text())
]
CHANGING = {
    "id",
    "at",
    "created_at",
    "started_at",
    "finished_at",
}  # times, and what a job is called


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(settings_for(tmp_path_factory.mktemp("readme"))) as client:
        yield client


def alike(printed: object, answered: object) -> bool:
    """Equal but for times, and for the last digits of floats."""
    if isinstance(printed, dict) and isinstance(answered, dict):
        same_names = printed.keys() == answered.keys()
        return same_names and all(
            name in CHANGING or alike(printed[name], answered[name]) for name in printed
        )
    if isinstance(printed, list) and isinstance(answered, list):
        return len(printed) == len(answered) and all(map(alike, printed, answered))
    if isinstance(printed, float) and isinstance(answered, float):
        return answered == pytest.approx(printed, rel=1e-4)
    return printed == answered


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_answer_as_printed(page, fresh, tmp_path):
    """Every curl of a page, run in order; the pages name their models differently and share one service."""
    for printed_command, printed in COMMAND.findall(page.read_text()):
        command = printed_command.replace(
            "http://127.0.0.1:8000", str(fresh.base_url).rstrip("/")
        )
        found = subprocess.run(
            ["bash", "-c", command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )

        assert alike(json.loads(printed), json.loads(found.stdout)), (
            f"{command}\n{found.stdout}"
        )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_is_said_of_an_answer_has_its_numbers(page):
    """Decimals of the paragraph after an answer are numbers of the answer, or of its command, rounded."""
    text = page.read_text()
    for shown in COMMAND.finditer(text):
        paragraph = text[shown.end() :].lstrip().partition("\n\n")[0]
        if not paragraph.startswith(("#", "```", "**")):  # these begin something else
            numbers = [float(number) for number in NUMBER.findall(shown[0])]
            for said in DECIMAL.findall(paragraph):
                assert float(said) in {
                    round(number, len(said.partition(".")[2])) for number in numbers
                }, paragraph


def test_the_pages_with_commands_are_found():
    """No command is lost by a change of its fence: in the tutorial, how-tos and explanations."""
    counts = {page.name: len(COMMAND.findall(page.read_text())) for page in PAGES}

    assert counts == {
        "defaults.md": 2,
        "first-decisions.md": 8,
        "guarantees.md": 2,
        "reasons.md": 1,
        "regression.md": 1,
        "review.md": 2,
    }
    curls = sum(page.read_text().count("curl -s ") for page in PAGES)
    assert curls == sum(counts.values()) + 9, "six answers follow several commands"


def test_the_program_of_the_readme_prints_what_follows_it(capsys):
    program, printed = PROGRAM.findall(README.read_text())[0]
    exec(program, {})
    assert capsys.readouterr().out == printed


def test_the_readme_has_the_matrix_and_the_result_of_the_demo(fresh, capsys):
    case = next(case for case in cases() if case.model == "wine")
    text = README.read_text()

    show(fresh, case)

    earned = re.findall(
        r"^ +(-?\d+\.\d\d)   ",
        capsys.readouterr().out.partition("Earned on 72 ")[2],
        re.MULTILINE,
    )
    assert re.findall(r"^\|[^|]*\| (-?\d+\.\d\d) \|$", text, re.MULTILINE) == earned
    assert float(earned[0]) > float(earned[1]), (
        "deciding by expected benefit earns more"
    )
    assert f"| true class | {' | '.join(case.actions)} |" in text
    for name, row in zip(case.classes, case.benefits, strict=True):
        assert f"| {name} | {' | '.join(f'{value:+g}' for value in row)} |" in text
