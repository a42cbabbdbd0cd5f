"""What has no benefit report."""

from types import SimpleNamespace

import pytest

from app.errors import Conflict
from app.usecases.benefit import report


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ({"multilabel": False, "classes": ()}, "no benefit matrix fits"),
        ({"multilabel": False, "classes": ("a", "b")}, "without a hold-out"),
    ],
)
def test_some_models_cannot_be_judged(model, reason):
    """Numbers, and nothing held out: a conflict with the model as it is, in words."""
    loaded = SimpleNamespace(name="m", version=1, holdout=None, **model)

    with pytest.raises(Conflict, match=reason):
        report(loaded, [[1, 0], [0, 1]], None, 20)
