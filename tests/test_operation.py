"""docs/how-to/operation.md and the alerts say what the service tells, no more and no less."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.core import Metric

from app.commands.check import check
from app.jobs.job import Status
from app.metrics import Metrics, of_worker
from app.outcomes.decision import Outcome
from app.wiring import wire
from tests.conftest import settings_for
from tests.outcomes.test_totals import GRANTED

PROJECT = Path(__file__).parents[1]
DOCUMENT = (PROJECT / "docs" / "how-to" / "operation.md").read_text()
ROWS = [
    (name, kind, labels, who)
    for who, kind, metrics in re.findall(r"^\| (\w+) \| (\w+) \| (`payoff_.*) \|$", DOCUMENT, re.MULTILINE)
    for name, labels in re.findall(r"`(payoff_\w+)`(?: \((.*?)\))?", metrics)
]


@pytest.fixture(scope="module")
def told(tmp_path_factory) -> dict[str, list[Metric]]:
    """All metrics of a service that leaves jobs to others, of one that does not, and of a worker."""
    service = wire(settings_for(tmp_path_factory.mktemp("told")))
    requests = Metrics(service.ports, None)
    requests.requests.count("GET", "/models", 200, 0.1)
    requests.requests.decided("ward", 1, 1)
    worker = of_worker(service.ports, service.worker)
    service.ports.recorder.totals.hear([(GRANTED, Outcome(0))], 2_000.0)
    job = service.ports.queue.submit("train", {})
    for status in (Status.QUEUED, Status.RUNNING, Status.SUCCEEDED):
        service.worker.listeners[-1](replace(job, status=status))
    try:
        return {"service": _ours(requests.registry.collect()), "worker": _ours(worker.collect())}
    finally:
        service.ports.database.close()


def _ours(metrics) -> list[Metric]:
    return [metric for metric in metrics if metric.name.startswith("payoff_")]


def _name(metric: Metric) -> str:
    return f"{metric.name}_total" if metric.type == "counter" else metric.name


def test_every_metric_is_documented_with_its_type_and_by_whom_it_is_told(told):
    by_whom: dict[str, set[str]] = {}
    for who, metrics in told.items():
        for metric in metrics:
            by_whom.setdefault(_name(metric), set()).add(who)
    types = {_name(metric): metric.type for metrics in told.values() for metric in metrics}

    documented = {name: (kind, who) for name, kind, _, who in ROWS}

    assert documented == {
        name: (types[name], "both" if len(who) == 2 else next(iter(who))) for name, who in by_whom.items()
    }


def test_every_label_is_documented(told):
    documented = {name: re.findall(r"`(\w+)`", labels) for name, _, labels, _ in ROWS}
    for metric in (metric for metrics in told.values() for metric in metrics):
        for sample in metric.samples:
            assert [label for label in sample.labels if label != "le"] == documented[_name(metric)], sample


def test_alerts_and_boards_name_metrics_that_there_are(told):
    there = {sample.name for metrics in told.values() for metric in metrics for sample in metric.samples}
    there |= {name for name, *_ in ROWS}
    files = [path for path in (PROJECT / "deploy").rglob("*") if path.suffix in {".yml", ".json"}]
    assert files
    for path in files:
        assert set(re.findall(r"\bpayoff_[a-z_]+", path.read_text())) <= there, path


def test_every_check_is_documented(tmp_path):
    rows = re.findall(r"^\| ((?:`\w+`(?:, )?)+) \| ", DOCUMENT.partition("\n## Metrics")[0], re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    checks = {finding.check for finding in check(settings_for(tmp_path), {})}

    assert documented == checks
