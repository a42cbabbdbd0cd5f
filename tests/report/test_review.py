"""The queue of a review desk against a ledger kept case by case, from rows and from files."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import insert

from app.access.caller import Caller, Scope
from app.errors import NotFound
from app.outcomes.decision import DAY
from app.registry.tables import models
from app.report import review
from app.report.review import QueueQuery
from payoff.errors import Invalid
from tests.outcomes.records import LOAN, decided, told

DATE = 20_000
BY_CASE = [
    replace(LOAN, benefits=((0.0, -5.0 * k), (-1.0, k))) for k in (1.0, 2.0, 7.0)
]
WITHOUT_MATRIX = replace(LOAN, benefits=None, rule="most_probable")
REVIEWER = Caller("desk", "k1", frozenset({Scope.REVIEW}), ("loan",))


@pytest.fixture
def ledger(stores):
    """Three days of decisions, the first one sealed, with what is known of each by its id."""
    with stores.database.writing() as connection:
        connection.execute(
            insert(models).values(name="loan", next_version=2, listed=True)
        )
    rng = np.random.default_rng(0)
    cases = {}
    for day in range(3):
        P = rng.dirichlet((1, 2), 30)
        at = (DATE + day) * DAY + rng.integers(0, 40, 30).astype(float)
        terms = [*BY_CASE, WITHOUT_MATRIX] if day == 1 else LOAN
        kinds = (terms * 8)[:30] if day == 1 else [LOAN] * 30
        ids = [f"{day}-{i:02}" for i in range(30)]
        decided(
            stores.database, 30, terms=terms, at=at, ids=ids, probabilities=P.tolist()
        )
        known = rng.random(30) < 0.5
        told(
            stores.database,
            [id_ for id_, is_known in zip(ids, known, strict=True) if is_known],
            [0] * int(known.sum()),
            day=DATE + day,
        )
        for i, id_ in enumerate(ids):
            stake = None
            choice = int(P[i].argmax())
            if kinds[i].benefits is not None:
                B = np.array(kinds[i].benefits)
                choice = int((P[i] @ B).argmax())
                perfect = sum(P[i, k] * max(B[k]) for k in range(2))
                stake = perfect - sum(P[i, k] * B[k, choice] for k in range(2))
            cases[id_] = {"at": at[i], "stake": stake, "known": bool(known[i])}
            cases[id_]["action"] = LOAN.actions[choice]
    stores.archive.sealer.seal("loan", DATE)
    return cases


def pages(stores, **query):
    """The decisions of all pages, and the number of pages."""
    lines = []
    token = None
    for count in range(1, 100):
        page = review.queue(
            stores,
            REVIEWER,
            "loan",
            QueueQuery(page_size=7, page_token=token, **query),
        )
        lines += page["decisions"]
        token = page["next_page_token"]
        if token is None:
            return lines, count
    raise AssertionError("there is no end")


@pytest.mark.parametrize("order", ["stake", "time"])
@pytest.mark.parametrize("action", [None, "grant"])
@pytest.mark.parametrize("is_open", [None, True, False])
def test_pages_in_order_are_those_of_the_ledger(stores, ledger, order, action, is_open):
    rank = {"stake": "stake", "time": "at"}[order]
    expected = sorted(
        (
            (-case[rank], id_)
            for id_, case in ledger.items()
            if case[rank] is not None
            and action in (None, case["action"])
            and is_open in (None, not case["known"])
        ),
        key=lambda item: (round(item[0], 12), item[1]),
    )
    lines, count = pages(stores, order=order, action=action, open=is_open)
    assert [line["id"] for line in lines] == [id_ for _, id_ in expected]
    assert count == -(-len(expected) // 7)
    for line in lines:
        case = ledger[line["id"]]
        assert line["stake"] == pytest.approx(case["stake"])
        assert (line["action"], line["known"]) == (case["action"], case["known"])


@pytest.mark.parametrize(
    "token",
    ["stake,....,x", "stake,e,x", "stake,--,x", "stake,1e,x", "1,x", "time,1.0,x"],
)
def test_a_token_is_a_number_and_an_id_in_the_same_order(stores, ledger, token):
    with pytest.raises(Invalid) as raised:
        review.queue(stores, REVIEWER, "loan", QueueQuery(page_token=token))
    assert [flaw.loc for flaw in raised.value.flaws] == ["/page_token"]


def test_days_are_read_from_the_latest_on(stores, ledger, monkeypatch):
    by_time = review.queue(
        stores, REVIEWER, "loan", QueueQuery(order="time", page_size=5)
    )
    assert (by_time["scanned"], by_time["complete"]) == (30, False)
    monkeypatch.setattr(review, "MOST_SCANNED", 31)
    by_stake = review.queue(stores, REVIEWER, "loan", QueueQuery())
    assert (by_stake["scanned"], by_stake["complete"]) == (60, False)
    monkeypatch.setattr(review, "MOST_DAYS", 1)
    of_last_day = review.queue(stores, REVIEWER, "loan", QueueQuery(action="grant"))
    assert {line["id"][0] for line in of_last_day["decisions"]} == {"2"}
    assert not of_last_day["complete"]
    early = QueueQuery(until=(DATE + 1) * DAY)
    assert review.queue(stores, REVIEWER, "loan", early)["complete"]


@pytest.mark.parametrize("id_", ["0-03", "2-03"])
def test_one_decision_in_full(stores, ledger, id_):
    """The first is in a file, the second in a row."""
    found = review.decision(stores, REVIEWER, id_)
    case = ledger[id_]
    assert found["action"] == case["action"]
    assert found["stake"] == pytest.approx(case["stake"])
    assert found["terms"]["benefits"] == LOAN.benefits
    assert found["expected_benefits"] == pytest.approx(
        np.array(found["probabilities"]) @ np.array(LOAN.benefits)
    )
    truth = {"truth": "bad", "action": None, "benefit": None}
    assert found["outcome"] == (truth if case["known"] else None)
    with pytest.raises(NotFound):
        review.decision(stores, replace(REVIEWER, models=("other",)), id_)
    with pytest.raises(NotFound):
        review.decision(stores, REVIEWER, "9-99")


def test_the_audit_log_has_the_number_of_decisions_that_were_read(stores, ledger):
    review.queue(stores, REVIEWER, "loan", QueueQuery(page_size=9))
    review.decision(stores, REVIEWER, "0-03")
    entries, _ = stores.audit.page(2, None)
    assert [(e.who, e.action, e.subject, e.details) for e in entries] == [
        ("desk", "decisions.read", "loan:1", {"decisions": 1}),
        ("desk", "decisions.read", "loan", {"decisions": 9}),
    ]
