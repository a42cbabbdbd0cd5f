"""Training jobs over real HTTP."""

from __future__ import annotations

import json

import pytest

from tests.conftest import trained, two_class_rows

SLOW = {"kind": "benefit_logistic", "calibration": "isotonic"}
BENEFITS = [[0, -1], [-10, 5]]


def order(**changes: object) -> dict:
    return {"model": "trial", "learner": {"kind": "logistic"}, "data": two_class_rows(60), **changes}


def test_a_job_is_accepted_and_can_be_followed(service):
    """202 with a Location; the job ends succeeded with a model, metrics and times."""
    response = service.post("/train", json=order())

    assert response.status_code == 202
    assert response.headers["location"] == f"/train/{response.json()['id']}"
    job = service.get(response.headers["location"], headers={"Prefer": "wait=60"}).json()
    assert job["status"] == "succeeded"
    assert job["progress"] == 1
    assert job["model"]["name"] == "trial"
    assert 0 < job["metrics"]["log_loss"] < 1
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]


def test_events_stream_until_the_job_ends(service):
    """Server-sent events carry the job as it changes, the last one as it ended."""
    job = service.post("/train", json=order()).json()

    with service.stream("GET", f"/train/{job['id']}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        seen = [json.loads(line[5:]) for line in stream.iter_lines() if line.startswith("data:")]

    assert seen[-1]["status"] == "succeeded"
    assert {event["id"] for event in seen} == {job["id"]}
    progress = [event["progress"] for event in seen]
    assert progress == sorted(progress)


def test_an_idempotency_key_gives_the_first_job_again(service):
    """The same key and request: the same job; the key with another request: refused."""
    headers = {"Idempotency-Key": "once-only"}
    first = service.post("/train", json=order(), headers=headers).json()
    again = service.post("/train", json=order(), headers=headers).json()
    other = service.post("/train", json=order(seed=7), headers=headers)

    assert again["id"] == first["id"]
    assert other.status_code == 422
    assert "Idempotency-Key" in other.json()["errors"][0]["loc"]


def test_jobs_are_listed_newest_first_in_pages(service):
    ids = [trained(service, order(model="paged"))["id"] for _ in range(3)]

    first = service.get("/train", params={"model": "paged", "page_size": 2}).json()
    rest = service.get(
        "/train", params={"model": "paged", "page_size": 2, "page_token": first["next_page_token"]}
    ).json()

    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids[::-1]
    assert rest["next_page_token"] is None
    assert service.get("/train", params={"status": "failed", "model": "paged"}).json()["jobs"] == []
    assert service.get("/train", params={"page_token": "x"}).status_code == 422


def test_cancelling(service):
    """A job that is cancelled before its end publishes nothing; asking again changes nothing."""
    blocker = service.post("/train", json=order(data=two_class_rows(20_000), learner=SLOW, benefits=BENEFITS)).json()
    queued = service.post("/train", json=order(model="never")).json()

    first = service.delete(f"/train/{queued['id']}")
    again = service.delete(f"/train/{queued['id']}")
    service.delete(f"/train/{blocker['id']}")
    ended = service.get(f"/train/{blocker['id']}", headers={"Prefer": "wait=30"}).json()

    assert first.status_code == again.status_code == 202
    assert again.json()["status"] == "cancelled"
    assert ended["status"] in ("cancelled", "succeeded")  # it may have been quicker
    assert service.get("/models/never").status_code == 404


def test_the_card_says_what_was_done(service):
    """Learner with defaults, features, classes, priors, data digest and package versions are in the card."""
    job = trained(
        service, order(model="carded", benefits=BENEFITS, feature_costs={"age": 1, "pulse": 2.5, "pain": 0}, seed=3)
    )
    card = service.get(f"/models/carded/versions/{job['model']['version']}").json()

    assert card["learner"] == {
        "kind": "logistic",
        "parameters": {"C": 1.0, "calibration": "auto"},
    }
    assert [feature["type"] for feature in card["features"]] == ["numeric", "numeric", "categorical"]
    assert card["classes"] == ["healthy", "ill"]
    assert sum(card["class_priors"].values()) == pytest.approx(1)
    assert (card["data"]["rows"], card["data"]["holdout_rows"], card["data"]["refit"]) == (60, 15, True)
    assert card["benefits"] == BENEFITS
    assert [price["cost"] for price in card["feature_costs"]] == [1, 2.5, 0]
    assert card["job"] == job["id"]
    assert card["packages"]["scikit-learn"]
    assert card["fitted"] == {"calibration": "none", "converged": True, "numeric_transform": "clip"}


def test_a_job_contains_what_was_ordered_from_the_beginning(service):
    """Model, learner with its defaults and data set, before anything is published; in the list, too."""
    stored = service.post("/datasets", files={"file": CSV}, data={"label": "label"}).json()["id"]
    job = service.post("/train", json=order(model="ordered", data={"dataset": stored})).json()
    comparison = {"dataset": stored, "learners": [{"kind": "cost_naive_bayes"}], "benefits": BENEFITS, "folds": 2}
    compared = service.post("/compare", json=comparison).json()["requested"]

    learner = {"kind": "logistic", "parameters": {"C": 1.0, "calibration": "auto"}}
    assert job["model"] is None
    assert job["requested"] == {"model": "ordered", "learner": learner, "dataset": stored}
    listed = service.get("/train", params={"model": "ordered"}).json()["jobs"]
    assert [one["requested"] for one in listed] == [job["requested"]]
    assert (compared["dataset"], compared["learners"][0]["kind"]) == (stored, "cost_naive_bayes")


CSV = ("table.csv", b"x,label\n" + b"".join(b"%d,%s\n" % (i, b"ab"[i % 2 : i % 2 + 1]) for i in range(40)), "text/csv")


def test_the_error_of_a_failed_job_is_a_problem_document(service):
    """The one that a request would be answered with, found while the job ran."""
    impossible = order(
        benefits=[[0, 1], [1, 0]], learner={"kind": "benefit_logistic"}
    )  # the case of a 422 that is found late
    job = service.post("/train", json=impossible, headers={"Prefer": "wait=60"}).json()

    assert job["status"] == "failed", job
    error = job["error"]
    assert (error["type"], error["status"]) == ("urn:payoff:problem:unprocessable-entity", 422)
    assert error["title"]
    assert "benefit matrix" in error["detail"]
    assert {flaw["loc"].split("/")[1] for flaw in error["errors"]} == {"benefits"}


@pytest.mark.parametrize("kind", ["train", "compare"])
def test_a_job_of_another_kind_is_unknown_in_the_same_words(service, kind):
    """A job that does not exist and one of another kind cannot be told apart."""
    train = service.post("/train", json=order()).json()["id"]
    stored = service.post("/datasets", files={"file": CSV}, data={"label": "label"}).json()["id"]
    comparison = {"dataset": stored, "learners": [{"kind": "logistic"}], "benefits": BENEFITS, "folds": 2}
    compare = service.post("/compare", json=comparison).json()["id"]
    other = compare if kind == "train" else train

    for job_id in (other, "job_00000000000000000000", "x"):
        for answer in (service.get(f"/{kind}/{job_id}"), service.delete(f"/{kind}/{job_id}")):
            assert (answer.status_code, answer.json()["detail"]) == (404, f"there is no job {job_id!r}")
