"""The tutorial from a file to outcomes: its Python answers as printed, and its short way through the console is one."""

from __future__ import annotations

import contextlib
import functools
import io
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import serving, settings_for
from tests.console.tab import FOLDER, Site, Tab

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
CODE = re.compile(
    r"^( *)```python\n(.*?)^ *```\n(?:\n *```text\n(.*?)^ *```\n)?",
    re.DOTALL | re.MULTILINE,
)
BLOCKS = [
    (textwrap.dedent(code), textwrap.dedent(printed))
    for _, code, printed in CODE.findall(PAGE)
]
SHORT, FILES, *STEPS = BLOCKS
CLICKS = re.findall(
    r"^\d\. (.*(?:\n   .*)*)",
    PAGE.partition("## The short way")[2].partition("In Python")[0],
    re.MULTILINE,
)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the files that the tutorial makes."""
    folder = tmp_path_factory.mktemp("tutorial")
    with contextlib.chdir(folder):
        exec(FILES[0], {})
    return folder


@pytest.fixture(scope="module")
def open_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A service as `make demo` has it: without keys."""
    with serving(settings_for(tmp_path_factory.mktemp("service"))) as client:
        yield Site(str(client.base_url).rstrip("/"), client, "")


def run(blocks: list[tuple[str, str]], url: str) -> None:
    """Each block in the same namespace; asserts what it prints."""
    names: dict[str, Any] = {}
    for code, printed in blocks:
        said = io.StringIO()
        names["print"] = functools.partial(
            print, file=said
        )  # what the service logs is not the page's
        exec(code.replace("http://127.0.0.1:8000", url), names)
        if printed:
            assert said.getvalue() == printed
    names["client"].close()


@pytest.mark.filterwarnings("ignore:the share of 'benign'")  # which the page names
def test_the_python_answers_as_printed_and_the_short_way_takes_at_most_eight_lines(
    open_site, tables, monkeypatch
):
    monkeypatch.chdir(tables)

    run([FILES, *STEPS], open_site.url)
    run([SHORT], open_site.url)

    assert [bool(printed) for _, printed in STEPS] == [True] * 5
    assert "```python" not in CODE.sub("", PAGE)
    assert len([line for line in SHORT[0].splitlines() if line]) <= 8
    assert len(Path("decided.csv").read_text().splitlines()) == 170


def test_a_decision_under_a_matrix_of_ones_own_takes_eight_clicks(
    browser, open_site, tables
):
    """The eight clicks of the page; between them only the keyboard is used."""
    assert len(CLICKS) == 8
    tab = Tab(browser, open_site, "")
    page = tab.page
    page.goto(open_site.url)  # the address that `make demo` prints
    page.click(f"nav >> text={named(0)}")
    with page.expect_file_chooser() as chooser:
        page.click(f"text={named(1)}")
    chooser.value.set_files(tables / "biopsies.csv")
    page.click(f"button:text-is('{named(2)}')")
    page.click(f"text={named(3)}")
    page.select_option(
        "form select >> nth=0", "logistic"
    )  # 'auto' would do, and take longer
    page.click(f"button:text-is('{named(4)}')")
    page.click(f"text={named(5)}", timeout=60_000)
    page.click(f"details:has-text('{named(6)}') [data-cell='0 0']")
    for value in ("0", "-40", "-500", "100"):
        page.keyboard.type(value)
        page.keyboard.press("Tab")
    while not page.evaluate("document.activeElement.closest('form') !== null"):
        page.keyboard.press("Tab")
    page.keyboard.type("15.5")
    page.click(f"button:text-is('{named(7)}')")
    page.wait_for_selector(".decision")

    answer = open_site.client.post(
        "/predict",
        json={
            "model": "biopsies",
            "instances": [[15.5, None, None, None]],
            "benefits": [[0, -40], [-500, 100]],
        },
    ).json()
    assert page.inner_text(".decision") == answer["decisions"][0]
    assert "100" in page.inner_text("small:has-text('Decided with')")
    tab.close()


def named(step: int) -> str:
    """The label that a step names."""
    return re.search(r"\*\*(.+?)\*\*", CLICKS[step])[1].replace("\n   ", " ")


def test_the_labels_are_those_of_the_console():
    sources = "".join(path.read_text() for path in FOLDER.glob("*.js"))
    tabs = re.findall(
        r'^=== "Console"\n\n(.*?)^=== "Python"', PAGE, re.DOTALL | re.MULTILINE
    )
    labels = {
        " ".join(label.split())
        for text in tabs
        for label in re.findall(r"\*\*(.+?)\*\*", text, re.DOTALL)
    }

    assert len(tabs) == 5
    assert len(labels) >= 15
    assert {label for label in labels if label not in sources} == set()
