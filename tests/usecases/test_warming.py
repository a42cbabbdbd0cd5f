"""A model in memory answers small requests, on the event loop, without importing or compiling anything."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

from app.database import Database
from app.errors import NotReady
from app.learners import automatic
from app.learners.catalogue import KINDS, resolve
from app.migrations import migrate
from app.registry.registry import Registry
from app.usecases.kernels import Kernels
from app.usecases.warming import warm
from tests.registry.making import make_card, make_estimator

CASES = [(kind.name, task) for kind in KINDS.values() for task in kind.tasks]

# Runs in a process of its own, as another test may have loaded what this is about.
PROBE = """
import functools, json, sys
import numpy as np
from app.database import Database
from app.registry.registry import Registry
from app.usecases.kernels import Kernels
from app.usecases.warming import warm

def kernels():
    modules = [module for name, module in list(sys.modules.items()) if name.startswith("app.")]
    found = [value for module in modules for value in vars(module).values() if type(value).__name__ == "CPUDispatcher"]
    return sum(len(kernel.overloads) for kernel in found)

hook = {"warm": functools.partial(warm, kernels=Kernels())} if sys.argv[3] == "warm" else {}
registry = Registry(sys.argv[1], Database(sys.argv[2]), **hook)
registry.refresh()
found = {}
for name in sys.argv[4:]:
    model = registry.load(name)
    rows = [np.array([[0.5, 1.0, np.nan]]), np.array([[0.5, 1.0, 0.2], [np.nan, 0.0, 0.1]])]
    for X in rows:
        modules, compiled = set(sys.modules), kernels()
        (model.estimator.values if model.regression else model.estimator.posterior)(X)
        new = sorted(set(sys.modules) - modules)
        if new or kernels() > compiled:
            found[name] = [*new, f"{kernels() - compiled} kernels"]
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A registry with a model of each kind and task, by its folder and database, and their names."""
    folder = tmp_path_factory.mktemp("models")
    database = Database(f"sqlite:///{folder / 'payoff.db'}")
    migrate(database)
    registry = Registry(str(folder / "models"), database)
    for kind, task in CASES:
        publish(registry, kind, task)
    database.close()
    return str(folder / "models"), f"sqlite:///{folder / 'payoff.db'}", [f"{kind}-{task}" for kind, task in CASES]


def publish(registry, name, task):
    kind, parameters = resolve({"kind": name} | ({"task": task} if len(KINDS[name].tasks) > 1 else {}))
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), np.arange(60) % 2
    if kind.labels == "several":
        y = np.eye(2, dtype=int)[y]
    elif task == "regression":
        y = X[:, 0] + rng.normal(size=60)
    classes = None if kind.labels == "several" or task == "regression" else [0, 1]
    estimator = kind.build(parameters, benefits=np.eye(2), classes=classes, random_state=0).fit(X, y)
    labels = {"classes": [0, 1]}
    if task == "regression":
        labels = {"classes": None, "class_priors": {}, "labels": ["y"]}
    elif kind.labels == "several":
        labels = {"classes": ["a", "b"], "labels": ["a", "b"], "class_priors": {"a": 0.5, "b": 0.5}}
    else:
        labels |= {"class_priors": {"0": 0.5, "1": 0.5}}
    features = [{"name": column, "type": "numeric"} for column in "abc"]
    model = f"{name}-{task}"
    learner = {"kind": name, "parameters": {}}
    card = make_card(model, registry.reserve(model, "job_1", 1), learner=learner, features=features, **labels)
    staged = registry.stage(card, estimator)
    registry.announce(staged)
    with registry._database.writing() as connection:
        registry.add(connection, staged)


def probed(models, how):
    folder, database, names = models
    code = subprocess.run(
        [sys.executable, "-c", PROBE, folder, database, how, *names], capture_output=True, text=True, check=False
    )
    assert code.returncode == 0, code.stderr
    return json.loads(code.stdout)


@pytest.mark.thorough
def test_the_first_prediction_of_a_loaded_model_of_any_kind_compiles_nothing(models):
    Kernels().wait(seconds=240)

    assert probed(models, "warm") == {}


@pytest.mark.thorough
def test_the_probe_finds_what_a_first_prediction_compiles(models):
    """Without warming the forests compile: the test above could fail."""
    assert {"random_forest-classification", "budget_forest-classification"} & set(probed(models, "cold"))


def test_a_model_whose_kernels_are_being_compiled_is_not_loaded_yet(registry_with):
    class Compiling(Kernels):
        def wait(self, *packages, seconds=0.0):  # noqa: ARG002
            raise NotReady(f"{packages} are being compiled")

    model = registry_with("random_forest")
    with pytest.raises(NotReady, match="acquisition"):
        warm(model, Compiling())


@pytest.mark.parametrize(("winner", "waits"), [("random_forest", True), ("logistic", False)])
@pytest.mark.thorough
def test_a_model_of_auto_waits_for_the_kernels_of_its_winner(registry_with, monkeypatch, winner, waits):
    waited = []

    class Compiling(Kernels):
        def wait(self, *packages, seconds=0.0):  # noqa: ARG002
            waited.extend(packages)

    monkeypatch.setattr(automatic, "CANDIDATES", (winner,))
    rng = np.random.default_rng(0)
    model = registry_with("auto")
    model.estimator = automatic.Automatic(random_state=0).fit(rng.normal(size=(60, 2)), np.arange(60) % 2)
    warm(model, Compiling())
    assert waited == (["acquisition"] if waits else [])


@pytest.fixture
def registry_with():
    class Model:
        def __init__(self, kind):
            self.card = make_card(learner={"kind": kind, "parameters": {}})
            self.schema = self.card.schema_of_features()
            self.estimator = make_estimator()
            self.regression = False

    return Model
