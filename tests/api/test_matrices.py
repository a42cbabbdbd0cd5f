"""Every route that takes a benefit matrix takes it in words, too, and as costs."""

from tests.conftest import trained, two_class_rows

NUMBERS = [[0, -1], [-10, 5]]
WORDS = {"ill": {"treat": 5, "wait": -10}, "healthy": {"treat": -1, "wait": 0}}
ACTIONS = ["wait", "treat"]


def requests(model):
    rows = two_class_rows(40)["rows"]
    known = dict(zip(two_class_rows()["features"], rows[0], strict=True))
    yield "/predict", {"model": model, "instances": rows[:3]}
    yield "/acquire", {"model": model, "known": dict(list(known.items())[:1])}
    yield "/acquire/simulate", {"model": model, "rows": rows, "labels": two_class_rows(40)["labels"]}
    yield f"/models/{model}/benefit", {}


def test_a_trained_model_keeps_the_matrix(service):
    square = {"ill": {"healthy": -10, "ill": 5}, "healthy": {"ill": -1, "healthy": 0}}
    order = {"learner": {"kind": "benefit_logistic"}, "data": two_class_rows(), "holdout": 0.3}
    for name, matrix, actions in (
        ("m-words", {"benefits": square}, ["healthy", "ill"]),
        ("m-costs", {"cost_matrix": [[0, 1], [10, -5]]}, None),
        ("m-named", {"benefits": WORDS, "learner": {"kind": "logistic"}}, ACTIONS),
    ):
        trained(service, order | {"model": name} | matrix)
        card = service.get(f"/models/{name}/versions/1").json()
        assert (card["benefits"], card["actions"]) == (NUMBERS, actions)
    wrong = service.post("/train", json=order | {"model": "m-bad", "benefits": WORDS})
    assert wrong.status_code == 422
    assert "unknown action 'treat'" in wrong.text


TURNED = {"cost_matrix": [[0, -1], [-10, 5]]}  # of costs, so each class's own action is its worst


def test_every_answer_to_an_odd_matrix_has_a_warning(service, forest):
    odd = "in no class the best action is the one of the same name"
    order = {"model": "odd", "learner": {"kind": "logistic"}, "data": two_class_rows()}
    for matrix, is_odd in ((TURNED, True), ({"benefits": NUMBERS}, False)):
        for path, request in requests(forest):
            assert (odd in str(service.post(path, json=request | matrix).json()["warnings"])) == is_odd, path
        assert (odd in str(trained(service, order | matrix)["warnings"])) == is_odd


def test_costs_that_are_sent_as_benefits_of_named_actions_are_warned_about(service):
    costs = {"healthy": {"wait": 0, "treat": 1}, "ill": {"wait": 10, "treat": 0}}
    given = {"probabilities": [[0.6, 0.4]], "classes": ["healthy", "ill"]}
    labelled = given | {"labels": ["ill"]}
    for path, body in (("/predict", given), ("/benefit", labelled)):
        warned = {
            name: "are these costs?" in str(service.post(path, json=body | {name: costs}).json()["warnings"])
            for name in ("benefits", "cost_matrix")
        }
        assert warned == {"benefits": True, "cost_matrix": False}, path
    ordinary = {"benefits": {"healthy": {"wait": 1, "treat": 0}, "ill": {"wait": 0, "treat": 5}}}
    assert service.post("/predict", json=given | ordinary).json()["warnings"] == []


def test_a_matrix_that_contradicts_the_one_in_training_is_warned_about(service):
    order = {"model": "m-before", "learner": {"kind": "logistic"}, "data": two_class_rows(), "benefits": WORDS}
    trained(service, order)
    asked = {"model": "m-before", "instances": two_class_rows(3)["rows"], "actions": ACTIONS}
    assert service.post("/predict", json=asked | {"benefits": NUMBERS}).json()["warnings"] == []
    for turned in ({"benefits": NUMBERS[::-1]}, {"cost_matrix": NUMBERS}):
        warnings = service.post("/predict", json=asked | turned).json()["warnings"]
        assert any("the one which was the best in training" in warning for warning in warnings)
    other = {"benefits": NUMBERS[::-1], "actions": ["leave", "call"]}
    assert service.post("/predict", json=asked | other).json()["warnings"] == []
