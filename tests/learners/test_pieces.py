"""The pieces of a fit that joblib may run on a cluster."""

import pickle

import numpy as np
import pytest
from joblib import parallel_config
from joblib.parallel import ThreadingBackend

from app.learners.catalogue import KINDS, resolve

pytestmark = pytest.mark.thorough

LARGE = 16_384  # bytes from which a cluster sends an array once, and checks that there is room for it
QUICK = {
    "auto": {"max_seconds": 1e-9},
    "budget_forest": {"n_estimators": 4, "alpha": 1.0},
    "cost_tree": {"depth": 1, "lambda": 0.001},
    "forest_chain": {"n_estimators": 2, "steps": 3, "greedy": 2},
    "gradient_boosting": {"max_iter": 4},
    "random_forest": {"n_estimators": 4},
    "multilabel_forest": {"n_estimators": 4},
}


class Recording(ThreadingBackend):
    """Threads that note the bytes of each piece, without the arrays that are arguments of their own."""

    def __init__(self, **options):
        super().__init__(**options)
        self.sizes = []

    def effective_n_jobs(self, _n_jobs):
        return 2

    def submit(self, func, callback=None):
        for function, values, _ in func.items:
            sent = [None if isinstance(value, np.ndarray) and value.nbytes >= LARGE else value for value in values]
            self.sizes.append(len(pickle.dumps((function, sent))))
        return super().submit(func, callback)


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if name != "kernel_logistic"])
def test_no_piece_carries_the_table(name):
    """Its arrays are arguments of the piece: inside another argument, all of them would go with each piece."""
    kind, parameters = resolve({"kind": name} | QUICK.get(name, {}))
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3200, 10))
    y = (X[:, 0] + rng.normal(size=len(X)) > 0).astype(int)
    target = np.column_stack((y, 1 - y)) if kind.labels == "several" else y
    backend = Recording()
    with parallel_config(backend=backend, n_jobs=2):
        kind.build(parameters, benefits=np.eye(2), classes=[0, 1], random_state=0).fit(X, target)
    assert X.nbytes > 10 * LARGE
    assert max(backend.sizes, default=0) < LARGE
