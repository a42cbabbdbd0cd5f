"""After the evaluation a model is fitted again on all rows; what is reported comes from the rows held out."""

import numpy as np
import pytest

from app.learners import logistic
from app.learners.multilabel import MultilabelLogistic
from app.progress import listen
from tests.conftest import trained, two_class_rows
from tests.reference.tables import drawn


@pytest.mark.parametrize("chain", [False, True])
def test_a_label_that_first_occurs_in_the_rows_held_out_is_learned_by_a_refit(chain):
    """Which fits nothing for the calibration, that stays."""
    X, Y = drawn(300)
    Y[:200, 1] = 0
    model = MultilabelLogistic(chain=chain, categorical_features=[3], random_state=0).fit(X[:200], Y[:200])
    assert np.ptp(model.posterior(X)[:, 1]) == pytest.approx(0.0, abs=1e-12)
    stages: list[str] = []
    with listen(lambda _, stage: stages.append(stage)):
        model.refit(X, Y)
    assert not [stage for stage in stages if "fold" in stage]
    assert np.ptp(model.posterior(X)[:, 1]) > 0.1
    if chain:
        return
    shape = model.numeric_transform_
    alone = logistic.Logistic(calibration="none", numeric_transform=shape, categorical_features=[3]).fit(X, Y[:, 1])
    np.testing.assert_allclose(model.posterior(X)[:, 1], alone.posterior(X)[:, 1], atol=1e-9)


def test_what_is_reported_is_that_of_the_rows_held_out(service):
    """Metrics and reports on benefits do not depend on the refit; the published model and its card do."""
    data = two_class_rows(520)
    found = {}
    for refit in (True, False):
        order = {"model": f"refit-{refit}".lower(), "learner": {"kind": "logistic"}, "data": data, "refit": refit}
        name = order["model"]
        job = trained(service, order)
        card = service.get(f"/models/{name}/versions/1").json()
        assert job["metrics"] == card["metrics"]
        report = service.post(f"/models/{name}/benefit", json={"benefits": [[0, -1], [-5, 2]]}).json()
        question = {"model": name, "instances": data["rows"], "rule": "most_probable"}
        answers = service.post("/predict", json=question).json()["probabilities"]
        rows = [card["data"][part] for part in ("rows", "holdout_rows", "refit")]
        found[refit] = (rows, card["metrics"], report["rules"], answers, sum(card["class_priors"].values()))
    assert [found[refit][0] for refit in (True, False)] == [[520, 130, True], [390, 130, False]]
    assert found[True][1:3] == found[False][1:3]
    assert found[True][3] != found[False][3]
