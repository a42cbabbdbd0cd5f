"""What a process tells Prometheus of recorded decisions and their outcomes."""

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from app.outcomes.archive import Located
from app.outcomes.decision import Outcome, Terms
from app.outcomes.intake import Totals
from tests.outcomes.records import LOAN
from tests.servers.fixtures import absent

REFUSE, GRANT = 0, 1
BAD, GOOD = 0, 1
GRANTED = Located("loan", 1, 20_000, LOAN, at=1_000.0, choice=GRANT, expected=0.25)
P = np.array([0.125, 0.875])


def variance(terms, choice, P):
    payoffs = np.array(terms.benefits)[:, choice]
    return float(P @ (payoffs - P @ payoffs) ** 2)


GRANTED = replace(GRANTED, variance=variance(LOAN, GRANT, P))
ALERTS = Path(__file__).parents[2] / "deploy" / "alerts.yml"


@pytest.fixture
def told():
    registry, totals = CollectorRegistry(), Totals()
    totals.register(registry)

    def ask(name, **labels):
        return registry.get_sample_value(
            name, {"model": "loan", "version": "1", **labels}
        )

    ask.totals = totals
    return ask


def benefit(told, kind):
    gain, loss = (
        told("payoff_outcome_benefit_total", kind=kind, sign=sign)
        for sign in ("gain", "loss")
    )
    return gain - loss


def test_benefits_are_those_of_decisions_that_were_carried_out(told):
    refused = replace(
        GRANTED, choice=REFUSE, expected=-0.5, variance=variance(LOAN, REFUSE, P)
    )
    told.totals.add_outcomes(
        [
            (GRANTED, Outcome(GOOD)),
            (GRANTED, Outcome(BAD, action=GRANT)),
            (GRANTED, Outcome(BAD, benefit=-2.0)),
            (refused, Outcome(GOOD)),
            (GRANTED, Outcome(BAD, action=REFUSE)),
            (
                replace(GRANTED, expected=None, terms=replace(LOAN, benefits=None)),
                Outcome(BAD),
            ),
        ],
        2_000.0,
    )
    assert told("payoff_outcomes_total") == 6
    assert told("payoff_decisions_overridden_total") == 1
    assert benefit(told, "realised") == 1 - 5 - 2 - 1
    assert benefit(told, "expected") == 3 * 0.25 - 0.5
    squares = (1 - 0.25) ** 2 + (-5 - 0.25) ** 2 + (-2 - 0.25) ** 2 + (-1 + 0.5) ** 2
    assert told("payoff_outcome_benefit_error_squared_total") == pytest.approx(squares)
    payoffs = np.array(
        [[-5.0, 1.0]] * 3 + [[0.0, -1.0]]
    )  # of the decisions that were carried out
    centred = payoffs - payoffs @ P[:, None]
    assert told("payoff_outcome_benefit_variance_total") == pytest.approx(
        ((centred**2) @ P).sum()
    )


def test_lags_are_counted_from_the_decision(told):
    for received_at in (1_010.0, 1_060.0, 1_061.0, 999.0, 1e9):
        told.totals.add_outcomes([(GRANTED, Outcome(GOOD))], received_at)
    assert told("payoff_outcome_lag_seconds_bucket", le="60.0") == 3
    assert told("payoff_outcome_lag_seconds_bucket", le="3600.0") == 4
    assert told("payoff_outcome_lag_seconds_bucket", le="+Inf") == 5
    assert told("payoff_outcome_lag_seconds_sum") == 10 + 60 + 61 + 0 + (1e9 - 1_000)


def heard(version, rng, *, gain, p, n, factor=1.0):
    """Counters after `n` outcomes of decisions that cost 1 and have a gain with the probability `p`, they say."""
    terms = Terms(
        "predict",
        "loan",
        version,
        "threshold",
        ("no", "yes"),
        ("leave", "try"),
        ((0.0, -1.0), (0.0, gain - 1)),
    )
    made = Located("loan", version, 20_000, terms, at=1.0, choice=1, expected=p * gain - 1,
                   variance=variance(terms, 1, np.array([1 - p, p])))  # fmt: skip
    registry, totals = CollectorRegistry(), Totals()
    totals.register(registry)
    totals.add_outcomes(
        [(made, Outcome(int(truth))) for truth in rng.random(n) < p * factor], 2.0
    )
    return [
        sample
        for metric in registry.collect()
        for sample in metric.samples
        if sample.name.startswith(("payoff_outcome_benefit", "payoff_outcomes_total"))
    ]


def series(sample):
    """The counter as promtool has it: grown evenly in seven days."""
    labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
    return {
        "series": f"{sample.name}{{{labels}}}",
        "values": f"0+{sample.value / 14!r}x18",
    }


def test_the_alert_is_silent_where_gains_are_rare_and_loud_where_a_promise_is_broken(
    tmp_path,
):
    """The world of versions 1 to 59 is as promised, of 60 and more it has no gain, a tenth, a fifth of the promised."""
    if not shutil.which("promtool"):
        absent("promtool is not installed (Debian: apt-get install prometheus)")
    rng = np.random.default_rng(3)
    worlds = [
        {"gain": 200.0, "p": 0.01, "n": n} for n in (60, 200, 600) for _ in range(20)
    ][1:]
    worlds += [
        {"gain": 20.0, "p": 0.2, "n": 400, "factor": factor}
        for factor in (0.0, 0.1, 0.2)
    ]
    samples = [
        sample for i, world in enumerate(worlds, 1) for sample in heard(i, rng, **world)
    ]
    summary = "loan:{} earns less than it promises: see GET /models/{{ref}}/outcomes"
    expected = [
        {
            "exp_labels": {"model": "loan", "version": str(v)},
            "exp_annotations": {"summary": summary.format(v)},
        }
        for v in (60, 61, 62)
    ]
    unit = {
        "interval": "12h",
        "input_series": [series(sample) for sample in samples],
        "alert_rule_test": [
            {"eval_time": "204h", "alertname": "OverPromises", "exp_alerts": expected}
        ],
    }
    (tmp_path / "alerts_test.yml").write_text(
        json.dumps(
            {"rule_files": [str(ALERTS)], "evaluation_interval": "12h", "tests": [unit]}
        )
    )
    found = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "alerts_test.yml"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
