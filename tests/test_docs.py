"""The documentation contains what the code contains: tables are complete, and each link and file name exists."""

import html
import re
from pathlib import Path
from typing import get_args

import pytest

from app.access.caller import Scope
from app.api.errors import STATUSES
from app.jobs.job import ENDED, TRANSITIONS, Status
from app.learners.catalogue import KINDS
from app.learners.parameters import request_of
from app.retrieval.losses import LOSSES
from app.settings import Settings
from app.usecases.decide import Rule
from tools.mathml import on_page_content

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
ARCHITECTURE = (DOCS / "explanation" / "architecture.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
RECORDS = {ROOT / "CHANGELOG.md"}  # of its time: files may have moved since


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_diagram_of_job_states_is_the_table_of_transitions():
    lines = ["stateDiagram-v2", f"    [*] --> {Status.QUEUED}"]
    lines += [f"    {start} --> {end}: {event}" for (start, event), end in TRANSITIONS.items()]
    lines += [f"    {status} --> [*]" for status in Status if status in ENDED]
    assert "\n".join(["```mermaid", *lines, "```"]) in ARCHITECTURE


def test_every_part_of_the_house_is_named():
    parts = {path.stem for path in (ROOT / "app").iterdir() if not path.name.startswith("__")}

    assert {part for part in parts if f"`{part}`" not in ARCHITECTURE} <= {"demo"}


def test_every_setting_is_listed_with_its_default():
    page = (REFERENCE / "settings.md").read_text()
    for name, field in Settings.model_fields.items():
        row = re.search(rf"^\| `PAYOFF_{name.upper()}` \| (.*?) \| (.*?) \|$", page, re.MULTILINE)

        assert row, name
        assert row[2] == field.description
        assert row[1] == ("" if field.default in (None, "") else f"`{field.default}`")


def test_every_status_is_listed():
    page = (REFERENCE / "errors.md").read_text()
    for status in {*STATUSES, 400, 405, 408, 431}:  # the last come from the framework and from the server
        assert f"| {status} |" in page


def test_every_learner_is_listed_with_its_parameters():
    page = (REFERENCE / "learners.md").read_text()
    for kind, entry in KINDS.items():
        row = re.search(rf"^\| `{kind}` \|.*\|(.*)\|$", page, re.MULTILINE)

        assert row, kind
        assert re.findall(r"`(\w+)`", row[1]) == [*request_of(entry)(kind=kind).parameters]


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("reference/scopes.md", "| scope | allows |", {scope.value for scope in Scope}),
        ("explanation/retrieval.md", "| loss | in counts |", {*LOSSES}),
        ("reference/requests.md", "| `rule` |", {*get_args(Rule)}),
    ],
)
def test_every_row_of_a_table_is_there(page, head, names):
    table = (DOCS / page).read_text().partition(head)[2].partition("\n\n")[0]

    assert {*re.findall(r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE)))} == names


def test_each_module_of_the_glossary_exists():
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| `(app/[\w/]+\.py)` \|$", (REFERENCE / "glossary.md").read_text(), re.MULTILINE
    )

    assert len(rows) >= 40
    assert len({term for term, _, _ in rows}) == len(rows)
    assert [module for _, _, module in rows if not (ROOT / module).is_file()] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in RECORDS], ids=_id)
def test_each_file_that_a_page_names_exists(page):
    named = re.findall(r"`((?:app|tests|docs|deploy|tools|benchmarks|\.ci|\.github)/[\w./-]*\w)`", page.read_text())

    assert [name for name in named if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=_id)
def test_each_link_of_a_page_has_a_target(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text().replace("\n  ", " ")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        found = (page.parent / path).resolve() if path else page

        assert found.exists(), target
        assert not anchor or anchor in _anchors(found), target


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("folder", ["app", "tests", "benchmarks", "deploy", "tools"])
def test_each_page_that_the_code_names_exists(folder):
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in {".py", ".yml", ".sh", ".conf", ".json"}]
    files += ROOT.glob("*.yml")
    named = {(path, name) for path in files for name in re.findall(r"docs/[\w/-]+\.(?:md|svg)", path.read_text())}

    assert [(path, name) for path, name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()

    assert [_id(page) for page in DOCS.rglob("*.md") if f": {page.relative_to(DOCS)}\n" not in navigation] == []


def test_formulas_become_mathml():
    page = on_page_content(
        r'<p><span class="arithmatex">\(a &lt; \beta\)</span></p><div class="arithmatex">\[c\]</div>'
    )

    assert page.count("<math") == 2
    assert "<mo><</mo><mi>β</mi>" in html.unescape(page)
    assert "arithmatex" not in page
    assert 'display="block"' in page
