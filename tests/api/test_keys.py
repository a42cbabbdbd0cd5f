"""What each key opens, of models, jobs and data; its rate, and its end. `test_permits` has the scopes of routes."""

import contextlib
import re
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from app.access.caller import Scope
from app.opening import prepare_stores
from app.settings import Settings
from tests.conftest import serving, settings_for, trained, two_class_rows, uploaded
from tests.jobs.waiting import SOON, eventually

ADMIN_KEY = "s3cret of the admin"
ORDER = {"learner": {"kind": "logistic"}, "data": two_class_rows(60), "holdout": 0.3}
INSTANCE = {"age": 61.7734, "pulse": 81.1, "pain": "strong"}


class Bank:
    """A service with keys: a client for each, by the name of its key."""

    def __init__(self, settings: Settings, url: str) -> None:
        self.url, self.stores = url, prepare_stores(settings)
        self.keys: dict[str, str] = {}
        self._clients = ExitStack()

    def make(self, name: str, *scopes: Scope, **wish: object) -> httpx.Client:
        _, self.keys[name] = self.stores.keys.create(name, scopes, **wish)
        client = self.holding(self.keys[name])
        seen_by(client)
        return client

    def holding(self, key: str) -> httpx.Client:
        client = httpx.Client(base_url=self.url, headers={"X-API-Key": key}, timeout=60)
        return self._clients.enter_context(client)

    def close(self) -> None:
        self._clients.close()
        self.stores.database.close()


def seen_by(client: httpx.Client, status: int = 204) -> None:
    """Wait until the service knows of a key that was just made or revoked: a second, by its promise."""
    eventually(lambda: client.get("/access").status_code == status, SOON)


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bank]:
    settings = settings_for(tmp_path_factory.mktemp("keys"), admin_key=ADMIN_KEY)
    with serving(settings) as client:
        bank = Bank(settings, str(client.base_url))
        yield bank
        bank.close()


@pytest.fixture(scope="module")
def admin(bank: Bank) -> httpx.Client:
    return bank.holding(ADMIN_KEY)


@pytest.fixture(scope="module")
def trainer(bank: Bank) -> httpx.Client:
    return bank.make("trainer", Scope.TRAIN)


@pytest.fixture(scope="module")
def predictor(bank: Bank) -> httpx.Client:
    return bank.make("predictor", Scope.PREDICT)


@pytest.fixture(scope="module")
def hearts(bank: Bank) -> httpx.Client:
    """Both scopes, for some models only."""
    return bank.make("hearts", Scope.PREDICT, Scope.TRAIN, models=("heart-*",))


@pytest.fixture(scope="module")
def models(trainer: httpx.Client) -> dict[str, str]:
    """Two models, and the jobs that made them."""
    return {
        name: trained(trainer, {"model": name, **ORDER})["id"]
        for name in ("heart-a", "lung")
    }


@pytest.mark.parametrize(
    ("header", "before"), [("X-API-Key", ""), ("Authorization", "Bearer ")]
)
def test_a_request_with_two_keys_is_refused(bank, models, predictor, header, before):
    """On the hot path, on the plain one and on other routes: in either order, with the same key twice, with no key."""
    valid, others = (
        before + bank.keys["predictor"],
        (before + bank.keys["trainer"], before + "wrong", "Basic eA==", ""),
    )
    question = {
        "model": "lung",
        "instances": [[61, 80, "mild"]],
        "benefits": [[0, -1], [-10, 5]],
    }
    calls = [
        ("POST", "/predict", question),
        ("POST", "/predict", question | {"explain": True}),
        ("POST", "/benefit", {}),
    ]
    with httpx.Client(base_url=bank.url) as client:
        for method, path, body in (
            calls[0],
            *calls,
            ("GET", "/models", None),
            ("GET", "/nowhere", None),
        ):
            assert (
                client.request(
                    method, path, json=body, headers=[(header, valid)]
                ).status_code
                != 401
            )
            for other in (valid, *others):
                for values in ((valid, other), (other, valid)):
                    response = client.request(
                        method,
                        path,
                        json=body,
                        headers=[(header, value) for value in values],
                    )

                    assert response.status_code == 401, (path, values)
                    assert f"'{header}' is sent twice" in response.text


def predict(client: httpx.Client, model: str) -> httpx.Response:
    return client.post(
        "/predict",
        json={"model": model, "instances": [INSTANCE], "rule": "most_probable"},
    )


def test_patterns_hold_wherever_a_model_is_named(hearts, models):
    assert predict(hearts, "heart-a").status_code == 200
    named = [
        ("POST", "/predict", {"model": "lung", "instances": [INSTANCE]}),
        ("POST", "/models/lung:1/benefit", {"benefits": [[0, 1], [1, 0]]}),
        ("GET", "/models/lung", None),
        ("GET", "/models/lung/versions/1", None),
        ("GET", "/models/lung/versions/1/artifact", None),
        ("PUT", "/models/lung/aliases/best", {"version": 1}),
        ("DELETE", "/models/lung/aliases/best", None),
        ("DELETE", "/models/lung/versions/1", None),
        ("DELETE", "/models/lung", None),
    ]
    for method, path, body in named:
        refused = hearts.request(method, path, json=body)
        other = hearts.request(
            method,
            path.replace("lung", "nosuch"),
            json=body and {**body, "model": "nosuch"},
        )

        assert refused.status_code == 403, (method, path, refused.text)
        assert "heart-*" in refused.json()["detail"]
        if other.status_code != 422:  # `model` is no field of every body
            assert other.json() == refused.json(), (
                "what is there must not be told from what is not"
            )


def test_cells_on_rows_of_a_data_set_need_train(predictor, trainer, models):
    """Many reports on the hold-out by such cells tell values of its rows; one by numbers tells none."""
    by_age = {
        "healthy": {"wait": 0, "treat": {"column": "age"}},
        "ill": {"wait": -10, "treat": 5},
    }
    trainer.put(
        "/models/lung/matrices/by-age", json={"benefits": by_age}
    ).raise_for_status()
    for benefits, status in (
        (by_age, 403),
        ("by-age", 403),
        ([[0, -1], [-10, 5]], 200),
    ):
        answer = predictor.post("/models/lung/benefit", json={"benefits": benefits})
        assert answer.status_code == status, answer.text
        assert status == 200 or "'train'" in answer.json()["detail"]
        allowed = trainer.post("/models/lung/benefit", json={"benefits": benefits})
        assert allowed.status_code == 200, allowed.text


def test_others_models_and_jobs_are_not_there(hearts, trainer, models):
    names = [model["name"] for model in hearts.get("/models").json()["models"]]
    assert names == ["heart-a"]
    assert [job["id"] for job in hearts.get("/train").json()["jobs"]] == [
        models["heart-a"]
    ]
    assert hearts.get(f"/train/{models['heart-a']}").status_code == 200
    for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", "")):
        assert (
            hearts.request(method, f"/train/{models['lung']}{path}").status_code == 404
        )
    missing = predict(hearts, "heart-z")
    assert missing.status_code == 404
    assert "lung" not in missing.text
    assert {model["name"] for model in trainer.get("/models").json()["models"]} == {
        "heart-a",
        "lung",
    }


def test_to_check_a_key_takes_nothing_off_its_rate(bank, admin):
    """A proxy asks before it reads a long body: 204 for any valid key, and nothing else."""
    client = bank.make("checked", rate="20/hour")
    answers = [client.get("/access") for _ in range(40)]

    assert {answer.status_code for answer in answers} == {204}
    assert not any("ratelimit" in answer.headers for answer in answers)
    assert (
        client.get("/metrics").status_code == 403
    )  # it names every model, and what it earns
    assert bank.make("scraper", Scope.METRICS).get("/metrics").status_code == 200
    assert admin.get("/access").status_code == 204
    assert bank.holding("wrong").get("/access").status_code == 401


def test_a_rate_of_its_own(bank):
    client = bank.make("slow", Scope.PREDICT, rate="5/hour")

    answers = [client.get("/models") for _ in range(6)]

    refused = answers[-1]
    assert (refused.status_code, refused.headers["ratelimit-policy"]) == (
        429,
        '"key";q=5;w=3600',
    )
    assert 0 < int(refused.headers["retry-after"]) <= 2 * 3600
    lefts = [
        int(re.match(r'"key";r=(\d+);t=', answer.headers["ratelimit"])[1])
        for answer in answers
    ]
    assert lefts == sorted(lefts, reverse=True)
    assert lefts[-1] == 0


LONG = {
    "learner": {"kind": "random_forest", "n_estimators": 3000},
    "data": two_class_rows(2000),
    "holdout": 0.3,
}


def test_jobs_at_once(bank):
    """One more than a key may have is refused; who repeats an order is answered with it."""
    client = bank.make("busy", Scope.TRAIN, jobs=1)
    orders = [(LONG | {"model": "slow"}, key) for key in ("one", "two", "one")]
    first, second, again = (
        client.post("/train", json=body, headers={"Idempotency-Key": key})
        for body, key in orders
    )

    assert (first.status_code, second.status_code, again.status_code) == (202, 429, 202)
    assert "queued or running" in second.json()["detail"]
    assert int(second.headers["retry-after"]) > 0
    assert (again.json()["id"], again.json()["requested"]["model"]) == (
        first.json()["id"],
        "slow",
    )
    client.delete(f"/train/{first.json()['id']}")


def test_the_audit_log_says_who(bank, admin, hearts, trainer, models):
    job = trained(hearts, {"model": "heart-b", **ORDER})
    for _ in range(2):  # the second time changes nothing
        hearts.put("/models/heart-b/aliases/best", json={"version": 1})
    admin.delete("/models/heart-b/aliases/best")
    admin.delete("/models/heart-b")
    dataset = uploaded(trainer, two_class_rows(20, seed=1))
    trainer.delete(f"/datasets/{dataset}")

    entries = admin.get("/audit", params={"page_size": 500}).json()["entries"]
    told = [
        (entry["who"], entry["action"], entry["subject"]) for entry in reversed(entries)
    ]
    mine = [
        line
        for line in told
        if line[2] in (job["id"], "heart-b:1", "heart-b@best", "heart-b", dataset)
    ]

    assert mine == [
        ("hearts", "job.submit", job["id"]),
        ("hearts", "version.publish", "heart-b:1"),
        ("hearts", "alias.set", "heart-b@best"),
        ("admin", "alias.delete", "heart-b@best"),
        ("admin", "model.delete", "heart-b"),
        ("trainer", "dataset.delete", dataset),
    ]
    assert ("command line", "key.create", bank.keys["hearts"].partition(".")[0]) in told
    assert trainer.get("/audit").status_code == 403
    page = admin.get("/audit", params={"page_size": 2}).json()
    following = admin.get(
        "/audit", params={"page_size": 2, "page_token": page["next_page_token"]}
    ).json()
    assert [*page["entries"], *following["entries"]] == entries[:4]


def test_changes_are_refused_where_they_cannot_be_audited(bank, admin, trainer, models):
    """The entry and the change are one transaction."""
    with bank.stores.database.writing() as connection:
        connection.exec_driver_sql("ALTER TABLE audit_log RENAME TO away")
    try:
        with contextlib.suppress(httpx.HTTPError):
            assert (
                trainer.put(
                    "/models/lung/aliases/best", json={"version": 1}
                ).status_code
                >= 500
            )
        assert trainer.get("/models/lung").json()["aliases"] == {}
    finally:
        with bank.stores.database.writing() as connection:
            connection.exec_driver_sql("ALTER TABLE away RENAME TO audit_log")


def test_an_event_stream_ends_with_its_key(bank, admin):
    """Nothing more is sent once the key is revoked, though the job goes on."""
    client = bank.make("watcher", Scope.TRAIN)
    job = client.post("/train", json={"model": "long"} | LONG).json()["id"]
    with client.stream("GET", f"/train/{job}/events") as events:
        lines = events.iter_lines()
        assert next(lines) == "event: job"
        bank.stores.keys.revoke("watcher")
        until = time.monotonic() + 60
        for _ in lines:
            assert time.monotonic() < until

    assert client.get(f"/train/{job}").status_code == 401
    assert admin.get(f"/train/{job}").json()["status"] in ("queued", "running")
    admin.delete(f"/train/{job}").raise_for_status()
