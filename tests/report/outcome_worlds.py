"""Recorded decisions of worlds whose truth is known, as `Cases`."""

from dataclasses import replace
from time import time

import numpy as np

from app.outcomes.decision import DAY as DAY_SECONDS
from app.outcomes.decision import UNKNOWN, Cases, Terms, day_of
from tests.outcomes.records import decided, told

TRIAGE = ((0.0, -1.0), (-20.0, 5.0))
DAY = 20_000


def terms_of(
    matrix=TRIAGE, version=1, actions=("wait", "treat"), classes=("healthy", "ill")
):
    return Terms(
        "predict", "triage", version, "expected_benefit", classes, actions, matrix
    )


def day_of_cases(
    rng,
    n,
    day=DAY,
    *,
    terms=None,
    known=1.0,
    known_after=None,
    odds=1.0,
    epsilon=0.0,
    overrides=0.0,
    told=0.0,
    rare=6.0,
    truth=None,
):
    """N cases of two classes whose probabilities are right, but for the odds of the second class.

    `known_after` are the shares of known truth after each action, `epsilon` of decisions are drawn. `truth` gets the
    classes of all cases, known or not.
    """
    listed = [terms_of()] if terms is None else terms
    if epsilon:
        listed = [replace(one, figures={"explore": epsilon}) for one in listed]
    term = rng.integers(0, len(listed), n)
    share = rng.beta(0.8, rare, n)
    P = np.column_stack((1 - share, share))
    real = odds * share / (1 - share + odds * share)
    y = (rng.random(n) < real).astype(np.int32)
    M = np.array([one.benefits for one in listed])[term]
    E = np.einsum("nk,nka->na", P, M)
    A = E.shape[1]
    best = E.argmax(axis=1)
    choice = np.where(rng.random(n) < epsilon, rng.integers(0, A, n), best)
    propensity = (
        np.where(choice == best, 1 - epsilon + epsilon / A, epsilon / A)
        if epsilon
        else np.full(n, np.nan)
    )
    seen = rng.random(n) < (
        known if known_after is None else np.array(known_after)[choice]
    )
    other = seen & (rng.random(n) < overrides)
    if truth is not None:
        truth.append((y, best, M, P))
    received = np.where(
        seen & (rng.random(n) < told),
        M[np.arange(n), y, choice] - rng.integers(0, 3, n),
        np.nan,
    )
    nothing = np.full(n, np.nan)
    return Cases(
        day=day,
        terms=listed,
        keys=[None, "bank"],
        at=day * 86_400.0 + np.arange(n),
        term=term.astype(np.int32),
        key=rng.integers(0, 2, n).astype(np.int32),
        choice=choice.astype(np.int32),
        expected=E[np.arange(n), choice],
        probabilities=P,
        propensity=propensity,
        truth=np.where(seen, y, UNKNOWN).astype(np.int32),
        number=nothing,
        action=np.where(other, A - 1 - choice, UNKNOWN).astype(np.int32),
        benefit=received,
        outcome_at=nothing,
        received_at=nothing,
        segments=[None],
        segment=np.zeros(n, dtype=np.int32),
    )


def money(node, path=""):
    """Every object of the report with an amount of money, with its path."""
    if isinstance(node, dict):
        if {"mean", "total", "low", "high", "expected", "realised", "mean_low"} & {
            name
            for name, value in node.items()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }:
            yield path, node
        for name, value in node.items():
            yield from money(value, f"{path}/{name}")
    elif isinstance(node, list):
        for i, value in enumerate(node):
            yield from money(value, f"{path}/{i}")


def recorded_with_late_truths(database, terms, instance=None):
    """How many truths are known of 50 decisions on each of the last 40 days: of the second class within the hour, of
    the first after three days; so those of the last days are all of the second.
    """
    rng, now, known = np.random.default_rng(3), time(), 0
    for day in range(day_of(now) - 40, day_of(now)):
        at = DAY_SECONDS * day + 3_600.0
        truths = (rng.random(50) < 0.4).astype(int)
        ids = decided(database, 50, terms=terms, at=at, instance=instance)
        for truth, lag in ((1, 600.0), (0, 3 * DAY_SECONDS)):
            some = [
                id_
                for id_, own in zip(ids, truths.tolist(), strict=True)
                if own == truth and at + lag < now
            ]
            told(
                database,
                some,
                [truth] * len(some),
                terms=terms,
                day=day,
                received_at=at + lag,
            )
            known += len(some)
    return known
