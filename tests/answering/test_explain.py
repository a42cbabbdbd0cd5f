"""What features contribute, as answers have it."""

from types import SimpleNamespace

import numpy as np

from app.answering.explain import attributed, contributions
from payoff.decisions.explanations import Contributions


def test_members_of_a_blend_without_contributions_are_named():
    parts = Contributions(
        np.ones((1, 2)), np.zeros(1), np.ones(1, int), "log_odds", ("kernel_logistic",)
    )
    model = SimpleNamespace(
        classes=["no", "yes"],
        schema=SimpleNamespace(names=["age", "pulse"]),
        estimator=SimpleNamespace(contributions=lambda *_: parts),
    )

    attribution, warnings = attributed(model, np.zeros((1, 2)), np.ones(1, int))
    documents = contributions(model, attribution)

    assert documents[0]["contributions"] == {"age": 1.0, "pulse": 1.0}
    assert warnings == [
        "contributions are of the other members of the blend: kernel_logistic has none"
    ]
