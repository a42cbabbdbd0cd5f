"""A review desk over HTTP: its key reads the queue and single decisions, and sends what it found."""

import pytest
from payoff_client import Payoff

from app.access.caller import Scope
from tests.api.test_keys import Bank
from tests.conftest import serving, settings_for, trained, two_class_rows
from tests.messages import says

MATRIX = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
DATA = two_class_rows()
FEATURES = DATA["features"]
PEOPLE = [dict(zip(FEATURES, row, strict=True)) for row in DATA["rows"][:20]]


@pytest.fixture(scope="module")
def bank(tmp_path_factory):
    settings = settings_for(tmp_path_factory.mktemp("desk"), admin_key="s3cret")
    with serving(settings) as client:
        bank = Bank(settings, str(client.base_url))
        yield bank
        bank.close()


@pytest.fixture(scope="module")
def clerk(bank):
    """Who decided twenty cases."""
    client = bank.make("clerk", Scope.TRAIN, Scope.PREDICT)
    order = {"model": "ward", "learner": {"kind": "logistic"}, "data": DATA}
    trained(client, order)
    body = {
        "model": "ward",
        "instances": PEOPLE,
        "benefits": MATRIX,
        "record": {"ids": [f"p/{i}" for i in range(20)], "instances": True},
    }
    client.post("/predict", json=body).raise_for_status()
    return client


@pytest.fixture(scope="module")
def desk(bank, clerk):
    return bank.make("desk", Scope.REVIEW, models=["ward"])


def test_the_desk_works_through_its_queue(desk):
    def waiting():
        query = {"open": True, "page_size": 5}
        answer = desk.get("/models/ward/decisions", params=query)
        assert answer.status_code == 200, answer.text
        return [line["id"] for line in answer.json()["decisions"]]

    before = waiting()
    outcome = {"id": before[0], "truth": "ill", "action": "treat"}
    desk.post("/outcomes", json={"outcomes": [outcome]}).raise_for_status()
    assert waiting()[:4] == before[1:]
    seen = desk.get(f"/decisions/{before[0]}").json()
    stated = {"truth": "ill", "action": "treat", "benefit": None, "at": None}
    assert seen["outcome"] == stated


def test_the_explanation_is_that_of_the_answer(desk, clerk):
    body = {"model": "ward", "instances": PEOPLE[3:4], "benefits": MATRIX}
    clerk.put("/models/ward/reasons", json={"pain": {"any": "Pain"}}).raise_for_status()
    seen = desk.get("/decisions/p/3").json()
    asked = {"reasons": 4, "against": seen["action"]}
    answer = clerk.post("/predict", json=body | {"explain": asked}).json()
    texts = [reason["text"] for reason in seen["explanation"]["reasons"]]
    assert "Pain" in texts
    assert seen["explanation"] == answer["explanations"][0]
    assert seen["instance"] == PEOPLE[3]
    assert (seen["action"], seen["key"]) == (answer["decisions"][0], "clerk")
    assert seen["expected_benefits"] == pytest.approx(answer["expected_benefits"][0])


def test_what_limits_decided_has_its_contributions_and_reasons(desk, clerk):
    """The sentence is about the decision by expected benefit, which may be another one."""
    body = {"model": "ward", "instances": PEOPLE, "benefits": MATRIX}
    record = {"ids": [f"l/{i}" for i in range(20)], "instances": True}
    limits = {"limits": {"treat": 3}, "record": record}
    clerk.post("/predict", json=body | limits).raise_for_status()
    answer = clerk.post("/predict", json=body | {"explain": True}).json()
    for i, explanation in enumerate(answer["explanations"]):
        seen = desk.get(f"/decisions/l/{i}").json()["explanation"]
        assert seen["contributions"] == pytest.approx(explanation["contributions"])
        assert seen["reasons"] is not None
        assert "sentence" not in seen


def test_the_client_reads_them_too(bank, desk):
    key = bank.keys["desk"]
    with Payoff(bank.url, key, progress=False) as client:
        page = client.model("ward").waiting(open=False, order="time", page_size=3)
        assert len(page["decisions"]) == 1
        [line] = page["decisions"]
        assert client.decision(line["id"])["stake"] == pytest.approx(line["stake"])


def test_no_more_than_its_scope_and_its_models(bank, desk, clerk):
    assert desk.get("/models/ward/outcomes").status_code == 403
    assert desk.post("/predict", json={}).status_code == 403
    other = bank.make("other", Scope.REVIEW, models=["heart"])
    assert other.get("/models/ward/decisions").status_code == 403
    assert other.get("/decisions/p/3").status_code == 404
    predicting = bank.make("asks", Scope.PREDICT)
    assert predicting.get("/decisions/p/3").status_code == 403
    report = {"benefits": MATRIX, "dataset": "ds_1"}
    assert predicting.post("/models/ward/benefit", json=report).status_code == 403
    assert clerk.get("/models/ward/decisions?order=size").status_code == 422


def test_an_action_that_nothing_decides_on_is_refused_by_name(desk):
    answer = desk.get("/models/ward/decisions?action=trat")
    assert answer.status_code == 422
    assert answer.json()["errors"] == [says("/action", "'trat'", "'treat'")]
