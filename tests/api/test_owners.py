"""A data set belongs to the client that made it, and names are each client's own, as docs/reference/scopes.md says."""

import json
import re
from dataclasses import dataclass
from time import time
from typing import Any

import httpx
import orjson
import pytest
from fastapi import FastAPI

from app.access.caller import ANYBODY, Caller, Scope
from app.outcomes.decision import Terms, day_of
from app.training import fitting
from tests.api.callers import ask, called_by
from tests.api.operations import operations
from tests.conftest import csv_of, two_class_rows
from tests.outcomes.records import decided, told

WORK = frozenset({Scope.PREDICT, Scope.TRAIN})
A = Caller("bank-a", "payoff_0000000a", WORK, ("a-*",))
B = Caller("bank-b", "payoff_0000000b", WORK, ("b-*",))
ROTATED = Caller("bank-b", "payoff_000000b2", WORK, ("b-*",))
ALL_MODELS = Caller("bank-c", "payoff_0000000c", WORK)
OPERATOR = Caller("ops", "payoff_0000000d", frozenset({Scope.ADMIN}))
ADMIN_KEY = Caller("admin")
OTHERS = pytest.mark.parametrize(
    "other", [A, ALL_MODELS], ids=lambda caller: caller.name
)

BENEFITS = [[0, -1], [-10, 5]]
LOGISTIC = {"kind": "logistic"}
TERMS = Terms(
    "predict",
    "b-forest",
    1,
    "expected_benefit",
    ("healthy", "ill"),
    ("wait", "treat"),
    ((0, -1), (-10, 5)),
)


@dataclass(frozen=True)
class Asking:
    """Requests of one caller."""

    app: FastAPI
    caller: Caller

    def __call__(self, method: str, path: str, **options: Any) -> httpx.Response:
        return ask(called_by(self.app, self.caller), method, path, **options)

    def upload(self, seed: int, name: str | None = "sales") -> dict[str, Any]:
        """A table of 60 rows; the same `seed` is the same table."""
        content = csv_of(two_class_rows(60, seed))
        params = {"label": "label"} | ({"name": name} if name else {})
        headers = {"Content-Type": "text/csv"}
        answer = self(
            "POST", "/datasets", params=params, content=content, headers=headers
        )
        assert answer.status_code == 201, answer.text
        document: dict[str, Any] = answer.json()
        return document

    def listed(self) -> list[str]:
        answer = self("GET", "/datasets", params={"page_size": 500})
        return [each["id"] for each in answer.json()["datasets"]]

    def train(self, dataset: str, **headers: str) -> httpx.Response:
        order = {
            "model": self.own("model"),
            "learner": LOGISTIC,
            "data": {"dataset": dataset},
        }
        return self("POST", "/train", json=order, headers=headers)

    def own(self, name: str) -> str:
        """A name of a model that the caller's key is for."""
        return f"{self.caller.name[-1]}-{name}"


@pytest.fixture(autouse=True, scope="module")
def forests(wired, app):
    """A model of each bank that asks for features."""
    queue = wired.stores.queue
    for caller in (A, B, ALL_MODELS):
        asking = Asking(app, caller)
        order = {
            "model": asking.own("forest"),
            "learner": {"kind": "budget_forest"},
            "data": two_class_rows(60),
        }
        asking("POST", "/train", json=order).raise_for_status()
        fitting.run(wired.stores, queue.get(queue.claim("a worker").id))
    wired.stores.registry.refresh()


def uses(asking: Asking, reference: str) -> dict[str, httpx.Response]:
    """What comes of every request that takes a data set from a client which is no admin; jobs are cancelled."""
    simulation = {"model": asking.own("forest"), "dataset": reference}
    comparison = {"dataset": reference, "learners": [LOGISTIC], "benefits": BENEFITS}
    forest = f"/models/{asking.own('forest')}"
    judged = {"dataset": reference, "benefits": BENEFITS, "actions": ["wait", "treat"]}
    guarantee = {
        "action": "wait",
        "wrong": ["ill"],
        "at_most": 0.5,
        "otherwise": "treat",
    }
    answers = {
        "POST /models/{ref}/benefit": asking("POST", f"{forest}/benefit", json=judged),
        "PUT /models/{ref}/guarantees/{guarantee}": asking(
            "PUT", f"{forest}/guarantees/kept", json=judged | {"guarantee": guarantee}
        ),
        "GET /datasets/{dataset_id}": asking("GET", f"/datasets/{reference}"),
        "POST /train": asking.train(reference),
        "POST /compare": asking("POST", "/compare", json=comparison),
        "POST /acquire/simulate": asking("POST", "/acquire/simulate", json=simulation),
    }
    for answer in answers.values():
        if answer.status_code == 202:
            asking("DELETE", answer.headers["location"]).raise_for_status()
    return answers | {
        "DELETE /datasets/{dataset_id}": asking("DELETE", f"/datasets/{reference}")
    }


def test_every_request_that_takes_a_data_set_is_asked_here(app: FastAPI) -> None:
    """Those whose path or body has a place for one; imports need `admin`, who may use all."""
    schemas = app.openapi()["components"]["schemas"]

    def named(part: Any) -> bool:
        """Whether a part of the document, or what it refers to, has a field for a data set."""
        text = json.dumps(part)
        return '"dataset":' in text or any(
            named(schemas[name]) for name in re.findall(r"schemas/(\w+)", text)
        )

    found = {
        f"{one.method} {one.path}"
        for one in operations()
        if "{dataset" in one.path or named(one.document.get("requestBody"))
    }
    asked = uses(Asking(app, A), "ds_0000000000000000")
    assert found == {*asked, "POST /models/{name}/versions"}
    assert {answer.status_code for answer in asked.values()} == {404}


def test_another_clients_data_set_is_not_there(app: FastAPI) -> None:
    """By its id, in the words for one that does not exist; to its owner it stays as it was."""
    owner, stranger = Asking(app, B), Asking(app, A)
    document = owner.upload(1, "secret")
    missing = "ds_ffffffffffffffff"
    absent = uses(stranger, missing)

    for request, answer in uses(stranger, document["id"]).items():
        assert answer.status_code == 404, (request, answer.text)
        assert answer.text.replace(document["id"], missing) == absent[request].text
    assert document["id"] not in stranger.listed()
    assert owner("GET", f"/datasets/{document['id']}").json() == document
    assert document["id"] in owner.listed()


@OTHERS
def test_a_name_cannot_be_redirected_or_looked_through(
    app: FastAPI, other: Caller
) -> None:
    """The same name of two clients refers to two data sets, whoever uploads or deletes last."""
    owner, stranger = Asking(app, B), Asking(app, other)
    name = f"sales {other.name}"
    theirs = owner.upload(20 + len(other.models), name)["id"]
    assert uses(stranger, name)["POST /train"].status_code == 404

    mine = stranger.upload(3, name)["id"]
    assert mine != theirs
    for asking, expected in ((owner, theirs), (stranger, mine)):
        answers = uses(asking, name)
        assert answers["GET /datasets/{dataset_id}"].json()["id"] == expected
        assert answers["POST /train"].json()["requested"]["dataset"] == expected
        assert answers["POST /compare"].json()["requested"]["dataset"] == expected
        assert answers["POST /acquire/simulate"].status_code == 200, answers[
            "POST /acquire/simulate"
        ].text
        assert answers["DELETE /datasets/{dataset_id}"].status_code == 404, (
            "deleting needs the id"
        )

    assert stranger("DELETE", f"/datasets/{mine}").status_code == 204
    assert owner("GET", f"/datasets/{name}").json()["id"] == theirs
    assert stranger("GET", f"/datasets/{name}").status_code == 404


def test_the_same_table_of_two_clients_is_two_data_sets(app: FastAPI) -> None:
    """So neither learns from an answer that the other has it, and deleting one leaves the other; a new key of the same
    name goes on with what the old one made.
    """
    owner, stranger, rotated = Asking(app, B), Asking(app, A), Asking(app, ROTATED)
    theirs, mine = owner.upload(4, "kept"), stranger.upload(4, "kept")
    assert mine["id"] != theirs["id"]
    assert mine["digest"] == theirs["digest"]

    assert stranger("DELETE", f"/datasets/{mine['id']}").status_code == 204
    assert rotated("GET", "/datasets/kept").json() == theirs
    assert rotated.listed() == owner.listed()
    assert rotated.upload(4, "kept") == theirs, (
        "the same upload of the same client is the same data set"
    )
    assert rotated("DELETE", f"/datasets/{theirs['id']}").status_code == 204
    assert owner("GET", "/datasets/kept").status_code == 404


def test_rows_that_were_fitted_are_known_whoever_uploads_them(app: FastAPI) -> None:
    """The model was made from the same table as it came with the order, which has another id."""
    asking = Asking(app, B)
    fitted, new = (asking.upload(seed, None)["id"] for seed in (0, 10))
    answers = [uses(asking, dataset) for dataset in (fitted, new)]
    warnings = [
        answer["POST /acquire/simulate"].json()["warnings"] for answer in answers
    ]
    assert [any("were fitted" in warning for warning in each) for each in warnings] == [
        True,
        False,
    ]


@pytest.mark.parametrize(
    "caller", [OPERATOR, ALL_MODELS], ids=lambda caller: caller.name
)
def test_a_key_without_patterns_sees_uses_and_deletes_all(
    app: FastAPI, caller: Caller
) -> None:
    """By id; names are each client's own."""
    theirs = [
        Asking(app, caller).upload(6, "audited")["id"] for caller in (A, B, ANYBODY)
    ]
    operator = Asking(app, caller)
    assert {*theirs} <= {*operator.listed()}
    assert operator("GET", "/datasets/audited").status_code == 404
    for dataset in theirs:
        assert operator("GET", f"/datasets/{dataset}").json()["id"] == dataset
        job = operator.train(dataset).json()
        assert job["requested"]["dataset"] == dataset
        assert operator("DELETE", f"/datasets/{dataset}").status_code == 409
        operator("DELETE", f"/train/{job['id']}").raise_for_status()
        assert operator("DELETE", f"/datasets/{dataset}").status_code == 204


def test_without_keys_all_is_one_clients(app: FastAPI) -> None:
    """And the admin key, with which a service gets its first keys, goes on with it."""
    found = Asking(app, ANYBODY).upload(7, "open")
    assert Asking(app, ADMIN_KEY)("GET", "/datasets/open").json() == found
    assert Asking(app, A)("GET", f"/datasets/{found['id']}").status_code == 404


SCORES = {"scores": [1, 2, 3, 4] * 9, "labels": [0, 1, 0, 1] * 9, "classes": [0, 1]}


@pytest.mark.parametrize(
    ("path", "order"),
    [
        ("/train", {"learner": LOGISTIC, "data": two_class_rows(40)}),
        ("/calibrate", SCORES),
    ],
)
def test_tables_sent_with_an_order_are_the_clients(
    app: FastAPI, path: str, order: dict[str, Any]
) -> None:
    answer = Asking(app, B)("POST", path, json=order | {"model": "b-inline"})
    assert answer.status_code == 202, answer.text
    dataset = answer.json()["requested"]["dataset"]

    assert Asking(app, B)("GET", f"/datasets/{dataset}").status_code == 200
    assert dataset not in Asking(app, A).listed()
    assert Asking(app, A).train(dataset).status_code == 404


def test_data_sets_of_outcomes_belong_to_who_makes_them(app: FastAPI) -> None:
    database = app.state.service.stores.database
    for i in range(10):
        instance = orjson.dumps({"age": 50 + i, "pulse": 70.5, "pain": "mild"}).decode()
        told(
            database,
            decided(database, terms=TERMS, instance=instance),
            [i % 2],
            terms=TERMS,
            day=day_of(time()),
        )
    order = {"model": "b-forest", "name": "seen"}
    made = Asking(app, B)("POST", "/datasets/from-outcomes", json=order)
    assert made.status_code == 201, made.text
    dataset = made.json()

    assert Asking(app, B)("GET", "/datasets/seen").json() == dataset
    assert (
        Asking(app, A)("POST", "/datasets/from-outcomes", json=order).status_code == 403
    )
    for reference in ("seen", dataset["id"]):
        assert Asking(app, A)("GET", f"/datasets/{reference}").status_code == 404
    everything = Asking(app, ALL_MODELS)(
        "POST", "/datasets/from-outcomes", json=order
    ).json()
    assert everything["id"] != dataset["id"]
    assert Asking(app, B)("GET", "/datasets/seen").json() == dataset
