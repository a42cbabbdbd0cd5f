"""Reports while truths are still to come: those known early are not like the others."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from app.outcomes.decision import UNKNOWN
from app.report.report import Read, document, matured
from payoff.evidence.truths import ALPHA
from tests.report.outcome_worlds import DAY, day_of_cases, terms_of

SECONDS = 86_400.0
SHARE = 0.8 / 6.8
TRAINED = np.array([1 - SHARE, SHARE])
ONE_ACTION = [terms_of(((1.0, -1.0), (-9.0, 5.0)))]


def told(rng, cases, now, lag):
    """The cases as they are known at `now`, where `lag` gives the days that each class takes."""
    days = np.where(cases.truth == 0, lag[0](rng, len(cases)), lag[1](rng, len(cases)))
    received = cases.at + days * SECONDS
    known = (received <= now) & (cases.truth >= 0)
    return replace(
        cases,
        truth=np.where(known, cases.truth, UNKNOWN),
        received_at=np.where(known, received, np.nan),
    )


def at_once(_rng, n):
    return np.full(n, 0.1)


def late(mean):
    return lambda rng, n: rng.exponential(mean, n)


def stream(rng, lag, *, days=30, each=60, **world):
    now = (DAY + days) * SECONDS
    world = {"terms": ONE_ACTION} | world
    return [
        told(rng, day_of_cases(rng, each, DAY + d, **world), now, lag)
        for d in range(days)
    ], now


def reported(days, now):
    read = Read(lambda _version: (TRAINED, 0), maturity=matured(days, now))
    for cases in days:
        read.add(cases)
    return document(read, [])


BAD_FIRST, GOOD_FIRST, EQUAL = (
    (late(30), at_once),
    (at_once, late(30)),
    (late(3), late(3)),
)


@pytest.mark.parametrize("lag", [BAD_FIRST, GOOD_FIRST])
@pytest.mark.parametrize("dated", [True, False])
def test_a_calibrated_model_is_not_accused_while_one_class_is_still_to_come(lag, dated):
    rng, found = np.random.default_rng(1), Counter()
    for _ in range(10):
        days, now = stream(rng, lag)
        if not dated and lag is BAD_FIRST:  # by the shares of known truth alone
            days = [
                replace(cases, received_at=np.full(len(cases), np.nan))
                for cases in days
            ]
        report = reported(days, now)
        assert report["maturing"]["reason"] in report["difference"]["basis"]
        assert any(
            report["maturing"]["reason"] in warning for warning in report["warnings"]
        )
        found[report["verdict"], report["priors"]["versions"][0]["changed"]] += 1

    assert set(found) == {("undecided", None)}


@pytest.mark.parametrize("lag", [(late(3), at_once), (at_once, late(3))])
@pytest.mark.thorough
def test_days_that_are_old_enough_are_judged_without_the_new_ones(lag):
    rng, means, verdicts = np.random.default_rng(2), [], Counter()
    for _ in range(8):
        days, now = stream(rng, lag, days=60, each=150)
        report = reported(days, now)
        maturing = report["maturing"]
        assert (maturing["reason"], maturing["lags_by_class_differ"]) == (None, True)
        assert maturing["since"] > "2024-10-24"  # 20 days or more are mature
        assert maturing["known_left_out"] + report["known"] == sum(
            (cases.truth >= 0).sum() for cases in days
        )
        means.append(report["difference"]["mean"])
        verdicts[report["verdict"]] += 1

    assert verdicts["over_promises"] + verdicts["under_promises"] <= 2
    assert abs(np.mean(means)) < 3 * np.std(means) / np.sqrt(len(means)) + 0.02


def test_lags_are_those_that_clients_state_and_end_with_the_last_truths_sent():
    """All was sent today, as an import of old decisions would be; half a year later nothing more is known."""
    rng = np.random.default_rng(10)
    days, now = stream(rng, BAD_FIRST)
    sent = [
        replace(
            c, outcome_at=c.received_at, received_at=np.where(c.truth >= 0, now, np.nan)
        )
        for c in days
    ]

    p = matured(
        [replace(cases, outcome_at=np.full(len(cases), np.nan)) for cases in sent], now
    ).p_value
    assert p is None or p >= ALPHA
    assert (
        matured(sent, now) == matured(sent, now + 180 * SECONDS) == matured(days, now)
    )
    assert matured(sent, now).reason


def sent_at_once(rng, received):
    days = (day_of_cases(rng, 60, DAY + d, known=0.6) for d in range(20))
    return [
        replace(c, received_at=np.where(c.truth >= 0, received * SECONDS, np.nan))
        for c in days
    ]


def fewer_of_a_new_key(rng):
    """Truths come within hours, but from a day on half of the decisions get none."""
    days = (
        day_of_cases(rng, 100, DAY + d, known=0.9 if d < 20 else 0.45)
        for d in range(40)
    )
    return [
        told(rng, cases, (DAY + 40) * SECONDS, (at_once, at_once)) for cases in days
    ]


@pytest.mark.parametrize(
    ("make", "now"),
    [
        (lambda _rng: [], 0),
        (lambda rng: [day_of_cases(rng, 20, DAY + d, known=0.0) for d in range(3)], DAY + 3),
        (lambda rng: [told(rng, day_of_cases(rng, 60, DAY + d), np.inf, (late(5), at_once)) for d in range(20)],
         DAY + 200),
        (lambda rng: sent_at_once(rng, DAY + 20), DAY + 20),
        (lambda rng: sent_at_once(rng, DAY + 400), DAY + 400),
        (fewer_of_a_new_key, DAY + 40),
    ],
    ids=["nothing", "nothing known", "long ago", "sent at once", "sent at once later", "fewer"],
)  # fmt: skip
def test_nothing_is_left_out_where_no_truths_are_to_come(make, now):
    found = matured(make(np.random.default_rng(6)), now * SECONDS)
    assert (found.since, found.reason, found.left_out) == (None, None, 0)


def test_one_stated_time_does_not_make_the_others_old():
    rng = np.random.default_rng(12)
    days, now = stream(rng, (late(3), at_once), days=60, each=60)
    first = replace(days[0], outcome_at=days[0].received_at)

    assert matured([first, *days[1:]], now).since == matured(days, now).since


def test_equal_speed_is_called_different_in_one_of_a_hundred_streams_and_leaves_out_new_days_alone():
    rng, differing = np.random.default_rng(5), 0
    for _ in range(60):
        days, now = stream(rng, EQUAL, days=20, each=40)
        found = matured(days, now)
        differing += found.p_value < ALPHA
        assert found.reason is None
        assert found.since is None or found.since > DAY + 5

    assert differing <= 4


def test_no_challenger_nor_exploration_wins_while_truths_are_to_come():
    rng = np.random.default_rng(7)
    days, now = stream(rng, BAD_FIRST, each=100, epsilon=0.2)
    report = reported(
        [
            replace(cases, shadows={"triage:2": np.zeros(100, dtype=np.int32)})
            for cases in days
        ],
        now,
    )

    assert report["shadow"][0]["verdict"] == "undecided"
    assert report["shadow"][0]["reason"]
    assert not any(way["usable"] for way in report["exploration"]["ways"].values())


def test_no_side_is_called_right_where_truth_depends_on_the_action():
    """Challengers and people who are far better, or far worse, on the known cases."""
    rng = np.random.default_rng(9)
    for action in (0, 1):
        days = [
            day_of_cases(rng, 300, DAY + d, known_after=[0.1, 0.9], overrides=0.3)
            for d in range(10)
        ]
        always = np.full(300, action, dtype=np.int32)
        report = reported(
            [replace(cases, shadows={"triage:2": always}) for cases in days],
            (DAY + 11) * SECONDS,
        )

        for verdict, reason in (
            (report["overrides"]["right"], report["overrides"]["reason"]),
            (report["shadow"][0]["verdict"], report["shadow"][0]["reason"]),
        ):
            assert (verdict, reason) == (
                "undecided",
                "truth is known more often after some actions than after others",
            )
