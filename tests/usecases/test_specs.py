"""What a job is to do, written and read: also what an older version wrote."""

from __future__ import annotations

import json

import numpy as np
import pytest
from pydantic import ValidationError

from app.usecases.compare import CompareRequest
from app.usecases.specs import CompareSpec, TrainSpec
from app.usecases.train import TrainRequest

TRAIN = {
    "model": "triage",
    "learner": {"kind": "logistic", "parameters": {"C": 1.0, "calibration": "auto"}},
    "dataset": "ds_1",
    "benefits": [[0.0, -1.0], [-10.0, 5.0]],
    "actions": ["wait", "treat"],
    "feature_costs": [{"feature": "age", "cost": 2.0, "group": "g", "discounted_cost": 1.0}],
    "holdout": 0.5,
    "refit": False,
    "seed": 7,
}
COMPARE = {
    "dataset": "ds_1",
    "learners": [TRAIN["learner"], {"kind": "stub", "parameters": {}}],
    "benefits": [[0.0, -1.0], [-10.0, 5.0]],
    "actions": ["wait", "treat"],
    "folds": 3,
    "seed": 7,
}
NEEDED = {TrainSpec: {"model", "learner", "dataset"}, CompareSpec: {"dataset", "learners", "benefits"}}
CASES = [(TrainSpec, TRAIN), (CompareSpec, COMPARE)]


@pytest.mark.parametrize(("spec", "stored"), CASES)
def test_a_stored_spec_is_read_and_written_unchanged(spec, stored):
    """Byte for byte: a repeated order with the same key is compared with what is stored."""
    assert json.dumps(spec.from_json(json.loads(json.dumps(stored))).to_json()) == json.dumps(stored)


@pytest.mark.parametrize(("spec", "stored"), CASES)
def test_absent_fields_get_the_defaults_of_the_request(spec, stored):
    requests = {TrainSpec: TrainRequest, CompareSpec: CompareRequest}[spec].model_fields
    read = spec.from_json({name: stored[name] for name in NEEDED[spec]}).to_json()

    for name in set(stored) - NEEDED[spec]:
        assert read[name] == requests[name].default, name


@pytest.mark.parametrize(("spec", "stored"), CASES)
def test_an_absent_or_unknown_field_is_not_guessed(spec, stored):
    for name in NEEDED[spec]:
        with pytest.raises(ValidationError, match=name):
            spec.from_json({key: value for key, value in stored.items() if key != name})
    with pytest.raises(ValidationError, match="penalty"):
        spec.from_json({**stored, "penalty": 1})


def test_a_spec_cannot_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        TrainSpec.from_json(TRAIN).seed = 1


def test_benefits_and_prices_are_arrays_for_the_learner():
    spec, without = (TrainSpec.from_json({**TRAIN, **more}) for more in ({}, {"benefits": None, "feature_costs": None}))
    prices = spec.prices(["age"])

    np.testing.assert_array_equal(spec.benefit_matrix, TRAIN["benefits"])
    assert prices is not None
    assert prices.cost.tolist() == [2.0]
    assert without.benefit_matrix is without.prices(["age"]) is None
