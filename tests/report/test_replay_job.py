"""Replaying cases day by day, some at a time."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from app.outcomes.archive import Archive
from app.outcomes.decision import DAY
from app.report import replay as replaying
from app.report import slices
from app.requests.specifications import ReplaySpec
from tests.conftest import migrated
from tests.outcomes.records import LOAN, decided, told
from tests.report.outcome_worlds import money

DATE = 20_000
N = 120
SWAPPED = replace(
    LOAN, actions=LOAN.actions[::-1], benefits=tuple(row[::-1] for row in LOAN.benefits)
)
DEARER = replace(LOAN, benefits=((0.0, -50.0), (-10.0, 30.0)))
SHARES = tuple(
    replace(LOAN, priors={"bad": share, "good": 1 - share}) for share in (0.2, 0.3)
)
RULE = {"rule": "expected_benefit"}


@pytest.fixture
def archive(tmp_path):
    with migrated(f"sqlite:///{tmp_path / 'payoff.db'}") as database:
        yield Archive(database, str(tmp_path / "decisions"))


@pytest.fixture
def replayed(archive, monkeypatch):
    """What is found by replaying the decisions of the archive, few at a time."""
    monkeypatch.setattr(
        replaying,
        "trained",
        lambda _ports, _model, _version: (np.array([0.5, 0.5]), 100),
    )
    monkeypatch.setattr(slices, "AT_ONCE", 7)

    def replay(*rules, **options):
        spec = ReplaySpec(
            model="loan",
            classes=["bad", "good"],
            rules=list(rules or [{"rule": "most_probable"}]),
            **options,
        )
        found = replaying.Replay(SimpleNamespace(archive=archive), spec)
        found.read()
        return found

    return replay


def write(archive, every):
    """Posteriors (n, 2) and truths (n,) of decisions by turns of these terms."""
    rng = np.random.default_rng(3)
    P, y = rng.dirichlet([1, 1], N), rng.integers(0, 2, N)
    terms = [every[i % len(every)] for i in range(N)]
    days = np.arange(N) // (N // 2)
    for day in np.unique(days):
        rows = np.flatnonzero(days == day)
        ids = decided(
            archive.database, len(rows), terms=[terms[i] for i in rows], at=(DATE + day) * DAY + 60.0,
            probabilities=P[rows].tolist(), choice=[terms[i].actions.index("refuse") for i in rows],
        )  # fmt: skip
        told(
            archive.database,
            ids,
            y[rows].tolist(),
            day=DATE + day,
            received_at=(DATE + day) * DAY + 90.0,
        )
    return P, y


@pytest.mark.parametrize(
    ("every", "rule", "share"),
    [
        ([LOAN], RULE, None),
        ([LOAN, *SHARES], RULE, None),
        ([LOAN, *SHARES], {**RULE, "priors": {"bad": 0.4, "good": 0.6}}, 0.4),
        ([SWAPPED, LOAN], RULE, None),
        (
            [LOAN, DEARER, SWAPPED, *SHARES],
            {**RULE, "priors": {"bad": 0.1, "good": 0.9}},
            0.1,
        ),
    ],
)
def test_rules_decide_whatever_was_recorded(archive, replayed, every, rule, share):
    """Whatever priors, matrix and order of the actions each of them has."""
    P, y = write(archive, every)

    (found,) = replayed(rule).document()["alternatives"]

    matrices = np.array(
        [
            (DEARER if every[i % len(every)] is DEARER else LOAN).benefits
            for i in range(N)
        ]
    )
    if share is not None:
        base = np.array([(each.priors or {"bad": 0.5})["bad"] for each in every])[
            np.arange(N) % len(every)
        ]
        P = P * np.column_stack((share / base, (1 - share) / (1 - base)))
        P /= P.sum(axis=1, keepdims=True)
    gain = np.einsum("nk,nk->n", P, matrices[:, :, 1] - matrices[:, :, 0])
    choice = (gain > 0).astype(int)
    assert found["total"] == pytest.approx(matrices[np.arange(N), y, choice].sum())


@pytest.mark.parametrize(
    ("actions", "recorded", "fits"),
    [
        (None, ("refuse", "grant"), False),
        (None, ("bad", "good"), True),
        (None, ("good", "bad"), True),
        (["grant", "refuse"], ("refuse", "grant"), True),
        (["grant", "refuse"], ("bad", "good"), False),
        (["grant", "refuse"], ("refuse", "grant", "ask"), False),
    ],
)
def test_a_matrix_without_actions_is_about_the_classes(
    replayed, archive, actions, recorded, fits
):
    """As everywhere else; its columns are not those of whatever was recorded."""
    benefits = tuple((0.0,) * len(recorded) for _ in range(2))
    decided(
        archive.database,
        3,
        terms=replace(LOAN, actions=recorded, benefits=benefits),
        at=DATE * DAY,
    )

    found = replayed(benefits=[[0.0, -1.0], [-20.0, 5.0]], actions=actions).document()

    assert (found["decisions"], found["left_out"]) == (
        (3, {}) if fits else (0, {"other_actions": 3})
    )


def test_selective_outcomes_are_marked_and_bounded(replayed, archive):
    """A refused loan is never repaid: nothing is known of those that were refused, so what is granted may be either."""
    p, granted = np.random.default_rng(6).random(N), np.arange(N) % 2
    P, y, M = (
        np.column_stack((p, 1 - p)),
        (p < 0.5).astype(int),
        np.array(LOAN.benefits),
    )
    ids = decided(
        archive.database, N, terms=LOAN, at=DATE * DAY, probabilities=P.tolist(), choice=granted.tolist()
    )  # fmt: skip
    told(archive.database, ids[1::2], y[1::2].tolist(), day=DATE)

    found = replayed(RULE).document()

    (one,) = found["alternatives"]
    choice = (P @ M).argmax(axis=1)
    known = (M[y, choice] - M[y, granted])[1::2].sum()
    open_ones = np.count_nonzero(choice[::2])
    ends = [(known + open_ones * (M[k, 1] - M[k, 0])) / N for k in (0, 1)]
    assert (one["bounds"]["low"], one["bounds"]["high"]) == pytest.approx(ends)
    assert (found["selective"]["is"], one["verdict"]) == (True, "undecided")
    assert "more often after some actions" in found["warnings"][0]
    for path, node in money(found):
        assert "not an estimate for all decisions" in node["basis"] or node[
            "basis"
        ].startswith("all decisions"), path
