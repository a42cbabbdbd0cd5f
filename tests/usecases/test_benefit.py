"""What has no benefit report."""

from types import SimpleNamespace

import pytest

from app.errors import Conflict, Invalid
from app.usecases.benefit import evidence_of


@pytest.mark.parametrize(
    ("model", "error", "reason"),
    [
        ({"regression": True, "multilabel": False}, Invalid, "predicts numbers"),
        ({"regression": False, "multilabel": True}, Invalid, "several labels"),
        ({"regression": False, "multilabel": False}, Conflict, "has no hold-out"),
    ],
)
def test_some_models_cannot_be_judged(model, error, reason):
    """Other than exclusive classes, and nothing held out: said in words."""
    loaded = SimpleNamespace(name="m", version=1, holdout=None, **model)

    with pytest.raises(error, match=reason):
        evidence_of(loaded)
