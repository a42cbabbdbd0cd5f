"""What a service loads when it starts, and how that of the tour ends. Serving linear models, forests and trees needs
neither scikit-learn nor SciPy's larger parts; all but forests and trees of classifiers predict without the compiler.
"""

import json
import os
import subprocess
import sys

import numpy as np
import psutil
import pytest

from app.database.engine import Database
from app.database.migrations import migrate
from payoff.learners.catalogue import resolve
from tests.conftest import free_port
from tests.registry.making import open_registry, publish

LARGE = (
    "sklearn",
    "scipy.stats",
    "scipy.optimize",
    "scipy.sparse",
    "pyarrow",
    "numba",
    "onnx",
    "dask",
)
FORESTS = (
    "random_forest",
    "budget_forest",
    "forest_chain",
    "multilabel_forest",
    "cost_tree",
)
SMALL = {name: {"n_estimators": 2} for name in FORESTS[:-1]} | {
    "cost_tree": {"lambda": 0.01, "depth": 1}
}
PLAIN = (
    *(
        "logistic",
        "benefit_logistic",
        "cost_naive_bayes",
        "multilabel_logistic",
        "kernel_logistic",
    ),
    "hierarchical_logistic",
)

# Runs in a process of its own, as the tests load all of it.
START = """
import json, sys
import numpy as np
from app.main import app
registry = app.state.service.stores.registry
registry.refresh()
registry.preloader.look()
loads = registry.cache.loads
for name in sys.argv[1:]:
    registry.cache.get(f"{name}@live").estimator.posterior(np.zeros((1, 2)))
print(json.dumps([sorted(sys.modules), loads, registry.cache.loads]))
"""


def started(folder, *names):
    """The modules of a started service, and how many models it had loaded before and after their first predictions."""
    settings = {
        "PAYOFF_HOME": str(folder),
        "PAYOFF_MODELS": str(folder / "models"),
        "PAYOFF_WORKERS": "1",
    }
    run = subprocess.run(
        [sys.executable, "-c", START, *names],
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def home_with(home, names):
    database = Database(f"sqlite:///{home / 'payoff.db'}")
    migrate(database)
    registry = open_registry(str(home / "models"), database)
    X, y = np.random.default_rng(0).normal(size=(40, 2)), np.arange(40) % 2
    for name in names:
        asked = resolve({"kind": name} | SMALL.get(name, {}))
        several = asked.estimator.labels == "several"
        model = asked.build(benefits=np.eye(2), random_state=0).fit(
            X, np.eye(2, dtype=int)[y] if several else y
        )
        labels = {"classes": [0, 1], "class_priors": {"0": 0.5, "1": 0.5}}
        if several:
            labels = {
                "classes": ["a", "b"],
                "labels": ["a", "b"],
                "class_priors": {"a": 0.5, "b": 0.5},
            }
        features = [{"name": column, "type": "numeric"} for column in "ab"]
        learner = {"kind": name, "parameters": {}}
        publish(registry, name, model, learner=learner, features=features, **labels)
        registry.set_alias(name, "live", 1, "test")
    database.close()
    return home


@pytest.mark.parametrize(
    ("names", "large"),
    [pytest.param(PLAIN, [], marks=pytest.mark.thorough), (FORESTS, ["numba"])],
)
def test_a_started_service_answers_with_its_aliases_from_memory_and_without_scikit_learn(
    tmp_path, names, large
):
    """What such a model needs was imported with it; nothing is read from the store any more. Forests need the compiler,
    and nothing of what trains them.
    """
    modules, before, after = started(home_with(tmp_path, names), *names)
    assert before == after == len(names)
    assert [name for name in LARGE if name in modules] == large
    assert "payoff.learners.cost_naive_bayes" in modules


TOUR = """
from app.commands.demo import service
with service({port}):
    print("began", flush=True)
    import time; time.sleep(60)
"""


def test_a_tour_that_is_ended_ends_its_service(tmp_path):
    tour = subprocess.Popen(
        [sys.executable, "-c", TOUR.format(port=free_port())],
        env=os.environ | {"PAYOFF_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    assert tour.stdout.readline() == b"began\n"
    services = psutil.Process(tour.pid).children()

    tour.terminate()

    assert tour.wait(60) == 143
    tour.stdout.close()
    assert len(services) == 1
    assert not services[0].is_running()
