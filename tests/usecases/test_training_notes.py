"""What a training job warns of, besides what its model's card does."""

from types import SimpleNamespace

import pytest

from app.learners.catalogue import KINDS, resolve
from app.learners.parameters import request_of
from app.usecases.specs import LearnerSpec, TrainSpec
from app.usecases.training_warnings import notes

PRICED = [name for name, kind in KINDS.items() if request_of(kind).takes("feature_costs")]
UNPRICED = "'benefits' did not choose the tree"
COSTS = [{"feature": "a", "cost": 2}]


def spec_of(kind="logistic", **changes):
    found = resolve({"kind": kind} | changes.pop("parameters", {}))
    learner = LearnerSpec(kind=found.kind, parameters=found.parameters)
    return TrainSpec(model="m", learner=learner, dataset="ds", **changes)


@pytest.mark.parametrize("kind", PRICED)
@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"benefits": [[1, 0], [0, 1]]}, True),
        ({}, False),
        ({"benefits": [[1, 0], [0, 1]], "feature_costs": COSTS}, False),
    ],
)
def test_benefits_that_chose_nothing_are_told(kind, changes, told):
    """Of the learner whose path has a point for every price; `auto` without prices compares learners by the benefits
    alone. A `lambda` was chosen by who sent it.
    """
    found = notes(SimpleNamespace(), spec_of(kind, **changes))
    assert [one.startswith(UNPRICED) for one in found] == [True] * (told and kind == "cost_tree")
    if kind == "cost_tree":
        assert not notes(SimpleNamespace(), spec_of(kind, parameters={"lambda": 0.1}, **changes))
