"""What compared learners are called."""

import pytest

from app.learners.catalogue import resolve
from app.usecases.compare import names
from app.usecases.specs import LearnerSpec


@pytest.mark.parametrize(
    ("learner", "name"),
    [
        ({"kind": "logistic"}, "logistic"),
        ({"kind": "logistic", "C": 1}, "logistic"),
        ({"kind": "logistic", "C": 0.5, "calibration": "none"}, "logistic(C=0.5, calibration=none)"),
        ({"kind": "kernel_logistic", "gamma": 2.0}, "kernel_logistic(gamma=2.0)"),
        ({"kind": "hierarchical_logistic", "second": {"kind": "kernel_logistic", "C": 1.0}}, "hierarchical_logistic"),
        (
            {"kind": "hierarchical_logistic", "first": {"kind": "benefit_logistic", "C": 3.0}},
            "hierarchical_logistic(first=benefit_logistic(C=3.0))",
        ),
    ],
)
def test_a_name_says_what_is_not_default(learner, name):
    asked = resolve(learner)

    assert names([LearnerSpec(kind=asked.kind, parameters=asked.parameters)]) == [name]
