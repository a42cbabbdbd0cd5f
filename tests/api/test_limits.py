"""Limits over the batch of a request to `/predict`."""

import numpy as np
import pytest

from payoff.decisions import limit_solvers

P = [[0.9, 0.1], [0.4, 0.6], [0.05, 0.95], [0.3, 0.7], [0.6, 0.4]]
ASKED = {
    "probabilities": P,
    "classes": ["healthy", "ill"],
    "benefits": {
        "healthy": {"wait": 0, "treat": -1, "refer": -0.5},
        "ill": {"wait": -10, "treat": 5, "refer": 2},
    },
}
RESOURCES = [{"name": "bed hours", "use": {"treat": 3, "refer": 1}, "at_most": 7}]


def ask(service, **more):
    return service.post("/predict", json=ASKED | more)


def test_limits_without_others_change_the_decisions_that_lose_least(service):
    free = ask(service).json()
    answer = ask(service, limits={"treat": 2, "wait": {"at_least": 1}}).json()
    assert free["decisions"] == ["refer", *["treat"] * 4]
    assert answer["decisions"] == ["wait", "refer", "treat", "treat", "refer"]
    earned = np.array(answer["expected_benefits"])
    chosen = [answer["actions"].index(decision) for decision in answer["decisions"]]
    assert answer["unlimited_total"] == pytest.approx(earned.max(axis=1).sum())
    assert answer["total"] == pytest.approx(earned[range(5), chosen].sum())
    treat, wait = answer["limits"]
    assert treat == {
        "name": "treat",
        "used": 2,
        "at_most": 2,
        "shadow_price": pytest.approx(3 * 0.6 - 0.5 * 0.4),
    }
    assert wait.pop("shadow_price") < 0
    assert wait == {"name": "wait", "used": 1, "at_least": 1}
    assert answer["gap"] == 0
    assert set(answer) - set(free) == {"limits", "total", "unlimited_total", "gap"}


def test_resources_are_listed_after_the_limits(service):
    answer = ask(
        service, limits={"refer": {"at_most": 4, "at_least": 1}}, resources=RESOURCES
    ).json()
    used = sum(
        {"treat": 3, "refer": 1, "wait": 0}[decision]
        for decision in answer["decisions"]
    )
    assert [entry["name"] for entry in answer["limits"]] == [
        "refer",
        "refer",
        "bed hours",
    ]
    assert answer["limits"][2]["used"] == used <= 7
    assert answer["limits"][2]["shadow_price"] > 0
    alone = ask(service, resources=RESOURCES).json()
    assert alone["total"] >= answer["total"]
    assert [list(entry) for entry in alone["limits"]] == [
        ["name", "used", "at_most", "shadow_price"]
    ]


def test_limits_for_which_no_decisions_are_found_in_time_are_refused(
    service, monkeypatch
):
    """An integer program of a few counts can be hard; the search for any solution ends after 5 seconds."""
    monkeypatch.setattr(
        limit_solvers,
        "milp",
        lambda *_, **__: limit_solvers.OptimizeResult(x=None, status=1),
    )
    answer = ask(service, resources=RESOURCES)
    assert answer.status_code == 422
    assert [error["loc"] for error in answer.json()["errors"]] == ["/resources"]
    assert "5 seconds" in answer.text
