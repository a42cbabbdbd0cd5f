"""Challengers: who may be one, and what they decide in the background."""

from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import select

from app.access.caller import Caller
from app.answering import shadow
from app.answering.shadow import Offered, ShadowDecider
from app.opening import prepare_stores
from app.outcomes.tables import SHADOW_DECISIONS
from app.requests.rows import Rows
from app.requests.rules import RuleFields
from app.settings import Settings
from app.training import models
from payoff.errors import Invalid
from tests.jobs.waiting import eventually
from tests.outcomes.records import LOAN, decided, value_of
from tests.registry.making import make_card, publish

BY = Caller("somebody")
CHAMPION = "triage@champion"
QUESTION = RuleFields(
    benefits={"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
)
MATRIX = [[0, -1], [-10, 5]]
NAMED = RuleFields(benefits=MATRIX, actions=["wait", "treat"])
ROWS = [[50, "f"], [60, "m"], [70, None]]


class Sure:
    """Says `share` for the second class, whatever the row."""

    def __init__(self, share):
        self.share = share

    def posterior(self, X):
        return np.tile([1 - self.share, self.share], (len(X), 1))


@pytest.fixture
def stores(tmp_path):
    stores = prepare_stores(
        Settings(home=tmp_path / "home", models=str(tmp_path / "models"))
    )
    publish(stores.registry, estimator=Sure(0.01))
    publish(stores.registry, estimator=Sure(0.9))
    decided(stores.database, 5, ids="abcde", terms=replace(LOAN, model="triage"))
    yield stores
    stores.database.close()


@pytest.fixture
def decider(stores):
    decider = ShadowDecider(stores.registry, stores.shadows)
    decider.start()
    yield decider
    decider.stop()


def offered(
    stores,
    instances=ROWS,
    *,
    challengers=("triage:2",),
    ids=("a", "b", "c"),
    question=NAMED,
):
    model = stores.registry.load("triage:1")
    return Offered(
        challengers, model, 20_000, question, Rows(*model.schema.encode(instances)), ids
    )


def kept(stores):
    with stores.database.reading() as connection:
        rows = connection.execute(
            select(SHADOW_DECISIONS).order_by(SHADOW_DECISIONS.c.id)
        ).all()
    return [(row.id, row.challenger, row.model, row.day, row.choice) for row in rows]


@pytest.mark.parametrize("question", [NAMED, QUESTION], ids=["lists", "words"])
def test_a_challenger_decides_by_its_own_probabilities(stores, decider, question):
    decider.offer(offered(stores, question=question))
    decider.offer(
        offered(stores, ids=("c", "d", "e"))
    )  # a request that came twice in part
    expected = [(id_, "triage:2", "triage", 20_000, 1) for id_ in "abcde"]
    eventually(lambda: kept(stores) == expected)


class ByCode(Sure):
    """Says yes for the second category."""

    def posterior(self, X):
        return np.column_stack((X[:, 1] != 1, X[:, 1] == 1)).astype(float)


def test_a_challenger_may_know_other_categories(stores, decider):
    other = make_card().features[1].model_copy(update={"categories": ["a", "m", "f"]})
    publish(
        stores.registry, estimator=ByCode(0), features=[make_card().features[0], other]
    )
    decider.offer(offered(stores, challengers=("triage:3",)))
    eventually(lambda: [row[4] for row in kept(stores)] == [0, 1, 0])


def test_nothing_is_kept_of_decisions_that_are_gone(stores, decider):
    decider.offer(offered(stores, ROWS, ids=("a", "erased", "sealed")))
    decider.offer(offered(stores, ROWS[:1], ids=("b",)))
    eventually(lambda: [row[0] for row in kept(stores)] == ["a", "b"])


def test_what_cannot_keep_up_is_left_out(stores, decider, monkeypatch):
    monkeypatch.setattr(shadow, "_MAX_WAITING_NUMBERS", 5)
    decider.offer(offered(stores))
    assert value_of(stores.shadows.dropped) == 3
    decider.offer(offered(stores, ROWS[:2], ids=("d", "e")))
    eventually(lambda: [row[0] for row in kept(stores)] == ["d", "e"])


def test_a_challenger_that_fails_stops_no_other(stores, decider):
    decider.offer(offered(stores, challengers=("triage:9", "triage:2")))
    eventually(lambda: len(kept(stores)) == 3, seconds=20)
    assert value_of(stores.shadows.dropped) == 3


def test_challengers_are_known_within_a_second_until_their_alias_ends(stores, decider):
    assert stores.shadows.of(CHAMPION) == ()
    models.set_alias(stores, "triage", "champion", 1, ["triage:2"], by=BY)
    eventually(lambda: stores.shadows.of(CHAMPION) == ("triage:2",))
    models.set_alias(stores, "triage", "champion", 1, by=BY)  # says nothing of them
    assert stores.shadows.read("triage") == {"champion": ["triage:2"]}
    assert stores.shadows.read("other") == {}
    models.delete_alias(stores, "triage", "champion", by=BY)
    eventually(lambda: stores.shadows.of(CHAMPION) == ())
    models.set_alias(stores, "triage", "champion", 1, ["triage:2"], by=BY)
    models.delete(stores, "triage", by=BY)
    assert stores.shadows.read("triage") == {}


def test_changes_of_challengers_are_audited_once(stores):
    for challengers in (["triage:2"], ["triage:2"], []):
        models.set_alias(stores, "triage", "champion", 1, challengers, by=BY)
    entries = [
        entry
        for entry in stores.audit.page(10, None)[0]
        if entry.action == "alias.shadow"
    ]
    assert [(entry.subject, entry.details) for entry in entries] == [
        (CHAMPION, {"shadow": []}),
        (CHAMPION, {"shadow": ["triage:2"]}),
    ]


@pytest.mark.parametrize(
    ("references", "place", "word"),
    [
        (["triage"], "/shadow/0", "version"),
        (["triage:2", "triage@champion"], "/shadow/1", "version"),
        (["triage:9"], "/shadow/0", "triage"),
        (["other:1"], "/shadow/0", "classes"),
        (["third:1"], "/shadow/0", "features"),
        (["triage:2", "triage:2"], "/shadow/1", "twice"),
        (["no such"], "/shadow/0", "reference"),
        (["triage:2"] * 4, "/shadow", "at most 3"),
    ],
)
def test_who_could_not_decide_is_refused_by_place(stores, references, place, word):
    publish(stores.registry, "other", classes=["ill", "healthy"])
    publish(stores.registry, "third", features=make_card().features[::-1])
    with pytest.raises(Invalid) as refused:
        models.set_alias(stores, "triage", "champion", 1, references, by=BY)
    assert refused.value.flaws[0].loc == place
    assert word in refused.value.flaws[0].msg
    assert stores.registry.index.model("triage").aliases == {}
