"""Every kind of model answers no rows with no answers."""

import numpy as np
import pytest

from app.learners.catalogue import KINDS, resolve

pytestmark = pytest.mark.thorough

SMALL = {
    "cost_tree": {"depth": 2, "lambda": 0.001},
    "random_forest": {"n_estimators": 20},
    "auto": {"max_seconds": 1e-9},
}  # learned at once
KINDS_AND_TASKS = [(kind.name, task) for kind in KINDS.values() for task in kind.tasks]


@pytest.mark.parametrize(("name", "task"), KINDS_AND_TASKS)
@pytest.mark.parametrize("K", [2, 3])
def test_no_rows_get_no_answers(name, task, K):
    """With the shape that any number of rows has."""
    kind, parameters = resolve(
        {"kind": name} | SMALL.get(name, {}) | ({"task": task} if len(KINDS[name].tasks) > 1 else {})
    )
    rng = np.random.default_rng(0)
    X, y = rng.integers(3, size=(60, 3)).astype(float), np.arange(60) % K  # few values: what is learned is small
    if kind.labels == "several":
        y = np.eye(K, dtype=int)[y]
    elif task == "regression":
        y = X[:, 0] + rng.normal(size=60)
    classes = None if kind.labels == "several" or task == "regression" else list(range(K))
    model = kind.build(parameters, benefits=np.eye(K), classes=classes, random_state=0).fit(X, y)

    if task == "regression":
        assert model.values(np.empty((0, 3))).shape == (0,)
    else:
        assert model.posterior(np.empty((0, 3))).shape == (0, K)
