"""Learners whose answers may only rise, or only fall, with a feature: ordered, refused, and kept."""

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows
from tests.messages import says

DATA = two_class_rows(300)
BENEFITS = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}


def refused(service, learner, data=DATA):
    order = {"model": "refused", "learner": learner, "data": data}
    answer = service.post("/train", json=order)
    assert answer.status_code == 422, answer.text
    [flaw] = answer.json()["errors"]
    return flaw


@pytest.mark.parametrize(
    "learner",
    [{"kind": "logistic"}, {"kind": "gradient_boosting", "max_iter": 30}],
    ids=lambda learner: learner["kind"],
)
def test_the_second_class_only_falls_with_age(service, learner):
    """Against the data, in which the ill are older."""
    name = f"falling_{learner['kind']}"
    order = {"model": name, "data": DATA}
    trained(service, order | {"learner": learner | {"monotonic": {"age": "down"}}})
    rows = [[age, 70.0, "mild"] for age in range(20, 90, 3)]
    body = {"model": name, "instances": rows, "benefits": BENEFITS}
    ill = np.array(service.post("/predict", json=body).json()["probabilities"])[:, 1]
    assert np.diff(ill).max() <= 1e-12
    card = service.get(f"/models/{name}/versions/1").json()
    assert card["learner"]["parameters"]["monotonic"] == {"age": "down"}


@pytest.mark.parametrize("kind", ["logistic", "gradient_boosting"])
def test_what_cannot_be_kept_is_refused_when_it_is_ordered(service, kind):
    def flaw(directions, data=DATA):
        return refused(service, {"kind": kind, "monotonic": directions}, data)

    place = "/learner/monotonic"
    assert flaw({"age": "up", "agee": "up"}) == says(f"{place}/agee", "'age'?")
    assert flaw({"pain": "up"}) == says(f"{place}/pain", "category")
    assert flaw({"age": "more"}) == says(f"{place}/age", "'up' or 'down'")
    labels = ["abc"[i % 3] for i in range(len(DATA["labels"]))]
    three = DATA | {"labels": labels}
    assert flaw({"age": "up"}, three) == says(place, "two classes", "3")


def test_other_learners_and_inner_ones_do_not_take_it(service):
    learner = {"kind": "random_forest", "monotonic": {"age": "up"}}
    assert refused(service, learner) == says("/learner/monotonic", "unknown parameter")
    inner = {"kind": "logistic", "monotonic": {"age": "up"}}
    labels = ["abc"[i % 3] for i in range(len(DATA["labels"]))]
    learner = {"kind": "hierarchical_logistic", "second": inner}
    flaw = refused(service, learner, DATA | {"labels": labels})
    assert flaw == says("/learner/second/monotonic", "inside another")


def test_a_comparison_names_and_refuses_them(service):
    uploaded = {"model": "compared", "learner": {"kind": "logistic"}, "data": DATA}
    trained(service, uploaded)
    card = service.get("/models/compared/versions/1").json()
    order = {"dataset": card["data"]["dataset"], "benefits": BENEFITS, "folds": 2}
    directions = {"kind": "logistic", "monotonic": {"age": "up"}}
    learners = {"learners": ["logistic", directions]}
    learners = {"learners": [{"kind": "logistic"}, directions]}
    wait = {"Prefer": "wait=60"}
    job = service.post("/compare", json=order | learners, headers=wait).json()
    names = {line["learner"] for line in job["result"]["table"]}
    assert 'logistic(monotonic={"age": "up"})' in names
    learners = {"learners": [directions | {"monotonic": {"pain": "up"}}]}
    answer = service.post("/compare", json=order | learners)
    [flaw] = answer.json()["errors"]
    assert flaw == says("/learners/0/monotonic/pain", "category")
