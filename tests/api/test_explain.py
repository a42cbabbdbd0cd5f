"""What would change a decision: asked again on both sides, it does."""

import math

import numpy as np
import pytest

from tests.conftest import trained, two_class_rows

CLASSES = ["a", "b", "c"]
BENEFITS = {
    "a": {"go": 3.0, "wait": 0.0, "ask": 1.0},
    "b": {"go": -4.0, "wait": 2.0, "ask": 1.0},
    "c": {"go": -1.0, "wait": -6.0, "ask": 0.5},
}
ROWS = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.05, 0.05, 0.9], [0.34, 0.33, 0.33]]


def ask(service, rows=ROWS, benefits=BENEFITS, **more):
    body = {
        "probabilities": rows,
        "classes": CLASSES,
        "benefits": benefits,
        "explain": True,
    } | more
    return service.post("/predict", json=body)


def test_a_sentence_says_the_decision_the_next_best_and_where_another_is_better(
    service,
):
    benefits = {
        "healthy": {"wait": 0.0, "treat": -1.0},
        "ill": {"wait": -10.0, "treat": 5.0},
    }
    of_two = {"classes": ["healthy", "ill"], "benefits": benefits}
    told = ask(service, [[0.6, 0.4], [0.99, 0.01], [15 / 16, 1 / 16]], **of_two).json()[
        "explanations"
    ]
    at = "if the probability of ill"
    assert [one["sentence"] for one in told] == [
        f"treat: 1.40 expected; wait would earn 5.40 less; wait becomes better {at} falls below 6.25 %",
        f"wait: -0.1 expected; treat would earn 0.84 less; treat becomes better {at} rises above 6.25 %",
        "wait: -0.625 expected; treat would earn as much",
    ]
    [of_three] = ask(service, [[0.7, 0.2, 0.1]]).json()["explanations"]
    assert of_three["sentence"].startswith(
        "go: 1.20 expected; ask would earn 0.25 less; ask becomes better if"
    )


def test_a_model_explains_as_its_probabilities_do(service, ward):
    asked = {
        "benefits": [[0, -1], [-10, 5]],
        "actions": ["wait", "treat"],
        "explain": True,
    }
    by_model = service.post(
        "/predict", json=asked | {"model": ward, "instances": two_class_rows(5)["rows"]}
    ).json()
    given = {"probabilities": by_model["probabilities"], "classes": by_model["classes"]}
    of_model = ("contributions", "base_value", "contributions_to")
    told = [
        {key: one[key] for key in one if key not in of_model}
        for one in by_model["explanations"]
    ]
    assert service.post("/predict", json=asked | given).json()["explanations"] == told
    flip = by_model["explanations"][0]["flips_at"]["probabilities"]
    assert flip["ill"] == pytest.approx(1 / 16)
    change = by_model["explanations"][0]["matrix_flip"]
    p, cell = by_model["probabilities"][0], {"wait": [0, -10], "treat": [-1, 5]}
    k, other = (
        by_model["classes"].index(change["class"]),
        next(a for a in cell if a != change["action"]),
    )
    cell[change["action"]][k] += change["change"]
    assert np.dot(p, cell[change["action"]]) == pytest.approx(np.dot(p, cell[other]))
    assert (
        "explanations"
        not in service.post("/predict", json=asked | given | {"explain": False}).json()
    )


def test_explanations_come_in_json_alone_and_of_few_rows(service):
    body = {
        "probabilities": ROWS,
        "classes": CLASSES,
        "benefits": BENEFITS,
        "explain": True,
    }
    answer = service.post(
        "/predict", json=body, headers={"Accept": "application/x-npy"}
    )
    assert answer.json()["errors"][0]["loc"] == "/explain"
    assert ask(service, ROWS * 30_000).status_code == 413


EXPLAIN = {
    "benefits": [[0, -1], [-10, 5]],
    "actions": ["wait", "treat"],
    "explain": True,
}


def log_odds(p):
    return math.log(p[1] / p[0])


@pytest.mark.parametrize("kind", ["logistic", "gradient_boosting", "cost_naive_bayes"])
def test_contributions_sum_to_the_log_odds_of_the_second_class(service, kind):
    """Of the last instance to their mean over likely values, as training had all values."""
    name = f"contributes_{kind}"
    trained(
        service,
        {
            "model": name,
            "learner": {"kind": kind, "calibration": "none"},
            "data": two_class_rows(),
        },
    )
    instances = [*two_class_rows(5)["rows"], [None, 70.0, "unseen"]]
    answer = service.post(
        "/predict", json=EXPLAIN | {"model": name, "instances": instances}
    ).json()
    sums = []
    for told in answer["explanations"]:
        assert told["contributions_to"] == {"class": "ill", "score": "log_odds"}
        assert list(told["contributions"]) == ["age", "pulse", "pain"]
        sums.append(told["base_value"] + sum(told["contributions"].values()))
    scores = [log_odds(p) for p in answer["probabilities"]]
    assert sums[:-1] == pytest.approx(scores[:-1], abs=1e-9)
    assert sums[-1] == pytest.approx(scores[-1], abs=2.0)


@pytest.mark.parametrize(
    ("kind", "count", "word"),
    [("kernel_logistic", 2, "kernel_logistic"),
     pytest.param("random_forest", 10_000, "at most", marks=pytest.mark.thorough)],
)  # fmt: skip
def test_where_there_are_no_contributions_a_warning_says_why(
    service, kind, count, word
):
    """Of a learner that has none, and of too many rows."""
    data = two_class_rows()
    trained(
        service, {"model": f"no_parts_{kind}", "learner": {"kind": kind}, "data": data}
    )
    instances = (data["rows"] * 50)[:count]
    answer = service.post(
        "/predict", json=EXPLAIN | {"model": f"no_parts_{kind}", "instances": instances}
    ).json()
    assert "contributions" not in answer["explanations"][0]
    assert "runner_up" in answer["explanations"][0]
    assert any(
        word in warning and "contributions" in warning for warning in answer["warnings"]
    )
