"""Priors that are estimated from the instances of the request."""

import numpy as np
import pytest

from app.evidence.priors import estimate_priors
from app.usecases.priors import corrected, smoothed
from tests.api.test_calibrate import calibrated, order
from tests.messages import says

BENEFITS = {"clean": {"keep": 0, "drop": -5}, "spam": {"keep": -1, "drop": 1}}


@pytest.fixture(scope="module")
def mails(service):
    job = calibrated(service, order(model="estimated-mails"))
    return f"estimated-mails:{job['model']['version']}"


def batch(n, clean, seed=3):
    """Scores of mails of which a share is clean, as those that the model learnt from."""
    rng = np.random.default_rng(seed)
    s = rng.normal(0, 2, 40 * n)
    is_clean = rng.random(len(s)) < 1 / (1 + np.exp(-s / 2))
    wanted = rng.permutation(
        np.concatenate(
            [np.flatnonzero(is_clean)[: round(n * clean)], np.flatnonzero(~is_clean)[: n - round(n * clean)]]
        )
    )
    return [[one] for one in s[wanted].round(3).tolist()]


def predicted(service, **body):
    return service.post("/predict", json={"benefits": BENEFITS} | body)


def test_the_shares_of_a_shifted_batch_are_found_and_used(service, mails):
    rows = batch(600, 0.9)
    plain = predicted(service, model=mails, instances=rows).json()
    answer = predicted(service, model=mails, instances=rows, priors="estimate").json()
    found = answer["estimated_priors"]
    assert list(found) == ["spam", "clean"]
    assert found["clean"]["low"] < 0.9 < found["clean"]["high"]
    assert sum(each["prior"] for each in found.values()) == pytest.approx(1)
    stated = {name: each["prior"] for name, each in found.items()}
    again = predicted(service, model=mails, instances=rows, priors=stated).json()
    np.testing.assert_allclose(again["probabilities"], answer["probabilities"])
    trained = service.get(f"/models/{mails}").json()["class_priors"]
    base = np.array([trained[name] for name in found])
    expected = smoothed(600 * estimate_priors(np.array(plain["probabilities"]), base).priors, base > 0)
    np.testing.assert_allclose(list(stated.values()), expected)
    assert "estimated_priors" not in plain


def test_no_class_is_ruled_out_because_the_batch_seems_to_lack_it(service, mails):
    answer = predicted(service, model=mails, instances=[[9.0]] * 60, priors="estimate").json()
    assert 0 < answer["estimated_priors"]["spam"]["prior"] < 0.05
    assert min(map(min, answer["probabilities"])) > 0


def test_a_batch_that_tells_little_gets_a_warning(service, mails):
    answer = predicted(service, model=mails, instances=[[0.01]] * 50, priors="estimate").json()
    assert "hardly tells the share" in answer["warnings"][-1]


def test_shares_that_the_batch_does_not_contradict_are_kept(service, mails):
    trained = service.get(f"/models/{mails}").json()["class_priors"]
    rows = batch(200, trained["clean"])
    plain = predicted(service, model=mails, instances=rows).json()

    answer = predicted(service, model=mails, instances=rows, priors="estimate").json()

    assert any("does not contradict the class shares in training" in each for each in answer["warnings"])
    assert answer["probabilities"] == plain["probabilities"]
    for name, found in answer["estimated_priors"].items():
        assert found["prior"] == trained[name]
        assert found["low"] <= trained[name] <= found["high"]


@pytest.mark.parametrize(
    ("sep", "share", "least"), [(0.5, 0.2, -0.025), (1, 0.2, -0.01), (0.5, 0.5, 0.04), (1, 0.5, 0.1)]
)
def test_estimates_cost_little_without_a_shift_and_earn_with_one(sep, share, least):
    """Money of 150 batches of 50 cases of a weak model, against no correction."""
    rng, base, B = np.random.default_rng(1), np.array([0.8, 0.2]), np.array([[1.0, 0.0], [0.0, 2.0]])
    gains = []
    for _ in range(150):
        y = (rng.random(50) < share).astype(int)
        odds = np.exp(sep * rng.normal(y * sep, 1.0) - sep**2 / 2) * 0.25
        P = np.column_stack((1 / (1 + odds), odds / (1 + odds)))
        found = corrected(P, ["no", "yes"], base, "estimate").P
        gains.append((B[y, (found @ B).argmax(axis=1)] - B[y, (P @ B).argmax(axis=1)]).mean())
    assert np.mean(gains) > least


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"priors": "estimate", "instances": [[1.0]] * 49}, says("/priors", "needs 50 instances at least")),
        ({"priors": "guess"}, says("/priors", "'estimate'")),
    ],
)
def test_what_cannot_be_estimated_is_refused(service, mails, body, error):
    response = predicted(service, **{"model": mails, "instances": [[1.0]]} | body)
    assert response.status_code == 422
    assert response.json()["errors"] == [error]


def test_probabilities_of_another_system_have_no_priors_in_training(service):
    body = {"probabilities": [[0.5, 0.5]] * 60, "classes": ["spam", "clean"], "priors": "estimate"}
    assert predicted(service, **body).json()["errors"] == [says("/priors", "which knows the priors in training")]
