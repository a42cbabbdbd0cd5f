"""The notebooks of the documentation, run by a kernel of their own against the service, answer as
they are printed.

PAYOFF_NOTEBOOKS=1 renews their outputs.
"""

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tools.notebooks import markdown

FOLDER = Path(__file__).parents[3] / "docs" / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
ROOT = FOLDER.parents[1]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_answers_as_printed(path, service, monkeypatch):
    monkeypatch.setenv("PAYOFF_URL", str(service.base_url))
    monkeypatch.setenv(
        "PYTHONPATH",
        os.pathsep.join([str(ROOT / "clients" / "python"), f"{sys.prefix}/pandas"]),
    )
    monkeypatch.setenv("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    printed = nbformat.read(path, as_version=4)
    answered = NotebookClient(
        nbformat.from_dict(printed), timeout=300, record_timing=False
    ).execute()
    if os.environ.get("PAYOFF_NOTEBOOKS"):
        path.write_text(json.dumps(answered, indent=1, ensure_ascii=False) + "\n")

    for before, after in zip(printed.cells, answered.cells, strict=True):
        assert _shown(after) == _shown(before), before.source
    assert "<svg" in path.read_text(), "a chart is shown"
    assert re.search("<svg|data:image/svg", markdown(path))


def _shown(cell: Any) -> list[Any]:
    """What a cell shows; numbers to three digits, and of charts that they are there."""
    shown: list[str] = []
    is_printed = False
    for output in cell.get("outputs", ()):
        assert output.output_type != "error", output
        was_printed, is_printed = is_printed, output.output_type == "stream"
        data = output.get("data", {"text/plain": output.get("text", "")})
        is_chart = "image/svg+xml" in data or "<svg" in data.get("text/html", "")
        text = "chart" if is_chart else data["text/plain"]
        if (
            was_printed and is_printed
        ):  # a kernel sends what is printed in as many parts as it likes
            shown[-1] += text
        else:
            shown.append(text)
    return [[_rounded(one) for one in re.split(r"(\d+\.\d+)", text)] for text in shown]


def _rounded(text: str) -> str | float:
    return (
        pytest.approx(float(text), rel=0.01, abs=0.02)
        if re.fullmatch(r"\d+\.\d+", text)
        else text
    )


def test_each_reader_has_a_notebook():
    assert [path.stem for path in NOTEBOOKS] == [
        "calls",
        "credit",
        "inventory",
        "moderation",
        "search",
        "triage",
    ]
