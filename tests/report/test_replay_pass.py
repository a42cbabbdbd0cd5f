"""Versions that learned from rewards: replayed, and as challengers, on the same recorded decisions."""

from time import sleep
from types import SimpleNamespace

import numpy as np
import pytest
from sqlalchemy import select

from app.outcomes.tables import SHADOW_DECISIONS
from tests.api.test_rewards import ACTIONS, logged, order
from tests.conftest import database_of, serving, settings_for, trained
from tests.jobs.waiting import eventually
from tests.messages import says
from tests.reference import rewards as twin

N = 300
FEE = 0.02  # of a call, for each year of age


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rewards")
    with serving(settings_for(folder)) as client:
        client.folder = folder
        yield client


@pytest.fixture(scope="module")
def world(client):
    """Decisions of a version that learned the wrong way round, with rewards; a better challenger."""
    data = logged(120)
    wrong = data | {"rewards": [-reward for reward in data["rewards"]]}
    trained(client, order(data=wrong, holdout=0))
    trained(client, order(data=logged(200, seed=1), holdout=0))
    target = {"version": 1, "shadow": ["offers:2"]}
    client.put("/models/offers/aliases/live", json=target).raise_for_status()
    rows = logged(N, seed=2)["rows"]
    question = {
        "model": "offers@live",
        "instances": rows,
        "explore": 0.5,
        "costs": {"call": {"column": "age", "times": FEE}},
        "record": {"instances": True, "segments": ["region"]},
    }
    eventually(lambda: is_shadowed(client, question | {"instances": rows[:1]}))
    answer = client.post("/predict", json=question).json()
    ages = np.array([age for age, _ in rows])
    north = np.array([region == "north" for _, region in rows])
    means = {
        "call": (ages - 50) / 10,
        "mail": np.where(north, 2.0, -1.0),
        "none": ages * 0,
    }
    noise = np.random.default_rng(3).normal(0, 0.5, N)
    rewards = [
        float(means[action][i] + noise[i])
        for i, action in enumerate(answer["decisions"])
    ]
    outcomes = [
        {"id": id_, "benefit": reward}
        for id_, reward in zip(answer["ids"], rewards, strict=True)
    ]
    outcomes[0]["action"] = next(a for a in ACTIONS if a != answer["decisions"][0])
    counts = client.post("/outcomes", json={"outcomes": outcomes}).json()
    assert counts["accepted"] == N
    return SimpleNamespace(rows=rows, answer=answer, rewards=rewards)


def is_shadowed(client, question):
    """Whether the challenger decides already, by a decision that is erased."""
    (id_,) = client.post("/predict", json=question).json()["ids"]
    sleep(0.1)
    with database_of(client) as database, database.reading() as connection:
        of_id = select(SHADOW_DECISIONS).where(SHADOW_DECISIONS.c.id == id_)
        is_decided = connection.execute(of_id).first() is not None
    client.delete(f"/outcomes/{id_}").raise_for_status()
    return is_decided


def replayed(client, reference="offers", **fields):
    response = client.post(
        f"/models/{reference}/replay", json=fields, headers={"Prefer": "wait=60"}
    )
    job = response.json()
    assert job["status"] == "succeeded", job
    return job["result"]


def test_figures_are_those_of_the_slow_twin(client, world):
    result = replayed(client, models=["offers:2", "offers:1"])
    assert (result["decisions"], result["known"]) == (N, N)
    assert result["left_out"] == {"overridden": 1}
    better, same = result["alternatives"]
    assert (better["model"], same["model"]) == ("offers:2", "offers:1")
    documents = [
        client.get(f"/decisions/{id_}").json() for id_ in world.answer["ids"][1:]
    ]
    actions = [ACTIONS.index(document["action"]) for document in documents]
    net = [document["expected_benefits"] for document in documents]
    costs = np.array([document["expected_rewards"] for document in documents]) - net
    ages = np.array([age for age, _ in world.rows[1:]])
    np.testing.assert_allclose(costs.T, [FEE * ages, 0 * ages, 0 * ages], atol=1e-12)
    log = SimpleNamespace(
        actions=actions,
        rewards=[
            reward - cost[action]
            for reward, cost, action in zip(
                world.rewards[1:], costs, actions, strict=True
            )
        ],
        expected=net,
        chances=[document["chances"] for document in documents],
    )
    question = {
        "instances": world.rows[1:],
        "costs": {"call": {"column": "age", "times": FEE}},
    }
    values = {}
    for line in (same, better):
        answer = client.post(
            "/predict", json=question | {"model": line["model"]}
        ).json()
        chosen = [ACTIONS.index(action) for action in answer["decisions"]]
        values[line["model"]] = twin.value(log, chosen)
        assert line["value"]["mean"] == pytest.approx(values[line["model"]])
        assert line["gain"]["mean"] == pytest.approx(
            values[line["model"]] - np.mean(log.rewards)
        )
        effective = line["effective"], line["expected_effective"]
        assert effective == pytest.approx(twin.effective(log, chosen))
    singles = [twin.value(log, [code] * (N - 1)) for code in range(3)]
    assert better["best_single"]["action"] == ACTIONS[int(np.argmax(singles))]
    assert better["best_single"]["gain"]["mean"] == pytest.approx(
        values["offers:2"] - max(singles)
    )
    assert better["over_policy"]["mean"] == pytest.approx(
        values["offers:2"] - values["offers:1"]
    )
    policy = client.get("/models/offers/outcomes").json()["rewards"]["policy"]
    assert policy["value"] == same["value"]
    assert same["over_policy"]["differing"] == 0
    assert same["over_policy"]["verdict"] == "undecided"
    for line in (better, better["over_policy"]):
        assert (line["verdict"], line["reason"]) == ("better", None)
        assert line.get("gain", line)["low"] > 0


def test_a_challenger_is_judged_as_in_a_replay(client, world):
    def challengers():
        return client.get("/models/offers/outcomes").json()["rewards"]["challengers"]

    eventually(lambda: challengers() and challengers()[0]["cases"] == N - 1, seconds=30)
    (challenger,) = challengers()
    (version,) = replayed(client, models=["offers:2"])["alternatives"]
    assert challenger.pop("challenger") == version["model"]
    assert challenger == {name: version[name] for name in challenger}


def test_promises_by_segment(client, world):
    section = client.get("/models/offers/outcomes?by=segment:region").json()["rewards"]
    north, south = section["groups"]
    assert (north["group"], south["group"]) == ("north", "south")
    assert north["decisions"] + south["decisions"] == section["decisions"] == N
    realised = north["realised"]["total"] + south["realised"]["total"]
    assert realised == pytest.approx(sum(world.rewards))
    assert 0 <= north["adjusted_p_value"] <= 1
    assert (
        section["policy"]["value"]["mean"]
        < section["policy"]["single_actions"][2]["gain_over"]["mean"] + 1
    )


def test_a_version_is_not_judged_by_what_it_learned_from(client, world):
    dataset = client.post("/datasets/from-outcomes", json={"model": "offers"}).json()
    learner = {"kind": "rewards", "propensity": "propensity"}
    data = {"dataset": dataset["id"]}
    trained(client, order(learner=learner, data=data, holdout=0))
    (version,) = replayed(client, models=["offers:3"])["alternatives"]
    assert version["left_out"]["learned_from"] == N - 1
    assert "no case" in version["error"]
    client.delete(f"/datasets/{dataset['id']}").raise_for_status()
    (version,) = replayed(client, models=["offers:3"])["alternatives"]
    assert version["left_out"]["learned_from"] == N - 1


def test_an_action_that_the_log_never_took_cannot_be_judged(client, world):
    data = logged(200, seed=4)
    actions = ["wait" if action == "none" else action for action in data["actions"]]
    rewards = [
        reward + 9 * (action == "wait")
        for reward, action in zip(data["rewards"], actions, strict=True)
    ]
    data |= {"actions": actions, "rewards": rewards}
    job = trained(client, order(data=data, holdout=0))
    name = f"offers:{job['model']['version']}"
    result = replayed(client, "offers:1", models=[name, "offers:1"])
    waiting, same = result["alternatives"]
    assert (waiting["model"], waiting["cases"]) == (name, N - 1)
    assert waiting["verdict"] == waiting["over_policy"]["verdict"] == "cannot_be_judged"
    assert "never took" in waiting["reason"]
    assert waiting["gain"]["low"] is None
    assert same["gain"]["mean"] is not None
    # Of all versions: the first one decided among an action that the latest one does not have.
    assert replayed(client, models=[name])["alternatives"] == [waiting]


def test_what_no_replay_of_rewards_takes_is_refused(client, world):
    trained(
        client,
        {
            "model": "other",
            "learner": {"kind": "logistic"},
            "data": {"features": ["x"], "rows": [[0], [1]] * 10, "labels": [0, 1] * 10},
        },
    )

    def refused(reference="offers", **fields):
        response = client.post(f"/models/{reference}/replay", json=fields)
        assert response.status_code == 422, response.text
        return response.json()["errors"]

    assert refused(rules=[{"rule": "most_probable"}], actions=["a"]) == [
        says("/rules", "rewards", "'models'"),
        says("/actions", "rewards", "'models'"),
    ]
    assert refused(benefits=[[1]]) == [says("/benefits", "rewards", "'models'")]
    assert refused(models=["other"]) == [says("/models/0", "learned from rewards")]
    assert refused("other", models=["offers:1"]) == [
        says("/models/0", "learned from rewards")
    ]
    target = {"version": 1, "shadow": ["other:1"]}
    response = client.put("/models/offers/aliases/odd", json=target)
    assert response.json()["errors"] == [says("/shadow/0", "learned from rewards")]
