"""Training jobs over real HTTP, and what all kinds of jobs have in common."""

import json

import pytest

from tests.conftest import trained, two_class_rows

BENEFITS = [[0, -1], [-10, 5]]
TABLE = b"x,label\n" + b"".join(
    b"%d,%s\n" % (i, b"ab"[i % 2 : i % 2 + 1]) for i in range(40)
)
LOGISTIC = {
    "kind": "logistic",
    "parameters": {"C": 1.0, "calibration": "auto", "monotonic": None},
}


def order(**changes: object) -> dict:
    return {
        "model": "trial",
        "learner": {"kind": "logistic"},
        "data": two_class_rows(60),
        **changes,
    }


@pytest.fixture(scope="module")
def stored(service) -> str:
    """The id of a data set."""
    return service.post(
        "/datasets", files={"file": ("t.csv", TABLE)}, data={"label": "label"}
    ).json()["id"]


def comparison(stored, learner="cost_naive_bayes") -> dict:
    return {
        "dataset": stored,
        "learners": [{"kind": learner}],
        "benefits": BENEFITS,
        "folds": 2,
    }


def test_a_job_is_accepted_and_followed_to_its_model(service):
    """202 with a Location; events carry the job as it changes; the card says what was done, with all defaults."""
    asked = order(
        model="carded",
        benefits=BENEFITS,
        feature_costs={"age": 1, "pulse": 2.5, "pain": 0},
        seed=3,
    )
    response = service.post("/train", json=asked)
    place = response.headers["location"]

    assert (response.status_code, place) == (202, f"/train/{response.json()['id']}")
    with service.stream("GET", f"{place}/events") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        seen = [
            json.loads(line[5:])
            for line in stream.iter_lines()
            if line.startswith("data:")
        ]
    job = service.get(place).json()
    card = service.get(f"/models/carded/versions/{job['model']['version']}").json()

    progress = [event["progress"] for event in seen]
    assert progress == sorted(progress)
    assert (seen[-1], job["status"], job["progress"], job["model"]["name"]) == (
        job,
        "succeeded",
        1,
        "carded",
    )
    assert job["created_at"] <= job["started_at"] <= job["finished_at"]
    assert (card["learner"], card["classes"], card["benefits"]) == (
        LOGISTIC,
        ["healthy", "ill"],
        BENEFITS,
    )
    assert [feature["type"] for feature in card["features"]] == [
        "numeric",
        "numeric",
        "categorical",
    ]
    assert (
        card["data"]["rows"],
        card["data"]["holdout_rows"],
        card["data"]["refit"],
    ) == (
        60,
        15,
        True,
    )
    assert [price["cost"] for price in card["feature_costs"]] == [1, 2.5, 0]
    assert (card["job"], bool(card["packages"]["scikit-learn"])) == (job["id"], True)
    assert card["fitted"] == {
        "calibration": "none",
        "converged": True,
        "numeric_transform": "clip",
    }


def test_jobs_are_listed_newest_first_in_pages(service):
    ids = [trained(service, order(model="paged"))["id"] for _ in range(3)]
    query = {"model": "paged", "page_size": 2}
    first = service.get("/train", params=query).json()
    rest = service.get(
        "/train", params=query | {"page_token": first["next_page_token"]}
    ).json()

    assert [job["id"] for job in first["jobs"] + rest["jobs"]] == ids[::-1]
    assert rest["next_page_token"] is None
    assert (
        service.get("/train", params={"status": "failed", "model": "paged"}).json()[
            "jobs"
        ]
        == []
    )
    assert service.get("/train", params={"page_token": "x"}).status_code == 422


def test_the_error_of_a_failed_job_is_a_problem_document(service):
    """The one that a request would be answered with, for a 422 that is found late, while the job ran."""
    impossible = order(benefits=[[0, 1], [1, 0]], learner={"kind": "benefit_logistic"})
    job = service.post("/train", json=impossible, headers={"Prefer": "wait=60"}).json()

    error = job["error"]
    assert (job["status"], error["type"]) == (
        "failed",
        "urn:payoff:problem:unprocessable-entity",
    )
    assert (error["status"], error["title"], "benefit matrix" in error["detail"]) == (
        422,
        "Invalid request",
        True,
    )
    assert {flaw["loc"].split("/")[1] for flaw in error["errors"]} == {"benefits"}


def test_a_job_of_another_kind_is_unknown_in_the_same_words(service, stored):
    """A job that does not exist and one of another kind cannot be told apart."""
    ids = {"compare": service.post("/train", json=order()).json()["id"]}
    ids["train"] = service.post("/compare", json=comparison(stored, "logistic")).json()[
        "id"
    ]

    for kind, other in ids.items():
        for job_id in (other, "job_00000000000000000000", "x"):
            for answer in (
                service.get(f"/{kind}/{job_id}"),
                service.delete(f"/{kind}/{job_id}"),
            ):
                assert (answer.status_code, answer.json()["detail"]) == (
                    404,
                    f"there is no job {job_id!r}",
                )
