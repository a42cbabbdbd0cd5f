"""Models that learned from rewards, over HTTP: training, decisions, and what is refused."""

import io

import numpy as np
import pyarrow.csv
import pytest

from tests.conftest import trained
from tests.messages import says

ACTIONS = ["call", "mail", "none"]


def logged(n=300, seed=0, chances=(1 / 3, 1 / 3, 1 / 3)):
    """Inline data: `mail` earns in the north, `call` with age, `none` nothing."""
    random = np.random.default_rng(seed)
    age = random.uniform(20, 80, n).round(1)
    north = random.random(n) < 0.5
    codes = random.choice(3, n, p=chances)
    expected = np.stack([(age - 50) / 10, np.where(north, 2.0, -1.0), 0 * age], axis=1)
    rewards = expected[np.arange(n), codes] + random.normal(0, 0.5, n)
    return {
        "features": ["age", "region"],
        "rows": [
            [a, "north" if is_north else "south"]
            for a, is_north in zip(age.tolist(), north.tolist(), strict=True)
        ],
        "actions": [ACTIONS[code] for code in codes],
        "rewards": rewards.round(3).tolist(),
        "propensities": [chances[code] for code in codes],
    }


CASES = [[75, "south"], [30, "north"], [30, "south"], [52, "south"]]


def order(model="offers", **changes):
    return {
        "model": model,
        "learner": {"kind": "rewards"},
        "data": logged(),
        "holdout": 0.5,
        **changes,
    }


@pytest.fixture(scope="module")
def job(service):
    return trained(service, order())


def failed(service, document):
    """The error of a training job."""
    response = service.post("/train", json=document, headers={"Prefer": "wait=60"})
    return response.json()["error"]


def predicted(service, job, **fields):
    response = service.post(
        "/predict", json={"model": "offers", "instances": CASES, **fields}
    )
    assert response.status_code == 200, response.text
    return response.json()


def flaws(service, path, document):
    response = service.post(path, json=document)
    assert response.status_code == 422, response.text
    return response.json()["errors"]


def test_the_card_says_what_the_policy_earns(service, job):
    card = service.get("/models/offers/versions/1").json()
    metrics = card["metrics"]
    assert card["classes"] == ACTIONS
    assert [feature["name"] for feature in card["features"]] == ["age", "region"]
    assert card["learner"]["parameters"] == {
        "baseline": None,
        "action": "action",
        "propensity": "propensity",
    }
    assert job["metrics"] == metrics
    assert metrics["verdict"] == "better"
    assert metrics["reason"] is None
    assert metrics["gain"]["low"] > 0
    assert metrics["best_single"]["gain"]["low"] > 0
    assert metrics["value"]["mean"] == pytest.approx(
        metrics["logged"] + metrics["gain"]["mean"]
    )
    assert metrics["effective"] > 70 < metrics["expected_effective"]
    assert [line["action"] for line in metrics["actions"]] == ACTIONS
    assert sum(line["rows"] for line in metrics["actions"]) == 300
    evaluation = card["data"]["evaluation"]
    assert (evaluation["folds"], evaluation["rows"]) == (2, 300)
    assert card["warnings"] == []
    assert card["fitted"]["chances"] == "stated"


def test_the_card_has_calibration_and_single_actions(job):
    metrics = job["metrics"]
    lines = {line["action"]: line for line in metrics["actions"]}
    best = metrics["best_single"]
    assert lines[best["action"]]["gain_over"] == best["gain"]
    assert lines["none"]["value"]["low"] <= 0 <= lines["none"]["value"]["high"]
    assert metrics["calibration"][-1]["observed"]["mean"] == pytest.approx(
        metrics["calibration"][-1]["predicted"], abs=0.5
    )
    for line in (metrics, *metrics["actions"]):
        assert sum(part["rows"] for part in line["calibration"]) == 300
    assert (
        sum(part["acted"] for part in lines["call"]["calibration"])
        == (lines["call"]["rows"])
    )
    assert "uplift" not in metrics


@pytest.fixture(scope="module")
def over_none(service):
    learner = {"kind": "rewards", "baseline": "none"}
    document = order("over-none", learner=learner, holdout=0.5, refit=False)
    return trained(service, document)["metrics"]["uplift"]


def test_uplift_curves_are_over_the_baseline(over_none):
    assert over_none["baseline"] == "none"
    curves = {line["action"]: line for line in over_none["treatments"]}
    assert curves.keys() == {"call", "mail"}
    assert curves["call"]["area"]["low"] > 0
    for line in (over_none["best"], *curves.values()):
        assert line["reason"] is None
        assert [point["share"] for point in line["curve"]] == pytest.approx(
            np.linspace(0, 1, 21)
        )
        assert line["curve"][0]["mean"] == 0
    # Calls help half of the customers, and cost as much with the other half.
    heights = [point["mean"] for point in curves["call"]["curve"]]
    assert max(heights) > heights[-1] + 0.3


def test_a_baseline_that_is_no_action_is_refused(service):
    learner = {"kind": "rewards", "baseline": "visit"}
    document = order("refused", learner=learner)
    wait = {"Prefer": "wait=60"}
    failed = service.post("/train", json=document, headers=wait).json()
    assert failed["error"]["errors"][0] == says("/learner/baseline", "visit", "call")


def test_decisions_need_no_matrix(service, job):
    answer = predicted(service, job)
    assert answer["rule"] == "expected_reward"
    assert answer["actions"] == ACTIONS
    assert answer["decisions"] == ["call", "mail", "none", answer["decisions"][3]]
    assert {"probabilities", "classes", "uplift"}.isdisjoint(answer)
    benefits = np.array(answer["expected_benefits"])
    assert benefits[0, 0] == pytest.approx(2.5, abs=0.7)
    assert [ACTIONS[a] for a in benefits.argmax(axis=1)] == answer["decisions"]


def test_uplift_is_over_the_baseline(service, job):
    answer = predicted(service, job, baseline="none")
    benefits = np.array(answer["expected_benefits"])
    np.testing.assert_allclose(answer["uplift"], benefits - benefits[:, [2]])


def test_costs_are_subtracted(service, job):
    plain = np.array(predicted(service, job)["expected_benefits"])
    costs = {"call": {"column": "age", "times": 0.1, "plus": 1}, "mail": 0.5}
    answer = predicted(service, job, costs=costs, baseline="none")
    expected = plain - np.column_stack(([8.5, 4, 4, 6.2], np.full(4, 0.5), np.zeros(4)))
    np.testing.assert_allclose(answer["expected_benefits"], expected)
    assert answer["decisions"][0] != "call"
    columns = {"fee": [0, 0, 0, 9]}
    by_column = {"none": {"column": "fee"}}
    answer = predicted(service, job, costs=by_column, columns=columns)
    assert answer["expected_benefits"][3][2] == pytest.approx(plain[3, 2] - 9)


def test_limits_hold_for_the_batch(service, job):
    answer = predicted(service, job, limits={"call": {"at_most": 0}, "none": 3})
    assert "call" not in answer["decisions"]
    assert answer["total"] <= answer["unlimited_total"]
    price = next(line for line in answer["limits"] if line["name"] == "call")
    assert price["shadow_price"] > 0


def test_tables_have_a_column_for_each_action(service, job):
    body = "age,region\n75,south\n30,north\n"
    answer = service.post(
        "/predict?model=offers&baseline=none",
        content=body,
        headers={"content-type": "text/csv", "accept": "text/csv"},
    )
    assert answer.status_code == 200, answer.text
    table = pyarrow.csv.read_csv(io.BytesIO(answer.content))
    assert table.column_names == [
        "decision",
        *(f"benefit:{name}" for name in ACTIONS),
        *(f"uplift:{name}" for name in ACTIONS),
    ]
    assert table["decision"].to_pylist() == ["call", "mail"]


def test_the_inference_protocol_has_no_probabilities(service, job):
    described = service.get("/v2/models/offers").json()
    assert [output["name"] for output in described["outputs"]] == [
        "decisions",
        "expected_benefits",
    ]
    inputs = [
        {"name": "age", "shape": [1], "datatype": "FP64", "data": [75]},
        {"name": "region", "shape": [1], "datatype": "BYTES", "data": ["south"]},
    ]
    answer = service.post("/v2/models/offers/infer", json={"inputs": inputs})
    assert answer.status_code == 200, answer.text
    outputs = {line["name"]: line["data"] for line in answer.json()["outputs"]}
    assert outputs["decisions"] == ["call"]
    assert outputs.keys() == {"decisions", "expected_benefits"}


@pytest.mark.parametrize(
    ("fields", "flaw"),
    [
        ({"benefits": np.eye(3).tolist()}, says("/benefits", "offers", "rewards")),
        ({"priors": {"call": 1}}, says("/priors", "rewards")),
        ({"rule": "most_probable"}, says("/rule", "expected_reward")),
        ({"benefits": "saved"}, says("/benefits", "rewards", "leave it out")),
        ({"guarantee": "safe"}, says("/guarantee", "rewards", "leave it out")),
        ({"threshold": 0.5}, says("/threshold", "rewards")),
        ({"explain": True}, says("/explain", "rewards")),
        ({"coverage": 0.9}, says("/coverage", "rewards")),
        ({"baseline": "visit"}, says("/baseline", "visit", "call")),
        ({"costs": {"visit": 1}}, says("/costs/visit", "visit", "call")),
        ({"costs": {"call": "much"}}, says("/costs/call", "much")),
        ({"costs": {"majority": "x", "C_HD": 1, "C_DH": 1}}, says("/costs", "action")),
        ({"costs": {"call": {"column": "fee"}}}, says("/costs/call/column", "fee")),
        ({"limits": {"visit": 1}}, says("/limits/visit", "visit")),
        ({"explore": 0.1}, says("/explore", "record")),
    ],
)
def test_fields_that_do_not_fit_are_refused(service, job, fields, flaw):
    document = {"model": "offers", "instances": CASES, **fields}
    assert flaws(service, "/predict", document)[0] == flaw


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/retrieve", {"setting": "multiclass", "loss": {"name": "f_beta"}}),
        ("/acquire", {}),
    ],
)
def test_other_questions_are_refused(service, job, path, document):
    instances = {"instances": CASES, "model": "offers", **document}
    if path == "/acquire":
        instances = {"model": "offers", "known": {}}
    assert flaws(service, path, instances)[0] == says("/model", "rewards")


def test_models_of_classes_refuse_what_is_about_rewards(service):
    document = {
        "probabilities": [[0.5, 0.5]],
        "classes": ["a", "b"],
        "benefits": [[1, 0], [0, 1]],
    }
    for fields, place in (
        ({"baseline": "a"}, "/baseline"),
        ({"rule": "expected_reward"}, "/rule"),
        ({"costs": {"a": 1}}, "/costs"),
    ):
        found = flaws(service, "/predict", {**document, **fields})[0]
        assert found == says(place, "expected_")


@pytest.mark.parametrize(
    ("changes", "flaw"),
    [
        ({"rewards": [1.0]}, says("/data/rewards", "1", "300")),
        ({"actions": ["call"]}, says("/data/actions", "1", "300")),
        ({"propensities": [1.5] * 300}, says("/data/propensities/0", "at most 1")),
        ({"propensities": [1e-300] * 300}, says("/data/propensities/0", "1e-30")),
        ({"features": ["age", "action"]}, says("/data/features", "action")),
        ({"weights": []}, says("/data/weights", "0 weights", "300")),
        ({"weights": ["much"] * 300}, says("/data/weights/0", "number", "much")),
        ({"weights": [-1] * 300}, says("/data/weights/0", "-1", "leave out")),
    ],
)
def test_a_log_that_does_not_fit_is_refused(service, changes, flaw):
    data = {**logged(), **changes}
    assert flaws(service, "/train", order(data=data))[0] == flaw


def test_figures_are_weighted_as_the_fit(service):
    data = logged(80, seed=4)
    weights = [1 + 3 * (action == "call") for action in data["actions"]]
    document = order("weighted", data=data | {"weights": weights})
    metrics = trained(service, document)["metrics"]
    logged_mean = np.average(data["rewards"], weights=weights)
    assert metrics["logged"] == pytest.approx(logged_mean)
    assert metrics["effective"] < 30  # by weights, of 80 rows


def test_columns_are_not_for_lists(service):
    learner = {"kind": "rewards", "action": "offer", "propensity": "p"}
    assert flaws(service, "/train", order(learner=learner)) == [
        says("/learner/action", "offer", "leave it out"),
        says("/learner/propensity", "p", "leave it out"),
    ]


def test_training_refuses_what_is_not_about_rewards(service):
    found = flaws(service, "/train", order(learner={"kind": "logistic"}))
    assert found[0] == says("/learner/kind", "rewards")
    found = flaws(service, "/train", order(benefits=[[1, 0], [0, 1]]))
    assert found[0] == says("/benefits", "leave it out")


@pytest.fixture(scope="module")
def stored(service):
    """The log as a file: the action is a word, the chance always the same."""
    data = logged()
    rows = zip(data["rows"], data["actions"], data["rewards"], strict=True)
    lines = [
        f"{age},{region},{action},.3333333333,{reward}"
        for (age, region), action, reward in rows
    ]
    text = "\n".join(["age,region,offer,p,margin", *lines])
    answer = service.post(
        "/datasets", files={"file": ("log.csv", text)}, data={"label": "margin"}
    )
    assert answer.status_code == 201, answer.text
    return answer.json()["id"]


def test_columns_of_a_data_set_are_the_log(service, stored, job):
    """No feature is made of them, and instances may have them."""
    learner = {"kind": "rewards", "action": "offer", "propensity": "p"}
    document = order("filed", learner=learner, data={"dataset": stored}, holdout=0)
    trained(service, document)
    card = service.get("/models/filed/versions/1").json()
    assert [feature["name"] for feature in card["features"]] == ["age", "region"]
    assert {"offer", "p"} <= set(card["ignored"])
    instance = {"age": 75, "region": "south", "offer": "mail"}
    answer = service.post(
        "/predict", json={"model": "filed", "instances": [instance]}
    ).json()
    assert answer["decisions"] == ["call"]


def test_estimated_chances_and_a_hold_out_of_its_own(service, stored):
    learner = {"kind": "rewards", "action": "offer"}
    document = order(
        "estimated", learner=learner, data={"dataset": stored}, refit=False
    )
    job = trained(service, document)
    card = service.get("/models/estimated/versions/1").json()
    assert card["fitted"]["chances"] == "estimated"
    assert any("estimated" in warning for warning in job["warnings"])
    evaluation = card["data"]["evaluation"]
    assert (evaluation["method"], evaluation["rows"]) == ("hold-out", 151)
    # A column of the log that is not named is a feature.
    assert "p" in [feature["name"] for feature in card["features"]] + card["ignored"]


@pytest.mark.parametrize(
    ("learner", "flaw"),
    [
        ({"action": "bid"}, says("/learner/action", "bid", "offer")),
        ({"action": "offer", "propensity": "q"}, says("/learner/propensity", "q")),
        (
            {"action": "offer", "propensity": "region"},
            says("/learner/propensity", "region", "text"),
        ),
        (
            {"action": "offer", "propensity": "offer"},
            says("/learner/propensity", "offer"),
        ),
    ],
)
def test_columns_that_do_not_fit_are_refused(service, stored, learner, flaw):
    document = order(learner={"kind": "rewards", **learner}, data={"dataset": stored})
    assert flaw in flaws(service, "/train", document)


def test_a_log_that_always_did_the_same_cannot_be_judged(service):
    data = logged(100)
    data["propensities"] = [1.0] * 100
    data["actions"][:11] = ["rare"] * 11  # too few without the hold-out
    metrics = trained(service, order("fixed", data=data, refit=False))["metrics"]
    assert service.get("/models/fixed/versions/1").json()["classes"] == ACTIONS
    assert metrics["verdict"] == "cannot_be_judged"
    assert "never took" in metrics["reason"]


def test_comparing_is_refused(service, stored):
    document = {"dataset": stored, "learners": [{"kind": "rewards", "action": "offer"}]}
    found = flaws(service, "/compare", document)
    assert says("/learners/0/kind", "rewards") in found


def test_rewards_close_the_loop(service, job):
    """Decisions are recorded with the chances of all actions; rewards without truths make a report,
    and a data set from which the next version learns.
    """
    data = logged(240, seed=5)
    random = np.random.default_rng(6)
    answer = service.post(
        "/predict",
        json={
            "model": "offers",
            "instances": data["rows"],
            "explore": 0.5,
            "record": {"instances": True},
        },
    ).json()
    assert sorted(set(answer["propensities"])) == pytest.approx([1 / 6, 2 / 3])
    ages = np.array([age for age, _ in data["rows"]])
    north = np.array([region == "north" for _, region in data["rows"]])
    every = {
        "call": (ages - 50) / 10,
        "mail": np.where(north, 2.0, -1.0),
        "none": 0 * ages,
    }
    rewards = [
        float(every[action][i] + random.normal(0, 0.5))
        for i, action in enumerate(answer["decisions"])
    ]
    outcomes = [
        {"id": id_, "benefit": reward}
        for id_, reward in zip(answer["ids"], rewards, strict=True)
    ]
    outcomes[0] |= {"action": "mail" if answer["decisions"][0] == "none" else "none"}
    assert (
        service.post(
            "/outcomes", json={"outcomes": [{"id": answer["ids"][0], "benefit": None}]}
        ).json()["open"]
        == 1
    )
    received = service.post("/outcomes", json={"outcomes": outcomes}).json()
    assert (received["accepted"], received["unknown"]) == (240, [])
    table = f"id,benefit\n{answer['ids'][1]},{rewards[1]}\n"
    again = service.post(
        "/outcomes", content=table, headers={"content-type": "text/csv"}
    ).json()
    assert again["unchanged"] == 1

    report = service.get("/models/offers/outcomes").json()["rewards"]
    assert (report["decisions"], report["known"], report["overridden"]) == (240, 240, 1)
    assert report["realised"]["mean"] == pytest.approx(np.mean(rewards))
    assert abs(report["difference"]["mean"]) < 0.3
    policy = report["policy"]
    assert policy["cases"] == 239
    assert policy["verdict"] == "better"  # without exploration
    assert policy["expected_effective"] == pytest.approx(239 * 2 / 3)
    singles = {line["action"]: line for line in policy["single_actions"]}
    assert singles.keys() == set(ACTIONS)
    assert sum(line["cases"] for line in singles.values()) == 239
    assert singles["none"]["gain_over"]["low"] > 0

    made = service.post("/datasets/from-outcomes", json={"model": "offers"})
    assert made.status_code == 201, made.text
    dataset = made.json()
    assert dataset["from"]["rows"] == 239
    assert dataset["from"]["left_out"]["of_other_action"] == 1
    assert {column["name"] for column in dataset["columns"]} >= {
        "action",
        "label",
        *(f"propensity:{name}" for name in ACTIONS),
    }
    learner = {"kind": "rewards", "propensity": "propensity"}
    document = order("next", learner=learner, data={"dataset": dataset["id"]})
    metrics = trained(service, document)["metrics"]
    card = service.get("/models/next/versions/1").json()
    assert [feature["name"] for feature in card["features"]] == ["age", "region"]
    assert card["fitted"]["chances"] == "stated"
    assert metrics["value"]["mean"] > metrics["best_single"]["gain"]["mean"] > 0


def test_a_truth_of_a_decision_by_rewards_is_refused(service, job):
    answer = predicted(service, job, record=True)
    document = {"outcomes": [{"id": answer["ids"][0], "truth": "call", "benefit": 1}]}
    found = flaws(service, "/outcomes", document)
    assert found == [says("/outcomes/0/truth", "benefit")]
    found = flaws(service, "/outcomes", {"outcomes": [{"id": answer["ids"][0]}]})
    assert found == [says("/outcomes/0/truth", "benefit", "required", "null")]
    document = service.get(f"/decisions/{answer['ids'][0]}").json()
    assert document["probabilities"] is None
    assert document["expected_rewards"] == answer["expected_benefits"][0]
    assert sorted(document["chances"]) == [0, 0, 1]


def test_hold_outs_by_time_hold_here_too(service):
    data = logged(240, seed=3)
    rows = zip(data["rows"], data["actions"], data["rewards"], strict=True)
    lines = [
        f"{age},{region},{action},.3333333333,{reward},2026-01-{i // 8 + 1:02},1"
        for i, ((age, region), action, reward) in enumerate(rows)
    ]
    text = "\n".join(["age,region,offer,p,margin,day,n", *lines])
    types = '{"day": "ignore", "n": "weight"}'
    answer = service.post(
        "/datasets",
        files={"file": ("log.csv", text)},
        data={"label": "margin", "types": types},
    )
    assert answer.status_code == 201, answer.text
    document = order(
        "timed",
        learner={"kind": "rewards", "action": "offer", "propensity": "p"},
        data={"dataset": answer.json()["id"]},
        holdout={"by": "time", "column": "day", "part": 0.5},
        refit=False,
    )
    job = trained(service, document)
    evaluation = service.get("/models/timed/versions/1").json()["data"]["evaluation"]
    assert (evaluation["method"], evaluation["by"], evaluation["column"]) == (
        "hold-out",
        "time",
        "day",
    )
    assert evaluation["rows"] == 120
    assert job["metrics"]["verdict"] in ("better", "undecided")
    assert not any("weight" in warning for warning in job["warnings"])


def test_matrices_are_not_saved(service, job):
    matrix = {"benefits": np.eye(3).tolist()}
    response = service.put("/models/offers/matrices/mine", json=matrix)
    assert response.status_code == 422, response.text
    assert "several labels" in response.json()["detail"]


def test_the_columns_of_the_log_are_neither_features_nor_splits(service):
    data = logged(60)
    chances = [[f"propensity:{name}", 1 / 3] for name in ACTIONS]
    names, values = zip(*chances, strict=True)
    table = {
        "features": [*data["features"], "action", *names],
        "rows": [
            [*row, action, *values]
            for row, action in zip(data["rows"], data["actions"], strict=True)
        ],
        "labels": data["rewards"],
    }

    def refused(**changes):
        return flaws(service, "/train", order(data=table, **changes))

    for propensity in (None, "propensity:call"):
        learner = {"kind": "rewards", "propensity": propensity}
        assert refused(learner=learner) == [
            says("/learner/propensity", "all actions", "'propensity'")
        ]
    learner = {"kind": "rewards", "propensity": "propensity"}
    for column in ("action", "propensity:mail"):
        holdout = {"by": "group", "column": column}
        assert refused(learner=learner, holdout=holdout) == [
            says("/holdout/column", column)
        ]


def test_a_log_is_refused_where_it_is_wrong(service):
    data = logged(60)
    few = data | {"actions": ["call"] * 55 + ["mail"] * 5}
    error = failed(service, order("few", data=few))
    assert error["errors"] == [says("/data", "1 of 2 actions", "10 rows")]
    rows = [f"{i % 9},{'ab'[i % 2]},{2 - i % 3},{i % 5 + 0.5}\n" for i in range(40)]
    text = "age,offer,p,margin\n" + "".join(rows)
    answer = service.post(
        "/datasets", files={"file": ("log.csv", text)}, data={"label": "margin"}
    )
    learner = {"kind": "rewards", "action": "offer", "propensity": "p"}
    document = order("few", learner=learner, data={"dataset": answer.json()["id"]})
    error = failed(service, document)
    assert error["errors"] == [says("/learner/propensity", "row 1", "at most 1")]
    short = data | {"propensities": [0.5], "rewards": [1.0]}
    assert flaws(service, "/train", order(data=short)) == [
        says("/data/rewards", "1", "60"),
        says("/data/propensities", "1", "60"),
    ]
    priced = order(data=data, feature_costs={"age": 1})
    assert flaws(service, "/train", priced) == [says("/feature_costs", "rewards")]


def test_the_queue_is_not_for_decisions_by_rewards(service, job):
    predicted(service, job, record=True)
    response = service.get("/models/offers/decisions")
    assert response.status_code == 422
    assert response.json()["errors"] == [says("", "rewards")]
