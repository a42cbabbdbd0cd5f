"""Whether the report finds that a guarantee is kept or broken, against the shares of its own cases."""

from dataclasses import replace

import numpy as np
import pytest

from app.report.guarantees import Guarantees
from app.report.slices import slices
from tests.report.outcome_worlds import DAY, day_of_cases, terms_of

STATED = {
    "name": "careful:1",
    "action": "treat",
    "otherwise": "wait",
    "at_most": 0.5,
    "confidence": 0.95,
    "of_money": False,
    "risks": [1.0, 0.0],
    "cut": 0.3,
}


def days_of(*, count=20, known=0.8, **changes):
    """Days with decisions by the guarantee, and others of the same version without it."""
    terms = terms_of()
    stated = {"guarantee": STATED | changes}
    guaranteed = replace(terms, rule="guaranteed", figures=stated)
    rng = np.random.default_rng(0)
    return [
        day_of_cases(rng, 200, DAY + d, terms=[terms, guaranteed], known=known)
        for d in range(count)
    ]


def reported(days, doubt=None, drifted=()):
    section = Guarantees()
    for cases in days:
        for part in slices(cases):
            section.add(part)
    return section.document(doubt, drifted)


def treated(days):
    """Which cases were treated under the guarantee, and what is true of them."""
    taken = [(cases.term == 1) & (cases.choice == 1) for cases in days]
    truth = np.concatenate(
        [cases.truth[rows] for cases, rows in zip(days, taken, strict=True)]
    )
    return len(truth), truth[truth >= 0]


@pytest.mark.parametrize(
    ("at_most", "verdict"), [(0.2, "broken"), (0.99, "kept"), (None, "undecided")]
)
def test_the_verdict_is_that_of_the_share_of_wrong_cases(at_most, verdict):
    count, truth = treated(days_of())
    share = float((truth == 0).mean())
    limit = share if at_most is None else at_most
    [line] = reported(days_of(at_most=limit))
    assert (line["guarantee"], line["version"]) == ("careful:1", 1)
    assert (line["decisions"], line["known"]) == (count, len(truth))
    assert line["risk"] == pytest.approx(share)
    assert line["low"] < share < line["high"]
    assert line["verdict"] == verdict


def test_losses_are_compared_in_money():
    days = days_of(of_money=True, risks=[40.0, 0.0], at_most=5.0)
    [line] = reported(days)
    _, truth = treated(days)
    assert line["risk"] == pytest.approx(40 * (truth == 0).mean())
    assert line["verdict"] == "broken"


def test_with_a_doubt_there_is_no_verdict_and_drift_is_a_warning():
    [line] = reported(days_of(at_most=0.2), doubt="no day is mature", drifted={1})
    assert line["verdict"] == "undecided"
    assert "drifted" in line["warning"]
    [line] = reported(days_of(at_most=0.2, count=1, known=0.0), drifted={2})
    assert (line["risk"], line["low"], line["verdict"]) == (None, None, "undecided")
    assert line["warning"] is None
