"""Reasons against an action over HTTP: their order, their directions, and their texts."""

import pytest

from tests.conftest import trained, two_class_rows
from tests.messages import says

DATA = two_class_rows()
MATRIX = {"healthy": {"wait": 0, "treat": -1}, "ill": {"wait": -10, "treat": 5}}
ROWS = [[80.0, 99.0, "strong"], [30.0, 55.0, "mild"], [None, 99.0, "odd"]]
TEXTS = {
    "age": {"high": "Age above that of most", "low": "Age below that of most"},
    "pain": {"any": "Kind of pain"},
}


def explained(service, model="ward", against="wait", rows=ROWS, **more):
    asked = {"reasons": 3, "against": against} | more.pop("asked", {})
    body = {"model": model, "instances": rows, "benefits": MATRIX, "explain": asked}
    return service.post("/predict", json=body | more)


def refused(answer):
    assert answer.status_code == 422, answer.text
    [flaw] = answer.json()["errors"]
    return flaw


@pytest.fixture
def texts(service, ward):
    service.put(f"/models/{ward}/reasons", json=TEXTS).raise_for_status()
    yield
    service.delete(f"/models/{ward}/reasons").raise_for_status()


@pytest.mark.parametrize(("against", "sign"), [("wait", 1), ("treat", -1)])
def test_the_features_that_count_most_against_the_action_come_first(
    service, ward, against, sign
):
    """Of two classes the log-odds of the second: a patient who is ill should not wait."""
    for explanation in explained(service, against=against).json()["explanations"]:
        counts = {
            name: sign * value for name, value in explanation["contributions"].items()
        }
        expected = sorted((c for c in counts.values() if c > 0), reverse=True)
        reasons = explanation["reasons"]
        assert [reason["contribution"] for reason in reasons] == expected
        for reason in reasons:
            assert reason["contribution"] == counts[reason["feature"]]
            assert reason["text"] is None


def test_a_reason_has_the_value_and_its_direction(service, ward):
    def reasons(row, against):
        answer = explained(service, against=against, rows=[row]).json()
        by_name = {r["feature"]: r for r in answer["explanations"][0]["reasons"]}
        return {
            name: (r["value"], r["direction"]) for name, r in sorted(by_name.items())
        }

    assert reasons(ROWS[0], "wait") == {
        "age": (80.0, "high"),
        "pain": ("strong", "any"),
        "pulse": (99.0, "high"),
    }
    assert reasons(ROWS[1], "treat") == {
        "age": (30.0, "low"),
        "pain": ("mild", "any"),
        "pulse": (55.0, "low"),
    }
    sick = reasons([None, 99.0, "odd"], "wait")
    assert sick.get("age", (None, "missing")) == (None, "missing")
    assert sick.get("pain", ("odd", "missing")) == ("odd", "missing")


def test_of_more_classes_it_is_the_one_that_carries_most_of_the_regret(service):
    labels = [
        "dead" if label == "ill" and row[2] == "strong" else label
        for row, label in zip(DATA["rows"], DATA["labels"], strict=True)
    ]
    order = {"learner": {"kind": "gradient_boosting", "max_iter": 20}}
    order |= {"model": "three", "data": DATA | {"labels": labels}}
    trained(service, order)
    matrix = {name: {"wait": 0, "treat": 0} for name in ("healthy", "ill", "dead")}
    for name, loss in (("ill", -3), ("dead", -100)):
        fields = {"benefits": matrix | {name: {"wait": loss, "treat": 0}}}
        answer = explained(service, "three", rows=ROWS[:1], **fields).json()
        [explanation] = answer["explanations"]
        assert explanation["contributions_to"]["class"] == name
        parts = explanation["contributions"]
        first = explanation["reasons"][0]
        assert first["contribution"] == max(parts.values())
        assert parts[first["feature"]] == first["contribution"]
    both = matrix | {"ill": {"wait": -3, "treat": 0}, "dead": {"wait": -3, "treat": 0}}
    for rare, common in (("dead", "ill"), ("ill", "dead")):
        priors = {"healthy": 0.5, rare: 1e-6, common: 0.5 - 1e-6}
        fields = {"benefits": both, "priors": priors}
        answer = explained(service, "three", rows=ROWS[:1], **fields).json()
        assert answer["explanations"][0]["contributions_to"]["class"] == common


def test_features_can_be_excluded_and_there_may_be_fewer(service, ward):
    asked = {"exclude": ["age"], "reasons": 1}
    [first, second, _] = explained(service, asked=asked).json()["explanations"]
    assert [reason["feature"] for reason in first["reasons"]] != ["age"]
    assert "age" in first["contributions"]
    assert second["reasons"] == []


def test_a_request_has_at_most_ten_thousand_reasons(service, ward):
    answer = explained(service, rows=ROWS[:1] * 501, asked={"reasons": 20})
    assert answer.status_code == 413
    assert "send at most 500 instances" in answer.json()["detail"]


def test_what_does_not_fit_is_refused_at_its_place(service, ward):
    def flaw(**asked):
        return refused(explained(service, asked=asked))

    assert flaw(against="operate") == says("/explain/against", "'wait', 'treat'")
    assert flaw(exclude=["pain", "agee"]) == says("/explain/exclude/1", "'age'?")
    assert flaw(reasons=0) == says("/explain/reasons", "greater than or equal to 1")
    assert flaw(reason=3) == says("/explain/reason", "did you mean 'reasons'?")
    asked = {"reasons": 1, "against": "go"}
    given = {"probabilities": [[0.5, 0.5]], "classes": ["a", "b"]}
    body = {"benefits": {"a": {"go": 1, "no": 0}, "b": {"go": -1, "no": 0}}}
    answer = service.post("/predict", json=body | given | {"explain": asked})
    assert refused(answer) == says("/explain", "model of classes")
    answer = service.post("/predict", json=body | given | {"explain": "yes"})
    assert refused(answer) == says("/explain", "boolean")


def test_a_learner_without_contributions_is_refused_by_name(service):
    order = {"learner": {"kind": "kernel_logistic"}, "data": DATA}
    trained(service, {"model": "without", **order})
    flaw = refused(explained(service, "without"))
    assert flaw == says("/explain", "this kernel_logistic model has none")


def test_reasons_have_the_texts_that_are_saved(service, ward, texts):
    answer = explained(service, rows=ROWS[:1]).json()
    words = {r["feature"]: r["text"] for r in answer["explanations"][0]["reasons"]}
    assert words == {
        "age": "Age above that of most",
        "pain": "Kind of pain",
        "pulse": None,
    }


def test_texts_are_saved_by_version(service, ward, texts):
    path = f"/models/{ward}/reasons"
    first = service.get(path).json()
    assert (first["model"], first["texts"]) == (ward, TEXTS)
    again = service.put(path, json=TEXTS).json()
    assert again == first
    changed = service.put(path, json={"pain": {"any": "Pain"}}).json()
    assert changed["version"] == first["version"] + 1
    service.delete(path).raise_for_status()
    missing = service.get(path)
    assert missing.status_code == 404
    assert f"PUT {path}" in missing.json()["detail"]
    assert not missing.json()["detail"].endswith("<name>")
    service.put(path, json=TEXTS).raise_for_status()


def test_texts_of_unknown_features_and_directions_are_refused(service, ward):
    def flaw(texts):
        return refused(service.put(f"/models/{ward}/reasons", json=texts))

    assert flaw({"pain": {"any": "x"}, "agee": {"low": "y"}}) == says("/agee", "'age'?")
    assert flaw({"age": {"down": "x"}}) == says("/age/down", "'low'")
    assert flaw({"age": {"low": ""}}) == says("/age/low", "at least 1 character")
    assert flaw({"age": {"low": "  "}}) == says("/age/low", "match")
    assert flaw({"age": {}}) == says("/age", "at least 1")
    assert flaw({}) == says("", "at least 1")
    assert service.get("/models/nobody/reasons").status_code == 404
