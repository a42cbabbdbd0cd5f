"""What a service loads when it starts: serving linear models needs neither scikit-learn nor SciPy's larger parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from app.database import Database
from app.learners.catalogue import resolve
from app.migrations import migrate
from app.registry.registry import Registry
from tests.registry.making import publish

LARGE = ("sklearn", "scipy.stats", "scipy.optimize", "scipy.sparse", "pyarrow", "numba", "onnx", "skops", "dask")
LINEAR = ("logistic", "benefit_logistic", "cost_naive_bayes", "multilabel_logistic")

# Runs in a process of its own, as the tests load all of it.
START = """
import json, sys
import numpy as np
from app.main import app
registry = app.state.ports.registry
registry.refresh()
registry.preloader.look()
loads = registry.stats().loads
for name in sys.argv[1:]:
    registry.cached(f"{name}@live").estimator.posterior(np.zeros((1, 2)))
print(json.dumps([sorted(sys.modules), loads, registry.stats().loads]))
"""


def started(folder, *names):
    """The modules of a started service, and how many models it had loaded before and after their first predictions."""
    settings = {"PAYOFF_HOME": str(folder), "PAYOFF_MODELS": str(folder / "models"), "PAYOFF_WORKERS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", START, *names],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """The home of a service with a model of each linear kind, each with the alias `live`."""
    home = tmp_path_factory.mktemp("home")
    database = Database(f"sqlite:///{home / 'payoff.db'}")
    migrate(database)
    registry = Registry(str(home / "models"), database)
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    for name in LINEAR:
        kind, parameters = resolve({"kind": name})
        several = kind.labels == "several"
        model = kind.build(parameters, benefits=np.eye(2), random_state=0).fit(
            X, np.eye(2, dtype=int)[y] if several else y
        )
        labels = {"classes": [0, 1], "class_priors": {"0": 0.5, "1": 0.5}}
        if several:
            labels = {"classes": ["a", "b"], "labels": ["a", "b"], "class_priors": {"a": 0.5, "b": 0.5}}
        features = [{"name": column, "type": "numeric"} for column in "ab"]
        learner = {"kind": name, "parameters": {}}
        publish(registry, name, model, learner=learner, features=features, **labels)
        registry.set_alias(name, "live", 1, "test")
    database.close()
    return home


def test_a_started_service_answers_with_its_aliases_from_memory_and_without_scikit_learn(published):
    """What a linear model needs was imported with it; nothing is read from the store any more."""
    modules, before, after = started(published, *LINEAR)
    assert before == after == len(LINEAR)
    assert [name for name in LARGE if name in modules] == []
    assert "app.learners.cost_naive_bayes" in modules


def test_a_learner_that_needs_scikit_learn_imports_it():
    """The test above could fail."""
    code = "import sys, app.learners.gradient_boosting; print('sklearn' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
