"""What a matrix at request time earns beside learners that train with it: customers of a television company.

    .venv/bin/python benchmarks/churn.py [--seeds 3]

Prints the table of benchmarks/churn.md: what is saved per new customer against contacting nobody, ± the standard error of the
difference to calibrated `logistic`. The 9,379 customers, 449 of whom left, and the four costs of each come with empulse, which is
needed in an environment of its own:

    python -m venv /tmp/rivals/.venv
    /tmp/rivals/.venv/bin/pip install -e '.[service]' empulse pandas xgboost
    /tmp/rivals/.venv/bin/python benchmarks/churn.py
"""

import argparse
import importlib.util
import warnings
from collections import defaultdict

import numpy as np
from common import standard_error
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from payoff.decisions.benefit import decide
from payoff.learners.catalogue import resolve

REFERENCE = "`logistic`, matrix at request time"


def savings(seed: int) -> dict[str, float]:
    """What each way to decide saves per new customer: 70 % train, and the four costs of a new one are known."""
    from empulse import datasets, models  # noqa: PLC0415 - optional

    dataset = datasets.load_churn_tv_subscriptions(
        backend=importlib.import_module("pandas")
    )
    X, y = dataset.data.to_numpy(dtype=float), dataset.target.to_numpy(dtype=int)
    costs = dataset.instance_costs
    table = [[costs["tn_cost"], costs["fp_cost"]], [costs["fn_cost"], costs["tp_cost"]]]
    B = -np.moveaxis(np.array(table), 2, 0)  # (n, stays or leaves, alone or contacted)
    train, new = train_test_split(
        np.arange(len(y)), test_size=0.3, stratify=y, random_state=seed
    )
    past = {name: values[train] for name, values in costs.items()}
    future = {name: values[new] for name, values in costs.items()}
    contacted = {"everybody": np.ones(len(new), dtype=int)}
    for kind in ("logistic", "random_forest", "auto"):
        learner = resolve({"kind": kind}).build(
            categorical_features=[], benefits=None, random_state=seed
        )
        P = learner.fit(X[train], y[train]).predict_proba(X[new])
        contacted[f"`{kind}`, matrix at request time"] = decide(P, B[new]).choice
    for name, plain in {
        "logistic regression": LogisticRegression(max_iter=1000),
        "forest": RandomForestClassifier(random_state=seed),
    }.items():
        contacted[f"scikit-learn's {name}, at .5"] = plain.fit(
            X[train], y[train]
        ).predict(X[new])
        # It sets thresholds on what its model says, so that has to be calibrated.
        threshold = models.CSThresholdClassifier(
            CalibratedClassifierCV(plain), calibrator=None, random_state=seed
        )
        threshold.fit(X[train], y[train])
        contacted[f"empulse CSThreshold of this {name}, calibrated"] = (
            threshold.predict(X[new], **future)
        )
    for kind in ("CSLogit", "CSBoost", "CSForest"):
        model = getattr(models, f"{kind}Classifier")().fit(X[train], y[train], **past)
        contacted[f"empulse {kind}, trained with the costs"] = model.predict(X[new])
    earned = np.take_along_axis(B[new], y[new][:, None, None], axis=1)[:, 0]
    rows = np.arange(len(new))
    return {
        name: float((earned[rows, choice.astype(int)] - earned[:, 0]).mean())
        for name, choice in contacted.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=3)
    chosen = parser.parse_args()
    if importlib.util.find_spec("empulse") is None:
        print("empulse is not installed")
        return
    warnings.simplefilter("ignore")
    saved = defaultdict(list)
    for seed in range(chosen.seeds):
        for name, value in savings(seed).items():
            saved[name].append(value)
    print("| decided by | saved per customer | less `logistic` |\n|---|---|---|")
    for name, values in sorted(saved.items(), key=lambda item: -np.mean(item[1])):
        gaps = np.array(values) - saved[REFERENCE]
        print(
            f"| {name} | {np.mean(values):.2f} | {gaps.mean():+.2f} ± {standard_error(gaps):.2f} |"
        )


if __name__ == "__main__":
    main()
