"""The documentation contains what the code contains: tables, links, names, and what the service tells operators."""

import html
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from prometheus_client.core import Metric

from app.access.caller import Scope
from app.commands.check import check
from app.errors import STATUSES
from app.jobs.job import ENDED, TRANSITIONS, Status
from app.monitoring.metrics import Metrics, of_worker
from app.outcomes.decision import Outcome
from app.requests.rules import RuleOfModel
from app.service import wire
from app.settings import Settings
from payoff.learners.catalogue import KINDS
from payoff.learners.parameters import request_of
from payoff.retrieval.losses import LOSSES
from tests.conftest import settings_for
from tests.outcomes.test_totals import GRANTED
from tools.mathml import on_page_content

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
ARCHITECTURE = (DOCS / "explanation" / "architecture.md").read_text()
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
TEXTS = {".py", ".md", ".ipynb"}
RECORDS = {ROOT / "CHANGELOG.md"}  # of its time: files may have moved since


def _id(page: Path) -> str:
    return str(page.relative_to(ROOT))


def test_the_diagram_of_job_states_is_the_table_of_transitions():
    lines = ["stateDiagram-v2", f"    [*] --> {Status.QUEUED}"]
    lines += [
        f"    {start} --> {end}: {event}" for (start, event), end in TRANSITIONS.items()
    ]
    lines += [f"    {status} --> [*]" for status in Status if status in ENDED]
    assert "\n".join(["```mermaid", *lines, "```"]) in ARCHITECTURE


def test_every_part_of_the_house_is_named():
    parts = {
        path.stem
        for building in ("app", "payoff")
        for path in (ROOT / building).iterdir()
        if not path.name.startswith("__")
    }

    assert {part for part in parts if f"`{part}`" not in ARCHITECTURE} <= {"demo"}


def test_every_setting_is_listed_with_its_default():
    page = (REFERENCE / "settings.md").read_text()
    for name, field in Settings.model_fields.items():
        row = re.search(
            rf"^\| `PAYOFF_{name.upper()}` \| (.*?) \| (.*?) \|$", page, re.MULTILINE
        )

        assert row, name
        assert row[2] == field.description
        assert row[1] == ("" if field.default in (None, "") else f"`{field.default}`")


def test_every_status_is_listed():
    page = (REFERENCE / "errors.md").read_text()
    for status in {
        *STATUSES,
        400,
        405,
        408,
        431,
    }:  # the last come from the framework and from the server
        assert f"| {status} |" in page


def test_every_learner_is_listed_with_its_parameters():
    page = (REFERENCE / "learners.md").read_text()
    for kind, entry in KINDS.items():
        row = re.search(rf"^\| `{kind}` \|.*\|(.*)\|$", page, re.MULTILINE)

        assert row, kind
        assert re.findall(r"`(\w+)`", row[1]) == [
            *request_of(entry)(kind=kind).parameters
        ]


@pytest.mark.parametrize(
    ("page", "head", "names"),
    [
        ("reference/scopes.md", "| scope | allows |", {scope.value for scope in Scope}),
        ("explanation/retrieval.md", "| loss | in counts |", {*LOSSES}),
        ("reference/requests.md", "| `rule` |", {*get_args(RuleOfModel)}),
    ],
)
def test_every_row_of_a_table_is_there(page, head, names):
    table = (DOCS / page).read_text().partition(head)[2].partition("\n\n")[0]

    assert {
        *re.findall(
            r"`(\w+)`", " ".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))
        )
    } == names


def test_each_module_of_the_glossary_exists():
    rows = re.findall(
        r"^\| (.+?) \| (.+?) \| `((?:app|payoff)/[\w/]+\.py)` \|$",
        (REFERENCE / "glossary.md").read_text(),
        re.MULTILINE,
    )

    assert len(rows) >= 40
    assert len({term for term, _, _ in rows}) == len(rows)
    assert [module for _, _, module in rows if not (ROOT / module).is_file()] == []


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page not in RECORDS], ids=_id
)
def test_each_file_that_a_page_names_exists(page):
    named = re.findall(
        r"`((?:app|payoff|tests|docs|deploy|tools|benchmarks|\.ci|\.github)/[\w./-]*\w)`",
        page.read_text(),
    )

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
    return {
        re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")
        for heading in headings
    }


@pytest.mark.parametrize(
    "folder", ["app", "payoff", "tests", "benchmarks", "deploy", "tools"]
)
def test_each_page_that_the_code_names_exists(folder):
    files = [
        path
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".yml", ".sh", ".conf", ".json"}
    ]
    files += ROOT.glob("*.yml")
    named = {
        (path, name)
        for path in files
        for name in re.findall(r"docs/[\w/-]+\.(?:md|svg)", path.read_text())
    }

    assert [(path, name) for path, name in named if not (ROOT / name).exists()] == []


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text()

    assert [
        _id(page)
        for page in DOCS.rglob("*.md")
        if f": {page.relative_to(DOCS)}\n" not in navigation
    ] == []


def test_formulas_become_mathml():
    page = on_page_content(
        r'<p><span class="arithmatex">\(a &lt; \beta\)</span></p><div class="arithmatex">\[c\]</div>'
    )

    assert page.count("<math") == 2
    assert "<mo><</mo><mi>β</mi>" in html.unescape(page)
    assert "arithmatex" not in page
    assert 'display="block"' in page


DOCUMENT = (ROOT / "docs" / "how-to" / "operation.md").read_text()
ROWS = [
    (name, kind, labels, who)
    for who, kind, metrics in re.findall(
        r"^\| (\w+) \| (\w+) \| (`payoff_.*) \|$", DOCUMENT, re.MULTILINE
    )
    for name, labels in re.findall(r"`(payoff_\w+)`(?: \((.*?)\))?", metrics)
]


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, list[Metric]]:
    """All metrics of a service that leaves jobs to others, of one that does not, and of a worker."""
    service = wire(settings_for(tmp_path_factory.mktemp("told")))
    requests = Metrics(service.stores, None)
    requests.requests.times_of("GET", "/models", 200).observe(0.1)
    requests.requests.decisions_of("ward", 1).inc()
    worker = of_worker(service.stores, service.worker)
    service.stores.recorder.totals.add_outcomes([(GRANTED, Outcome(0))], 2_000.0)
    job = service.stores.queue.submit("train", {})
    for status in (Status.QUEUED, Status.RUNNING, Status.SUCCEEDED):
        service.worker.listeners[-1](replace(job, status=status))
    try:
        return {
            "service": _ours(requests.registry.collect()),
            "worker": _ours(worker.collect()),
        }
    finally:
        service.stores.database.close()


def _ours(metrics) -> list[Metric]:
    return [metric for metric in metrics if metric.name.startswith("payoff_")]


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_every_metric_is_documented_with_its_type_and_by_whom_it_is_told(told):
    by_whom: dict[str, set[str]] = {}
    for who, metrics in told.items():
        for metric in metrics:
            by_whom.setdefault(_name(metric), set()).add(who)
    types = {
        _name(metric): metric.type for metrics in told.values() for metric in metrics
    }

    documented = {name: (kind, who) for name, kind, _, who in ROWS}

    assert documented == {
        name: (types[name], "both" if len(who) == 2 else next(iter(who)))
        for name, who in by_whom.items()
    }


def test_every_label_is_documented(told):
    documented = {name: re.findall(r"`(\w+)`", labels) for name, _, labels, _ in ROWS}
    for metric in (metric for metrics in told.values() for metric in metrics):
        for sample in metric.samples:
            assert [label for label in sample.labels if label != "le"] == documented[
                _name(metric)
            ], sample


def test_alerts_and_boards_name_metrics_that_there_are(told):
    there = {
        sample.name
        for metrics in told.values()
        for metric in metrics
        for sample in metric.samples
    }
    there |= {name for name, *_ in ROWS}
    files = [
        path
        for path in (ROOT / "deploy").rglob("*")
        if path.suffix in {".yml", ".json"}
    ]
    assert files
    for path in files:
        assert set(re.findall(r"\bpayoff_[a-z_]+", path.read_text())) <= there, path


def test_every_check_is_documented(tmp_path):
    rows = re.findall(
        r"^\| ((?:`\w+`(?:, )?)+) \| ",
        DOCUMENT.partition("\n## Metrics")[0],
        re.MULTILINE,
    )
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    checks = {finding.check for finding in check(settings_for(tmp_path), {})}

    assert documented == checks


def test_no_page_or_message_installs_what_is_not_published():
    """The packages are not on an index: commands name the clone, or what others have published."""
    folders = [ROOT / name for name in ("app", "payoff", "clients", "docs")]
    files = [
        file for folder in folders for file in folder.rglob("*") if file.suffix in TEXTS
    ]
    pattern = re.compile(r"pip install [^`\n]*(?<![./\w-])payoff")

    assert [
        file
        for file in (*files, ROOT / "README.md")
        if pattern.search(file.read_text())
    ] == []


def test_the_tutorial_names_the_packages_that_its_programs_import():
    page = (ROOT / "docs" / "tutorial.md").read_text()
    imported = set(re.findall(r"^ *(?:from|import) (\w+)", page, re.MULTILINE))
    command = re.search(r"pip install ([^`]*)`", page).group(1)
    modules = {"./clients/python": "payoff_client", "scikit-learn": "sklearn"}

    needed = {name for name in imported if name not in sys.stdlib_module_names}
    assert needed == {modules.get(name, name) for name in command.split()}
