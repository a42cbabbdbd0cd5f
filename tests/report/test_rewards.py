"""The judgements of several policies together."""

import numpy as np

from app.report.rewards import corrected
from payoff.evidence.policies import judge
from tests.payoff.evidence.test_policies import log_of


def judgements(gain, count):
    log = log_of(400, 7, gain=gain)
    return [judge(log, np.ones(400, dtype=int))] * count


def test_a_gain_that_may_be_chance_among_so_many_is_undecided():
    (alone,) = corrected(judgements(0.3, 1))
    assert (alone.verdict, alone.reason) == ("better", None)
    p_value = alone.gain.p_value
    enough = int(0.05 / p_value)
    assert {line.verdict for line in corrected(judgements(0.3, enough))} == {"better"}
    many = corrected(judgements(0.3, enough + 2))
    assert {line.verdict for line in many} == {"undecided"}
    assert f"{enough + 2} are compared" in many[0].reason
    assert many[0].gain == alone.gain


def test_what_cannot_be_judged_stays_so():
    log = log_of(400, 0, chances=(0.96, 0.02, 0.02))
    judged = [judge(log, np.full(400, 2))]
    assert corrected(judged) == judged
